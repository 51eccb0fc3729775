/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gate of a sender: applies injection rules and holds (delay/flow.h) to its messages. Private to
 * transport/, except for the functions that net.h declares.
 *
 * A message passes the gate between its submission (all parts have their isend) and the doorbell. While the
 * gate holds it, it is READY, keeps its slot, and is posted in order when it is due. Without rules the gate
 * costs one comparison. Only the first posting passes the gate; posting again after a path has failed does
 * not.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_GATE_H
#define DETOUR_TRANSPORT_MESSAGE_GATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "delay/flow.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_net;
struct dt_nic;
struct dt_sender;
struct dt_send_slot;

/* ---- Per process */
struct dt_inject {
    struct dt_delay_table *table;
    uint64_t (*now_ns)(void *arg);
    void *now_arg;
    uint32_t senders; /* senders numbered so far [atomic] */
};

enum dt_status dt_inject_open(struct dt_inject *inject, uint64_t (*now_ns)(void *arg), void *now_arg);
void dt_inject_close(struct dt_inject *inject);

/* ---- Per sender */
struct dt_gate {
    struct dt_delay_idle idle;   /* [owner] */
    struct dt_delay_flow *flow;  /* for messages [owner] */
    struct dt_delay_flow *early; /* for eager payloads, which share the queues of the rules with the messages;
                                    NULL: no eager sends [owner] */
    uint64_t message_ns;         /* when the oldest held message is due; DT_NEVER_NS: none is held [owner] */
    uint64_t early_ns;           /* when the first held eager payload is due, likewise [owner] */
    uint64_t due_ns;             /* the earlier of both [atomic] */
    uint32_t visits_seen;        /* [device thread] */
    uint32_t number;             /* of the sender, for the rules; constant */
};

/* Initializes the gate of a sender that is set up. DT_NO_MEMORY. */
enum dt_status dt_gate_open(struct dt_sender *sender);
/* Prepares the gate for eager sends, before the first one. DT_NO_MEMORY. */
enum dt_status dt_gate_open_early(struct dt_sender *sender);
void dt_gate_close(struct dt_gate *gate);

/* Holds end for this sender: it is being closed, and what it still has is due. Any thread; the device thread
 * has to be woken. */
void dt_gate_end_holds(struct dt_gate *gate);

/* No rule is in force and no message is held: post at once. Owner. */
static inline bool dt_gate_is_idle(const struct dt_gate *gate)
{
    return __builtin_expect(dt_delay_is_idle(&gate->idle), 1);
}

/* Submits a message that has become READY. Owner; not needed while the gate is idle. */
__attribute__((cold)) void dt_gate_hand_over(struct dt_sender *sender, const struct dt_send_slot *slot);

/* Whether the oldest message that was not posted is due. If not, the device thread posts it in time. Owner.
 */
__attribute__((cold)) bool dt_gate_may_post(struct dt_sender *sender);

/* Removes the message from the rules' queues: it was posted. The time of a hold is counted apart, and no
 * stamp of the message contains it. Owner. */
__attribute__((cold)) void dt_gate_posted(struct dt_sender *sender, struct dt_send_slot *slot);

/* As above, for an eager payload; `number`: sequence number of the message that it probably belongs to. */
__attribute__((cold)) void dt_gate_hand_over_early(struct dt_sender *sender, uint64_t number, uint64_t bytes);
__attribute__((cold)) bool dt_gate_may_post_early(struct dt_sender *sender, uint64_t number,
                                                  uint64_t *due_ns);
/* Sets the time at which the first held eager payload is due; DT_NEVER_NS: none is held. */
__attribute__((cold)) void dt_gate_hold_early(struct dt_sender *sender, uint64_t due_ns);
/* The eager payload was posted or dropped. Harmless if it was never submitted. True: a hold kept it, so that
 * its time starts now. */
__attribute__((cold)) bool dt_gate_posted_early(struct dt_sender *sender, uint64_t number);

#ifdef __cplusplus
}
#endif

#endif
