/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is an epoch of a path fenced? modify_qp's return code is no proof: it may lie, and it may never come. What
 * proves that nothing comes through a queue pair any more, in the order in which it is looked for:
 *
 *   flushed    a marker, posted after the queue pair was told to go to ERR, came back with an error, and as
 *              many receives came back as were posted
 *   destroyed  the queue pair is gone
 *   gone       so is the device
 *
 * Every queue pair of the path needs one of them. Facts go in, a verdict comes out.
 */
#ifndef DETOUR_FAILOVER_FENCE_H
#define DETOUR_FAILOVER_FENCE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum dt_fence_verdict {
    DT_FENCE_WAIT,    /* go on looking */
    DT_FENCE_PROVEN,  /* see dt_fence_evidence() */
    DT_FENCE_DESTROY, /* said once: the time is over, poll a last time and destroy the queue pairs */
    DT_FENCE_LATE /* said once: that has not helped either, or takes as long again; the proof may come yet */
};

struct dt_fence {
    bool is_active;
    bool is_device_dead;   /* the device answers no call but destroy, which is requested at once */
    bool is_err_requested; /* modify_qp to ERR was called for every queue pair, with any result */
    bool is_destroyed;     /* all queue pairs */
    bool is_device_gone;
    uint8_t last_verdict; /* enum dt_fence_verdict: DT_FENCE_WAIT, or the last of DESTROY and LATE */
    uint32_t all_mask;
    uint32_t marker_mask;   /* queue pairs whose marker came back with an error */
    uint32_t receives_mask; /* queue pairs whose receives are all back */
    uint64_t begun_ns;
    uint64_t limit_ns;
};

/* Starts to look for the proof. A receiver has receives to count; a sender sets them as counted. */
void dt_fence_begin(struct dt_fence *fence, uint32_t qp_count, uint64_t limit_ns, uint64_t now_ns);

/* Ends the search; dt_fence_verdict() says WAIT from now on. */
void dt_fence_end(struct dt_fence *fence);

enum dt_fence_verdict dt_fence_verdict(struct dt_fence *fence, uint64_t now_ns);

/* When the verdict changes by time alone; DT_NEVER_NS: not any more. */
uint64_t dt_fence_deadline_ns(const struct dt_fence *fence);

/* "flushed", "destroyed", "device gone" or "none". */
const char *dt_fence_evidence(const struct dt_fence *fence);

#ifdef __cplusplus
}
#endif

#endif
