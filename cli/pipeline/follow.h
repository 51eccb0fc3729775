/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decisions of a controller (`detour control`), as rank 0 follows them with --adapt control: the agent of
 * its host writes the newest re-plan to decision.json in the runtime directory (controller/execute.h). Rank 0
 * looks at it between two iterations. A file that is not there, not readable or not a decision changes
 * nothing; one that is no decision is a line on standard error.
 */
#ifndef DETOUR_CLI_PIPELINE_FOLLOW_H
#define DETOUR_CLI_PIPELINE_FOLLOW_H

#include "cli/pipeline/adapt.h"
#include "cli/pipeline/checkpoint.h"
#include "controller/record.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A decision is proposed this often, while ranks are too late to confirm it. */
#define DT_PIPELINE_FOLLOW_TRIES 3

struct dt_pipeline_follow {
    int64_t number; /* of the last decision that was seen */
    int64_t fence;
    int64_t time_ns;   /* of the last decision */
    int tries;         /* that are left; the caller sets 0 when the decision is adopted */
    size_t link_count; /* of the last decision that is followed */
    struct dt_decided_link links[DT_RECORD_LINKS_MAX];
    const unsigned *ranks; /* [position]: who is there now; NULL: the rank of that number */
    uint64_t refused;      /* see dt_pipeline_follow_decision() */
};

/*
 * The newest decision of this kind (re-plan or remedy) in the runtime directory. False: there is none. The
 * reason of a file that is none is one line on standard error, once for each content: *refused is the digest
 * of the last one, at first 0.
 */
bool dt_pipeline_follow_decision(enum dt_decision_kind kind, struct dt_decision *decision, uint64_t *refused);

/*
 * A decision that was written before `began_ns`, the start of this run since 1970, is one about an earlier
 * job. A run that continues its own job (`is_continued`) follows that one, too.
 */
void dt_pipeline_follow_start(struct dt_pipeline_follow *follow, int64_t began_ns, bool is_continued);

/* The same for this process, from the run's first iteration, `iteration`, on, and before the claim of the run
 * (claim.h). A run begins when its process starts to use Detour: no controller has a report
 * of it before that. */
void dt_pipeline_follow_begin(struct dt_pipeline_follow *follow,
                              const struct dt_pipeline_checkpoints *checkpoints, uint32_t iteration,
                              const unsigned *ranks);

/*
 * True: there is a new decision, and its delays are in `verdicts`, one element for each of `ranks` positions.
 * Links of other ranks, and more than DT_PIPELINE_VERDICTS_MAX of one rank, are left out. Reads a file of at
 * most 64 KiB.
 */
bool dt_pipeline_follow_read(struct dt_pipeline_follow *follow, struct dt_pipeline_verdicts *verdicts,
                             uint32_t ranks);

/* What the last decision means for ranks at these positions, [position]. Without one: no delays. */
void dt_pipeline_follow_delays(const struct dt_pipeline_follow *follow, const struct detour_profile *profile,
                               int32_t replicas, const unsigned *ranks, struct dt_pipeline_delays *delays);

/* One line on standard error: the last decision is not taken, for this reason. */
void dt_pipeline_follow_refuse(const struct dt_pipeline_follow *follow, const char *reason);

/* Rank 0, once per iteration without a pending proposal. True: *delays are to be proposed. */
bool dt_pipeline_follow_next(struct dt_pipeline_follow *follow, const struct detour_profile *profile,
                             int32_t replicas, struct dt_pipeline_delays *delays);

#ifdef __cplusplus
}
#endif

#endif
