/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/warmup.h"

#include <inttypes.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void dt_warmup_limits(const struct dt_problem *p, int32_t *limits)
{
    int64_t before = p->microbatch_count;

    for (int32_t i = 0; i < p->stage_count; i++) {
        int64_t limit = smaller(before, p->max_inflight[i]);
        int64_t capacity = p->capacity[p->device[i]];
        /* B may take more than its F did; that much has to stay free. */
        int64_t spare = p->bytes_w[i] > p->bytes_f[i] ? p->bytes_w[i] - p->bytes_f[i] : 0;
        if (p->bytes_f[i])
            limit = smaller(limit, (capacity - spare) / p->bytes_f[i]);
        limits[i] = limit > 1 ? (int32_t)limit : 1;
        before = limits[i];
    }
}

/* Whether 1 forward on the last stage and `slack` more per link in front of it stay within the limits. */
static bool fits(const struct dt_problem *p, const int32_t *limits, int64_t slack)
{
    for (int32_t i = 0; i < p->stage_count; i++)
        if (1 + slack * (p->stage_count - 1 - i) > limits[i])
            return false;
    return true;
}

void dt_warmup_even(const struct dt_problem *p, const int32_t *limits, int32_t *warmup)
{
    int32_t last = p->stage_count - 1;
    int64_t slack = 0;

    while (last > 0 && slack < limits[0] && fits(p, limits, slack + 1))
        slack++;
    for (int32_t i = 0; i <= last; i++)
        warmup[i] = (int32_t)(1 + slack * (last - i));
    /*
     * One more on link k is one more on stages 0 to k. Rounds from the front, so that no link gets two before
     * each link that has room got one.
     */
    for (bool raised = true; raised;) {
        raised = false;
        for (int32_t k = 0; k < last; k++) {
            bool room = true;
            for (int32_t i = 0; room && i <= k; i++)
                room = warmup[i] < limits[i];
            for (int32_t i = 0; room && i <= k; i++)
                warmup[i]++;
            raised = raised || room;
        }
    }
}

static int64_t work_of(const struct dt_problem *p, int32_t stage)
{
    return p->duration_ns[DETOUR_OP_F][stage] + p->duration_ns[DETOUR_OP_B][stage];
}

/* Slack of link `i`; `max` where the formula divides by no time at all. */
static int64_t slack_of(const struct dt_problem *p, int32_t i, enum dt_warmup_need need, int64_t max)
{
    int64_t delay_ns = p->forward_ns[i] + p->backward_ns[i];
    int64_t step_ns = work_of(p, need == DT_WARMUP_OWN ? i : i + 1);
    int64_t covered_ns = need == DT_WARMUP_OWN ? delay_ns : work_of(p, i) + delay_ns;
    int64_t steps = covered_ns == 0 ? 0 : step_ns == 0 ? max : (covered_ns + step_ns - 1) / step_ns;

    if (need == DT_WARMUP_OWN)
        return smaller(steps, max) + 1;
    return steps > 2 ? steps : 2;
}

void dt_warmup_for_delays(const struct dt_problem *p, const int32_t *limits, enum dt_warmup_need need,
                          int32_t extra, int32_t *warmup)
{
    int32_t last = p->stage_count - 1;
    int64_t slack_max = p->microbatch_count - 2 * (int64_t)p->stage_count;

    slack_max = slack_max > 2 ? slack_max : 2;
    warmup[last] = 1;
    for (int32_t i = last - 1; i >= 0; i--) {
        int64_t slack = smaller(slack_of(p, i, need, slack_max) + extra, slack_max);
        warmup[i] = (int32_t)smaller(warmup[i + 1] + slack, limits[0]);
    }
    for (int32_t i = 0; i <= last; i++)
        warmup[i] = (int32_t)smaller(warmup[i], limits[i]);
}

enum detour_status dt_warmup_check(struct dt_call *call, const struct dt_problem *p, const int32_t *limits,
                                   const int32_t *warmup)
{
    for (int32_t i = 0; i < p->stage_count; i++) {
        int32_t max = i && warmup[i - 1] < limits[i] ? warmup[i - 1] : limits[i];
        if (warmup[i] < 1 || warmup[i] > max)
            return dt_fail(call, DETOUR_INVALID,
                           "warmup[%" PRId32 "] is %" PRId32 "; it must be 1 to %" PRId32
                           " (memory, microbatches, and no more than the stage before)",
                           i, warmup[i], max);
    }
    return DETOUR_OK;
}
