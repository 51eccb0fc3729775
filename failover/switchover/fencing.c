/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/fencing.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/planted.h"
#include "failover/switchover/recover.h"
#include "failover/switchover/report.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"
#include "transport/path/queues.h"
#include "failover/switchover/state.h"
#include "transport/protocol/work_id.h"
#include "transport/message/receive.h"

#define POLL_MAX 16

/* Completions are polled soon after the queue pairs went to ERR, and then at growing intervals. */
#define LOOK_NS_FIRST (20 * DT_NS_PER_US)
#define LOOK_NS_MAX   (1 * DT_NS_PER_MS)

/* A look at the system for the device takes a system call. */
#define REMOVAL_NS (10 * DT_NS_PER_MS)

/* A queue pair that the device refuses to destroy is tried again after the time that has passed since. */
static uint64_t next_try_ns(const struct dt_path *path, uint64_t now_ns)
{
    return now_ns + dt_max_u64(now_ns - path->fence.begun_ns, path->fence.limit_ns);
}

static bool is_device_dead(const struct dt_path *path)
{
    return dt_load_relaxed(&path->nic->is_dead);
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
        DT_CHECK(dt_qp_set_has(&path->switchover->markers, work.qp));
        /* A success means that the queue pair was not in ERR yet: it proves nothing, the next marker may. */
        if (completion->status == DT_WC_SUCCESS)
            dt_qp_set_remove(&path->switchover->markers, work.qp);
        else
            dt_qp_set_add(&path->fence.markers, work.qp);
        return;
    }
    if (completion->status != DT_WC_SUCCESS)
        return;
    /*
     * A sender has sent SWITCH: from then on the receiver's device may acknowledge a message and discard its
     * completion, so RESUME decides about each message that was not acknowledged before.
     */
    if (!c->is_sender && work.kind == DT_WORK_RECEIVE && !DT_PLANTED(FILTER_EPOCH))
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

void dt_fencing_begin(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    DT_CHECK(path->state == DT_PATH_NONE && !path->fence.is_active && !path->switchover->is_destroying);
    if (!c->is_sender)
        drain_receives(path); /* before the device may discard them */
    dt_fence_begin(&path->fence, path->qp_count, c->environment->params.fence_ms * DT_NS_PER_MS, now_ns);
    path->fence.late_ns = c->environment->params.late_ms * DT_NS_PER_MS;
    path->fence.is_device_dead = is_device_dead(path);
    path->switchover->look_ns = now_ns;
    path->switchover->removal_ns = now_ns;
    path->switchover->destroy_ns = 0;
    path->switchover->look_period_ns = LOOK_NS_MAX;
    path->switchover->markers = (struct dt_qp_set){{0}};
    path->switchover->is_destroy_wanted = false;
    if (c->is_sender)
        path->fence.receives = path->fence.all; /* none are posted */
    path->switchover->is_fence_wanted = true;
    if (c->is_sender ? DT_PLANTED(NO_SENDER_FENCE) : DT_PLANTED(NO_RECEIVER_FENCE)) {
        path->fence.markers = path->fence.receives = path->fence.all;
        path->fence.is_err_requested = true;
        path->switchover->is_fence_wanted = false;
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

        if (dt_qp_set_has(&path->switchover->markers, q) || !path->qp[q] ||
            dt_qp_post_write(path->qp[q], &write, 1) != DT_OK)
            continue;
        dt_qp_ring(path->qp[q]);
        dt_qp_set_add(&path->switchover->markers, q);
    }
}

