/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection under test: a sender and a receiver that call a plugin's table as NCCL may, in an order
 * drawn from the seed, and compare everything that comes out with what is known to be the truth.
 *
 * The truth: message k of the plan has parts with tags, sizes and capacities. Each part must be delivered
 * once, whole, in the buffer of its own irecv; no byte behind it may change; no byte of a buffer may change
 * after its irecv was reported done; sizes must be exact.
 */
#ifndef DETOUR_TESTS_SIM_FLOW_H
#define DETOUR_TESTS_SIM_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"
#include "plugin/nccl_net_v8.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_FLOW_PARTS_MAX    8
#define DT_FLOW_MESSAGES_MAX 128
#define DT_FLOW_POSTED_MAX   32 /* irecvs outstanding: NCCL_NET_MAX_REQUESTS */

struct dt_flow_options {
    uint64_t seed;
    uint32_t id; /* makes the pattern of this flow its own */
    uint32_t message_count;
    uint32_t parts_max;
    uint32_t bytes_max;  /* of one part */
    uint32_t posted_max; /* irecvs outstanding at a time */
    int send_device;
    int recv_device;
};

struct dt_flow;

/* NULL when memory is short. */
struct dt_flow *dt_flow_create(const ncclNet_v8_t *net, const struct dt_flow_options *options);

/* Closes what is open (deregMr, free, close, as NCCL does) and frees it. */
void dt_flow_destroy(struct dt_flow *flow);

/* One call on the plugin, drawn from the seed. False when something is wrong: see dt_flow_failure. */
bool dt_flow_act(struct dt_flow *flow);

/* Everything of the plan was sent, received and reported done. */
bool dt_flow_is_finished(const struct dt_flow *flow);

/* The last look at all buffers, after the network has come to rest. False: a late write. */
bool dt_flow_settle(struct dt_flow *flow);

/* What went wrong, or where it stands; one line. */
const char *dt_flow_failure(struct dt_flow *flow);

#ifdef __cplusplus
}
#endif

#endif
