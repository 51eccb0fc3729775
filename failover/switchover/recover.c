/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/recover.h"

#include <stdio.h>

#include "base/check.h"
#include "base/clock.h"
#include "failover/planted.h"
#include "failover/switchover/faults.h"
#include "base/util.h"
#include "transport/path/nic.h"
#include "transport/path/path.h"
#include "transport/path/queues.h"

#define POLL_MAX 4
/* Interval at which the completion of an outstanding probe is polled. */
#define POLL_NS (1 * DT_NS_PER_MS)

static bool is_settled(const struct dt_path *path)
{
    return path->connection->is_sender &&
           (path->machine.state == DT_SENDER_SETTLED ||
            (DT_PLANTED(OPEN_EARLY) && path->machine.state == DT_SENDER_WAITING));
}

/*
 * A drained device is tried only as the last resort, and while a switchover is under way the control thread
 * is free for its fences: making queue pairs waits.
 */
static bool may_try(const struct dt_path *path)
{
    return is_settled(path) && dt_load_acquire(&path->op_state) == DT_PATH_OP_IS_IDLE &&
           !dt_faults_is_out_of_use(path) && !path->connection->nic->is_hurried;
}

static bool is_probing(const struct dt_path *path)
{
    return path->connection->is_sender && path->machine.state == DT_SENDER_PROBING;
}

/* ------------------------------------------------------------------------------------------------------------
 * Probes
 */
void dt_recover_begin_probing(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    DT_CHECK(c->is_sender && path->probe && path->epoch == path->machine.epoch);
    dt_recovery_start_probing(&path->switchover->recovery,
                              c->current ? c->environment->params.stable_ms * DT_NS_PER_MS : 0, now_ns);
}

/* False: the path does not work. */
static bool poll_probe(struct dt_path *path, uint64_t now_ns)
{
    struct dt_completion completion[POLL_MAX];
    int count = dt_cq_poll(path->probe_cq, completion, POLL_MAX);

    for (int i = 0; i < count; i++) {
        if (completion[i].status != DT_WC_SUCCESS) {
            size_t used = (size_t)snprintf(path->switchover->why, sizeof path->switchover->why, "a probe, ");

            dt_path_describe_error(path, &completion[i], path->switchover->why + used,
                                   sizeof path->switchover->why - used);
            return false;
        }
        dt_recovery_probe_answered(&path->switchover->recovery, now_ns);
    }
    if (dt_recovery_probe_timed_out(&path->switchover->recovery, now_ns)) {
        snprintf(path->switchover->why, sizeof path->switchover->why, "a probe was not answered");
        return false;
    }
    return count >= 0;
}

static enum dt_path_event progress_probes(struct dt_path *path, uint64_t now_ns)
{
    enum dt_probe_kind kind;

    DT_CHECK(path->state == DT_PATH_NONE && path->epoch == path->machine.epoch);
    if (dt_faults_is_out_of_use(path) || !poll_probe(path, now_ns))
        return DT_PATH_FAILED;
    if (dt_recovery_is_stable(&path->switchover->recovery))
        return DT_PATH_STABLE;
    kind = dt_recovery_probe(&path->switchover->recovery, now_ns);
    if (kind != DT_PROBE_NONE)
        dt_path_send_probe(path, kind == DT_PROBE_FULL);
    return DT_PATH_EVENT_COUNT;
}

enum dt_path_event dt_recover_progress(struct dt_path *path, uint64_t now_ns)
{
    if (is_probing(path))
        return progress_probes(path, now_ns);
    if (may_try(path) && dt_recovery_is_due(&path->switchover->recovery, now_ns) &&
        !path->switchover->is_fence_wanted)
        return DT_PATH_RECOVER;
    return DT_PATH_EVENT_COUNT;
}

/* ------------------------------------------------------------------------------------------------------------
 * Retired queue pairs
 */
static uint64_t retire_ns(const struct dt_path *path)
{
    const struct dt_path_queues *oldest;

    if (dt_list_is_empty(&path->retired))
        return DT_NEVER_NS;
    oldest = dt_container_of(path->retired.next, struct dt_path_queues, node);
    return dt_deadline_ns(oldest->retired_ns, path->connection->environment->params.late_ms * DT_NS_PER_MS);
}

/* Not while the control thread has a task, which may be the destruction of path->doomed. */
static bool may_retire(const struct dt_path *path)
{
    return dt_load_acquire(&path->op_state) == DT_PATH_OP_IS_IDLE && !path->doomed;
}

void dt_recover_retire(struct dt_path *path, uint64_t now_ns)
{
    if (!may_retire(path) || now_ns < retire_ns(path))
        return;
    path->doomed = dt_container_of(dt_list_pop_front(&path->retired), struct dt_path_queues, node);
    dt_path_submit_op(path, DT_PATH_OP_DESTROY);
}

void dt_recover_retire_again(struct dt_path *path, uint64_t now_ns)
{
    path->doomed->retired_ns = now_ns;
    dt_list_push_back(&path->retired, &path->doomed->node);
    path->doomed = NULL;
}

uint64_t dt_recover_deadline_ns(const struct dt_path *path, uint64_t now_ns)
{
    uint64_t deadline_ns = may_retire(path) ? retire_ns(path) : DT_NEVER_NS;

    if (may_try(path))
        deadline_ns = dt_earlier_ns(deadline_ns, path->switchover->recovery.next_ns);
    if (is_probing(path)) {
        deadline_ns = dt_earlier_ns(deadline_ns, dt_recovery_probe_deadline_ns(&path->switchover->recovery));
        if (path->switchover->recovery.is_pending)
            deadline_ns = dt_earlier_ns(deadline_ns, dt_deadline_ns(now_ns, POLL_NS));
    }
    return deadline_ns;
}
