/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is an epoch of a path fenced? The return code of modify_qp proves nothing: it can be wrong, and the call
 * can hang. Three facts prove that a queue pair delivers nothing any more; they are looked for in this order:
 *
 *   flushed      a marker, posted after modify_qp to ERR was requested, completed with an error, and
 *                all posted receives were completed
 *   destroyed    the queue pair was destroyed
 *   device gone  the device was removed
 *
 * Every queue pair of the path needs one of them. Input: facts; output: a verdict. Pure; device thread.
 */
#ifndef DETOUR_FAILOVER_FENCE_H
#define DETOUR_FAILOVER_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dt_fence_verdict {
    DT_FENCE_WAIT,    /* not proven yet */
    DT_FENCE_PROVEN,  /* see dt_fence_evidence() */
    DT_FENCE_DESTROY, /* returned once, after limit_ns: poll a last time and destroy the queue pairs */
    DT_FENCE_LATE /* returned once, after 2 limit_ns: not destroyed yet either; the proof may still come */
};

struct dt_fence {
    bool is_active;
    bool is_device_dead;   /* the device answers no call but destroy, which is requested at once */
    bool is_err_requested; /* modify_qp to ERR was called for every queue pair, with any result */
    bool is_destroyed;     /* all queue pairs */
    bool is_device_gone;
    uint8_t last_verdict; /* enum dt_fence_verdict: DT_FENCE_WAIT, or the last of DESTROY and LATE */
    uint32_t all_mask;
    uint32_t marker_mask;   /* queue pairs whose marker completed with an error */
    uint32_t receives_mask; /* queue pairs whose receives have all come back */
    uint64_t begun_ns;
    uint64_t limit_ns;
};

/* Starts to wait for the proof; `fence` is zeroed or ended. A sender has no receives to wait for and sets
 * receives_mask to all_mask. */
void dt_fence_begin(struct dt_fence *fence, uint32_t qp_count, uint64_t limit_ns, uint64_t now_ns);

/* Stops waiting: dt_fence_verdict() returns DT_FENCE_WAIT from now on. */
void dt_fence_end(struct dt_fence *fence);

enum dt_fence_verdict dt_fence_verdict(struct dt_fence *fence, uint64_t now_ns);

/* When the verdict changes without a further fact; DT_NEVER_NS: never. */
uint64_t dt_fence_deadline_ns(const struct dt_fence *fence);

/* "flushed", "destroyed", "device gone" or "none". */
const char *dt_fence_evidence(const struct dt_fence *fence);

#ifdef __cplusplus
}
#endif

#endif
