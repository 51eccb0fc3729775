/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flows of a device: one for each direction of a pipeline link that has an end at one of its stages and
 * the other end at another device. They follow from the profile's placement.
 */
#ifndef DETOUR_PIPELINE_FLOWS_H
#define DETOUR_PIPELINE_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detour/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_executor_flow {
    int32_t peer;  /* device at the other end */
    int32_t link;  /* between stage `link` and stage `link` + 1 */
    bool backward; /* gradients; activations otherwise */
    bool sends;    /* from this device; to it otherwise */
};

struct dt_pipeline_flows {
    int32_t *local; /* [stage]: its number among the stages of this device; -1: on another device */
    int32_t local_count;
    struct dt_executor_flow *ends; /* [count] */
    size_t count;
    size_t *numbers; /* [local stage][kind of message action, from SEND_F on]: index into ends */
};

/* False when out of memory; dt_pipeline_flows_free() in both cases. */
bool dt_pipeline_flows_init(struct dt_pipeline_flows *flows, const struct detour_profile *profile,
                            int32_t device);
void dt_pipeline_flows_free(struct dt_pipeline_flows *flows);

/* Index of the flow that a send or receive action takes; its stage is of this device. */
size_t dt_pipeline_flows_of(const struct dt_pipeline_flows *flows, const struct detour_action *action);

/* Kinds of actions (enum detour_action_kind): sends and receives; sends; those of gradients. */
bool dt_action_is_message(int kind);
bool dt_action_is_send(int kind);
bool dt_action_is_of_gradient(int kind);

/* The stage at the other end of a message action. */
int32_t dt_action_peer_stage(const struct detour_action *action);

#ifdef __cplusplus
}
#endif

#endif
