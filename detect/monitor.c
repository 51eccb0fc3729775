/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/monitor.h"

#include <math.h>
#include <string.h>

#include "base/util.h"

/*
 * Chosen on the tuning families of tests/detect/trace.h (bench/detect_quality.c); docs/benchmarks.md has the
 * results on the other families.
 */
#define DEVIATION_MIN   0.002 /* the minimum: the resolution of clocks */
#define CLIP_DEVIATIONS 2.5   /* of samples around a run's median */
#define JUMP_DEVIATIONS 20.0  /* outliers are clipped to this for the change-point detector */
#define CHANGE_EVERY    100.0
#define MARGIN_ERRORS   2.5 /* standard errors above 10 % required for slow */
#define SMALL_SAMPLE    2.0 /* weight for the uncertain spread of few samples */
#define RUN_MIN         5   /* samples required for a level */
#define MEDIAN_COUNT    15
#define FASTER_RUN      64 /* samples after which a faster level becomes the healthy one */
#define FASTER          0.03
#define DEVIATION_SHARE 0.02 /* weight of one sample in the running deviation */

void dt_monitor_init(struct dt_monitor *monitor)
{
    memset(monitor, 0, sizeof *monitor);
}

static double clip(double value, double middle, double reach)
{
    double low = middle - reach, high = middle + reach;

    return value < low ? low : value > high ? high : value;
}

/* The k-th last sample; k from 0, below the number of samples and DT_MONITOR_HISTORY. */
static double past(const struct dt_monitor *monitor, uint32_t k)
{
    return monitor->history[(monitor->sample_count - 1 - k) % DT_MONITOR_HISTORY];
}

/* Of up to DT_MONITOR_LEARN values; sorts them by insertion. */
static double median(double *values, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        double value = values[i];
        uint32_t j = i;

        for (; j > 0 && values[j - 1] > value; j--)
            values[j] = values[j - 1];
        values[j] = value;
    }
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double recent_median(const struct dt_monitor *monitor, uint32_t count)
{
    double values[DT_MONITOR_LEARN];

    count = (uint32_t)dt_min_u64(count, DT_MONITOR_LEARN);
    for (uint32_t k = 0; k < count; k++)
        values[k] = past(monitor, k);
    return median(values, count);
}

/*
 * A clipped mean around the median, and its standard error. Most of a few samples may be outliers, including
 * the median; they are then far apart, so the error accounts for the spread.
 */
static void estimate(struct dt_monitor *monitor, uint32_t run)
{
    double middle = recent_median(monitor, (uint32_t)dt_min_u64(run, MEDIAN_COUNT));
    double reach = CLIP_DEVIATIONS * monitor->deviation;
    double sum = 0, squares = 0;

    for (uint32_t k = 0; k < run; k++) {
        double distance = past(monitor, k) - middle;
        double seen = clip(distance, 0, run < MEDIAN_COUNT ? 4 * reach : reach);

        sum += clip(distance, 0, reach);
        squares += seen * seen;
    }
    double mean = sum / run;
    double spread = fmax(sqrt(squares / run), monitor->deviation);
    monitor->run = run;
    monitor->level = middle + mean;
    /* The spread of few samples is uncertain. */
    monitor->uncertainty = spread / sqrt(run) * (1 + SMALL_SAMPLE / run);
}

