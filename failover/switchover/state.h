/* SPDX-License-Identifier: Apache-2.0 */
/*
 * State of failover per connection and per path, apart from the structures of the data path. Created at
 * set-up (dt_switchover_create), freed with the connection. All members belong to the device thread
 * (nic->mutex); members marked so only while it owns the connection.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_STATE_H
#define DETOUR_FAILOVER_SWITCHOVER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "failover/recovery.h"
#include "failover/qp_set.h"
#include "failover/resume.h"
#include "failover/stall.h"
#include "failover/switchover/report.h"
#include "transport/protocol/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One path; path->machine and path->fence hold the rules' own state. */
struct dt_path_switchover {
    bool is_used; /* this epoch was UP */
    bool is_open; /* receiver: arrivals over this epoch are possible */

    uint64_t stop_ns; /* receiver: the sender's SWITCH is awaited until then; 0: it is not */

    /* The fence of the current epoch (fencing.c). */
    uint64_t look_ns; /* next look for its proof */
    uint64_t look_period_ns;
    struct dt_qp_set markers; /* queue pairs whose marker is posted */
    bool is_fence_wanted;     /* once path->op_state is IDLE */
    bool is_destroy_wanted;   /* by the fence, once the control thread is free */
    bool is_destroying;       /* queue pairs of this epoch, for the fence */
    uint64_t destroy_ns;      /* not before: the device refused it */
    uint64_t removal_ns;      /* next look whether the device is in the system */

    struct dt_stall stall;   /* stall_watch.c */
    uint32_t silent_qpn;     /* queue pair in the error state without a completion, or 0 */
    struct dt_resume resume; /* receiver: what it has; sender: what the receiver reported to have */
    uint64_t settled_ns;     /* sender: when an epoch was last settled */
    struct dt_recovery recovery;
    char why[DT_WHY_BYTES]; /* the reason of the failure, for logs */
    uint32_t cause;         /* the same as an enum detour_stat_cause, for events */
    struct dt_switchover_report report;
};

struct dt_switchover {
    struct dt_path_switchover path[DT_PATHS_MAX];
    bool is_switching; /* a path is not UP: the switchover has work */

    /* A frame of the peer that waits to be processed. */
    bool is_frame_pending;
    uint32_t frame_type;             /* enum dt_frame_type: PATH, ASK or HAS */
    struct dt_path_frame path_frame; /* PATH */
    struct dt_fact fact;             /* ASK, HAS */

    uint64_t watched_ns;  /* last look for gray failure */
    uint64_t waiting_ns;  /* NCCL has called without a request open since then */
    uint64_t pathless_ns; /* no path has been UP since then; 0: one is */
};

#ifdef __cplusplus
}
#endif

#endif
