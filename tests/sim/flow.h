/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection under test: a sender and a receiver, each on its host, that call a plugin's table as NCCL
 * may, in an order drawn from the seed, and compare everything that comes out with the truth (flow_plan.h):
 *
 *   every part is delivered once, whole, in the buffer of its own irecv, with its size; nothing is written
 *   before an irecv was accepted or after it was reported done; a send that is reported done lies in the
 *   receiver's buffer (unless it is staged), and its own buffer is free; after an error everything is
 * answered, at once.
 *
 * Each end closes on its own, when it has what it wanted.
 */
#ifndef DETOUR_TESTS_SIM_FLOW_H
#define DETOUR_TESTS_SIM_FLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin/nccl_net_v8.h"
#include "tests/sim/flow_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_FLOW_POSTED_MAX 32 /* irecvs outstanding: NCCL_NET_MAX_REQUESTS */

enum dt_flow_side { DT_FLOW_SENDER, DT_FLOW_RECEIVER, DT_FLOW_SIDES };

/* When may a call on the connection return an error? */
enum dt_flow_mercy {
    DT_MERCY_NONE,   /* never */
    DT_MERCY_UNSEEN, /* after a send was reported done whose message the receiver has not been told about */
    DT_MERCY_ANY     /* whenever it wants to */
};

struct dt_flow_options {
    struct dt_plan_options plan;
    uint32_t posted_max;         /* irecvs outstanding at a time */
    uint64_t irecv_pause_ns_max; /* the receiver does something else for up to this between irecvs */
    uint64_t pause_ns_max;       /* the sender does something else for up to this between messages */
    struct {
        uint32_t host;
        int device; /* of the host's */
    } side[DT_FLOW_SIDES];
    bool closes_early;      /* each end on its own; else both when both have finished */
    bool is_staged;         /* a send may be accepted before its irecv, and done before it is received */
    bool is_gpu;            /* registered as GPU memory, and flushed */
    bool registers_again;   /* each end, its memory, while messages go */
    uint32_t refusing_mask; /* devices that do not take the receiver's memory */
    enum dt_flow_mercy mercy;
    bool may_miss_acks; /* the sender may fail to see that its messages have arrived (mercy.h) */
    bool may_miss_stop; /* a receiver may have to fence before the sender has stopped, and lose a message */
};

struct dt_flow;

/* NULL when memory is short. */
struct dt_flow *dt_flow_create(const ncclNet_v8_t *net, const struct dt_flow_options *options);

/* Closes what is open (deregMr, free, close, as NCCL does) and frees it. */
void dt_flow_destroy(struct dt_flow *flow);

/* One call on the plugin, drawn from the seed. False when something is wrong: see dt_flow_failure. */
bool dt_flow_act(struct dt_flow *flow, enum dt_flow_side side);

/* The host's process is no more: its ends are over, and the others may fail from now on. */
void dt_flow_bereave(struct dt_flow *flow, uint32_t host);

/* The process of one end is no more. */
bool dt_flow_is_bereaved(const struct dt_flow *flow);

/* The network has written memory; ignored when it is not the flow's. */
bool dt_flow_landed(struct dt_flow *flow, const void *to, uint64_t bytes);

/* When an end wants to go on, if that is later than now; else DT_NEVER_NS. */
uint64_t dt_flow_next_ns(const struct dt_flow *flow, uint64_t now_ns);

/* Both ends are connected, or were. */
bool dt_flow_is_connected(const struct dt_flow *flow);

/* The end has closed: everything was done, or answered with an error; or its process is no more. */
bool dt_flow_is_closed(const struct dt_flow *flow, enum dt_flow_side side);

/* The end has seen an error. */
bool dt_flow_has_failed(const struct dt_flow *flow, enum dt_flow_side side);

/* Something is wrong already. */
bool dt_flow_is_wrong(const struct dt_flow *flow);

/* The last look at all buffers, after the network has come to rest. False: a late write. */
bool dt_flow_settle(struct dt_flow *flow);

/* What went wrong, or where it stands; one line. */
const char *dt_flow_failure(struct dt_flow *flow);

#ifdef __cplusplus
}
#endif

#endif
