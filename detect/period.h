/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bursts make an iteration? A training step sends the same sizes in the same order each time, so the
 * autocorrelation of a connection's burst sizes is nearly 1 at the lag of one iteration (FALCON, arXiv
 * 2410.12588, section 4.2). Each lag's sum is divided by its number of pairs, so that long lags are not at a
 * disadvantage. A plugin sees neither communicators nor collectives; so all connections of a process vote.
 *
 * Pure, no allocation.
 */
#ifndef DETOUR_DETECT_PERIOD_H
#define DETOUR_DETECT_PERIOD_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PERIOD_THRESHOLD   0.95
#define DT_PERIOD_REPEATS_MIN 3 /* repetitions required for a period */

/*
 * The smallest lag whose autocorrelation reaches the threshold; 1: all values are equal; 0: none, or too few
 * values. count^2 / DT_PERIOD_REPEATS_MIN steps: not for the data path.
 */
uint32_t dt_period_find(const double *values, uint32_t count);

/* votes[p] connections have found the period p, below `count`. The most frequent nonzero period, the smallest
 * of equally frequent ones; 0: none. */
uint32_t dt_period_vote(const uint32_t *votes, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
