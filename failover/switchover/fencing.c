/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/fencing.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/planted.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"
#include "transport/path/queues.h"
#include "failover/switchover/state.h"
#include "transport/protocol/work_id.h"
#include "transport/message/send.h"
#include "transport/message/receive.h"

#define POLL_MAX 16

/* Completions are polled soon after the queue pairs went to ERR, and then at growing intervals. */
#define LOOK_NS_FIRST (20 * DT_NS_PER_US)
#define LOOK_NS_MAX   (1 * DT_NS_PER_MS)

/* A device in the fatal state answers no modify_qp; the queue pairs can only be destroyed. */
static bool is_device_dead(const struct dt_path *path)
{
    return dt_load_relaxed(&path->nic->is_dead);
}

void dt_fencing_begin(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    DT_CHECK(path->state == DT_PATH_NONE && !path->fence.is_active && !path->switchover->is_destroying);
    dt_fence_begin(&path->fence, path->qp_count, c->environment->params.fence_ms * DT_NS_PER_MS, now_ns);
    path->fence.is_device_dead = is_device_dead(path);
    path->switchover->look_ns = now_ns;
    path->switchover->look_period_ns = LOOK_NS_MAX;
    path->switchover->marker_mask = 0;
    path->switchover->is_destroy_wanted = false;
    if (c->is_sender)
        path->fence.receives_mask = path->fence.all_mask; /* none are posted */
    path->switchover->is_fence_wanted = !path->fence.is_device_dead;
    if (c->is_sender ? DT_PLANTED(NO_SENDER_FENCE) : DT_PLANTED(NO_RECEIVER_FENCE)) {
        path->fence.marker_mask = path->fence.receives_mask = path->fence.all_mask;
        path->fence.is_err_requested = true;
        path->switchover->is_fence_wanted = false;
    }
}

void dt_fencing_requested(struct dt_path *path, uint64_t now_ns)
{
    path->fence.is_err_requested = true;
    path->switchover->look_ns = now_ns;
    path->switchover->look_period_ns = LOOK_NS_FIRST;
}

/* ------------------------------------------------------------------------------------------------------------
 * Completions
 */
static void count_completion(struct dt_path *path, const struct dt_completion *completion)
{
    struct dt_connection *c = path->connection;
    struct dt_work work = dt_work_decode(completion->wr_id);

    DT_CHECK(work.qp < path->qp_count);
    if (work.kind == DT_WORK_MARKER) {
        DT_CHECK(path->switchover->marker_mask & 1u << work.qp);
        /* A success means that the queue pair was not in ERR yet: it proves nothing, the next marker may. */
        if (completion->status == DT_WC_SUCCESS)
            path->switchover->marker_mask &= ~(1u << work.qp);
        else
            path->fence.marker_mask |= 1u << work.qp;
        return;
    }
    if (completion->status != DT_WC_SUCCESS)
        return;
    if (c->is_sender)
        dt_sender_handle(dt_sender_of(c), path, completion);
    else if (work.kind == DT_WORK_RECEIVE && !DT_PLANTED(FILTER_EPOCH))
        dt_receiver_handle(dt_receiver_of(c), path, completion);
}

/* Whether receives are outstanding. An empty queue is not polled: a poll costs the device something. */
static bool has_receives(const struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->qp[q] && dt_qp_recvs_outstanding(path->qp[q]) > 0)
            return true;
    }
    return false;
}

static void drain_receives(struct dt_path *path)
{
    struct dt_completion completion[POLL_MAX];
    int count = POLL_MAX;

    while (path->recv_cq && count == POLL_MAX && has_receives(path)) {
        count = dt_cq_poll(path->recv_cq, completion, POLL_MAX);
        for (int i = 0; i < count; i++)
            count_completion(path, &completion[i]);
    }
}

static void drain_sends(struct dt_path *path, uint32_t q)
{
    struct dt_completion completion[POLL_MAX];
    int count = POLL_MAX;

    while (path->send_cq[q] && path->qp[q] && count == POLL_MAX && dt_qp_sends_outstanding(path->qp[q]) > 0) {
        count = dt_cq_poll(path->send_cq[q], completion, POLL_MAX);
        for (int i = 0; i < count; i++)
            count_completion(path, &completion[i]);
    }
}

