/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/switchover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "detour/stat.h"
#include "failover/switchover/actions.h"
#include "failover/switchover/faults.h"
#include "failover/switchover/fencing.h"
#include "failover/switchover/invariants.h"
#include "failover/switchover/recover.h"
#include "failover/switchover/report.h"
#include "failover/switchover/stall_watch.h"
#include "transport/path/queues.h"

/* ------------------------------------------------------------------------------------------------------------
 * Tasks of the control thread, the fence, recovery
 */
static void finish_task(struct dt_path *path, uint64_t now_ns)
{
    if (dt_load_acquire(&path->op_state) == DT_PATH_OP_IS_DONE) {
        bool is_good = path->op_status == DT_OK;

        DT_CHECK(!is_good || path->op != DT_PATH_OP_MAKE || path->fresh);
        dt_path_finish_op(path);
        switch ((enum dt_path_op)path->op) {
        case DT_PATH_OP_FENCE:
            dt_fencing_requested(path, now_ns);
            break;
        case DT_PATH_OP_DESTROY:
            if (path->switchover->is_destroying)
                dt_fencing_destroyed(path, is_good, now_ns);
            else if (!is_good)
                dt_recover_retire_again(path, now_ns);
            break;
        case DT_PATH_OP_MAKE:
            if (!is_good)
                dt_recovery_attempt_failed(&path->switchover->recovery, now_ns);
            dt_switchover_step(path, is_good ? DT_PATH_CREATED : DT_PATH_FAILED, now_ns);
            break;
        case DT_PATH_OP_LINK:
            DT_CHECK(path->connection->is_sender);
            dt_switchover_step(path, is_good ? DT_PATH_CONNECTED : DT_PATH_FAILED, now_ns);
            break;
        case DT_PATH_OP_QUERY:
            dt_stall_watch_queried(path);
            break;
        }
    }
    if (path->switchover->is_fence_wanted && dt_load_relaxed(&path->op_state) == DT_PATH_OP_IS_IDLE) {
        DT_CHECK(path->fence.is_active && path->state == DT_PATH_NONE);
        path->switchover->is_fence_wanted = false;
        dt_path_submit_op(path, DT_PATH_OP_FENCE);
    }
}

static void progress_fence(struct dt_path *path, uint64_t now_ns)
{
    enum dt_path_event event = dt_fencing_progress(path, now_ns);

    if (event == DT_PATH_EVENT_COUNT)
        return;
    if (event == DT_PATH_FENCED) {
        DT_CHECK(path->fence.is_active && path->state == DT_PATH_NONE);
        DT_CHECK(path->fence.is_err_requested && !path->switchover->is_destroying);
        path->switchover->report.steps.fenced_ns = now_ns;
        path->switchover->is_destroy_wanted = false;
        dt_fence_end(&path->fence);
    }
    dt_switchover_step(path, event, now_ns);
}

