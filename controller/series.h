/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One series of durations over the life of a job: the transfers of one link, or the computing of one rank. Is
 * its present level above its own reference, since when, by how much?
 *
 * Values are logarithms of durations with the common change of their kind subtracted (judge.h), so that a
 * level is a factor. The first DT_SERIES_LEARN reports give the reference, later ones refine it up to
 * DT_SERIES_REFINE reports. From then on the mean of the last 1, 2, 4, 5, 7, 16, ... 128 reports is compared
 * with it: a series becomes slow when one of these means is DT_SERIES_ERRORS standard errors above the
 * reference and when most of its reports are. So a large change is found in a few reports and a drift of some
 * percent in 128. A short burst fills no window: a window must last `span_ns`, and its mean must be typical
 * of most of its reports. A slow series is healthy again when the mean over as many reports as began it falls
 * below DT_SERIES_END and below 0.4 of the rise that began it.
 *
 * One report alone makes a series slow only if it lasts `span_ns` itself and is DT_SERIES_ONE_RISE high, and
 * only with errors measured from the kind; the user may want more evidence (dt_series_is_early). If the next
 * report is healthy, so is the series.
 *
 * A report has a weight: its transfers divided by those of a typical report, at most 1. The reference follows
 * a series that becomes permanently faster, never one that becomes slower.
 *
 * Against monitor.h of detect/: that one has only its own connection, needs five iterations and 10 %. This
 * one relies on the subtraction of everything that the links of a kind have in common, and so needs less.
 *
 * Pure and without allocation. One thread.
 */
#ifndef DETOUR_CONTROLLER_SERIES_H
#define DETOUR_CONTROLLER_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_SERIES_LEARN   16  /* reports before the first verdict */
#define DT_SERIES_REFINE  64  /* reports that the reference is a mean of */
#define DT_SERIES_HISTORY 128 /* reports kept; a power of two */
#define DT_SERIES_WINDOWS 9   /* of 1, 2, 4, 5, 7, 16, 32, 64 and 128 reports */

#define DT_SERIES_ERRORS   6.5   /* standard errors above the reference: chances for error are many */
#define DT_SERIES_RISE     0.03  /* the smallest rise that is reported, a logarithm */
#define DT_SERIES_ONE_RISE 0.13  /* the smallest rise that one report alone shows: a logarithm, of 1.14 */
#define DT_SERIES_END      0.048 /* logarithm of 1.05: healthy again below it */

struct dt_series {
    float excess[DT_SERIES_HISTORY]; /* rings; logarithms above the reference */
    float weight[DT_SERIES_HISTORY];
    uint64_t time_ns[DT_SERIES_HISTORY];
    double sums[DT_SERIES_WINDOWS]; /* of weight * excess, and of weights, in each window */
    double weights[DT_SERIES_WINDOWS];
    uint64_t count;   /* reports so far */
    uint64_t start;   /* the first one that windows may contain: those before a recovery do not count */
    double reference; /* logarithm */
    uint64_t refined; /* reports that the reference is a mean of; 0: still learning */
    double deviation; /* of a report of weight 1, robust */
    double typical;   /* samples of a typical report */
    bool is_slow;
    uint32_t window;   /* slow: the number of reports that began it */
    double began_rise; /* slow: their mean */
    double rise;       /* slow: present mean over that window */
    uint64_t since_ns; /* slow: time of the first report above the reference */
};

/* The level of some reports, for the comparison with other series. */
struct dt_series_level {
    double mean;  /* logarithm above the reference */
    double error; /* standard error of `mean`; 0: no report */
};

void dt_series_init(struct dt_series *series);

bool dt_series_is_learned(const struct dt_series *series);

/* Slow because of one report, which the next one may refute. */
static inline bool dt_series_is_early(const struct dt_series *series)
{
    return series->is_slow && series->window == 1;
}

/*
 * A report: the logarithm of a duration with the common change already subtracted, of `samples` transfers (>
 * 0), that ended at `time_ns`, which does not decrease. `value` is finite.
 */
void dt_series_add(struct dt_series *series, double value, uint64_t samples, uint64_t time_ns);

/*
 * For each window, the standard error of its means as the series of the kind show it: it contains noise that
 * lasts over reports, and a series whose own noise seems smaller by chance is not believed. 0: not measured
 * yet, the window does not decide.
 */
struct dt_series_errors {
    double one[DT_SERIES_WINDOWS];
    double both[DT_SERIES_WINDOWS]; /* of the mean of the two directions of a link */
};

/*
 * Updates the verdict after a report. Returns false if the report refutes the one that alone has made the
 * series slow. `errors`: NULL: the kind has none. A window lasts `span_ns` at least.
 */
bool dt_series_judge(struct dt_series *series, const struct dt_series_errors *errors, uint64_t span_ns);

/*
 * The two directions of a link, of which neither is slow, after a report of either. A link that is slow in
 * both has twice the reports: both are slow if a window of the two together is DT_SERIES_ERRORS standard
 * errors above their references, and most reports of each are.
 */
void dt_series_judge_both(struct dt_series *one, struct dt_series *other,
                          const struct dt_series_errors *errors, uint64_t span_ns);

/* The mean of a window (0 to DT_SERIES_WINDOWS - 1), as a logarithm above the reference. False: there are not
 * so many. */
bool dt_series_window(const struct dt_series *series, uint32_t window, double *mean);

/* Over the reports at `since_ns` and later. */
struct dt_series_level dt_series_level_since(const struct dt_series *series, uint64_t since_ns);

/* Of the last two reports the lower one, with the standard error of one report: one burst does not raise it.
 */
struct dt_series_level dt_series_lower_of_two(const struct dt_series *series);

#ifdef __cplusplus
}
#endif

#endif
