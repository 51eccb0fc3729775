/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A training job under a list of incidents, iteration by iteration in virtual time: something becomes slow,
 * the remedies of include/detour/mitigate.h are planned for everything that is slow, and the ladder decides
 * when one is taken. FALCON (arXiv 2410.12588), figures 13 to 17 and 20.
 *
 * Lost time is what the run took longer than as many healthy iterations would, the costs of the steps
 * included. A run ends a few iterations after the last incident.
 */
#ifndef DETOUR_TESTS_SIM_INCIDENTS_H
#define DETOUR_TESTS_SIM_INCIDENTS_H

#include "tests/sim/incidents_time.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_INCIDENTS_MAX 64 /* of a run */

struct dt_incident {
    int64_t start_ns;
    int64_t duration_ns;
    bool is_link; /* between the nodes `a` and `b`; else the computing of node `a` */
    int32_t a, b;
    int32_t factor_permille;
};

/* Iterations of equal length, or the pause of a step. */
struct dt_incidents_phase {
    int64_t duration_ns;
    int64_t iterations;    /* 0: a pause */
    enum detour_step step; /* in force; of a pause: that is taken */
    const struct detour_slowness *slowness;
    const int32_t *nodes;  /* [position] */
    const int32_t *counts; /* [replica]: microbatches */
};

/* When steps are taken. */
enum dt_incidents_policy {
    DT_INCIDENTS_LADDER = 0,
    DT_INCIDENTS_NEVER = 1,
    DT_INCIDENTS_AT_ONCE = 2, /* one step, whenever it would save something */
    DT_INCIDENTS_EAGER = 3,   /* S2 or, where it saves more, S3, whenever it would save something */
};

/* What the plans of S3 are compared with. */
enum dt_incidents_reference {
    DT_INCIDENTS_NO_REFERENCE = 0,
    DT_INCIDENTS_BOUND = 1,   /* the bound of the plan */
    DT_INCIDENTS_OPTIMUM = 2, /* the best of all assignments; for at most eight nodes, else the bound */
};

struct dt_incidents_options {
    const struct detour_cluster *cluster;
    const struct dt_incident *incidents;
    int32_t incident_count;
    enum dt_incidents_policy policy;
    enum detour_step step;    /* of DT_INCIDENTS_AT_ONCE */
    enum detour_step highest; /* of DT_INCIDENTS_LADDER: no step above it; S1 means S4 */
    enum dt_incidents_model model;
    enum dt_incidents_reference reference;
    uint64_t budget; /* exchanges of nodes that a plan of S3 tries; 0 means 4,000 */
    void (*on_phase)(void *arg, const struct dt_incidents_phase *phase); /* NULL: no call */
    void *phase_arg;
};

struct dt_incidents_result {
    int64_t healthy_ns; /* an iteration */
    int64_t longest_ns; /* likewise */
    int64_t iterations;
    int64_t elapsed_ns;
    int64_t lost_ns;
    int64_t paused_ns;                /* by taking steps */
    int64_t taken[DETOUR_STEP_COUNT]; /* how often; S1: a remedy was taken back */
    /* With the ladder, of the time that was waited for S2, S3 and S4, of each taken step of its kind the
     * longest: what the step would have saved, as the ladder has added it up. */
    int64_t waited_ns[DETOUR_STEP_COUNT];
    /* Plans of S3, one for each change of what is slow or in force; by how much their estimated iterations
     * are above those of the reference, in millionths of these. */
    int64_t plan_count;
    int64_t equal_count; /* by nothing */
    int64_t above_sum_ppm;
    int64_t above_largest_ppm;
};

enum detour_status dt_incidents_run(const struct dt_incidents_options *options,
                                    struct dt_incidents_result *result, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
