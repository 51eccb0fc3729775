/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host path of a rank's messages, switched by command while links are slow (docs/hostpath.md): with
 * --adapt in the mode nccl, unless the user has set DETOUR_HOSTPATH. The ranks agree on the flows that need
 * it together with the schedule (pipeline/agreement.h), and each switches those that it sends.
 */
#ifndef DETOUR_CLI_PIPELINE_STAGING_H
#define DETOUR_CLI_PIPELINE_STAGING_H

#include "cli/pipeline/adapt.h"
#include "cli/pipeline/rank.h"
#include "cli/pipeline/ranks.h"
#include "cli/pipeline/rules.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_staging {
    bool is_switched; /* by this loop; else the setting stays as it is */
    uint32_t changes; /* iterations in a row that ask for other flows than have it (rank 0) */
    bool is_on[DT_PIPELINE_RANKS_MAX]; /* [rank]: for the messages to it */
};

/* Before the plugin reads its environment: DETOUR_HOSTPATH, and its memory and threads (pool.h), unless they
 * are set. False when out of memory. */
bool dt_pipeline_staging_prepare(struct dt_pipeline_staging *staging,
                                 const struct dt_pipeline_options *options,
                                 struct dt_pipeline_position position);

/* After the connections are there: all messages go directly. False with the reason in *error. Blocks. */
bool dt_pipeline_staging_start(const struct dt_pipeline_staging *staging, struct dt_job_error *error);

/* Whether messages between two devices are delayed enough (DT_PIPELINE_CHANGE_PERMILLE). */
bool dt_pipeline_staging_needs(const struct detour_profile *profile, const struct dt_pipeline_delays *delays,
                               int32_t from, int32_t to);

/*
 * Rank 0, once per iteration: other flows are slow now than those that were agreed on, in this iteration and
 * the one before.
 */
bool dt_pipeline_staging_changes(struct dt_pipeline_staging *staging, const struct detour_profile *profile,
                                 const struct dt_pipeline_delays *agreed,
                                 const struct dt_pipeline_delays *measured);

/* Other flows need the host path with the one than with the other. */
bool dt_pipeline_staging_differ(const struct detour_profile *profile, const struct dt_pipeline_delays *a,
                                const struct dt_pipeline_delays *b);

/* Switches the flows of the rank at that position as the agreed delays demand. ranks: [position], who is
 * there; processes: [rank]. False with the reason in *error. Blocks. */
bool dt_pipeline_staging_set(struct dt_pipeline_staging *staging, const struct detour_profile *profile,
                             const struct dt_pipeline_delays *agreed, uint32_t position,
                             const unsigned *ranks, const struct dt_pipeline_process *processes,
                             struct dt_job_error *error);

/* The connections are new ones: all messages go directly, until dt_pipeline_staging_set() follows. */
void dt_pipeline_staging_reset(struct dt_pipeline_staging *staging);

/* The flows that use the host path by command, of all positions; ranks: as above. Returns how many, at most
 * DT_PIPELINE_FLOWS_SHOWN. */
uint32_t dt_pipeline_staging_flows(const struct dt_pipeline_staging *staging,
                                   const struct detour_profile *profile,
                                   const struct dt_pipeline_delays *agreed, const unsigned *ranks,
                                   uint32_t rank_count,
                                   struct dt_pipeline_flow flows[DT_PIPELINE_FLOWS_SHOWN]);

#ifdef __cplusplus
}
#endif

#endif
