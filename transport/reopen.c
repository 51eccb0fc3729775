/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/reopen.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/planted.h"
#include "transport/device_events.h"
#include "transport/message/connection.h"
#include "transport/net_state.h"

/* Old queue pairs of the path may still be needed: for its fence, or as proof that they deliver nothing. */
static bool needs_old(const struct dt_path *path)
{
    return path->state != DT_PATH_NONE || path->fence.is_active ||
           dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_IDLE;
}

static bool connection_needs_old(const struct dt_connection *c, const struct dt_nic *nic)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].nic == nic && needs_old(&c->path[p]))
            return true;
    }
    return false;
}

/* Of all connections, whatever their default device. */
static bool is_needed(const struct dt_nic *nic)
{
    struct dt_net *net = nic->net;
    bool is_one = false;

    for (size_t i = 0; i < net->nic_count && !is_one; i++) {
        pthread_mutex_lock(&net->nic[i].mutex);
        dt_list_for_each(node, &net->nic[i].service->connections) is_one |=
            connection_needs_old(dt_container_of(node, struct dt_connection, node), nic);
        pthread_mutex_unlock(&net->nic[i].mutex);
    }
    return is_one;
}

static void run_open(struct dt_task *task)
{
    struct dt_nic *nic = dt_container_of(task, struct dt_nic_service, reopen.task)->nic;
    struct dt_reopen *reopen = &nic->service->reopen;
    enum dt_status status;

    dt_device_close_old(dt_nic_device(nic)); /* however often it comes and goes, few are open */
    status = dt_device_reopen(dt_nic_device(nic), &reopen->opened);
    DT_CHECK((status == DT_OK) == (reopen->opened != NULL));
    reopen->is_refused = status != DT_OK && status != DT_AGAIN;
    dt_store_release(&reopen->state, (uint32_t)DT_REOPEN_DONE);
    dt_nic_wake(nic);
}

static void run_close_old(struct dt_task *task)
{
    struct dt_nic *nic = dt_container_of(task, struct dt_nic_service, reopen.task)->nic;
    struct dt_reopen *reopen = &nic->service->reopen;

    reopen->old_count = dt_device_close_old(dt_nic_device(nic));
    reopen->is_refused = false;
    dt_store_release(&reopen->state, (uint32_t)DT_REOPEN_DONE);
    dt_nic_wake(nic);
}

static uint64_t submit(struct dt_nic *nic, void (*run)(struct dt_task *task))
{
    struct dt_reopen *reopen = &nic->service->reopen;

    dt_store_relaxed(&reopen->state, (uint32_t)DT_REOPEN_BUSY);
    reopen->task.run = run;
    dt_nic_submit(nic, &reopen->task);
    return DT_NEVER_NS; /* it wakes this thread */
}

/* The device works. */
static uint64_t close_old(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_reopen *reopen = &nic->service->reopen;
    uint32_t state = dt_load_acquire(&reopen->state);

    if (!reopen->has_old || state == DT_REOPEN_BUSY)
        return DT_NEVER_NS;
    if (state == DT_REOPEN_DONE) {
        dt_store_relaxed(&reopen->state, (uint32_t)DT_REOPEN_IDLE);
        reopen->has_old = reopen->old_count > 0;
        reopen->next_old_ns = dt_deadline_ns(now_ns, DT_REOPEN_OLD_NS);
        return reopen->has_old ? reopen->next_old_ns : DT_NEVER_NS;
    }
    return now_ns < reopen->next_old_ns ? reopen->next_old_ns : submit(nic, run_close_old);
}

/* From here on new queue pairs are the new device's. */
static void take(struct dt_nic *nic, struct dt_device *device, uint64_t now_ns)
{
    dt_inject_reopened(nic, device);
    dt_store_release(&nic->device, device);
    dt_store_release(&nic->is_dead, 0u);
    if (!DT_PLANTED(HELD_DROPPED))
        dt_nic_release(nic); /* memory registered meanwhile, before the queue pairs of the paths */
    dt_info("device-back", "%s: the device is back: opened again, with its memory; its paths are made new",
            nic->name);
    dt_device_events_hint(nic, now_ns);
}

uint64_t dt_reopen_progress(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_reopen *reopen = &nic->service->reopen;

    if (!dt_load_relaxed(&nic->is_dead))
        return close_old(nic, now_ns);
    switch ((enum dt_reopen_state)dt_load_acquire(&reopen->state)) {
    case DT_REOPEN_BUSY:
        return DT_NEVER_NS;
    case DT_REOPEN_DONE:
        dt_store_relaxed(&reopen->state, (uint32_t)DT_REOPEN_IDLE);
        reopen->next_ns =
            dt_deadline_ns(now_ns, reopen->is_refused ? DT_REOPEN_REFUSED_NS : DT_REOPEN_PERIOD_NS);
        if (!reopen->opened)
            return reopen->next_ns;
        take(nic, reopen->opened, now_ns);
        reopen->opened = NULL;
        reopen->has_old = true;
        reopen->next_old_ns = dt_deadline_ns(now_ns, DT_REOPEN_OLD_NS);
        return reopen->next_old_ns;
    case DT_REOPEN_IDLE:
        break;
    }
    if (now_ns < reopen->next_ns)
        return reopen->next_ns;
    reopen->next_ns = dt_deadline_ns(now_ns, DT_REOPEN_PERIOD_NS);
    if (!dt_device_is_removed(dt_load_acquire(&nic->device)) || is_needed(nic))
        return reopen->next_ns;
    return submit(nic, run_open);
}
