/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The heuristic of the Zero Bubble paper (section 3.1 and its published scheduler): microbatch by microbatch,
 * one more F down the pipeline where that is useful, then the next B up, and W into the gaps. Three yes-or-no
 * choices are tried in all combinations; the schedule with the smallest longest span wins.
 *
 * Times here are per stage and latencies per link and direction, where the original takes medians; a stage
 * without room for another F skips it, where the original gives up.
 */
#include <inttypes.h>

#include "sched/generator.h"
#include "sched/timeline.h"

struct zb {
    struct dt_timeline *tl;
    int32_t *wanted;        /* [stage]: F's to be placed in this round */
    int64_t *bubble_ns;     /* idle time since its first F */
    int64_t bubble_max_ns;  /* over the stages */
    bool stop_before_first; /* warm-up: leave out an F that would delay the first B */
    bool b_first;           /* a stage far ahead omits an F when a B is about to arrive */
    bool fill_small_gaps;   /* also by a W that is longer than the gap */
};

enum { CHOICE_COUNT = 8 };

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t free_ns_of(const struct dt_timeline *tl, int32_t stage)
{
    return tl->free_ns[tl->p->device[stage]];
}

static void put(struct zb *zb, enum detour_op_kind kind, int32_t stage)
{
    struct dt_timeline *tl = zb->tl;
    int64_t free_ns = free_ns_of(tl, stage);
    bool started = tl->done[DETOUR_OP_F][stage] > 0;
    int64_t finish_ns = dt_timeline_put(tl, kind, stage);

    if (started)
        zb->bubble_ns[stage] += finish_ns - tl->p->duration_ns[kind][stage] - free_ns;
    zb->bubble_max_ns = later(zb->bubble_max_ns, zb->bubble_ns[stage]);
}

static bool has_w(const struct zb *zb, int32_t stage)
{
    return zb->tl->done[DETOUR_OP_W][stage] < zb->tl->done[DETOUR_OP_B][stage];
}

/* Whether memory has room for `count` more F's. */
static bool has_room(const struct dt_timeline *tl, int32_t stage, int32_t count)
{
    const struct dt_problem *p = tl->p;
    int64_t bytes =
        p->capacity[p->device[stage]] - tl->memory.bytes[p->device[stage]] - count * p->bytes_f[stage];

    return tl->memory.inflight[stage] + count <= p->max_inflight[stage] && bytes >= tl->reserve_bytes[stage];
}

/*
 * Warm-up, seen from the back: how many F's fit on each stage before the gradient of the first microbatch
 * comes back. A stage does fewer than the one before it, unless it does all.
 */
static void plan_warmup(struct zb *zb)
{
    struct dt_timeline *tl = zb->tl;
    const struct dt_problem *p = tl->p;
    int32_t last = p->stage_count - 1, count = p->microbatch_count;
    int64_t back_ns = free_ns_of(tl, last) + p->duration_ns[DETOUR_OP_B][last];

    for (int32_t i = last - 1; i >= 0; i--) {
        int64_t f_ns = p->duration_ns[DETOUR_OP_F][i], at_ns = free_ns_of(tl, i);
        int64_t due_ns = back_ns + p->backward_serial_ns[i] + p->backward_ns[i];
        while (tl->done[DETOUR_OP_F][i] + zb->wanted[i] < count && has_room(tl, i, zb->wanted[i] + 1) &&
               (zb->stop_before_first ? at_ns + f_ns <= due_ns : at_ns < due_ns)) {
            zb->wanted[i]++;
            at_ns += f_ns;
        }
        back_ns = later(at_ns, due_ns) + p->duration_ns[DETOUR_OP_B][i];
    }
    for (int32_t i = 1; i <= last; i++)
        while (zb->wanted[i] > zb->wanted[i - 1] ||
               (zb->wanted[i] > 0 && zb->wanted[i] == zb->wanted[i - 1] &&
                tl->done[DETOUR_OP_F][i] + zb->wanted[i] < count))
            zb->wanted[i]--;
}

