/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is one series of durations slow, since when, and by what factor?
 *
 * The first samples give the reference: the level that is healthy. From then on a change-point detector
 * (changepoint.h) says since when the series has kept its level; the level of that run, estimated robustly,
 * is compared with the reference: 10 % above it, and more than chance, is slow. This is the verification step
 * of FALCON (arXiv 2410.12588, section 4.2) with one difference: a run is compared with the reference, not
 * with the run before it. So a ladder of steps, or a drift, each of its changes under 10 %, is seen as soon
 * as its sum is not (their method misses those). Outliers (a checkpoint, a retransmission) change neither run
 * nor level.
 *
 * Hysteresis: slow begins at 10 % and ends below 5 %, or when it is 10 % no more for a long run. The
 * reference follows a series that gets faster for good, never one that gets slower.
 *
 * Logarithms inside: levels are factors, and a noise of so many per cent is the same at every speed.
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
#define DT_MONITOR_HISTORY 128 /* samples that are looked back at */

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
    uint32_t run;                       /* samples in the current run, as far as history reaches */
    bool is_slow;
    uint64_t slow_since; /* number of the sample that began it, from 0 */
};

struct dt_verdict {
    bool is_known; /* enough samples were seen */
    bool is_slow;
    uint64_t since; /* sample that the state began with, when slow */
    double factor;  /* present level over the healthy one; 1 while nothing is known */
};

void dt_monitor_init(struct dt_monitor *monitor);

/* One duration in any unit, always the same; what is not a positive finite number is left out. */
void dt_monitor_add(struct dt_monitor *monitor, double duration);

struct dt_verdict dt_monitor_verdict(const struct dt_monitor *monitor);

#ifdef __cplusplus
}
#endif

#endif
