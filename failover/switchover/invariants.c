/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/invariants.h"

#include "base/check.h"
#include "failover/switchover/state.h"
#include "transport/message/receive.h"
#include "transport/message/send.h"
#include "transport/path/queues.h"

/* The data path may use a path only as far as its machine permits; it may stop to use one at any time. */
static void check_use(const struct dt_path *path)
{
    const struct dt_path_machine *machine = &path->machine;
    bool is_sender = path->connection->is_sender;

    DT_CHECK(machine->end == (uint32_t)(is_sender ? DT_PATH_END_SENDER : DT_PATH_END_RECEIVER));
    DT_CHECK(machine->state < (uint32_t)(is_sender ? DT_SENDER_STATE_COUNT : DT_RECEIVER_STATE_COUNT));
    DT_CHECK(path->state <= DT_PATH_UP);
    DT_CHECK(path->state != DT_PATH_UP || dt_path_machine_is_up(machine));
    DT_CHECK(path->state != DT_PATH_LISTENING ||
             (!is_sender && (machine->state == DT_RECEIVER_READY || machine->state == DT_RECEIVER_STOPPING)));
    DT_CHECK((path->switchover->stop_ns != 0) == (!is_sender && machine->state == DT_RECEIVER_STOPPING));
    DT_CHECK(path->epoch == machine->epoch);
    DT_CHECK(path->switchover == &path->connection->switchover->path[path->index]);
}

/* Fence before resume: nothing uses an epoch whose fence is under way. */
static void check_fence(const struct dt_path *path)
{
    const struct dt_path_switchover *state = path->switchover;
    const struct dt_fence *fence = &path->fence;

    DT_CHECK(!fence->is_active || path->state == DT_PATH_NONE);
    DT_CHECK(!fence->is_active || !dt_path_machine_is_up(&path->machine));
    DT_CHECK(dt_qp_set_contains(&fence->all, &fence->markers));
    DT_CHECK(dt_qp_set_contains(&fence->all, &fence->receives));
    DT_CHECK(dt_qp_set_contains(&fence->all, &state->markers));
    DT_CHECK(!state->is_destroy_wanted || fence->is_active);
    DT_CHECK(!dt_path_machine_is_up(&path->machine) || !state->is_fence_wanted);
}

/* The control thread has one task of failover for a path at a time, and owns what the task works on. */
static void check_task(const struct dt_path *path)
{
    const struct dt_path_switchover *state = path->switchover;

    if (dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_IDLE) {
        DT_CHECK(!state->is_destroying || path->op == DT_PATH_OP_DESTROY);
        return;
    }
    DT_CHECK((!path->doomed || path->fence.is_refused) && !state->is_destroying);
    DT_CHECK(!path->fresh || path->state == DT_PATH_NONE);
}

/* Retired queue pairs, oldest first: each of an epoch before the current one, or of the current one if the
 * device refused to destroy them for the fence. */
static void check_retired(const struct dt_path *path)
{
    uint64_t retired_ns = 0;

    for (const struct dt_list *node = path->retired.next; node != &path->retired; node = node->next) {
        const struct dt_path_queues *queues = dt_container_of(node, const struct dt_path_queues, node);

        DT_CHECK(queues->epoch < path->epoch ||
                 (queues->epoch == path->epoch && path->state == DT_PATH_NONE));
        DT_CHECK(queues->retired_ns >= retired_ns);
        retired_ns = queues->retired_ns;
    }
}

static void check_report(const struct dt_path *path)
{
    const struct dt_switchover_report *report = &path->switchover->report;
    const struct dt_switchover_steps *steps = &report->steps;

    DT_CHECK(!report->is_pending || steps->detected_ns != 0);
    DT_CHECK(!report->is_pending || steps->resumed_ns >= steps->detected_ns);
    DT_CHECK(!report->is_pending || report->epoch <= path->epoch);
    DT_CHECK(report->settled.engines <= (DT_SWITCHOVER_BY_WQE | DT_SWITCHOVER_BY_REPOST));
    DT_CHECK((path->switchover->resume.later & 1) == 0);
}

/* New messages go to the first path that is UP, and the counts of messages that wait agree with the notice.
 */
static void check_connection(const struct dt_connection *c)
{
    uint32_t again = c->is_sender ? dt_sender_of((struct dt_connection *)c)->again
                                  : dt_receiver_of((struct dt_connection *)c)->again;

    DT_CHECK(!c->switchover->is_frame_pending);
    DT_CHECK(!c->is_sender || again <= 2 * c->slots); /* a message, and its TAKE */
    DT_CHECK(again == 0 || dt_load_acquire(&c->notices) & DT_NOTICE_AGAIN);
    DT_CHECK(!c->current || c->current->state == DT_PATH_UP);
    DT_CHECK(!c->current || c->switchover->pathless_ns == 0);
    for (uint32_t p = 0; p < c->path_count; p++)
        DT_CHECK(c->path[p].state != DT_PATH_UP || (c->current && c->current->index <= p));
}

void dt_switchover_check(const struct dt_connection *c)
{
    /* A failing connection is not driven to the end: an action may have failed for want of memory. */
    if (dt_load_relaxed(&c->failing) != DT_OK)
        return;
    for (uint32_t p = 0; p < c->path_count; p++) {
        const struct dt_path *path = &c->path[p];

        check_use(path);
        check_fence(path);
        check_task(path);
        check_retired(path);
        check_report(path);
    }
    check_connection(c);
}
