/* SPDX-License-Identifier: Apache-2.0 */
/* The search for the proof of a fence (failover/fence.h), with what the device shows of it. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/planted.h"
#include "transport/nic.h"
#include "transport/path.h"
#include "transport/path_queues.h"
#include "transport/switch.h"
#include "transport/work_id.h"

#define POLL_MAX 16

/* Completions are polled soon after the device was told, and then, as before that, less and less often. */
#define LOOK_NS_FIRST (20 * DT_NS_PER_US)
#define LOOK_NS_MAX   (1 * DT_NS_PER_MS)

/* A device that has died does not answer modify_qp any more; only destroying is left. */
static bool is_device_dead(const struct dt_path *path)
{
    return dt_load_relaxed(&path->nic->is_dead);
}

void dt_switch_fence(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    dt_fence_begin(&path->fence, path->qp_count, c->net->params.fence_ms * DT_NS_PER_MS, now_ns);
    path->fence.is_hopeless = is_device_dead(path);
    path->look_ns = now_ns;
    path->look_period_ns = LOOK_NS_MAX;
    path->marker_mask = 0;
    path->is_destroy_wanted = false;
    if (c->is_sender)
        path->fence.receives_mask = path->fence.all_mask; /* none are posted */
    path->is_fence_wanted = !path->fence.is_hopeless;
    if (c->is_sender ? DT_PLANTED(NO_SENDER_FENCE) : DT_PLANTED(NO_RECEIVER_FENCE)) {
        path->fence.marker_mask = path->fence.receives_mask = path->fence.all_mask;
        path->fence.is_told = true;
        path->is_fence_wanted = false;
    }
}

void dt_switch_fence_told(struct dt_path *path, uint64_t now_ns)
{
    path->fence.is_told = true;
    path->look_ns = now_ns;
    path->look_period_ns = LOOK_NS_FIRST;
}

void dt_switch_fence_destroyed(struct dt_path *path)
{
    path->fence.is_destroyed = true;
}

/* ------------------------------------------------------------------------------------------------------------
 * Completions
 */
static void take(struct dt_path *path, const struct dt_completion *completion)
{
    struct dt_connection *c = path->connection;
    struct dt_work work = dt_work_decode(completion->wr_id);

    if (work.kind == DT_WORK_MARKER) {
        /* A success came before the queue pair was in ERR: it proves nothing, the next one may. */
        if (completion->status == DT_WC_SUCCESS)
            path->marker_mask &= ~(1u << work.qp);
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

/* Work whose completion is still to come; one that is empty is not polled, which costs a device something. */
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
            take(path, &completion[i]);
    }
}

static void drain_sends(struct dt_path *path, uint32_t q)
{
    struct dt_completion completion[POLL_MAX];
    int count = POLL_MAX;

    while (path->send_cq[q] && path->qp[q] && count == POLL_MAX && dt_qp_sends_outstanding(path->qp[q]) > 0) {
        count = dt_cq_poll(path->send_cq[q], completion, POLL_MAX);
        for (int i = 0; i < count; i++)
            take(path, &completion[i]);
    }
}

void dt_switch_drain(struct dt_path *path)
{
    drain_receives(path);
    for (uint32_t q = 0; q < path->qp_count; q++)
        drain_sends(path, q);
}

/* A write of nothing: it needs no key, and the peer's queue pair is told nothing by it. */
static void post_markers(struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        struct dt_write write = {
            .wr_id = dt_work_encode(DT_WORK_MARKER, path->index, q, path->epoch, 0),
            .flags = DT_POST_SIGNALED,
        };

        if (path->marker_mask & 1u << q || !path->qp[q] || dt_qp_post_write(path->qp[q], &write, 1) != DT_OK)
            continue;
        dt_qp_ring(path->qp[q]);
        path->marker_mask |= 1u << q;
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

/* Takes the queue pairs out of use, so that nobody polls them any more, and has them destroyed. */
static void destroy(struct dt_path *path)
{
    struct dt_path_queues none = {.epoch = path->epoch};
    struct dt_path_queues *doomed = calloc(1, sizeof *doomed);

    if (!doomed)
        return; /* still wanted */
    path->is_destroy_wanted = false;
    dt_switch_drain(path); /* for the last time */
    dt_path_adopt(path, &none, doomed);
    path->doomed = doomed;
    path->is_destroying = true;
    dt_path_submit_op(path, DT_PATH_OP_DESTROY);
}

enum dt_path_event dt_switch_fence_progress(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;

    if (!path->fence.is_active)
        return DT_PATH_EVENT_COUNT;
    if (now_ns >= path->look_ns) {
        if (path->fence.is_told)
            post_markers(path);
        dt_switch_drain(path);
        path->look_ns = now_ns + path->look_period_ns;
        path->look_period_ns = dt_earlier_ns(2 * path->look_period_ns, LOOK_NS_MAX);
    }
    count_receives(path);
    switch (dt_fence_verdict(&path->fence, now_ns)) {
    case DT_FENCE_WAIT:
        break;
    case DT_FENCE_PROVEN:
        return DT_PATH_FENCED;
    case DT_FENCE_DESTROY: /* said once, and the control thread may still be busy with telling them */
        path->is_destroy_wanted = true;
        break;
    case DT_FENCE_LATE:
        dt_info("connection %016llx: %s has neither flushed nor destroyed the queue pairs of path %u for "
                "%llu ms: "
                "%s",
                (unsigned long long)c->id, dt_path_name(path), path->index,
                (unsigned long long)((now_ns - path->fence.begun_ns) / DT_NS_PER_MS),
                c->is_sender ? "it is not used again before it has"
                             : "what was sent over it waits until it has, since it may still be written");
        return DT_PATH_UNFENCED;
    }
    if (path->is_destroy_wanted && dt_load_acquire(&path->op_state) == DT_PATH_OP_IS_IDLE)
        destroy(path);
    return DT_PATH_EVENT_COUNT;
}
