/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a connection of a simulated pipeline: the transfers that an executor has ordered, their buffers
 * and their calls on the plugin. Transfers are posted and completed in the order in which they were ordered.
 *
 * Content: at the start of each stamp_bytes of a transfer lie DT_SIM_STAMP_BYTES of the
 * transfer's pattern (pipeline/payload.h), with the number of that place above the slice's. The sender writes
 * them, the receiver compares all of them; what lies between is never touched. Transfers of gradients have
 * as many bytes of elements in the same places.
 */
#ifndef DETOUR_TESTS_SIM_PIPELINE_END_H
#define DETOUR_TESTS_SIM_PIPELINE_END_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/executor.h"
#include "pipeline/gradients.h"
#include "tests/sim/cluster.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The largest distance of stamps: shorter than the host path's copies of 512 KiB, each of which must carry
 * its stamps. That of gradients. */
#define DT_PIPELINE_STAMP_EVERY (256u << 10)

struct dt_pipeline_end_options {
    struct dt_cluster *cluster;
    void *comm;
    uint32_t host;
    size_t flow;                    /* of the host's executor, or of its gradients */
    struct dt_gradients *gradients; /* NULL: the executor's messages */
    bool sends;
    bool is_on_host;        /* a receive into host memory, which is then copied to the GPU */
    uint64_t message_bytes; /* of the largest transfer */
    uint32_t stamp_bytes;   /* a power of two, up to DT_PIPELINE_STAMP_EVERY; not for gradients */
};

struct dt_pipeline_end;

/* NULL: no memory, or the plugin does not register it. */
struct dt_pipeline_end *dt_pipeline_end_create(const struct dt_pipeline_end_options *options);

/* Before its connection is closed. NULL is accepted. */
void dt_pipeline_end_destroy(struct dt_pipeline_end *end);

/* Adds a transfer; the last byte of a spoiled send is wrong. NULL, or what is wrong. */
const char *dt_pipeline_end_add(struct dt_pipeline_end *end, const struct dt_executor_order *order,
                                bool is_spoiled);

/*
 * Its host is entered. Posts what the plugin takes, tells the executor what has completed, and counts both.
 * NULL, or what is wrong: the plugin failed, or a message is not the expected one.
 */
const char *dt_pipeline_end_progress(struct dt_pipeline_end *end, struct dt_executor *executor,
                                     uint64_t now_ns, uint32_t *posted, uint32_t *completed);

#ifdef __cplusplus
}
#endif

#endif
