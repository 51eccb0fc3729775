/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host path of a rank, sized for its links: staging memory for the messages that are under way (rate
 * times delay), and threads that copy as fast as the device makes them. A pool that is too small fills up,
 * and its sends wait as without the host path (docs/hostpath.md).
 *
 * A stage makes a message at most every f_ns (activations) or b_ns (gradients). With a link of latency L,
 *
 *   messages in the pool = L / interval + devices + 1
 *
 * at most: those under way, and those whose receiver has not come to its receive, which lags behind by no
 * more than the depth of the pipeline. A serial link that takes a message slower than the stage makes it
 * holds all microbatches of the iteration in the end; no flow ever holds more. Pure.
 */
#ifndef DETOUR_CLI_PIPELINE_POOL_H
#define DETOUR_CLI_PIPELINE_POOL_H

#include "cli/pipeline/options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The plugin's own setting, of which a rank has no less. */
#define DT_PIPELINE_POOL_BYTES_MIN (64ull << 20)

struct dt_pipeline_pool {
    uint64_t bytes;  /* DETOUR_HOSTPATH_BYTES */
    uint32_t queues; /* DETOUR_HOSTPATH_QUEUES */
};

/* For a device of a replica in all iterations. cores: of the machine, that its ranks share. False when out of
 * memory. */
bool dt_pipeline_pool_make(const struct dt_pipeline_options *options, struct dt_pipeline_position position,
                           uint32_t cores, struct dt_pipeline_pool *pool);

#ifdef __cplusplus
}
#endif

#endif
