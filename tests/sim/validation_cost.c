/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/validation_cost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "controller/validate.h"

#define NS_PER_S 1000000000
#define PERMILLE 1000
#define NUMBER   1 /* of the hold's decision */

struct run {
    const struct dt_validation_cost_options *options;
    struct dt_validation_cost *cost;
    struct detour_arena *arena;
    struct detour_error *error;
    int64_t now_ns, end_ns;          /* of the present round; of the command */
    int64_t *sends_ns, *receives_ns; /* [rank]: until when its RNIC does */
};

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- Messages. ---- */

/* A message that its sender has at from_ns; returns when it has arrived. */
static int64_t carry(struct run *run, int32_t from, int32_t to, int64_t from_ns, int64_t occupied_ns)
{
    int64_t end_ns = larger(from_ns, larger(run->sends_ns[from], run->receives_ns[to])) + occupied_ns;

    run->sends_ns[from] = run->receives_ns[to] = end_ns;
    return end_ns + run->options->latency_ns;
}

/* All round trips of a pair; returns their end. */
static int64_t exchange_pair(struct run *run, const struct detour_rank_pair *pair, int32_t permille,
                             int64_t begin_ns)
{
    int64_t occupied_ns = run->options->bytes * NS_PER_S / run->options->bytes_per_s * permille / PERMILLE;
    int64_t now_ns = begin_ns;

    for (int32_t i = 0; i < run->options->round_trips; i++) {
        now_ns = carry(run, pair->from, pair->to, now_ns, occupied_ns);
        now_ns = carry(run, pair->to, pair->from, now_ns, occupied_ns);
    }
    return now_ns;
}

/* Both directions of the slow link; a confirmation may have it as well. */
static int32_t permille_of(const struct run *run, const struct detour_rank_pair *pair)
{
    const struct detour_rank_pair *slow;

    if (run->options->slow_pair < 0)
        return PERMILLE;
    slow = &run->options->plan->pairs[run->options->slow_pair];
    return (pair->from == slow->from && pair->to == slow->to) ||
                   (pair->from == slow->to && pair->to == slow->from)
               ? run->options->slow_permille
               : PERMILLE;
}

/* All passes from begin_ns on; returns their end. */
static int64_t exchange(struct run *run, const struct detour_validation *plan, int64_t begin_ns,
                        int64_t *pair_ns)
{
    for (int32_t pass = 0; pass < plan->pass_count; pass++) {
        int64_t end_ns = begin_ns;

        for (int32_t p = plan->first_pair[pass]; p < plan->first_pair[pass + 1]; p++) {
            int64_t pair_end_ns =
                exchange_pair(run, &plan->pairs[p], permille_of(run, &plan->pairs[p]), begin_ns);

            pair_ns[p] = (pair_end_ns - begin_ns) / run->options->round_trips;
            run->cost->one_by_one_ns += pair_end_ns - begin_ns;
            end_ns = larger(end_ns, pair_end_ns);
        }
        begin_ns = end_ns;
    }
    run->cost->pass_count += plan->pass_count;
    return begin_ns;
}

static enum detour_status diagnose(struct run *run, const int64_t *pair_ns)
{
    const struct detour_validation *plan = run->options->plan;
    const struct detour_validation_times times = {.pair_ns = pair_ns};
    struct detour_diagnosis diagnosis;
    enum detour_status status =
        detour_diagnose(run->arena, plan, &times, NULL, NULL, NULL, &diagnosis, run->error);

    if (!status && diagnosis.confirm) {
        int64_t *confirm_ns = calloc((size_t)diagnosis.confirm->pair_count + 1, sizeof *confirm_ns);

        if (!confirm_ns)
            return DETOUR_NO_MEMORY;
        run->end_ns = exchange(run, diagnosis.confirm, run->end_ns, confirm_ns);
        status = detour_diagnose(run->arena, plan, &times, diagnosis.confirm, confirm_ns, NULL, &diagnosis,
                                 run->error);
        free(confirm_ns);
    }
    if (status)
        return status;
    run->cost->slow_count = diagnosis.slow_count;
    if (diagnosis.slow_count)
        run->cost->slow = diagnosis.slow[0];
    return DETOUR_OK;
}

/* ---- The command. ---- */

static bool start(void *arg, const struct detour_validation *links, char reason[DT_RECORD_REASON_BYTES])
{
    struct run *run = arg;
    int64_t *pair_ns = calloc((size_t)links->pair_count + 1, sizeof *pair_ns);
    enum detour_status status = DETOUR_NO_MEMORY;

    run->cost->hold_ns = run->now_ns;
    if (pair_ns) {
        run->end_ns = exchange(run, links, run->now_ns, pair_ns);
        status = diagnose(run, pair_ns);
    }
    free(pair_ns);
    run->cost->exchange_ns = run->end_ns - run->now_ns;
    snprintf(reason, DT_RECORD_REASON_BYTES, "%.200s", status ? run->error->text : "");
    return status == DETOUR_OK;
}

static enum dt_status poll(void *arg, struct dt_validate_report *report)
{
    struct run *run = arg;

    (void)report;
    return run->now_ns < run->end_ns ? DT_AGAIN : DT_OK;
}

static void stop(void *arg)
{
    (void)arg;
}

/* ---- Rounds. ---- */

static const struct dt_validate_funcs funcs = {start, poll, stop};

/* From the controller's round until the agent of that host has followed its decisions. */
static int64_t follows_ns(const struct run *run, int32_t host, int32_t hosts)
{
    return run->options->period_ns * (host + 1) / (hosts + 1);
}

static enum dt_status play(struct run *run)
{
    const int32_t ranks = run->options->plan->rank_count, each = run->options->ranks_per_host;
    const int32_t hosts = (ranks + each - 1) / each;
    struct dt_validate validate = {0};
    struct dt_validate_report report;
    enum dt_status status = DT_AGAIN;

    dt_validate_begin(&validate, NUMBER, 0);
    for (run->now_ns = run->options->period_ns; status == DT_AGAIN; run->now_ns += run->options->period_ns) {
        for (int32_t host = 0; host < hosts && validate.answers < (size_t)hosts; host++)
            if (follows_ns(run, host, hosts) <= run->now_ns)
                dt_validate_acknowledged(&validate, NUMBER);
        status = dt_validate_step(&validate, &funcs, run, run->options->plan, (size_t)hosts,
                                  (uint64_t)run->now_ns, &report);
        if (status != DT_AGAIN)
            run->cost->total_ns = run->now_ns + follows_ns(run, hosts - 1, hosts);
    }
    return status;
}

enum detour_status dt_validation_cost_run(struct detour_arena *arena,
                                          const struct dt_validation_cost_options *options,
                                          struct dt_validation_cost *cost, struct detour_error *error)
{
    size_t ranks = (size_t)options->plan->rank_count;
    struct run run = {.options = options,
                      .cost = cost,
                      .arena = arena,
                      .error = error,
                      .sends_ns = calloc(ranks, sizeof(int64_t)),
                      .receives_ns = calloc(ranks, sizeof(int64_t))};

    *cost = (struct dt_validation_cost){0};
    *error = (struct detour_error){DETOUR_NO_MEMORY, "out of memory"};
    bool is_done = run.sends_ns && run.receives_ns && play(&run) == DT_OK;

    free(run.sends_ns);
    free(run.receives_ns);
    return is_done ? DETOUR_OK : error->status;
}
