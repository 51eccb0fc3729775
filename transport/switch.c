/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/switch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/line.h"
#include "transport/nic.h"
#include "transport/path.h"
#include "transport/path_queues.h"
#include "transport/recover.h"
#include "transport/watch.h"
#include "transport/work_id.h"

/* So long a switch is waited for awake: the control thread and the peer may have done their part. */
#define HURRY_NS (100 * DT_NS_PER_US)

static void step(struct dt_path *path, enum dt_path_event event, uint64_t now_ns);

/* ------------------------------------------------------------------------------------------------------------
 * Saying
 */
static void say(struct dt_path *path, enum dt_path_message message)
{
    struct dt_connection *c = path->connection;
    struct dt_writer *out = dt_line_out(c->line);
    struct dt_path_frame frame;

    if (message == DT_PATH_SAY_NONE || !out)
        return;
    memset(&frame, 0, sizeof frame);
    frame.message = message;
    frame.path = path->index;
    frame.epoch = path->machine.epoch;
    frame.resume = path->resume;
    if (message == DT_PATH_SAY_OPEN || message == DT_PATH_SAY_OPENED)
        dt_path_offer(path, true, &frame.offer);
    dt_path_frame_encode(&frame, c->qps, c->version, out); /* what does not fit is said again */
    dt_line_flush(c->line);
}

/* ------------------------------------------------------------------------------------------------------------
 * Actions, in the order of DT_PATH_ACTIONS
 */
/* The queue pairs in use are put aside; a sender's fresh ones take their place. */
static void do_next_epoch(struct dt_path *path, uint64_t now_ns)
{
    struct dt_path_queues none = {.epoch = path->machine.epoch};
    struct dt_path_queues *old = calloc(1, sizeof *old);

    if (!old) {
        dt_connection_fail(path->connection, DT_NO_MEMORY, "out of memory during a switch");
        return;
    }
    dt_path_adopt(path, path->fresh ? path->fresh : &none, old);
    if (!path->connection->is_sender)
        old->flush = dt_switch_retire_flush(path);
    free(path->fresh);
    path->fresh = NULL;
    old->retired_ns = now_ns;
    path->is_used = path->is_open = false;
    dt_list_push_back(&path->retired, &old->node);
}

static void do_fence(struct dt_path *path, uint64_t now_ns)
{
    if (path->is_used)
        dt_recovery_lost(&path->recovery, now_ns);
    else
        dt_recovery_missed(&path->recovery, now_ns);
    dt_page_add(&path->connection->meter.row->path_down_count, path->is_used);
    dt_switch_report_begin(path, now_ns);
    path->connection->nic->hurry_until_ns = now_ns + HURRY_NS;
    dt_switch_fence(path, now_ns);
}

static void do_keep(struct dt_path *path, uint64_t now_ns)
{
    path->resume = path->connection->heard.resume;
    path->report.steps.agreed_ns = now_ns;
}

/* One report for an epoch that was in use; attempts to take a path back that come to nothing go unsaid. */
static void do_forget(struct dt_path *path, uint64_t now_ns)
{
    struct dt_switch_settled settled = {.again = dt_switch_forget(path)};

    if (path->is_used)
        dt_switch_report_resumed(path, now_ns, settled);
}

static void do_snapshot(struct dt_path *path, uint64_t now_ns)
{
    (void)now_ns;
    dt_switch_snapshot(path);
}

static void do_settle(struct dt_path *path, uint64_t now_ns)
{
    struct dt_connection *c = path->connection;
    struct dt_switch_settled settled = dt_switch_settle(path);

    path->settled_ns = now_ns;
    dt_page_add(&c->meter.row->rewound_count, settled.again);
    dt_page_add(&c->meter.row->failover_ns, now_ns - path->report.steps.detected_ns);
    if (path->is_used)
        dt_switch_report_resumed(path, now_ns, settled);
}

static void do_make(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    (void)now_ns;
    path->make_epoch = path->machine.epoch + (c->is_sender ? 1 : 0);
    dt_path_submit_op(path, DT_PATH_OP_MAKE);
}

static void do_link(struct dt_path *path, uint64_t now_ns)
{
    (void)now_ns;
    dt_path_accept_offer(path, &path->peer_offer);
    dt_path_submit_op(path, DT_PATH_OP_LINK);
}

static void do_probe(struct dt_path *path, uint64_t now_ns)
{
    dt_recover_prove(path, now_ns);
}