static void drain(struct dt_path *path)
{
    drain_receives(path);
    for (uint32_t q = 0; q < path->qp_count; q++)
        drain_sends(path, q);
}

/* A marker is a zero-length write without immediate: it needs no key and leaves no trace at the peer. */
static void post_markers(struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        struct dt_write write = {
            .wr_id = dt_work_encode(DT_WORK_MARKER, path->index, q, path->epoch, 0),
            .flags = DT_POST_SIGNALED,
        };

        if (path->switchover->marker_mask & 1u << q || !path->qp[q] ||
            dt_qp_post_write(path->qp[q], &write, 1) != DT_OK)
            continue;
        dt_qp_ring(path->qp[q]);
        path->switchover->marker_mask |= 1u << q;
    }
}

static void count_receives(struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->qp[q] && dt_qp_recvs_outstanding(path->qp[q]) == 0)
            path->fence.receives_mask |= 1u << q;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Destroying
 */

/*
 * Retires the queue pairs and has them destroyed. Until the control thread does that, a receiver's device
 * continues to acknowledge messages, whose completions the destruction would discard: so the control thread
 * polls a last time, immediately before it.
 */
static void destroy(struct dt_path *path)
{
    bool is_sender = path->connection->is_sender;
    struct dt_path_queues none = {.epoch = path->epoch};
    struct dt_path_queues *doomed = calloc(1, sizeof *doomed);
    struct dt_last_receives *last = is_sender ? NULL : dt_path_last_receives_create(path);

    if (!doomed || (!is_sender && !last)) {
        free(doomed);
        free(last);
        return; /* still wanted */
    }
    DT_CHECK(path->fence.is_active && !path->doomed && !path->last_receives);
    path->switchover->is_destroy_wanted = false;
    drain(path);
    dt_path_adopt(path, &none, doomed);
    path->doomed = doomed;
    path->last_receives = last;
    path->switchover->is_destroying = true;
    dt_path_submit_op(path, DT_PATH_OP_DESTROY);
}

void dt_fencing_destroyed(struct dt_path *path)
{
    const struct dt_last_receives *last = path->last_receives;

    DT_CHECK(path->switchover->is_destroying && !path->doomed);
    for (uint32_t i = 0; last && i < last->count; i++)
        count_completion(path, &last->completion[i]);
    free(path->last_receives);
    path->last_receives = NULL;
    path->fence.is_destroyed = true;
}

enum dt_path_event dt_fencing_progress(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;

    if (!path->fence.is_active)
        return DT_PATH_EVENT_COUNT;
    if (now_ns >= path->switchover->look_ns) {
        if (path->fence.is_err_requested)
            post_markers(path);
        drain(path);
        path->switchover->look_ns = now_ns + path->switchover->look_period_ns;
        DT_CHECK(path->switchover->look_period_ns >= LOOK_NS_FIRST &&
                 path->switchover->look_period_ns <= LOOK_NS_MAX);
        path->switchover->look_period_ns = dt_earlier_ns(2 * path->switchover->look_period_ns, LOOK_NS_MAX);
    }
    count_receives(path);
    switch (dt_fence_verdict(&path->fence, now_ns)) {
    case DT_FENCE_WAIT:
        break;
    case DT_FENCE_PROVEN:
        return DT_PATH_FENCED;
    case DT_FENCE_DESTROY: /* decided once; the control thread may still be busy with the move to ERR */
        path->switchover->is_destroy_wanted = true;
        break;
    case DT_FENCE_LATE:
        dt_info("fence-late",
                "connection %016llx: %s has neither flushed nor destroyed the queue pairs of path %u for "
                "%llu ms: %s",
                (unsigned long long)c->id, dt_path_name(path), path->index,
                (unsigned long long)((now_ns - path->fence.begun_ns) / DT_NS_PER_MS),
                c->is_sender
                    ? "the path stays out of use until it has"
                    : "messages sent over it wait until it has, since their buffers may still be written");
        return DT_PATH_UNFENCED;
    }
    if (path->switchover->is_destroy_wanted && dt_load_acquire(&path->op_state) == DT_PATH_OP_IS_IDLE)
        destroy(path);
    return DT_PATH_EVENT_COUNT;
}
