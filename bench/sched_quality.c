/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How close schedules come to the best possible, and how long that takes: the tables "Schedules" of
 * docs/benchmarks.md, as Markdown.
 *
 * usage: bench-sched-quality [COUNT [EXACT_MS [FAMILY]]]
 *
 * COUNT problems (default 50, seeds 1..COUNT) of each family of tests/sched/family.h, or of one of them
 * (0..3). Each makespan is compared with the best lower bound known for its problem: the optimum where
 * `exact` proves one within EXACT_MS (default 1000) worth of nodes, else the bound that it reaches.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tests/sched/family.h"

enum { BEAM_ROUNDS = 20 };

/* The columns of the table: what is compared. */
static const struct method {
    const char *name;
    uint64_t budget_us; /* 0: needs none */
    enum detour_algorithm algorithm;
    int32_t width;
} methods[] = {
    {"adaptra", 0, DETOUR_ALGORITHM_ADAPTRA, 0},     {"zb", 0, DETOUR_ALGORITHM_ZB, 0},
    {"beam 1", 1000000, DETOUR_ALGORITHM_BEAM, 1},   {"auto 10 ms", 10000, DETOUR_ALGORITHM_AUTO, 0},
    {"auto 20 ms", 20000, DETOUR_ALGORITHM_AUTO, 0}, {"auto", 100000, DETOUR_ALGORITHM_AUTO, 0},
};

enum { METHOD_COUNT = sizeof(methods) / sizeof(methods[0]), AUTO = METHOD_COUNT - 1 };

/* Of one method over the problems of a family. */
struct sums {
    double gap;
    double gap_max;
    double ms;
    double ms_max;
    int optimal;
};

struct sample {
    int64_t makespan_ns;
    int64_t lower_ns;
    double ms;
};

static double cpu_ms(void)
{
    struct timespec spent;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return 1e3 * (double)spent.tv_sec + 1e-6 * (double)spent.tv_nsec;
}

static struct sample measure(struct detour_arena *arena, const struct detour_profile *profile,
                             const struct detour_options *options)
{
    struct detour_plan *plan;
    struct detour_error error;

    detour_arena_reset(arena);
    double begin_ms = cpu_ms();
    if (detour_generate(arena, profile, options, &plan, &error)) {
        fprintf(stderr, "bench-sched-quality: %s\n", error.text);
        exit(1);
    }
    return (struct sample){plan->makespan_ns, plan->lower_bound_ns, cpu_ms() - begin_ms};
}

static struct sample measure_method(struct detour_arena *arena, const struct detour_profile *profile,
                                    const struct method *method)
{
    struct detour_options options = {.algorithm = method->algorithm, .beam_width = method->width};

    if (method->budget_us)
        options.node_budget = detour_node_budget(profile, method->budget_us);
    return measure(arena, profile, &options);
}

static void add(struct sums *sums, const struct sample *sample, int64_t lower_ns)
{
    double gap = 100.0 * (double)(sample->makespan_ns - lower_ns) / (double)lower_ns;

    sums->gap += gap;
    sums->gap_max = gap > sums->gap_max ? gap : sums->gap_max;
    sums->ms += sample->ms;
    sums->ms_max = sample->ms > sums->ms_max ? sample->ms : sums->ms_max;
    sums->optimal += sample->makespan_ns == lower_ns;
}

static void print_sums(const char *family, const char *name, const struct sums *sums, int count)
{
    printf("| %s | %s | %.3f | %.2f | %d of %d | %.2f | %.1f |\n", family, name, sums->gap / count,
           sums->gap_max, sums->optimal, count, sums->ms / count, sums->ms_max);
}