/* The first samples are healthy by definition. */
static void learn(struct dt_monitor *monitor)
{
    double values[DT_MONITOR_LEARN];
    struct dt_changepoint_prior prior = {.level_deviations = 10, .change_every = CHANGE_EVERY};

    monitor->reference = recent_median(monitor, DT_MONITOR_LEARN);
    for (uint32_t k = 0; k < DT_MONITOR_LEARN; k++)
        values[k] = fabs(past(monitor, k) - monitor->reference);
    /* 1.4826: standard deviation divided by median absolute deviation, for a normal distribution */
    monitor->deviation = fmax(1.4826 * median(values, DT_MONITOR_LEARN), DEVIATION_MIN);
    estimate(monitor, DT_MONITOR_LEARN);
    monitor->reference = monitor->level;
    prior.mean = monitor->reference;
    prior.deviation = monitor->deviation;
    dt_changepoint_init(&monitor->changepoint, &prior);
    for (uint32_t k = DT_MONITOR_LEARN; k-- > 0;)
        dt_changepoint_add(&monitor->changepoint,
                           clip(past(monitor, k), monitor->reference, JUMP_DEVIATIONS * monitor->deviation));
}

/* Refines the reference while the level has never changed; follows a permanently faster level. */
static void follow(struct dt_monitor *monitor)
{
    bool is_first_run = dt_changepoint_run_length(&monitor->changepoint) + 2 >= monitor->sample_count;
    bool is_early = is_first_run && monitor->sample_count <= 2 * DT_MONITOR_LEARN;

    if (is_early || (monitor->run >= FASTER_RUN && monitor->level < monitor->reference - FASTER))
        monitor->reference = monitor->level;
}

static void judge(struct dt_monitor *monitor)
{
    double above = monitor->level - monitor->reference;
    double margin = MARGIN_ERRORS * monitor->uncertainty;

    if (!monitor->is_slow) {
        if (dt_changepoint_run_length(&monitor->changepoint) < RUN_MIN)
            return;
        if (above - margin < log(DT_MONITOR_SLOW_FACTOR))
            return;
        monitor->is_slow = true;
        monitor->slow_since = monitor->sample_count - monitor->run;
        return;
    }
    /* Every sample improves the start time of the slow run. */
    uint64_t run_begin = monitor->sample_count - monitor->run;
    if (run_begin < monitor->slow_since && run_begin + 2 * RUN_MIN >= monitor->slow_since)
        monitor->slow_since = run_begin;
    if (above + margin < log(DT_MONITOR_HEALTHY_FACTOR) ||
        (monitor->run >= FASTER_RUN && above + margin < log(DT_MONITOR_SLOW_FACTOR)))
        monitor->is_slow = false;
}

void dt_monitor_add(struct dt_monitor *monitor, double duration)
{
    if (!(duration > 0) || !isfinite(duration))
        return;
    double sample = log(duration);

    monitor->history[monitor->sample_count++ % DT_MONITOR_HISTORY] = sample;
    if (monitor->sample_count < DT_MONITOR_LEARN)
        return;
    if (monitor->sample_count == DT_MONITOR_LEARN) {
        learn(monitor);
        return;
    }
    dt_changepoint_add(&monitor->changepoint,
                       clip(sample, monitor->level, JUMP_DEVIATIONS * monitor->deviation));
    uint64_t reach = dt_min_u64(monitor->sample_count, DT_MONITOR_HISTORY);
    uint32_t run = dt_changepoint_run_length(&monitor->changepoint);
    estimate(monitor, (uint32_t)dt_min_u64(run < RUN_MIN ? RUN_MIN : run, reach));
    /* Scaled to the standard deviation of a normal distribution. */
    double distance = fmin(fabs(sample - monitor->level), 4 * monitor->deviation);
    monitor->deviation += DEVIATION_SHARE * (1.2533 * distance - monitor->deviation);
    monitor->deviation = fmax(monitor->deviation, DEVIATION_MIN);
    follow(monitor);
    judge(monitor);
}

struct dt_verdict dt_monitor_verdict(const struct dt_monitor *monitor)
{
    struct dt_verdict verdict = {.factor = 1};

    if (monitor->sample_count < DT_MONITOR_LEARN)
        return verdict;
    verdict.is_known = true;
    verdict.is_slow = monitor->is_slow;
    verdict.since = monitor->is_slow ? monitor->slow_since : 0;
    verdict.factor = exp(monitor->level - monitor->reference);
    return verdict;
}
