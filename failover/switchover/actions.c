/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The actions of the failover table (failover/path_table.h), and one step of a path's machine: state,
 * permission of the data path, actions, answer to the peer.
 */
#include "failover/switchover/actions.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/switchover/faults.h"
#include "failover/switchover/fencing.h"
#include "failover/switchover/post.h"
#include "failover/switchover/recover.h"
#include "failover/switchover/replay.h"
#include "failover/switchover/report.h"
#include "failover/switchover/republish.h"
#include "failover/switchover/settle.h"
#include "transport/message/receive.h"
#include "transport/message/send.h"
#include "transport/message/send_keys.h"
#include "transport/path/queues.h"

/* After a fault the device thread polls for this long before it sleeps: control thread and peer answer soon.
 */
#define HURRY_NS (100 * DT_NS_PER_US)

/* ------------------------------------------------------------------------------------------------------------
 * Actions, in the order of DT_PATH_ACTIONS
 */
/* Retires the queue pairs in use; a sender's fresh ones take their place. */
static void do_next_epoch(struct dt_path *path, uint64_t now_ns)
{
    struct dt_path_queues none = {.epoch = path->machine.epoch};
    struct dt_path_queues *old = calloc(1, sizeof *old);

    if (!old) {
        dt_connection_fail(path->connection, DT_NO_MEMORY, "out of memory during a switchover");
        return;
    }
    dt_path_adopt(path, path->fresh ? path->fresh : &none, old);
    if (!path->connection->is_sender)
        old->flush = dt_republish_retire_flush(path);
    free(path->fresh);
    path->fresh = NULL;
    old->retired_ns = now_ns;
    path->switchover->is_used = path->switchover->is_open = false;
    dt_list_push_back(&path->retired, &old->node);
}

static void hurry(struct dt_path *path, uint64_t now_ns)
{
    path->connection->nic->hurry_until_ns = now_ns + HURRY_NS;
}

/* The arrivals of the path still count, so its receives are not published again before the fence. */
static void do_stop(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    DT_CHECK(!c->is_sender && path->switchover->stop_ns == 0);
    path->switchover->stop_ns = dt_deadline_ns(now_ns, c->environment->params.fence_ms * DT_NS_PER_MS);
    dt_switchover_report_begin(path, now_ns);
    hurry(path, now_ns);
}

static void do_fence(struct dt_path *path, uint64_t now_ns)
{
    bool was_detected = path->switchover->stop_ns != 0; /* by do_stop() */

    if (path->switchover->is_used)
        dt_recovery_path_failed(&path->switchover->recovery, now_ns);
    else
        dt_recovery_attempt_failed(&path->switchover->recovery, now_ns);
    dt_page_add(&path->connection->meter.row->path_down_count, path->switchover->is_used);
    path->switchover->stop_ns = 0;
    if (!was_detected)
        dt_switchover_report_begin(path, now_ns);
    hurry(path, now_ns);
    dt_fencing_begin(path, now_ns);
}

static void do_keep(struct dt_path *path, uint64_t now_ns)
{
    DT_CHECK(path->connection->is_sender && path->connection->switchover->path_frame.path == path->index);
    path->switchover->resume = path->connection->switchover->path_frame.resume;
    path->switchover->report.steps.agreed_ns = now_ns;
}

/* One report for each epoch that was in use; failed attempts to recover a path are not reported. */
static void do_discard(struct dt_path *path, uint64_t now_ns)
{
    struct dt_switchover_settled settled = {.again = dt_republish_discard(path)};

    if (path->switchover->is_used)
        dt_switchover_report_resumed(path, now_ns, settled);
}

static void do_snapshot(struct dt_path *path, uint64_t now_ns)
{
    (void)now_ns;
    dt_republish_snapshot(path);
}

static void do_settle(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;
    struct dt_switchover_settled settled;

    DT_CHECK(c->is_sender && path->state == DT_PATH_NONE);
    settled = dt_settle(path);
    path->switchover->settled_ns = now_ns;
    dt_page_add(&c->meter.row->rewound_count, settled.again);
    dt_page_add(&c->meter.row->failover_ns, now_ns - path->switchover->report.steps.detected_ns);
    if (path->switchover->is_used)
        dt_switchover_report_resumed(path, now_ns, settled);
}

static void do_create(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    (void)now_ns;
    DT_CHECK(!path->fresh); /* the last attempt's were adopted or destroyed */
    path->make_epoch = path->machine.epoch + (c->is_sender ? 1 : 0);
    path->may_make = !dt_faults_is_out_of_use(path);
    dt_path_submit_op(path, DT_PATH_OP_MAKE);
}

static void do_connect(struct dt_path *path, uint64_t now_ns)
{
    (void)now_ns;
    DT_CHECK(path->connection->is_sender && path->peer_offer.is_usable);
    dt_path_accept_offer(path, &path->peer_offer);
    dt_sender_keys_renewed(dt_sender_of(path->connection), path, &path->peer_offer);
    dt_path_submit_op(path, DT_PATH_OP_LINK);
}

static void do_probe(struct dt_path *path, uint64_t now_ns)
{
    dt_recover_begin_probing(path, now_ns);
}

/* Receiver: the retired epoch left no queue pairs, so the fresh ones replace none. */
static void do_listen(struct dt_path *path, uint64_t now_ns)
{
    struct dt_path_queues none;

    (void)now_ns;
    DT_CHECK(!path->connection->is_sender && path->fresh && path->fresh->epoch == path->machine.epoch);
    if (path->fresh->generation != path->generation) /* not 0, which is never */
        path->keys_since = dt_max_u64(dt_receiver_of(path->connection)->next, 1);
    /* The task for the flush that was queued at the last epoch's end is over, since MAKE is. */
    if (!dt_load_acquire(&path->flush))
        (void)dt_republish_retire_flush(path);
    dt_path_adopt(path, path->fresh, &none);
    free(path->fresh);
    path->fresh = NULL;
    path->switchover->is_open = true;
    dt_path_accept_offer(path, &path->peer_offer);
}

