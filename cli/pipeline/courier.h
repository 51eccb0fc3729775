/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfers of one device: posts the orders of its executor and of its gradients (pipeline/gradients.h)
 * on the connections of their flows, fills and checks their content, and reports completions. Every transfer
 * of the executor has a place of its own in the flow's buffer, so that no buffer is used twice in an
 * iteration; those of gradients use as many places in turn as they have slots.
 */
#ifndef DETOUR_CLI_PIPELINE_COURIER_H
#define DETOUR_CLI_PIPELINE_COURIER_H

#include "job/net.h"
#include "pipeline/executor.h"
#include "pipeline/gradients.h"
#include "pipeline/grid.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_courier;

struct dt_pipeline_courier_options {
    struct dt_executor *executor;
    uint64_t message_bytes;
    int32_t microbatches; /* at most, in an iteration */
    int32_t devices;      /* of the pipeline */
    struct dt_pipeline_position position;
    struct dt_gradients *gradients; /* its first flow is the one after the executor's; NULL: no replicas */
    uint32_t gradient_slots;
    uint64_t gradient_slice_bytes;
    const unsigned *ranks; /* [position]: who is there, while the courier is created; NULL: rank r at r */
};

/* Makes the list of connections that the flows need. NULL when out of memory. */
struct dt_pipeline_courier *dt_pipeline_courier_create(const struct dt_pipeline_courier_options *options);

/* After the connections are closed, or never opened. NULL is allowed. */
void dt_pipeline_courier_destroy(struct dt_pipeline_courier *courier);

/* For dt_job_rank_connect(): one for each flow. */
struct dt_job_connection *dt_pipeline_courier_connections(struct dt_pipeline_courier *courier);
size_t dt_pipeline_courier_connection_count(const struct dt_pipeline_courier *courier);

/* Takes an order of the executor or of the gradients. */
void dt_pipeline_courier_take(struct dt_pipeline_courier *courier, const struct dt_executor_order *order);

/*
 * Posts the orders that the plugin accepts now and looks for completions. *completed grows by the number of
 * completed transfers. False, with the reason in *error, when the plugin fails or a message is not the
 * expected one.
 */
bool dt_pipeline_courier_progress(struct dt_pipeline_courier *courier, const struct dt_job_plugin *plugin,
                                  uint64_t *completed, struct dt_job_error *error);

/* After an iteration: its orders are forgotten. */
void dt_pipeline_courier_reset(struct dt_pipeline_courier *courier);

#ifdef __cplusplus
}
#endif

#endif