/* Receiver: its place was empty. */
static void do_listen(struct dt_path *path, uint64_t now_ns)
{
    struct dt_path_queues none;

    (void)now_ns;
    dt_path_adopt(path, path->fresh, &none);
    free(path->fresh);
    path->fresh = NULL;
    path->is_open = true;
    dt_path_accept_offer(path, &path->peer_offer);
}

/* Devices that are out of use by order are left as soon as there is another path. */
static void obey_orders(struct dt_connection *c)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].nic && dt_load_acquire(&c->path[p].nic->is_away))
            dt_connection_suspect(c, &c->path[p], DT_FAULT_ORDER);
    }
}

static void do_use(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    dt_recovery_up(&path->recovery, now_ns);
    dt_page_add(&c->meter.row->path_up_count, 1);
    memset(&path->stall, 0, sizeof path->stall);
    path->is_used = true;
    dt_info("connection %016llx %s %s: path %u, %s to %s, is in use again as epoch %u",
            (unsigned long long)c->id, c->is_sender ? "to" : "from", c->peer, path->index, dt_path_name(path),
            path->peer_device, path->epoch);
    obey_orders(path->connection);
}

static void (*const actions[DT_PATH_ACTION_COUNT])(struct dt_path *path, uint64_t now_ns) = {
    [DT_PATH_ACTION_NUMBER_NEXT_EPOCH] = do_next_epoch,
    [DT_PATH_ACTION_NUMBER_FENCE] = do_fence,
    [DT_PATH_ACTION_NUMBER_KEEP] = do_keep,
    [DT_PATH_ACTION_NUMBER_FORGET] = do_forget,
    [DT_PATH_ACTION_NUMBER_SNAPSHOT] = do_snapshot,
    [DT_PATH_ACTION_NUMBER_SETTLE] = do_settle,
    [DT_PATH_ACTION_NUMBER_MAKE] = do_make,
    [DT_PATH_ACTION_NUMBER_LINK] = do_link,
    [DT_PATH_ACTION_NUMBER_PROBE] = do_probe,
    [DT_PATH_ACTION_NUMBER_LISTEN] = do_listen,
    [DT_PATH_ACTION_NUMBER_USE] = do_use,
};

/* What the state of the machine allows the data path. */
static uint32_t use_of(const struct dt_path *path)
{
    if (dt_path_machine_is_up(&path->machine))
        return DT_PATH_UP;
    return !path->connection->is_sender && path->machine.state == DT_RECEIVER_READY ? DT_PATH_LISTENING
                                                                                    : DT_PATH_NONE;
}

static void set_use(struct dt_path *path, uint32_t use)
{
    struct dt_connection *c = path->connection;

    if (path->state == use)
        return;
    path->state = use;
    c->has_switched = true;
    dt_connection_choose_path(c);
    if (use == DT_PATH_UP && (c->is_sender ? dt_sender_of(c)->again : dt_receiver_of(c)->again) > 0)
        dt_connection_notify(c, DT_NOTICE_AGAIN);
}

/* Where a step has led to: who may use the path, and what the peer is told. */
static void follow(struct dt_path *path, const struct dt_path_step *taken, uint64_t now_ns)
{
    if (!taken->is_known)
        return;
    if (use_of(path) == DT_PATH_NONE)
        set_use(path, DT_PATH_NONE);
    for (uint32_t i = 0; i < DT_PATH_ACTION_COUNT; i++) {
        if (taken->actions & 1u << i)
            actions[i](path, now_ns);
    }
    set_use(path, use_of(path));
    say(path, (enum dt_path_message)taken->say);
}

static void step(struct dt_path *path, enum dt_path_event event, uint64_t now_ns)
{
    struct dt_path_step taken = dt_path_machine_event(&path->machine, event, now_ns);

    follow(path, &taken, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Faults
 */
static void explain(struct dt_path *path, uint32_t faults)
{
    uint32_t p = path->index;

    if (faults & 1u << (DT_FAULT_COMPLETION + p))
        dt_path_describe_error(path, &path->bad_completion, path->why, sizeof path->why);
    else if (faults & 1u << (DT_FAULT_REFUSED + p))
        snprintf(path->why, sizeof path->why, "%s %s", dt_path_name(path), path->refusal);
    else if (faults & 1u << (DT_FAULT_EVENT + p))
        memcpy(path->why, path->device_event.name, sizeof path->device_event.name);
    else
        snprintf(path->why, sizeof path->why, "%s was taken out of use by order", dt_path_name(path));
}

static uint32_t others_up(const struct dt_connection *c, const struct dt_path *path)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < c->path_count; p++)
        count += &c->path[p] != path && c->path[p].state == DT_PATH_UP;
    return count;
}

