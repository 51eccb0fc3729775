/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of an iteration while nothing is slow: the lower quartile of the last DT_PACE_COUNT ones, since a
 * slowness is found only after some slow iterations.
 *
 * Pure. Owner: one thread.
 */
#ifndef DETOUR_CONTROLLER_PACE_H
#define DETOUR_CONTROLLER_PACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PACE_COUNT 64

/* All zeros: no iteration yet. */
struct dt_pace {
    size_t count; /* of all iterations */
    int64_t iterations_ns[DT_PACE_COUNT];
};

void dt_pace_add(struct dt_pace *pace, int64_t iteration_ns);

/* 0: there was no iteration yet. */
int64_t dt_pace_ns(const struct dt_pace *pace);

#ifdef __cplusplus
}
#endif

#endif
