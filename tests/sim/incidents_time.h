/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long an iteration of a job takes: the estimate of include/detour/mitigate.h, or, for each replica, what
 * libdetour-sched simulates of a schedule with separate B and W (all three of equal length), with the
 * estimate's rings of gradients behind the slowest replica.
 */
#ifndef DETOUR_TESTS_SIM_INCIDENTS_TIME_H
#define DETOUR_TESTS_SIM_INCIDENTS_TIME_H

#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_incidents_model {
    DT_INCIDENTS_ESTIMATE = 0,
    DT_INCIDENTS_FIXED = 1,     /* the schedule `zb` made for healthy nodes and links */
    DT_INCIDENTS_REPLANNED = 2, /* the faster one of it and of `adaptra`, made for what is slow at present */
};

/* Remembers what it has simulated. One thread. */
struct dt_incidents_time;

/* `cluster` is read until the object is destroyed. NULL when out of memory. */
struct dt_incidents_time *dt_incidents_time_create(const struct detour_cluster *cluster,
                                                   enum dt_incidents_model model);
void dt_incidents_time_destroy(struct dt_incidents_time *time); /* NULL is allowed */

/* `nodes` ([position]), `counts` ([replica]). */
enum detour_status dt_incidents_time_of(struct dt_incidents_time *time,
                                        const struct detour_slowness *slowness, const int32_t *nodes,
                                        const int32_t *counts, int64_t *iteration_ns,
                                        struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