static void recover(struct dt_path *path, uint64_t now_ns)
{
    enum dt_path_event event = dt_recover_progress(path, now_ns);

    if (event != DT_PATH_EVENT_COUNT)
        dt_switchover_step(path, event, now_ns);
    dt_recover_retire(path, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Frames of the peer
 */
/* Receiver: the message shows that the sender has acknowledged the end of this epoch. */
static bool is_agreement(const struct dt_path *path, enum dt_path_message message)
{
    return !path->connection->is_sender && path->switchover->report.steps.agreed_ns == 0 &&
           (message == DT_PATH_MSG_SWITCH || message == DT_PATH_MSG_SETTLED);
}

/*
 * A repeated RESUME is a hint that the receiver's port has a link again, unless it can be a retransmission
 * that crossed the sender's SETTLED.
 */
static bool is_hint(const struct dt_path *path, uint64_t now_ns)
{
    return now_ns - path->switchover->settled_ns >= DT_RETRANSMIT_NS_MAX;
}

static void receive_frame(struct dt_connection *c, uint64_t now_ns)
{
    const struct dt_path_frame *frame = &c->switchover->path_frame;
    struct dt_path *path = &c->path[frame->path];
    bool was_up = path->state == DT_PATH_UP;
    struct dt_path_step taken;

    DT_CHECK(frame->path < c->path_count);
    c->switchover->is_frame_pending = false;
    if (c->switchover->frame_type != DT_FRAME_PATH) {
        dt_stall_watch_receive(c, now_ns);
        return;
    }
    if ((frame->message == DT_PATH_MSG_OPEN || frame->message == DT_PATH_MSG_OPENED) &&
        dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_IDLE)
        return; /* the control thread is busy with this path; the peer retransmits */
    if (was_up) {
        path->switchover->cause = DETOUR_STAT_CAUSE_PEER_LEFT;
        snprintf(path->switchover->why, sizeof path->switchover->why, "%s",
                 frame->message == DT_PATH_MSG_STOP ? "the peer requested a stop" : "the peer fenced it");
    }
    taken =
        dt_path_machine_receive(&path->machine, (enum dt_path_message)frame->message, frame->epoch, now_ns);
    if (taken.actions & (DT_PATH_DO_CREATE | DT_PATH_DO_CONNECT))
        path->peer_offer = frame->offer;
    if (frame->message == DT_PATH_MSG_RESUME && taken.is_known && !(taken.actions & DT_PATH_DO_KEEP) &&
        is_hint(path, now_ns))
        dt_recovery_hint(&path->switchover->recovery, now_ns);
    dt_switchover_follow(path, &taken, now_ns);
    if (frame->message == DT_PATH_MSG_SWITCH && frame->is_stopped && frame->epoch == path->machine.epoch)
        dt_fence_peer_stopped(&path->fence, now_ns);
    if (is_agreement(path, (enum dt_path_message)frame->message))
        path->switchover->report.steps.agreed_ns = now_ns;
}

static void watch(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_path *failed = dt_stall_watch_progress(c, now_ns);

    if (failed) {
        dt_faults_begin(failed, now_ns);
        c->switchover->is_switching = true;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * The life of the state
 */
enum dt_status dt_switchover_create(struct dt_connection *c)
{
    c->switchover = calloc(1, sizeof *c->switchover);
    if (!c->switchover)
        return DT_NO_MEMORY;
    for (uint32_t p = 0; p < DT_PATHS_MAX; p++)
        c->path[p].switchover = &c->switchover->path[p];
    return DT_OK;
}

void dt_switchover_start(struct dt_connection *c, uint64_t now_ns)
{
    c->switchover->watched_ns = now_ns;
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        bool is_up = path->state == DT_PATH_UP;

        dt_path_machine_init(&path->machine, c->is_sender ? DT_PATH_END_SENDER : DT_PATH_END_RECEIVER, is_up);
        dt_recovery_init(&path->switchover->recovery);
        path->switchover->is_used = path->switchover->is_open = is_up;
        c->has_switched |= !is_up;
        if (!is_up) {
            dt_recovery_path_failed(&path->switchover->recovery, now_ns);
            c->switchover->is_switching = true;
        }
    }
    dt_switchover_leave_drained(c);
}

void dt_switchover_resend(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_retransmit_now(&c->path[p].machine.retransmit, now_ns);
}

/* The owner may make the path suspect at any moment; its fault is then processed first. */
static bool is_quiet(const struct dt_path *path)
{
    return dt_path_machine_is_up(&path->machine) && dt_load_relaxed(&path->state) == DT_PATH_UP &&
           dt_list_is_empty(&path->retired) && !path->switchover->report.is_pending;
}

/* When this path has something to do. */
static uint64_t path_deadline_ns(const struct dt_path *path, uint64_t now_ns)
{
    uint64_t deadline_ns = dt_path_machine_retransmit_ns(&path->machine);
    uint32_t op_state = dt_load_acquire(&path->op_state);

    deadline_ns = dt_earlier_ns(deadline_ns, dt_recover_deadline_ns(path, now_ns));
    /* A busy task may take long; it wakes the device thread when it is done. */
    if (op_state == DT_PATH_OP_IS_DONE ||
        (path->switchover->is_fence_wanted && op_state == DT_PATH_OP_IS_IDLE))
        return now_ns;
    if (path->switchover->stop_ns)
        deadline_ns =
            dt_earlier_ns(deadline_ns, dt_faults_may_await_switch(path) ? path->switchover->stop_ns : now_ns);
    if (path->fence.is_active)
        deadline_ns = dt_earlier_ns(
            deadline_ns, dt_earlier_ns(dt_fence_deadline_ns(&path->fence), path->switchover->look_ns));
    return deadline_ns;
}

/* When the owner has something to do. */
static uint64_t work_deadline_ns(const struct dt_connection *c, uint64_t now_ns)
{
    uint64_t deadline_ns = DT_NEVER_NS;

    if (dt_load_acquire(&c->faults) || dt_load_acquire(&c->hints) || c->switchover->is_frame_pending)
        return now_ns;
    if (!c->switchover->is_switching)
        return DT_NEVER_NS;
    for (uint32_t p = 0; p < c->path_count; p++)
        deadline_ns = dt_earlier_ns(deadline_ns, path_deadline_ns(&c->path[p], now_ns));
    if (c->switchover->pathless_ns)
        deadline_ns =
            dt_earlier_ns(deadline_ns, dt_deadline_ns(c->switchover->pathless_ns,
                                                      c->environment->params.dead_ms * DT_NS_PER_MS));
    return deadline_ns;
}

uint64_t dt_switchover_deadline_ns(const struct dt_connection *c, uint64_t now_ns)
{
    uint64_t deadline_ns = work_deadline_ns(c, now_ns);

    for (uint32_t p = 0; p < c->path_count && c->switchover->is_switching; p++)
        deadline_ns = dt_earlier_ns(deadline_ns, dt_switchover_report_deadline_ns(&c->path[p], now_ns));
    return deadline_ns;
}

bool dt_switchover_is_due(const struct dt_connection *c, uint64_t now_ns)
{
    if (dt_stall_watch_is_due(c, now_ns))
        return true;
    for (uint32_t p = 0; p < c->path_count && c->switchover->is_switching && c->is_sender; p++) {
        if (c->path[p].machine.state == DT_SENDER_PROBING)
            return true;
    }
    return work_deadline_ns(c, now_ns) <= now_ns;
}

bool dt_switchover_is_hurried(const struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count && c->switchover->is_switching; p++) {
        if (dt_switchover_report_is_awaited(&c->path[p], now_ns))
            return true;
    }
    return false;
}

static bool is_all_quiet(const struct dt_connection *c)
{
    bool is_quiet_so_far = true;

    for (uint32_t p = 0; p < c->path_count; p++)
        is_quiet_so_far = is_quiet_so_far && is_quiet(&c->path[p]);
    return is_quiet_so_far;
}

void dt_switchover_write_reports(struct dt_connection *c, uint64_t now_ns, uint32_t *lines_left)
{
    if (!c->switchover->is_switching)
        return;
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_switchover_report_progress(&c->path[p], now_ns, lines_left);
    c->switchover->is_switching = !is_all_quiet(c);
}

void dt_switchover_progress(struct dt_connection *c, uint64_t now_ns)
{
    dt_faults_process(c, now_ns);
    dt_hints_process(c, now_ns);
    if (c->switchover->is_frame_pending)
        receive_frame(c, now_ns);
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        finish_task(path, now_ns);
        dt_faults_expire_stop(path, now_ns);
        progress_fence(path, now_ns);
        recover(path, now_ns);
        finish_task(path, now_ns);
        dt_switchover_send(path, dt_path_machine_retransmit(&path->machine, now_ns), now_ns);
    }
    c->switchover->is_switching = !is_all_quiet(c);
    if (dt_stall_watch_is_due(c, now_ns))
        watch(c, now_ns);
    dt_faults_watch_pathless(c, now_ns);
    if (dt_load_acquire(&c->notices) & DT_NOTICE_AGAIN)
        dt_connection_attend(c);
    dt_switchover_check(c);
}