/*
 * A port without a link may have it again before the hardware's retries are over, and an order can wait: with
 * no other path left, nothing is gained by fencing this one.
 */
static bool may_stay(const struct dt_path *path, uint32_t faults)
{
    const uint32_t bit = 1u << path->index;

    if (faults & (bit << DT_FAULT_COMPLETION | bit << DT_FAULT_REFUSED))
        return false;
    if (faults & bit << DT_FAULT_EVENT && path->device_event.type != DT_EVENT_PORT_ERROR)
        return false;
    return others_up(path->connection, path) == 0;
}

/* The order may have been taken back meanwhile. */
static uint32_t standing(const struct dt_path *path, uint32_t faults)
{
    return dt_load_acquire(&path->nic->is_away) ? faults : faults & ~(1u << (DT_FAULT_ORDER + path->index));
}

static void take_faults(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t faults = dt_exchange_acq_rel(&c->faults, 0u);
    const uint32_t of_path =
        1u << DT_FAULT_COMPLETION | 1u << DT_FAULT_REFUSED | 1u << DT_FAULT_EVENT | 1u << DT_FAULT_ORDER;

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        faults = standing(path, faults);
        if (!(faults & of_path << p) || may_stay(path, faults))
            continue;
        explain(path, faults);
        step(path, DT_PATH_FAULT, now_ns);
        if (!c->is_sender && !path->fence.is_active && dt_load_relaxed(&path->nic->is_dead))
            dt_receiver_flush_lose(dt_receiver_of(c), path);
    }
}

/* A port has a link again: the sender tries the path, a receiver asks it to. */
static void take_hints(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t hints = dt_exchange_acq_rel(&c->hints, 0u);

    for (uint32_t p = 0; p < c->path_count; p++) {
        if (!(hints & 1u << p))
            continue;
        dt_recovery_hint(&c->path[p].recovery, now_ns);
        if (!c->is_sender)
            step(&c->path[p], DT_PATH_RECOVER, now_ns);
    }
}

