/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What schedules cost to simulate and to generate, and how that grows: the table "Speed of schedules" of
 * docs/benchmarks.md as Markdown, or with --csv what bench/sched_speed_plot.py draws.
 *
 * usage: bench-sched-speed [--csv] [ROUNDS]
 *
 * Milliseconds of the processor, medians of ROUNDS (default 5) measurements of at least 2 ms each. The
 * problems have 4 x 8 to 64 x 1024 stages and microbatches, random times, and at most 2S - 1 microbatches in
 * flight.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/prng.h"
#include "base/util.h"
#include "detour/sched.h"

enum { STAGES_MAX = 64, ROUNDS_MAX = 99, ALGORITHM_SIMULATE = -1 };

static const struct {
    int32_t stages;
    int32_t microbatches;
} sizes[] = {{4, 8},    {4, 16},   {8, 16},   {8, 32},   {8, 64},   {16, 64},
             {16, 128}, {16, 256}, {32, 256}, {32, 512}, {64, 512}, {64, 1024}};

static const struct {
    const char *name;
    int algorithm;
    int32_t beam_width;
    int32_t stages_max; /* a beam costs the square of the operations */
} columns[] = {
    {"simulate", ALGORITHM_SIMULATE, 0, STAGES_MAX}, {"1f1b", DETOUR_ALGORITHM_1F1B, 0, STAGES_MAX},
    {"zb", DETOUR_ALGORITHM_ZB, 0, STAGES_MAX},      {"adaptra", DETOUR_ALGORITHM_ADAPTRA, 0, STAGES_MAX},
    {"beam 1", DETOUR_ALGORITHM_BEAM, 1, 8},         {"auto", DETOUR_ALGORITHM_AUTO, 0, STAGES_MAX},
};

struct problem {
    struct detour_profile profile; /* its arrays are below: do not copy */
    struct detour_stage stages[STAGES_MAX];
    struct detour_link links[STAGES_MAX];
};

static void make(struct problem *problem, int32_t stages, int32_t microbatches)
{
    const uint64_t ms = 1000000;
    struct dt_prng prng;

    memset(problem, 0, sizeof(*problem));
    dt_prng_init(&prng, 1);
    for (int32_t i = 0; i < stages; i++) {
        problem->stages[i] = (struct detour_stage){.device = i, .max_inflight = 2 * stages - 1};
        problem->stages[i].f_ns = (int64_t)dt_prng_between(&prng, 10 * ms, 20 * ms);
        problem->stages[i].b_ns = (int64_t)dt_prng_between(&prng, 10 * ms, 20 * ms);
        problem->stages[i].w_ns = (int64_t)dt_prng_between(&prng, 10 * ms, 20 * ms);
        problem->links[i].forward_ns = problem->links[i].backward_ns =
            (int64_t)dt_prng_between(&prng, 0, 10 * ms);
    }
    problem->profile = (struct detour_profile){.stage_count = stages,
                                               .microbatch_count = microbatches,
                                               .device_count = stages,
                                               .release = DETOUR_RELEASE_B,
                                               .stages = problem->stages,
                                               .links = problem->links};
}

static double cpu_ms(void)
{
    struct timespec spent;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return 1e3 * (double)spent.tv_sec + 1e-6 * (double)spent.tv_nsec;
}

static void check(enum detour_status status, const struct detour_error *error)
{
    if (status) {
        fprintf(stderr, "bench-sched-speed: %s\n", error->text);
        exit(1);
    }
}

/* Runs the call of a column often enough; milliseconds of one. `schedule` is what it simulates. */
static double time_call(struct detour_arena *arena, const struct problem *problem, int column,
                        struct detour_schedule *schedule)
{
    const double least_ms = 2;
    struct detour_options options = {0};
    struct detour_report *report;
    struct detour_plan *plan;
    struct detour_error error;
    double begin_ms = cpu_ms(), spent_ms;
    int calls = 0;

    if (columns[column].algorithm != ALGORITHM_SIMULATE)
        options.algorithm = (enum detour_algorithm)columns[column].algorithm;
    options.beam_width = columns[column].beam_width;
    do {
        detour_arena_reset(arena);
        check(columns[column].algorithm == ALGORITHM_SIMULATE
                  ? detour_simulate(arena, &problem->profile, schedule, &report, &error)
                  : detour_generate(arena, &problem->profile, &options, &plan, &error),
              &error);
        calls++;
        spent_ms = cpu_ms() - begin_ms;
    } while (spent_ms < least_ms);
    return spent_ms / calls;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median_ms(struct detour_arena *arena, const struct problem *problem, int column, int rounds)
{
    struct detour_arena *keep = detour_arena_create();
    struct detour_options options = {.algorithm = DETOUR_ALGORITHM_1F1B};
    struct detour_plan *plan;
    struct detour_error error;
    double ms[ROUNDS_MAX];

    if (!keep) {
        fprintf(stderr, "bench-sched-speed: out of memory\n");
        exit(1);
    }
    check(detour_generate(keep, &problem->profile, &options, &plan, &error), &error);
    for (int k = 0; k < rounds; k++)
        ms[k] = time_call(arena, problem, column, plan->schedule);
    detour_arena_destroy(keep);
    qsort(ms, (size_t)rounds, sizeof(ms[0]), compare_doubles);
    return ms[rounds / 2];
}

static void print_head(bool csv)
{
    printf(csv ? "stages,microbatches" : "| S x N |");
    for (size_t c = 0; c < DT_COUNT_OF(columns); c++)
        printf(csv ? ",%s" : " %s |", columns[c].name);
    printf("\n");
    for (size_t c = 0; !csv && c <= DT_COUNT_OF(columns); c++)
        printf(c < DT_COUNT_OF(columns) ? "| --- " : "| --- |\n");
}

int main(int argc, char **argv)
{
    bool csv = argc > 1 && strcmp(argv[1], "--csv") == 0;
    int given = argc - 1 - csv, rounds = given ? atoi(argv[1 + csv]) : 5;
    struct detour_arena *arena = detour_arena_create();
    static struct problem problem;

    if (!arena || given > 1 || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench-sched-speed [--csv] [ROUNDS], ROUNDS 1..%d\n", ROUNDS_MAX);
        return 2;
    }
    print_head(csv);
    for (size_t k = 0; k < DT_COUNT_OF(sizes); k++) {
        make(&problem, sizes[k].stages, sizes[k].microbatches);
        printf(csv ? "%d,%d" : "| %d x %d |", (int)sizes[k].stages, (int)sizes[k].microbatches);
        for (size_t c = 0; c < DT_COUNT_OF(columns); c++) {
            if (sizes[k].stages > columns[c].stages_max)
                printf(csv ? "," : " |");
            else
                printf(csv ? ",%.5f" : " %.3f |", median_ms(arena, &problem, (int)c, rounds));
        }
        printf("\n");
        fflush(stdout);
    }
    detour_arena_destroy(arena);
    return 0;
}
