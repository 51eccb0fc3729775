/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accuracy of slow-phase detection: traces with a known truth (tests/detect/trace.h) through Detour's monitor
 * and two simpler detectors. The verdict on a slow trace is right if it is called slow, and not before its
 * first slow iteration; on a healthy trace, if it is never called slow.
 *
 *   bench-detect-quality [FIRST_SEED [TRACES_PER_FAMILY]]
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "detect/monitor.h"
#include "tests/detect/trace.h"

#define WINDOW 10

/* Returns the iteration at which the trace is first called slow, or its length. */
typedef uint32_t detector_func(const struct trace *trace);

static uint32_t by_monitor(const struct trace *trace)
{
    struct dt_monitor monitor;

    dt_monitor_init(&monitor);
    for (uint32_t i = 0; i < trace->count; i++) {
        dt_monitor_add(&monitor, trace->seconds[i]);
        if (dt_monitor_verdict(&monitor).is_slow)
            return i;
    }
    return trace->count;
}

static double mean(const double *values, uint32_t count)
{
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(const double *values, uint32_t count)
{
    double sorted[DT_MONITOR_LEARN];

    memcpy(sorted, values, count * sizeof *values);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

/* The median of the last ten against the median of the first; a mean would do far worse, for the outliers. */
static uint32_t by_window(const struct trace *trace)
{
    double reference = median(trace->seconds, DT_MONITOR_LEARN);

    for (uint32_t i = DT_MONITOR_LEARN; i < trace->count; i++)
        if (median(&trace->seconds[i + 1 - WINDOW], WINDOW) >= DT_MONITOR_SLOW_FACTOR * reference)
            return i;
    return trace->count;
}

/* Change-point detection, and verification of 10 % against the run before, as FALCON describes it. */
static uint32_t by_change_points(const struct trace *trace)
{
    struct dt_changepoint changepoint;
    struct dt_changepoint_prior prior = {
        .mean = log(mean(trace->seconds, DT_MONITOR_LEARN)), .level_deviations = 10, .change_every = 100};
    double squares = 0, before = prior.mean;
    uint32_t begin = 0;

    for (uint32_t i = 0; i < DT_MONITOR_LEARN; i++)
        squares += pow(log(trace->seconds[i]) - prior.mean, 2);
    prior.deviation = sqrt(squares / DT_MONITOR_LEARN);
    dt_changepoint_init(&changepoint, &prior);
    for (uint32_t i = 0; i < trace->count; i++) {
        dt_changepoint_add(&changepoint, log(trace->seconds[i]));
        uint32_t run = dt_changepoint_run_length(&changepoint);
        uint32_t run_begin = i + 1 - run;

        if (run_begin > begin && run >= TRACE_SLOW_RUN) {
            before = log(mean(&trace->seconds[begin], run_begin - begin));
            begin = run_begin;
        }
        if (begin > 0 && run_begin == begin &&
            log(mean(&trace->seconds[begin], run)) - before >= log(DT_MONITOR_SLOW_FACTOR))
            return i;
    }
    return trace->count;
}

static const struct {
    const char *name;
    detector_func *run;
} detectors[] = {
    {"monitor", by_monitor}, {"sliding window of 10", by_window}, {"change points alone", by_change_points}};

struct score {
    uint32_t found, missed, early; /* of the slow ones; early: called slow before it was */
    uint32_t quiet, false_alarms;  /* of the healthy ones */
    uint32_t delay_count;
    uint32_t delays[4096];
};

static void judge(struct score *score, const struct trace *trace, uint32_t called)
{
    if (!trace->is_slow) {
        if (called == trace->count)
            score->quiet++;
        else
            score->false_alarms++;
    } else if (called == trace->count) {
        score->missed++;
    } else if (called < trace->first_slow) {
        score->early++;
    } else {
        score->found++;
        if (score->delay_count < DT_COUNT_OF(score->delays))
            score->delays[score->delay_count++] = called + 1 - trace->first_slow;
    }
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/* Wilson's interval at 95 %. */
static void print_rate(const char *name, uint32_t hits, uint32_t count)
{
    const double z = 1.96;
    double p = count ? (double)hits / count : 0, n = count ? count : 1;
    double center = (p + z * z / (2 * n)) / (1 + z * z / n);
    double half = z / (1 + z * z / n) * sqrt(p * (1 - p) / n + z * z / (4 * n * n));

    printf("  %-14s %6u of %6u  %6.2f %%  [%.2f, %.2f]\n", name, hits, count, 100 * p,
           100 * fmax(center - half, 0), 100 * fmin(center + half, 1));
}

static void print_score(const char *detector, const char *set, struct score *score)
{
    uint32_t slow = score->found + score->missed + score->early;
    uint32_t healthy = score->quiet + score->false_alarms;

    printf("%s, %s\n", detector, set);
    print_rate("right", score->found + score->quiet, slow + healthy);
    print_rate("false alarms", score->false_alarms + score->early, slow + healthy);
    print_rate("missed", score->missed, slow);
    qsort(score->delays, score->delay_count, sizeof score->delays[0], compare);
    if (score->delay_count)
        printf("  delay          median %u, 95 %% within %u iterations\n",
               score->delays[score->delay_count / 2], score->delays[score->delay_count * 95 / 100]);
}

static void run_set(const char *name, bool is_held_out, uint64_t first_seed, uint64_t traces)
{
    for (uint32_t d = 0; d < DT_COUNT_OF(detectors); d++) {
        struct score all = {0};

        for (int f = 0; f < TRACE_FAMILY_COUNT; f++) {
            struct score score = {0};
            struct trace trace;

            if (trace_family_is_held_out((enum trace_family)f) != is_held_out)
                continue;
            for (uint64_t i = 0; i < traces; i++) {
                trace_make(&trace, (enum trace_family)f, first_seed + i);
                uint32_t called = detectors[d].run(&trace);
                judge(&score, &trace, called);
                judge(&all, &trace, called);
            }
            printf("  %-10s found %u, missed %u, early %u; quiet %u, false alarms %u\n",
                   trace_family_name((enum trace_family)f), score.found, score.missed, score.early,
                   score.quiet, score.false_alarms);
        }
        print_score(detectors[d].name, name, &all);
    }
}

static uint64_t cpu_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * DT_NS_PER_S + (uint64_t)time.tv_nsec;
}

static void print_cost(void)
{
    static struct trace trace;
    struct dt_monitor monitor;
    const uint32_t rounds = 200;
    uint64_t samples = 0, begin_ns = cpu_ns();

    trace_make(&trace, TRACE_STEP, 1);
    dt_monitor_init(&monitor);
    for (uint32_t round = 0; round < rounds; round++)
        for (uint32_t i = 0; i < trace.count; i++, samples++)
            dt_monitor_add(&monitor, trace.seconds[i]);
    printf("cost of the monitor: %.2f us a sample (%" PRIu64 " samples)\n",
           (double)(cpu_ns() - begin_ns) / 1000 / (double)samples, samples);
}

static bool parse(const char *text, uint64_t *value)
{
    char *end;

    *value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

int main(int argc, char **argv)
{
    uint64_t first_seed = 1, traces = 500;

    if (argc > 3 || (argc > 1 && !parse(argv[1], &first_seed)) || (argc > 2 && !parse(argv[2], &traces))) {
        fprintf(stderr, "usage: bench-detect-quality [FIRST_SEED [TRACES_PER_FAMILY]]\n");
        return 2;
    }
    printf("seeds %" PRIu64 " to %" PRIu64 " of each family\n", first_seed, first_seed + traces - 1);
    run_set("families that thresholds were chosen on", false, first_seed, traces);
    run_set("families held out", true, first_seed, traces);
    print_cost();
    return 0;
}