static void family_table(struct detour_arena *arena, int limit, int count, uint64_t exact_us)
{
    struct sums sums[METHOD_COUNT] = {0}, exact_sums = {0};
    int proven = 0, worse = 0;

    for (int seed = 1; seed <= count; seed++) {
        struct sample samples[METHOD_COUNT];
        struct family_problem problem;
        family_make(&problem, limit, (uint64_t)seed, 0, 0);
        struct detour_options options = {.algorithm = DETOUR_ALGORITHM_EXACT,
                                         .node_budget = detour_node_budget(&problem.profile, exact_us)};
        struct sample exact = measure(arena, &problem.profile, &options);
        int64_t lower_ns = exact.lower_ns;
        for (int k = 0; k < METHOD_COUNT; k++) {
            samples[k] = measure_method(arena, &problem.profile, &methods[k]);
            lower_ns = samples[k].lower_ns > lower_ns ? samples[k].lower_ns : lower_ns;
        }
        proven += exact.lower_ns == exact.makespan_ns;
        for (int k = 0; k < METHOD_COUNT; k++) {
            add(&sums[k], &samples[k], lower_ns);
            worse += samples[k].makespan_ns < samples[AUTO].makespan_ns && methods[k].budget_us == 0;
        }
        add(&exact_sums, &exact, lower_ns);
    }
    for (int k = 0; k < METHOD_COUNT; k++)
        print_sums(family_name(limit), methods[k].name, &sums[k], count);
    print_sums(family_name(limit), "exact", &exact_sums, count);
    printf("\n%s: exact proves %d of %d; adaptra or zb below auto: %d times.\n\n", family_name(limit), proven,
           count, worse);
    fflush(stdout);
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Median time of a beam of width 1, 8 stages and 32 microbatches. */
static void beam_speed(struct detour_arena *arena)
{
    for (int limit = 0; limit < FAMILY_COUNT; limit++) {
        double ms[BEAM_ROUNDS];
        for (int seed = 1; seed <= BEAM_ROUNDS; seed++) {
            struct family_problem problem;
            struct detour_options options = {.algorithm = DETOUR_ALGORITHM_BEAM, .beam_width = 1};
            family_make(&problem, limit, (uint64_t)seed, 8, 32);
            ms[seed - 1] = measure(arena, &problem.profile, &options).ms;
        }
        qsort(ms, BEAM_ROUNDS, sizeof(ms[0]), compare_doubles);
        printf("| %s | %.2f | %.2f |\n", family_name(limit), ms[BEAM_ROUNDS / 2], ms[BEAM_ROUNDS - 1]);
    }
}

/* An argument between `low` and `high`; `low` - 1 if it is anything else. */
static int parse(const char *text, int low, int high)
{
    char *end;
    long value = strtol(text, &end, 10);

    return *text && !*end && value >= low && value <= high ? (int)value : low - 1;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? parse(argv[1], 1, 1000000) : 50;
    int exact_ms = argc > 2 ? parse(argv[2], 1, 1000000) : 1000;
    int family = argc > 3 ? parse(argv[3], 0, FAMILY_COUNT - 1) : -1;
    struct detour_arena *arena = detour_arena_create();

    if (!arena || argc > 4 || !count || !exact_ms || (argc > 3 && family < 0)) {
        fprintf(stderr, "usage: bench-sched-quality [COUNT [EXACT_MS [FAMILY]]], FAMILY 0..%d\n",
                FAMILY_COUNT - 1);
        return 2;
    }
    printf("Seeds 1 to %d; exact has %d ms worth of nodes.\n\n", count, exact_ms);
    printf("| problems | algorithm | above the bound, mean %% | worst %% | at the bound | ms, mean | ms, "
           "longest |\n"
           "| --- | --- | --- | --- | --- | --- | --- |\n");
    for (int limit = 0; limit < FAMILY_COUNT; limit++)
        if (family < 0 || limit == family)
            family_table(arena, limit, count, (uint64_t)exact_ms * 1000);
    if (family < 0) {
        printf("| beam of width 1, 8 x 32 | ms, median of %d | ms, longest |\n| --- | --- | --- |\n",
               BEAM_ROUNDS);
        beam_speed(arena);
    }
    detour_arena_destroy(arena);
    return 0;
}