static void first_round(struct zb *zb)
{
    const struct dt_problem *p = zb->tl->p;

    for (int32_t i = 0; i < p->stage_count; i++)
        put(zb, DETOUR_OP_F, i);
    plan_warmup(zb);
    for (int32_t i = 0; i < p->stage_count; i++)
        for (int32_t k = 0; k < zb->wanted[i]; k++)
            put(zb, DETOUR_OP_F, i);
    for (int32_t i = p->stage_count - 1; i >= 0; i--)
        put(zb, DETOUR_OP_B, i);
}

/* The time of the W's that have to go before an F to make room for it. */
static int64_t w_before_f_ns(const struct zb *zb, int32_t stage)
{
    const struct dt_timeline *tl = zb->tl;
    const struct dt_problem *p = tl->p;
    int64_t missing = tl->memory.bytes[p->device[stage]] + p->bytes_f[stage] + tl->reserve_bytes[stage] -
                      p->capacity[p->device[stage]];
    int32_t pending = tl->done[DETOUR_OP_B][stage] - tl->done[DETOUR_OP_W][stage];
    int64_t needed =
        missing > 0 && p->bytes_w[stage] ? (missing + p->bytes_w[stage] - 1) / p->bytes_w[stage] : 0;
    int64_t over =
        p->release == DETOUR_RELEASE_W ? (int64_t)tl->memory.inflight[stage] + 1 - p->max_inflight[stage] : 0;

    needed = later(needed, over);
    return (needed < pending ? needed : pending) * p->duration_ns[DETOUR_OP_W][stage];
}

/* For a stage two or more F's before the next: whether one more is better left out in favor of a B. */
static bool is_better_left_out(const struct zb *zb, int32_t stage)
{
    const struct dt_timeline *tl = zb->tl;
    const struct dt_problem *p = tl->p;
    int64_t b_due_ns = free_ns_of(tl, stage + 1) + p->duration_ns[DETOUR_OP_F][stage + 1] +
                       p->duration_ns[DETOUR_OP_B][stage + 1] + p->backward_serial_ns[stage] +
                       p->backward_ns[stage];
    int64_t free_ns = free_ns_of(tl, stage);

    if (free_ns >= b_due_ns)
        return true;
    if (free_ns + p->duration_ns[DETOUR_OP_F][stage] + w_before_f_ns(zb, stage) <= b_due_ns)
        return false;
    return b_due_ns - free_ns <= zb->bubble_max_ns - zb->bubble_ns[stage];
}

static void plan_round(struct zb *zb)
{
    const struct dt_timeline *tl = zb->tl;
    const struct dt_problem *p = tl->p;

    for (int32_t i = 0; i < p->stage_count; i++) {
        const int32_t *f = tl->done[DETOUR_OP_F];
        zb->wanted[i] = f[i] < p->microbatch_count;
        if (zb->wanted[i] && zb->b_first && i + 1 < p->stage_count && f[i] >= f[i + 1] + 2)
            zb->wanted[i] = !is_better_left_out(zb, i);
    }
    for (int32_t i = p->stage_count - 2; i >= 0; i--)
        if (zb->wanted[i] > zb->wanted[i + 1])
            zb->wanted[i] = zb->wanted[i + 1];
}

/* W's until the next operation of that kind fits; false if they do not help. */
static bool make_room(struct zb *zb, enum detour_op_kind kind, int32_t stage)
{
    while (!dt_timeline_fits(zb->tl, kind, stage)) {
        if (!has_w(zb, stage))
            return false;
        put(zb, DETOUR_OP_W, stage);
    }
    return true;
}

/*
 * W's while the input of the next operation is on its way. The last of them may be longer than what is left
 * of the gap: worth it when the gap would make this stage the one that idles most.
 */
