/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller has found and decided since it started, as counters, and the decisions that are in force
 * by themselves: a hold until its end. Measures and remedies have their own state (decide.h, remedy.h).
 *
 * Pure. Owner: one thread.
 */
#ifndef DETOUR_CONTROLLER_COUNTS_H
#define DETOUR_CONTROLLER_COUNTS_H

#include <stdbool.h>

#include "controller/judge.h"
#include "controller/record.h"
#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_counts {
    uint64_t found[DT_FINDING_COUNT];         /* new findings */
    uint64_t decided[DT_DECISION_KIND_COUNT]; /* without remedies: [DT_DECISION_REMEDY] stays 0 */
    uint64_t remedied[DETOUR_STEP_COUNT];     /* remedies by step; S1: back to the job as it began */
    int64_t decided_ns;                       /* of the last decision, since 1970; 0: none yet */
    int64_t held_until_ns;                    /* of the last hold, since 1970; 0: none, or released */
    char held_host[DT_STORE_NAME_BYTES];      /* "": all */
};

/* A round's findings: the new ones count. */
void dt_counts_findings(struct dt_counts *counts, const struct dt_finding *findings, uint32_t count);

/* A decision of this controller. */
void dt_counts_decision(struct dt_counts *counts, const struct dt_decision *decision);

/* One of an earlier controller: it is no count of this one, but its time and its hold are known. */
void dt_counts_adopt(struct dt_counts *counts, const struct dt_decision *decision);

bool dt_counts_is_held(const struct dt_counts *counts, int64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
