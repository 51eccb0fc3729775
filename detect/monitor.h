/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is a series of durations slow, since when, and by what factor?
 *
 * The first samples define the reference, the healthy level. A change-point detector (changepoint.h) then
 * determines since when the series has kept its level; the level of that run, estimated robustly, is compared
 * with the reference. At least 10 % above it, and significantly so, is slow. This is the verification step of
 * FALCON (arXiv 2410.12588, section 4.2) with one difference: a run is compared with the reference, not with
 * the previous run. So a staircase of steps below 10 % each, or a drift, is detected once its sum exceeds 10
 * %, which their method misses. Outliers (a checkpoint, a retransmission) change neither run nor level.
 *
 * Hysteresis: slow begins at 10 % and ends below 5 %, or when the level stays below 10 % for a long run. The
 * reference follows a series that becomes permanently faster, never one that becomes slower.
 *
 * The computation uses logarithms: levels are factors, and relative noise is independent of the speed.
 *
 * Pure and without allocation. One thread.
 */
#ifndef DETOUR_DETECT_MONITOR_H
#define DETOUR_DETECT_MONITOR_H

#include <stdbool.h>
#include <stdint.h>

#include "detect/changepoint.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_MONITOR_LEARN   32  /* samples before the first verdict */
#define DT_MONITOR_HISTORY 128 /* samples kept */

#define DT_MONITOR_SLOW_FACTOR    1.10 /* slow from this factor on */
#define DT_MONITOR_HEALTHY_FACTOR 1.05 /* healthy again below this factor */

struct dt_monitor {
    struct dt_changepoint changepoint;
    uint64_t sample_count;
    double history[DT_MONITOR_HISTORY]; /* logarithms, a ring */
    double reference;                   /* logarithm of the healthy level */
    double deviation;                   /* of the noise, robust, in logarithms */
    double level;                       /* of the current run */
    double uncertainty;                 /* standard error of `level` */
    uint32_t run;                       /* samples in the current run, at most those in history */
    bool is_slow;
    uint64_t slow_since; /* index of its first sample, from 0 */
};

struct dt_verdict {
    bool is_known; /* there were enough samples */
    bool is_slow;
    uint64_t since; /* if slow: index of the first slow sample */
    double factor;  /* present level divided by the healthy one; 1 while unknown */
};

void dt_monitor_init(struct dt_monitor *monitor);

/* A duration, always in the same unit. Values that are not positive and finite are skipped. */
void dt_monitor_add(struct dt_monitor *monitor, double duration);

struct dt_verdict dt_monitor_verdict(const struct dt_monitor *monitor);

#ifdef __cplusplus
}
#endif

#endif
