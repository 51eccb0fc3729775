/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is an epoch of a path fenced? The return code of modify_qp proves nothing: it can be wrong, and the call
 * can hang. Four facts prove that a queue pair delivers nothing any more; they are looked for in this order:
 *
 * - flushed: a marker, posted after modify_qp to ERR was requested, completed with an error, and all posted
 *   receives were completed.
 * - destroyed: the device destroyed the queue pair, and has not reported DEVICE_FATAL. After that a success
 *   proves nothing: Linux's mlx5_core answers every tear-down command of a device in its internal error state
 *   with success (drivers/net/ethernet/mellanox/mlx5/core/cmd.c), and the hardware's queue pair may still
 *   receive.
 * - device gone: the device was removed from the system.
 * - peer stopped (receiver): the sender has its own proof, which came late_ns ago, so no packet is left that
 *   the queue pair could receive. It counts once the device is dead or has refused the destruction.
 *
 * On some devices the user library makes the flushed completions (verbs/fault.h, personalities); there
 * 'flushed' shows that modify_qp was answered by the firmware.
 *
 * Every queue pair of the path needs one of them. Input: facts; output: a verdict. Pure; device thread.
 */
#ifndef DETOUR_FAILOVER_FENCE_H
#define DETOUR_FAILOVER_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "failover/qp_set.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_fence_verdict {
    DT_FENCE_WAIT,    /* not proven yet */
    DT_FENCE_PROVEN,  /* see dt_fence_evidence() */
    DT_FENCE_DESTROY, /* returned once, after limit_ns: poll a last time and destroy the queue pairs; never of
                         a dead device, whose completions may still come */
    /* Returned once, after 2 limit_ns (dead device: 1): no proof yet; one may still come. */
    DT_FENCE_LATE
};

struct dt_fence {
    bool is_active;
    bool is_device_dead;   /* it has reported DEVICE_FATAL */
    bool is_err_requested; /* modify_qp to ERR was called for every queue pair, with any result */
    bool is_destroyed;     /* all queue pairs, with success */
    bool is_refused;       /* the device refused to destroy one */
    bool is_device_gone;
    uint8_t last_verdict; /* enum dt_fence_verdict: DT_FENCE_WAIT, or the last of DESTROY and LATE */
    struct dt_qp_set all;
    struct dt_qp_set markers;  /* queue pairs whose marker completed with an error */
    struct dt_qp_set receives; /* queue pairs whose receives have all come back */
    uint64_t begun_ns;
    uint64_t limit_ns;
    uint64_t late_ns;         /* receiver: how long a packet of the peer may be on its way */
    uint64_t peer_stopped_ns; /* receiver: the sender's proof was received then; 0: not yet */
};

/* Starts to wait for the proof; `fence` is zeroed or ended. A sender has no receives to wait for and sets
 * `receives` to `all`. */
void dt_fence_begin(struct dt_fence *fence, uint32_t qp_count, uint64_t limit_ns, uint64_t now_ns);

/* Receiver: the sender's proof of its own fence of the epoch was received. Without effect when none is
 * awaited. */
void dt_fence_peer_stopped(struct dt_fence *fence, uint64_t now_ns);

/* Stops waiting: dt_fence_verdict() returns DT_FENCE_WAIT from now on. */
void dt_fence_end(struct dt_fence *fence);

enum dt_fence_verdict dt_fence_verdict(struct dt_fence *fence, uint64_t now_ns);

/* When the verdict changes without a further fact; DT_NEVER_NS: never. */
uint64_t dt_fence_deadline_ns(const struct dt_fence *fence);

/* "flushed", "destroyed", "device gone", "peer stopped" or "unproven". */
const char *dt_fence_evidence(const struct dt_fence *fence, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
