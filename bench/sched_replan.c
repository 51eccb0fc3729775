/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gain of replanning the rest of an iteration when a link becomes slow during it: the table "Within an
 * iteration" of docs/benchmarks.md, as Markdown.
 *
 * usage: bench-sched-replan [COUNT [EXACT_MS]]
 *
 * COUNT problems (default 50, seeds 1..COUNT) of each family of tests/sched/family.h, planned by `auto`. At a
 * moment between a tenth and six tenths of the iteration one link becomes 10 to 60 ms slower in both
 * directions. Makespans are compared with the best lower bound known for the continuation: that of
 * detour_replan() with EXACT_MS (default 1000) worth of nodes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/sched/family.h"

/* The columns: budgets of detour_replan(). One node allows ADAPTRA's dispatcher and no search.
 */
static const struct method {
    const char *name;
    uint64_t budget_us;
} methods[] = {{"order kept", 0},
               {"adaptra from there", 1},
               {"replan 10 ms", 10000},
               {"replan 20 ms", 20000},
               {"replan", 100000}};

enum { METHOD_COUNT = sizeof(methods) / sizeof(methods[0]) };

struct sums {
    double gap;
    double gap_max;
    double ms;
    double ms_max;
    int optimal;
};

/* An iteration at the moment of the change. */
struct moment {
    struct family_problem changed;
    struct detour_schedule *present;
    size_t started[FAMILY_STAGES_MAX];
    int64_t now_ns;
};

static double cpu_ms(void)
{
    struct timespec spent;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return 1e3 * (double)spent.tv_sec + 1e-6 * (double)spent.tv_nsec;
}

static void check(enum detour_status status, const struct detour_error *error)
{
    if (status) {
        fprintf(stderr, "bench-sched-replan: %s\n", error->text);
        exit(1);
    }
}

static void make_moment(struct detour_arena *arena, int limit, uint64_t seed, struct moment *moment)
{
    const int64_t ms = 1000000;
    struct family_problem planned;
    struct detour_options options = {.algorithm = DETOUR_ALGORITHM_AUTO};
    struct detour_plan *plan;
    struct detour_error error;
    struct dt_prng prng;

    family_make(&planned, limit, seed, 0, 0);
    family_make(&moment->changed, limit, seed, 0, 0);
    check(detour_generate(arena, &planned.profile, &options, &plan, &error), &error);
    dt_prng_init_stream(&prng, seed, 100 + (uint64_t)limit);
    int32_t link = (int32_t)dt_prng_below(&prng, (uint64_t)planned.profile.stage_count - 1);
    int64_t slower_ns = (int64_t)dt_prng_between(&prng, 10, 60) * ms;
    moment->changed.links[link].forward_ns += slower_ns;
    moment->changed.links[link].backward_ns += slower_ns;
    moment->now_ns = plan->makespan_ns / 100 * (int64_t)dt_prng_between(&prng, 10, 60);
    moment->present = plan->schedule;
    for (int32_t d = 0; d < plan->schedule->device_count; d++) {
        const size_t *first = &plan->schedule->first[d];
        moment->started[d] = 0;
        while (first[0] + moment->started[d] < first[1] &&
               plan->schedule->ops[first[0] + moment->started[d]].start_ns <= moment->now_ns)
            moment->started[d]++;
    }
}

static int64_t keep_order(struct detour_arena *arena, const struct moment *moment)
{
    struct detour_error error;
    int64_t makespan_ns;

    check(detour_simulate_from(arena, &moment->changed.profile, moment->present, moment->started,
                               moment->now_ns, &makespan_ns, &error),
          &error);
    return makespan_ns;
}

static struct detour_plan replan(struct detour_arena *arena, const struct moment *moment, uint64_t budget_us)
{
    struct detour_options options = {.node_budget = detour_node_budget(&moment->changed.profile, budget_us)};
    struct detour_plan *plan;
    struct detour_error error;

    if (budget_us == 1)
        options.node_budget = 1;
    check(detour_replan(arena, &moment->changed.profile, moment->present, moment->started, moment->now_ns,
                        &options, &plan, &error),
          &error);
    return *plan;
}

static void add(struct sums *sums, int64_t makespan_ns, int64_t lower_ns, double ms)
{
    double gap = 100.0 * (double)(makespan_ns - lower_ns) / (double)lower_ns;

    sums->gap += gap;
    sums->gap_max = gap > sums->gap_max ? gap : sums->gap_max;
    sums->ms += ms;
    sums->ms_max = ms > sums->ms_max ? ms : sums->ms_max;
    sums->optimal += makespan_ns == lower_ns;
}

static void family_table(int limit, int count, uint64_t exact_us)
{
    struct sums sums[METHOD_COUNT] = {0};

    for (int seed = 1; seed <= count; seed++) {
        struct detour_arena *keep = detour_arena_create(), *arena = detour_arena_create();
        struct moment moment;
        int64_t makespan_ns[METHOD_COUNT], lower_ns;
        double ms[METHOD_COUNT];
        if (!keep || !arena)
            exit(1);
        make_moment(keep, limit, (uint64_t)seed, &moment);
        lower_ns = replan(arena, &moment, exact_us).lower_bound_ns;
        for (int k = 0; k < METHOD_COUNT; k++) {
            detour_arena_reset(arena);
            double begin_ms = cpu_ms();
            if (methods[k].budget_us) {
                struct detour_plan plan = replan(arena, &moment, methods[k].budget_us);
                makespan_ns[k] = plan.makespan_ns;
                lower_ns = plan.lower_bound_ns > lower_ns ? plan.lower_bound_ns : lower_ns;
            } else {
                makespan_ns[k] = keep_order(arena, &moment);
            }
            ms[k] = cpu_ms() - begin_ms;
        }
        for (int k = 0; k < METHOD_COUNT; k++)
            add(&sums[k], makespan_ns[k], lower_ns, ms[k]);
        detour_arena_destroy(arena);
        detour_arena_destroy(keep);
    }
    for (int k = 0; k < METHOD_COUNT; k++)
        printf("| %s | %s | %.3f | %.2f | %d of %d | %.2f | %.1f |\n", family_name(limit), methods[k].name,
               sums[k].gap / count, sums[k].gap_max, sums[k].optimal, count, sums[k].ms / count,
               sums[k].ms_max);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 50, exact_ms = argc > 2 ? atoi(argv[2]) : 1000;

    if (argc > 3 || count < 1 || exact_ms < 1) {
        fprintf(stderr, "usage: bench-sched-replan [COUNT [EXACT_MS]]\n");
        return 2;
    }
    printf(
        "| problems | after the change | above the bound, mean %% | worst %% | at the bound | ms, mean | ms, "
        "longest |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (int limit = 0; limit < FAMILY_COUNT; limit++)
        family_table(limit, count, (uint64_t)exact_ms * 1000);
    return 0;
}
