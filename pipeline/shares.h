/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the microbatches of an iteration are distributed over the replicas of a pipeline. The global batch of
 * an iteration has a fixed number of microbatches; a replica that is slower than the others can execute fewer
 * of them (FALCON section 5.3, strategy S2). The replicas take the microbatches in order: replica 0 the first
 * ones. Counts change between two iterations.
 *
 * Pure; no state beyond the struct.
 */
#ifndef DETOUR_PIPELINE_SHARES_H
#define DETOUR_PIPELINE_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_SHARE_REPLICAS_MAX     128
#define DT_PIPELINE_SHARE_MICROBATCHES_MAX 4096 /* of a replica */
#define DT_PIPELINE_SHARE_SETS_MAX         16

/* The microbatches of a replica: [first, first + count) of the `total` ones of the global batch. */
struct dt_pipeline_share {
    int32_t first;
    int32_t count;
    int32_t total;
};

/* Counts from an iteration on, until that of the next set. */
struct dt_pipeline_share_set {
    uint32_t from;
    int32_t replicas;                               /* that have a count */
    int32_t counts[DT_PIPELINE_SHARE_REPLICAS_MAX]; /* [replica], at least 1 */
};

/* Starts zeroed: in iterations without a set, all replicas have as many microbatches. */
struct dt_pipeline_shares {
    size_t set_count;
    struct dt_pipeline_share_set sets[DT_PIPELINE_SHARE_SETS_MAX]; /* by rising iteration */
};

/* Adds "M0,M1,...", or "M0,M1,...@N" from iteration N on, behind the sets that are there. False: the text has
 * another form, its iteration is not above that of the last set, or there are too many. */
bool dt_pipeline_shares_add(struct dt_pipeline_shares *shares, const char *text);

/* A line for the user about the first set that does not fit a pipeline of `replicas` with `microbatches` each
 * in `iterations`; false: all fit. */
enum { DT_PIPELINE_SHARES_TEXT_BYTES = 160 };
bool dt_pipeline_shares_find_wrong(const struct dt_pipeline_shares *shares, int32_t replicas,
                                   int32_t microbatches, uint32_t iterations,
                                   char text[DT_PIPELINE_SHARES_TEXT_BYTES]);

/* Of a replica in an iteration. replicas, microbatches: as above. The sets must fit. */
struct dt_pipeline_share dt_pipeline_share_of(const struct dt_pipeline_shares *shares, int32_t replicas,
                                              int32_t microbatches, int32_t replica, uint32_t iteration);

/* The largest count of a replica in any iteration; microbatches: as above. */
int32_t dt_pipeline_shares_largest(const struct dt_pipeline_shares *shares, int32_t microbatches);

#ifdef __cplusplus
}
#endif

#endif
