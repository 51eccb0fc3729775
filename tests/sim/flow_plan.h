/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a connection under test shall carry, and the truth about its buffers: which byte may be written when,
 * and with what. Knows nothing of the plugin.
 *
 * Message k has parts with tags, sizes and capacities. Each part's payload lies in the sender's pool and has
 * a buffer of its own in the receiver's, with a guard before and behind it.
 */
#ifndef DETOUR_TESTS_SIM_FLOW_PLAN_H
#define DETOUR_TESTS_SIM_FLOW_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/prng.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_FLOW_PARTS_MAX    8
#define DT_FLOW_MESSAGES_MAX 128

struct dt_plan_options {
    uint64_t seed;
    uint32_t id; /* makes the payload of this flow its own */
    uint32_t message_count;
    uint32_t parts_max;
    uint32_t bytes_max;   /* of one part */
    uint32_t large_count; /* this many messages are a single part of large_bytes instead */
    uint32_t large_bytes;
};

struct dt_plan_part {
    uint32_t message;
    int tag;
    int bytes;
    int capacity;
    uint32_t send_at; /* offsets in the sender's and the receiver's pool */
    uint32_t recv_at;
};

struct dt_plan_message {
    uint32_t part_first; /* in plan->part */
    int part_count;
    int order[DT_FLOW_PARTS_MAX]; /* in which the parts are listed in the irecv */
    bool is_open; /* its irecv was accepted and not reported done: its buffers may be written */
};

struct dt_plan {
    struct dt_plan_options options;
    struct dt_plan_message message[DT_FLOW_MESSAGES_MAX];
    struct dt_plan_part part[DT_FLOW_MESSAGES_MAX * DT_FLOW_PARTS_MAX];
    uint32_t part_count;
    uint8_t *truth; /* what the sender's pool held at first */
    uint8_t *send_pool;
    uint8_t *recv_pool;
    uint32_t send_bytes;
    uint32_t recv_bytes;
    bool is_registered; /* the receiver's pool may be written at all */
    char wrong[160];    /* "" while everything is right; else the first thing that was not */
};

/* False when memory is short. */
bool dt_plan_make(struct dt_plan *plan, const struct dt_plan_options *options);
void dt_plan_free(struct dt_plan *plan);

/* The network has written `bytes` at `to`. False when that is not in one of this plan's pools. */
bool dt_plan_landed(struct dt_plan *plan, const void *to, uint64_t bytes);

/*
 * The message's buffers, with their guards, hold exactly what they must: the payload (is_there) or nothing.
 * False: plan->wrong has the details.
 */
bool dt_plan_check(struct dt_plan *plan, uint32_t message, bool is_there);

/* The part's payload is at the receiver, whatever else is there. */
bool dt_plan_is_there(const struct dt_plan *plan, const struct dt_plan_part *part);

/* The application uses the part's send buffer for something else. */
void dt_plan_scribble(struct dt_plan *plan, const struct dt_plan_part *part);

static inline struct dt_plan_part *dt_plan_part(struct dt_plan *plan, uint32_t message, int part)
{
    return &plan->part[plan->message[message].part_first + (uint32_t)part];
}

#ifdef __cplusplus
}
#endif

#endif