static void recover(struct dt_path *path, uint64_t now_ns)
{
    enum dt_path_event event = dt_recover_progress(path, now_ns);

    if (event != DT_PATH_EVENT_COUNT)
        step(path, event, now_ns);
    dt_recover_retire(path, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Jobs and the fence
 */
static void take_job(struct dt_path *path, uint64_t now_ns)
{
    if (dt_load_acquire(&path->op_state) == DT_PATH_OP_IS_DONE) {
        bool is_good = path->op_status == DT_OK;

        dt_store_relaxed(&path->op_state, (uint32_t)DT_PATH_OP_IS_IDLE);
        switch ((enum dt_path_op)path->op) {
        case DT_PATH_OP_FENCE:
            dt_switch_fence_told(path, now_ns);
            break;
        case DT_PATH_OP_DESTROY:
            if (path->is_destroying)
                dt_switch_fence_destroyed(path);
            path->is_destroying = false;
            break;
        case DT_PATH_OP_MAKE:
            if (!is_good)
                dt_recovery_missed(&path->recovery, now_ns);
            step(path, is_good ? DT_PATH_MADE : DT_PATH_FAILED, now_ns);
            break;
        case DT_PATH_OP_LINK:
            step(path, is_good ? DT_PATH_LINKED : DT_PATH_FAILED, now_ns);
            break;
        case DT_PATH_OP_QUERY:
            dt_watch_queried(path);
            break;
        }
    }
    if (path->is_fence_wanted && dt_load_relaxed(&path->op_state) == DT_PATH_OP_IS_IDLE) {
        path->is_fence_wanted = false;
        dt_path_submit_op(path, DT_PATH_OP_FENCE);
    }
}

static void look_for_proof(struct dt_path *path, uint64_t now_ns)
{
    enum dt_path_event event = dt_switch_fence_progress(path, now_ns);

    if (event == DT_PATH_EVENT_COUNT)
        return;
    if (event == DT_PATH_FENCED) {
        path->report.steps.fenced_ns = now_ns;
        dt_fence_end(&path->fence);
    }
    step(path, event, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * The peer's word
 */
/* The receiver learns that the sender knows of the end of this epoch. */
static bool is_told_of_fence(const struct dt_path *path, enum dt_path_message message)
{
    return !path->connection->is_sender && path->report.steps.agreed_ns == 0 &&
           (message == DT_PATH_SAY_SWITCH || message == DT_PATH_SAY_HEARD);
}

/* A receiver that says RESUME once more has its port back; or has not heard yet that the epoch is settled. */
static bool is_hint(const struct dt_path *path, uint64_t now_ns)
{
    return now_ns - path->settled_ns >= DT_REPEAT_NS_MAX;
}

static void hear(struct dt_connection *c, uint64_t now_ns)
{
    const struct dt_path_frame *frame = &c->heard;
    struct dt_path *path = &c->path[frame->path];
    bool was_up = path->state == DT_PATH_UP;
    struct dt_path_step taken;

    c->is_heard = false;
    if (c->heard_type != DT_FRAME_PATH) {
        dt_watch_hear(c, now_ns);
        return;
    }
    if ((frame->message == DT_PATH_SAY_OPEN || frame->message == DT_PATH_SAY_OPENED) &&
        dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_IDLE)
        return; /* the control thread is busy with this path; it is said again */
    if (was_up)
        snprintf(path->why, sizeof path->why, "the peer gave it up");
    taken = dt_path_machine_hear(&path->machine, (enum dt_path_message)frame->message, frame->epoch, now_ns);
    if (taken.actions & (DT_PATH_DO_MAKE | DT_PATH_DO_LINK))
        path->peer_offer = frame->offer;
    if (frame->message == DT_PATH_SAY_RESUME && taken.is_known && !(taken.actions & DT_PATH_DO_KEEP) &&
        is_hint(path, now_ns))
        dt_recovery_hint(&path->recovery, now_ns);
    follow(path, &taken, now_ns);
    if (is_told_of_fence(path, (enum dt_path_message)frame->message))
        path->report.steps.agreed_ns = now_ns;
}

/* ------------------------------------------------------------------------------------------------------------
 * No path at all
 */
static void describe_deaths(const struct dt_connection *c, char *text, size_t bytes)
{
    size_t used = 0;

    for (uint32_t p = 0; p < c->path_count && used < bytes; p++)
        used += (size_t)snprintf(text + used, bytes - used, "; path %u, %s to %s: %s", p,
                                 dt_path_name(&c->path[p]),
                                 *c->path[p].peer_device ? c->path[p].peer_device : "none",
                                 *c->path[p].why ? c->path[p].why : "never worked");
}

/* Said at once: the next that is heard of it may be an error minutes later, or how the switch went. */
static void begin_waiting(struct dt_connection *c, uint64_t now_ns)
{
    char deaths[512];

    c->pathless_ns = now_ns;
    describe_deaths(c, deaths, sizeof deaths);
    dt_info("connection %016llx %s %s on %s: no path is left%s; it waits %llu ms for one to come back",
            (unsigned long long)c->id, c->is_sender ? "to" : "from", c->peer, c->nic->name, deaths,
            (unsigned long long)c->net->params.dead_ms);
}

static void watch_death(struct dt_connection *c, uint64_t now_ns)
{
    char deaths[512];

    if (c->current) {
        c->pathless_ns = 0;
        return;
    }
    if (c->pathless_ns == 0)
        begin_waiting(c, now_ns);
    if (now_ns - c->pathless_ns < c->net->params.dead_ms * DT_NS_PER_MS)
        return;
    describe_deaths(c, deaths, sizeof deaths);
    dt_connection_fail(c, DT_PEER_ERROR, "no path for %llu ms%s",
                       (unsigned long long)((now_ns - c->pathless_ns) / DT_NS_PER_MS), deaths);
}

static void watch(struct dt_connection *c, uint64_t now_ns)
{
    struct dt_path *failed = dt_watch_progress(c, now_ns);

    if (failed) {
        step(failed, DT_PATH_FAULT, now_ns);
        c->is_switching = true;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Driving
 */
void dt_switch_start(struct dt_connection *c, uint64_t now_ns)
{
    c->watched_ns = now_ns;
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        bool is_up = path->state == DT_PATH_UP;

        dt_path_machine_init(&path->machine, c->is_sender ? DT_PATH_END_SENDER : DT_PATH_END_RECEIVER, is_up);
        dt_recovery_init(&path->recovery);
        path->is_used = path->is_open = is_up;
        c->has_switched |= !is_up;
        if (!is_up) {
            dt_recovery_lost(&path->recovery, now_ns);
            c->is_switching = true;
        }
    }
    obey_orders(c);
}

void dt_switch_say_again(struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_repeat_now(&c->path[p].machine.repeat, now_ns);
}

/* The path may be put aside at this moment; then a fault is on its way, which is looked at first. */
static bool is_quiet(const struct dt_path *path)
{
    return dt_path_machine_is_up(&path->machine) && dt_load_relaxed(&path->state) == DT_PATH_UP &&
           dt_list_is_empty(&path->retired) && !path->report.is_pending;
}

/* When this path wants to be looked at. */
static uint64_t path_deadline_ns(const struct dt_path *path, uint64_t now_ns)
{
    uint64_t deadline_ns = dt_path_machine_repeat_ns(&path->machine);
    uint32_t op_state = dt_load_acquire(&path->op_state);

    deadline_ns = dt_earlier_ns(deadline_ns, dt_recover_deadline_ns(path, now_ns));
    /* A job that is busy may be so for long; it wakes Detour's thread at its end. */
    if (op_state == DT_PATH_OP_IS_DONE || (path->is_fence_wanted && op_state == DT_PATH_OP_IS_IDLE))
        return now_ns;
    if (path->fence.is_active)
        deadline_ns =
            dt_earlier_ns(deadline_ns, dt_earlier_ns(dt_fence_deadline_ns(&path->fence), path->look_ns));
    return deadline_ns;
}

/* When the owner has something to do. */
static uint64_t work_deadline_ns(const struct dt_connection *c, uint64_t now_ns)
{
    uint64_t deadline_ns = DT_NEVER_NS;

    if (dt_load_acquire(&c->faults) || dt_load_acquire(&c->hints) || c->is_heard)
        return now_ns;
    if (!c->is_switching)
        return DT_NEVER_NS;
    for (uint32_t p = 0; p < c->path_count; p++)
        deadline_ns = dt_earlier_ns(deadline_ns, path_deadline_ns(&c->path[p], now_ns));
    if (c->pathless_ns)
        deadline_ns =
            dt_earlier_ns(deadline_ns, dt_deadline_ns(c->pathless_ns, c->net->params.dead_ms * DT_NS_PER_MS));
    return deadline_ns;
}

uint64_t dt_switch_deadline_ns(const struct dt_connection *c, uint64_t now_ns)
{
    uint64_t deadline_ns = work_deadline_ns(c, now_ns);

    for (uint32_t p = 0; p < c->path_count && c->is_switching; p++)
        deadline_ns = dt_earlier_ns(deadline_ns, dt_switch_report_deadline_ns(&c->path[p], now_ns));
    return deadline_ns;
}

bool dt_switch_is_due(const struct dt_connection *c, uint64_t now_ns)
{
    if (dt_watch_is_due(c, now_ns))
        return true;
    for (uint32_t p = 0; p < c->path_count && c->is_switching && c->is_sender; p++) {
        if (c->path[p].machine.state == DT_SENDER_PROVING)
            return true;
    }
    return work_deadline_ns(c, now_ns) <= now_ns;
}

bool dt_switch_is_hurried(const struct dt_connection *c, uint64_t now_ns)
{
    for (uint32_t p = 0; p < c->path_count && c->is_switching; p++) {
        if (dt_switch_report_is_awaited(&c->path[p], now_ns))
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

void dt_switch_report(struct dt_connection *c, uint64_t now_ns, uint32_t *lines_left)
{
    if (!c->is_switching)
        return;
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_switch_report_progress(&c->path[p], now_ns, lines_left);
    c->is_switching = !is_all_quiet(c);
}

void dt_switch_progress(struct dt_connection *c, uint64_t now_ns)
{
    take_faults(c, now_ns);
    take_hints(c, now_ns);
    if (c->is_heard)
        hear(c, now_ns);
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        take_job(path, now_ns);
        look_for_proof(path, now_ns);
        recover(path, now_ns);
        take_job(path, now_ns);
        say(path, dt_path_machine_repeat(&path->machine, now_ns));
    }
    c->is_switching = !is_all_quiet(c);
    if (dt_watch_is_due(c, now_ns))
        watch(c, now_ns);
    watch_death(c, now_ns);
    if (dt_load_acquire(&c->notices) & DT_NOTICE_AGAIN)
        dt_connection_attend(c);
}