static void count_receives(struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (path->qp[q] && dt_qp_recvs_outstanding(path->qp[q]) == 0)
            dt_qp_set_add(&path->fence.receives, q);
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
static bool put_aside(struct dt_path *path)
{
    bool is_sender = path->connection->is_sender;
    struct dt_path_queues none = {.epoch = path->epoch};
    struct dt_path_queues *doomed = calloc(1, sizeof *doomed);
    struct dt_last_receives *last = is_sender ? NULL : dt_path_last_receives_create(path);

    if (!doomed || (!is_sender && !last)) {
        free(doomed);
        free(last);
        return false;
    }
    DT_CHECK(!path->last_receives);
    drain(path);
    dt_path_adopt(path, &none, doomed);
    path->doomed = doomed;
    path->last_receives = last;
    return true;
}

static void destroy(struct dt_path *path)
{
    DT_CHECK(path->fence.is_active && !path->fence.is_destroyed);
    if (!path->doomed && !put_aside(path))
        return; /* still wanted */
    path->switchover->is_destroy_wanted = false;
    path->switchover->is_destroying = true;
    dt_path_submit_op(path, DT_PATH_OP_DESTROY);
}

static void count_last_receives(struct dt_path *path)
{
    struct dt_last_receives *last = path->last_receives;

    for (uint32_t i = 0; last && i < last->count; i++)
        count_completion(path, &last->completion[i]);
    if (last)
        last->count = 0;
}

static void free_last_receives(struct dt_path *path)
{
    free(path->last_receives);
    path->last_receives = NULL;
}

void dt_fencing_destroyed(struct dt_path *path, bool is_good, uint64_t now_ns)
{
    DT_CHECK(path->switchover->is_destroying && path->fence.is_active && is_good == !path->doomed);
    path->switchover->is_destroying = false;
    count_last_receives(path);
    path->fence.is_destroyed = is_good;
    path->fence.is_refused |= !is_good;
    if (is_good) {
        free_last_receives(path);
    } else {
        path->switchover->is_destroy_wanted = true;
        path->switchover->destroy_ns = next_try_ns(path, now_ns);
    }
}

/*
 * The proof came while the device refuses to destroy the queue pairs: their receives count until now, and
 * they are retired like those of any epoch.
 */
static void retire_doomed(struct dt_path *path, uint64_t now_ns)
{
    if (!path->fence.is_refused || !path->doomed)
        return;
    if (path->last_receives)
        dt_path_queues_poll_last(path->doomed, path->last_receives);
    count_last_receives(path);
    free_last_receives(path);
    dt_recover_retire_again(path, now_ns);
}

/*
 * Once the control thread has tried to move the queue pairs of this epoch to ERR, and not while it destroys
 * them: otherwise its answer belongs to no fence, or to the next one, and what it polled last is not counted.
 */
static bool may_conclude(const struct dt_path *path)
{
    return DT_PLANTED(CONCLUDE_EARLY) || (path->fence.is_err_requested && !path->switchover->is_destroying);
}

/* Facts about the device. The device's removal is looked for before its completions are polled: it has none
 * after that. */
static void look_at_device(struct dt_path *path, uint64_t now_ns)
{
    path->fence.is_device_dead |= is_device_dead(path);
    if (!path->fence.is_device_dead || path->fence.is_device_gone || !may_conclude(path) ||
        now_ns < path->switchover->removal_ns)
        return;
    path->fence.is_device_gone = !DT_PLANTED(GONE_UNSEEN) && dt_device_is_removed(path->nic->device);
    path->switchover->removal_ns = now_ns + REMOVAL_NS;
}

static const char *explain_missing_proof(const struct dt_path *path)
{
    if (path->fence.is_device_dead)
        return "the device died (DEVICE_FATAL), after which a destruction that it reports proves nothing";
    return path->fence.is_refused ? "the device refuses to destroy the queue pairs"
                                  : "it has neither flushed nor destroyed the queue pairs";
}

static void log_unproven(const struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;
    const char *consequence = "the path stays out of use until it is proven";

    if (!c->is_sender)
        consequence =
            path->fence.is_device_dead || path->fence.is_refused
                ? "messages sent over it wait for DETOUR_LATE_MS after the sender's own proof, since "
                  "their buffers may still be written"
                : "messages sent over it wait until it is proven, since their buffers may still be "
                  "written";
    dt_info("fence-unproven",
            "connection %016llx: the fence of path %u on %s is unproven after %llu ms: %s: %s",
            (unsigned long long)c->id, path->index, dt_path_name(path),
            (unsigned long long)((now_ns - path->fence.begun_ns) / DT_NS_PER_MS), explain_missing_proof(path),
            consequence);
    dt_switchover_report_unproven(path, now_ns, explain_missing_proof(path));
}

static void look(struct dt_path *path, uint64_t now_ns)
{
    struct dt_path_switchover *state = path->switchover;

    look_at_device(path, now_ns);
    if (now_ns < state->look_ns)
        return;
    if (path->fence.is_err_requested)
        post_markers(path);
    drain(path);
    state->look_ns = now_ns + state->look_period_ns;
    DT_CHECK(state->look_period_ns >= LOOK_NS_FIRST && state->look_period_ns <= LOOK_NS_MAX);
    state->look_period_ns = dt_earlier_ns(2 * state->look_period_ns, LOOK_NS_MAX);
}

enum dt_path_event dt_fencing_progress(struct dt_path *path, uint64_t now_ns)
{
    struct dt_path_switchover *state = path->switchover;

    if (!path->fence.is_active)
        return DT_PATH_EVENT_COUNT;
    look(path, now_ns);
    count_receives(path);
    switch (dt_fence_verdict(&path->fence, now_ns)) {
    case DT_FENCE_WAIT:
        break;
    case DT_FENCE_PROVEN:
        if (!may_conclude(path))
            break;
        drain(path);
        retire_doomed(path, now_ns);
        return DT_PATH_FENCED;
    case DT_FENCE_DESTROY: /* decided once; the control thread may still be busy with the move to ERR */
        state->is_destroy_wanted = !DT_PLANTED(FLUSH_ALONE);
        break;
    case DT_FENCE_LATE:
        log_unproven(path, now_ns);
        return DT_PATH_UNFENCED;
    }
    /* Until the proof, a dead device's completions are worth more than its destruction of the queue pairs. */
    if (state->is_destroy_wanted && !path->fence.is_device_dead && now_ns >= state->destroy_ns &&
        dt_load_acquire(&path->op_state) == DT_PATH_OP_IS_IDLE)
        destroy(path);
    return DT_PATH_EVENT_COUNT;
}