void dt_switchover_leave_drained(struct dt_connection *c)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (dt_path_is_drained(&c->path[p]))
            dt_connection_suspect(c, &c->path[p], DT_FAULT_ADMIN);
    }
}

static void do_use(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    DT_CHECK(dt_path_machine_is_up(&path->machine) && !path->fence.is_active);
    dt_recovery_up(&path->switchover->recovery, now_ns);
    dt_page_add(&c->meter.row->path_up_count, 1);
    memset(&path->switchover->stall, 0, sizeof path->switchover->stall);
    path->switchover->is_used = true;
    dt_info("path-up", "connection %016llx %s %s: path %u, %s to %s, is in use again as epoch %u",
            (unsigned long long)c->id, c->ops->direction, c->peer, path->index, dt_path_name(path),
            path->peer_device, path->epoch);
    dt_switchover_leave_drained(path->connection);
}

static void (*const actions[DT_PATH_ACTION_COUNT])(struct dt_path *path, uint64_t now_ns) = {
    [DT_PATH_ACTION_NUMBER_NEXT_EPOCH] = do_next_epoch, [DT_PATH_ACTION_NUMBER_STOP] = do_stop,
    [DT_PATH_ACTION_NUMBER_FENCE] = do_fence,           [DT_PATH_ACTION_NUMBER_KEEP] = do_keep,
    [DT_PATH_ACTION_NUMBER_DISCARD] = do_discard,       [DT_PATH_ACTION_NUMBER_SNAPSHOT] = do_snapshot,
    [DT_PATH_ACTION_NUMBER_SETTLE] = do_settle,         [DT_PATH_ACTION_NUMBER_CREATE] = do_create,
    [DT_PATH_ACTION_NUMBER_CONNECT] = do_connect,       [DT_PATH_ACTION_NUMBER_PROBE] = do_probe,
    [DT_PATH_ACTION_NUMBER_LISTEN] = do_listen,         [DT_PATH_ACTION_NUMBER_USE] = do_use,
};

/* The use of the path that the machine's state permits. */
static uint32_t permitted(const struct dt_path *path)
{
    uint32_t state = path->machine.state;

    if (dt_path_machine_is_up(&path->machine))
        return DT_PATH_UP;
    return !path->connection->is_sender && (state == DT_RECEIVER_READY || state == DT_RECEIVER_STOPPING)
               ? DT_PATH_LISTENING
               : DT_PATH_NONE;
}

static void permit(struct dt_path *path, uint32_t use)
{
    struct dt_connection *c = path->connection;

    if (path->state == use)
        return;
    path->state = use;
    c->has_switched = true;
    dt_connection_choose_path(c);
    if (use == DT_PATH_UP && c->ops->count_again(c) > 0)
        dt_connection_notify(c, DT_NOTICE_AGAIN);
}

/* One line for each transition. */
static void trace(const struct dt_path *path, const struct dt_path_step *taken)
{
    const struct dt_connection *c = path->connection;
    const struct dt_path_machine *machine = &path->machine;
    enum dt_path_end end = (enum dt_path_end)machine->end;

    dt_trace("connection %016llx %s %s: path %u epoch %u: %s: %s -> %s", (unsigned long long)c->id,
             c->ops->direction, c->peer, path->index, machine->epoch,
             dt_path_event_name((enum dt_path_event)taken->event), dt_path_state_name(end, taken->from),
             dt_path_state_name(end, machine->state));
}

/*
 * Carries out a step of the machine. The data path stops to use the path before the actions, and may use it
 * after them.
 */
void dt_switchover_follow(struct dt_path *path, const struct dt_path_step *taken, uint64_t now_ns)
{
    DT_CHECK(taken->actions < 1u << DT_PATH_ACTION_COUNT && taken->send < DT_PATH_MESSAGE_COUNT);
    if (!taken->is_known)
        return;
    trace(path, taken);
    if (permitted(path) == DT_PATH_NONE)
        permit(path, DT_PATH_NONE);
    for (uint32_t i = 0; i < DT_PATH_ACTION_COUNT; i++) {
        if (taken->actions & 1u << i)
            actions[i](path, now_ns);
    }
    permit(path, permitted(path));
    if (taken->actions & DT_PATH_DO_USE && !path->connection->is_sender)
        dt_receiver_renew_keys(dt_receiver_of(path->connection), path);
    dt_switchover_send(path, (enum dt_path_message)taken->send, now_ns);
}

void dt_switchover_step(struct dt_path *path, enum dt_path_event event, uint64_t now_ns)
{
    struct dt_path_step taken = dt_path_machine_event(&path->machine, event, now_ns);

    dt_switchover_follow(path, &taken, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Frames
 */
void dt_switchover_send(struct dt_path *path, enum dt_path_message message, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;
    struct dt_path_frame frame;
    struct dt_post post;

    if (message == DT_PATH_MSG_NONE)
        return;
    memset(&frame, 0, sizeof frame);
    frame.message = message;
    frame.path = path->index;
    frame.epoch = path->machine.epoch;
    frame.is_stopped = c->is_sender && path->machine.state == DT_SENDER_WAITING;
    frame.resume = path->switchover->resume;
    if (message == DT_PATH_MSG_OPEN || message == DT_PATH_MSG_OPENED)
        dt_path_get_offer(path, true, &frame.offer);
    dt_post_begin(&post);
    dt_path_frame_encode(&frame, c->qps, &post.writer);
    dt_post_frame(c, &post, now_ns);
}