static void fill_gap(struct zb *zb, enum detour_op_kind kind, int32_t stage)
{
    struct dt_timeline *tl = zb->tl;
    int64_t input_ns = dt_timeline_input_ns(tl, kind, stage);
    int64_t w_ns = tl->p->duration_ns[DETOUR_OP_W][stage];

    while (has_w(zb, stage) && free_ns_of(tl, stage) + w_ns <= input_ns)
        put(zb, DETOUR_OP_W, stage);
    if (!has_w(zb, stage) || free_ns_of(tl, stage) >= input_ns)
        return;
    bool small = input_ns - free_ns_of(tl, stage) <= zb->bubble_max_ns - zb->bubble_ns[stage];
    if (!small || zb->fill_small_gaps)
        put(zb, DETOUR_OP_W, stage);
}

static bool next_round(struct zb *zb)
{
    struct dt_timeline *tl = zb->tl;
    const struct dt_problem *p = tl->p;

    plan_round(zb);
    for (int32_t i = 0; i < p->stage_count; i++) {
        if (!zb->wanted[i] || dt_timeline_input_ns(tl, DETOUR_OP_F, i) == DT_FOREVER ||
            !make_room(zb, DETOUR_OP_F, i))
            continue;
        fill_gap(zb, DETOUR_OP_F, i);
        put(zb, DETOUR_OP_F, i);
    }
    for (int32_t i = p->stage_count - 1; i >= 0; i--) {
        if (!make_room(zb, DETOUR_OP_B, i))
            return false;
        fill_gap(zb, DETOUR_OP_B, i);
        while (i == 0 && tl->done[DETOUR_OP_F][0] == p->microbatch_count && has_w(zb, 0))
            put(zb, DETOUR_OP_W, 0);
        put(zb, DETOUR_OP_B, i);
    }
    return true;
}

static enum detour_status run(struct dt_call *call, const struct dt_problem *p, int choice,
                              struct detour_schedule **schedule, struct dt_times *times)
{
    struct dt_timeline tl;
    struct zb zb = {
        .tl = &tl, .stop_before_first = choice & 1, .b_first = choice & 2, .fill_small_gaps = choice & 4};
    enum detour_status status = dt_timeline_init(call, p, &tl);

    if (status)
        return status;
    if (!dt_arena_new(call->arena, zb.wanted, p->stage_count) ||
        !dt_arena_new(call->arena, zb.bubble_ns, p->stage_count))
        return dt_fail_memory(call->error);
    first_round(&zb);
    for (int32_t j = 1; j < p->microbatch_count && next_round(&zb); j++)
        ;
    for (int32_t i = 0; i < p->stage_count; i++)
        while (has_w(&zb, i))
            put(&zb, DETOUR_OP_W, i);
    status = dt_timeline_finish(call, &tl, schedule);
    return status ? status : dt_simulate(call, p, *schedule, NULL, NULL, times);
}

enum detour_status dt_generate_zb(struct dt_call *call, const struct dt_problem *p, struct dt_result *result)
{
    struct dt_times best = {.longest_span_ns = INT64_MAX}, times;
    enum detour_status status = DETOUR_OK;
    int winner = -1;

    if (!p->one_stage_per_device)
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "zb needs one stage per device; %" PRId32 " stages are on %" PRId32 " devices",
                       p->stage_count, p->device_count);
    for (int choice = 0; choice < CHOICE_COUNT; choice++) {
        struct dt_arena_mark mark = dt_arena_save(call->arena);
        status = run(call, p, choice, &result->schedule, &times);
        dt_arena_rewind(call->arena, mark);
        if (status == DETOUR_NO_MEMORY)
            return status;
        if (!status &&
            (times.longest_span_ns < best.longest_span_ns ||
             (times.longest_span_ns == best.longest_span_ns && times.makespan_ns < best.makespan_ns))) {
            best = times;
            winner = choice;
        }
    }
    return winner < 0 ? status : run(call, p, winner, &result->schedule, &times);
}
