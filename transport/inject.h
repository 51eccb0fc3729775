/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the rules of delay/ meet connections, devices and threads. Private to transport/, but for the
 * functions that net.h declares.
 *
 * A message passes its sender's gate between hand-over (all parts have their isend) and doorbell: held there
 * it is READY, keeps its slot, and is posted in its turn when it is due. With no rules the gate costs one
 * comparison. Only the first posting passes the gate; posting again after a path has failed does not.
 */
#ifndef DETOUR_TRANSPORT_INJECT_H
#define DETOUR_TRANSPORT_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "delay/flow.h"
#include "delay/timer.h"
#include "transport/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_net;
struct dt_nic;
struct dt_sender;
struct dt_send_slot;

/* ---- of the process */
struct dt_inject {
    struct dt_delay_table *table;
    uint64_t (*now_ns)(void *arg);
    void *now_arg;
    uint32_t senders; /* so many were numbered [atomic] */
};

enum dt_status dt_inject_open(struct dt_inject *inject, uint64_t (*now_ns)(void *arg), void *now_arg);
void dt_inject_close(struct dt_inject *inject);

/* ---- of a sender */
struct dt_gate {
    struct dt_delay_idle idle;   /* [owner] */
    struct dt_delay_flow *flow;  /* [owner] */
    struct dt_delay_flow *ahead; /* the same for payloads that go ahead (ahead.h), which share the rules'
                                    queues; or NULL: there is no host path [owner] */
    uint64_t message_ns;         /* the oldest message is held until then; DT_NEVER_NS: none is [owner] */
    uint64_t ahead_ns;           /* the same of payloads that go ahead [owner] */
    uint64_t due_ns;             /* the earlier of them [atomic] */
    uint32_t visits_seen;        /* [detour] */
};

/* The sender is set up. DT_NO_MEMORY. */
enum dt_status dt_gate_open(struct dt_sender *sender);
void dt_gate_close(struct dt_gate *gate);

/* There is no rule, and nothing is held: post at once. Owner. */
static inline bool dt_gate_is_idle(const struct dt_gate *gate)
{
    return __builtin_expect(dt_delay_is_idle(&gate->idle), 1);
}

/* A message has become READY. Owner; not needed while the gate is idle. */
__attribute__((cold)) void dt_gate_hand_over(struct dt_sender *sender, const struct dt_send_slot *slot);

/* May the oldest message that was not posted go now? If not, Detour's thread will look in time. Owner. */
__attribute__((cold)) bool dt_gate_may_post(struct dt_sender *sender);

/* It was posted. Owner. */
__attribute__((cold)) void dt_gate_posted(struct dt_sender *sender, uint64_t sequence);

/* The same for a payload that goes ahead; `number`: which message it will probably be. */
__attribute__((cold)) void dt_gate_hand_over_ahead(struct dt_sender *sender, uint64_t number, uint64_t bytes);
__attribute__((cold)) bool dt_gate_may_go(struct dt_sender *sender, uint64_t number, uint64_t *due_ns);
/* The earliest of those that may not. */
__attribute__((cold)) void dt_gate_hold_ahead(struct dt_sender *sender, uint64_t due_ns);
/* It has gone, or need not. Harmless if it was never handed over. */
__attribute__((cold)) void dt_gate_went(struct dt_sender *sender, uint64_t number);

/* ---- of a device; Detour's thread */
struct dt_inject_nic {
    uint32_t generation; /* of the rules when held messages were last looked at */
    size_t fault_count;  /* rules by which the device has faults now, each with a reference */
    struct dt_delay_active *fault[DT_DELAY_RULES_MAX];
    struct dt_job break_job;
    uint32_t is_breaking; /* the job is under way [atomic] */
    uint64_t held_ns;     /* the next held message is due */
    struct dt_delay_timer timer;
    uint64_t awake_ns; /* the thread sleeps until then [atomic] */
    uint32_t has_news; /* a message is due earlier than that [atomic] */
};

void dt_inject_nic_init(struct dt_inject_nic *state);

/*
 * Posts held messages that are due where NCCL does not do it; holds nic->mutex. Returns when it wants to be
 * called again.
 */
uint64_t dt_inject_release(struct dt_nic *nic, uint64_t now_ns);

/* Gives the device the faults that the rules want. Returns when that may change. (inject_faults.c) */
uint64_t dt_inject_faults(struct dt_nic *nic, uint64_t now_ns);

/* The device has no faults any more, so that nothing hangs in one. When Detour's thread has ended. */
void dt_inject_faults_end(struct dt_nic *nic);

#ifdef __cplusplus
}
#endif

#endif
