/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Injection on one device, run by its device thread: releases messages that wait at their gate
 * (message/gate.h), and sets the faults that rules ask for in the fault layer (verbs/fault.h). Commands:
 * net.h.
 */
#ifndef DETOUR_TRANSPORT_INJECT_H
#define DETOUR_TRANSPORT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "delay/table.h"
#include "delay/timer.h"
#include "transport/path/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_device;
struct dt_net;
struct dt_nic;

struct dt_inject_nic {
    struct dt_device *device; /* that has the faults [nic->mutex] */
    bool is_over;             /* no fault is set any more [nic->mutex] */
    uint32_t generation;      /* of the rules, when held messages were last released */
    size_t fault_count;       /* rules whose faults the device has now; each holds a reference */
    struct dt_delay_active *fault[DT_DELAY_RULES_MAX];
    struct dt_task break_task;
    uint32_t is_breaking; /* the task is queued or runs [atomic] */
    uint64_t held_ns;     /* the next held message is due */
    struct dt_delay_timer timer;
};

void dt_inject_nic_init(struct dt_inject_nic *state);

/*
 * Ends holds whose time is over, and posts held messages that are due, for connections that NCCL is not
 * calling. The caller holds nic->mutex. Returns the time of the next call.
 */
uint64_t dt_inject_release(struct dt_nic *nic, uint64_t now_ns);

/* DT_OK if the net has the device that the rule is for: a rule for another would silently do nothing. Else
 * one line goes to `error`. (inject_command.c) */
enum dt_status dt_inject_check_device(const struct dt_net *net, const struct dt_delay_rule *rule, char *error,
                                      size_t error_bytes);

/* Detour's threads look at the rules again. (inject_command.c) */
void dt_inject_wake_all(struct dt_net *net);

/* Sets the device's faults from the rules in force. Returns the time of the next change. (inject_faults.c)
 */
uint64_t dt_inject_faults(struct dt_nic *nic, uint64_t now_ns);

/* The same for a device that was just opened, so that the first call meets the rules. Control thread. */
void dt_inject_opened(struct dt_nic *nic, struct dt_device *device);

/* The device was opened again: it has no faults before the next dt_inject_faults(). The device thread. */
void dt_inject_reopened(struct dt_nic *nic, struct dt_device *device);

/* Removes all faults of the device, so that no call hangs in one. After the device thread has ended. */
void dt_inject_faults_end(struct dt_nic *nic);

#ifdef __cplusplus
}
#endif

#endif
