/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller has found, decided and lost since it started, as counters, and the decisions that are in
 * force by themselves: a hold until its end. Measures and remedies have their own state (decide.h, remedy.h).
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
    uint64_t observations;                    /* read since the last dt_counts_loss() */
    uint64_t overruns;                        /* rounds that have read as many as the store keeps */
    uint64_t no_room;                         /* reports for which the judge had no room */
    uint64_t crowded;                         /* rounds with such reports */
    uint64_t refused;                         /* records */
    char loss[DT_RECORD_TEXT_BYTES];          /* the last one, by dt_counts_loss() */
};

/* A round's findings: the new ones count. */
void dt_counts_findings(struct dt_counts *counts, const struct dt_finding *findings, uint32_t count);

/* A decision of this controller. */
void dt_counts_decision(struct dt_counts *counts, const struct dt_decision *decision);

/* One of an earlier controller: it is no count of this one, but its time and its hold are known. */
void dt_counts_adopt(struct dt_counts *counts, const struct dt_decision *decision);

/*
 * After the reading of a round: it may have lost observations, if it has read as many as the store keeps, and
 * the judge has dropped `no_room` reports up to now. True: `loss` is a line for the operator.
 */
bool dt_counts_loss(struct dt_counts *counts, uint64_t no_room);

/* Whether the event is logged that has occurred `times` times: the first four times, then at powers of two,
 * so that a broken writer cannot fill the log. */
bool dt_counts_has_line(uint64_t times);

bool dt_counts_is_held(const struct dt_counts *counts, int64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
