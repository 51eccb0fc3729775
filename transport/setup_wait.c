/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/setup_wait.h"

#include "base/clock.h"
#include "base/log.h"
#include "transport/path/path.h"

/* Creating and connecting queue pairs takes milliseconds; a firmware that hangs takes up to a minute. A
 * registration of many GB may last longer than this: the connection then uses the path a second after it has
 * ended. */
#define LATE_NS DT_NS_PER_S
/* Of the path of the default devices: on a busy machine each end may find another device late, and two ends
 * that leave out different paths have none in common. */
#define DEFAULT_LATE_NS (5 * DT_NS_PER_S)
/* While another path is ready, a neighbour that resolves late is waited for as long. */
#define REFUSED_NS DT_NS_PER_S

/* ------------------------------------------------------------------------------------------------------------
 * Tasks that do not end
 */
static uint32_t busy_paths(const struct dt_connection *c)
{
    uint32_t mask = 0;

    for (uint32_t p = 0; p < c->path_count; p++)
        mask |= dt_load_acquire(&c->path[p].setup_state) == DT_PATH_SETUP_BUSY ? 1u << p : 0;
    return mask;
}

static bool is_one_set_up(const struct dt_connection *c)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (dt_path_is_set_up(&c->path[p]))
            return true;
    }
    return false;
}

/* Tasks that the devices of these paths have finished; a link that was refused, after a second or so of the
 * driver's own patience, is no progress. */
static uint32_t count_finished(const struct dt_connection *c, uint32_t mask)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < c->path_count; p++) {
        const struct dt_nic *nic = c->path[p].nic;

        if (mask & 1u << p)
            count += dt_load_relaxed(&nic->executor.finished) - dt_load_relaxed(&nic->links_refused);
    }
    return count;
}

/* Takes the count of finished tasks for the present one. True if the devices have finished one since. */
static bool has_progress(struct dt_setup *setup)
{
    uint32_t mask = busy_paths(setup->connection);
    uint32_t finished = count_finished(setup->connection, mask);
    bool has = setup->late_ns == 0 || mask != setup->late_mask || (int32_t)(finished - setup->finished) > 0;

    if (has) {
        setup->late_mask = mask;
        setup->finished = finished;
    }
    return has;
}

/*
 * Once a path is ready, the devices of the others have LATE_NS without a finished task, the default one
 * DEFAULT_LATE_NS, or no time if an earlier set-up has waited for them in vain: a device that hangs delays
 * the connections of others once, and a device that is busy with hundreds of queue pairs does not count as
 * one that hangs.
 */
static void leave_late_paths(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;

    if (!is_one_set_up(c))
        return;
    if (has_progress(setup))
        setup->late_ns = dt_deadline_ns(now_ns, LATE_NS);
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        uint64_t late_ns = dt_deadline_ns(setup->late_ns, p == 0 ? DEFAULT_LATE_NS - LATE_NS : 0);
        bool is_due = now_ns >= late_ns || dt_load_acquire(&path->nic->late_tasks) > 0;

        if (is_due && dt_path_leave_setup(path))
            dt_warn("path-late",
                    "%s has not answered for %llu ms; the connection to %s is set up without it and uses it "
                    "once it answers",
                    dt_path_name(path), (unsigned long long)((now_ns - setup->started_ns) / DT_NS_PER_MS),
                    c->peer);
    }
}

bool dt_setup_tasks_done(struct dt_setup *setup, uint64_t now_ns)
{
    const uint32_t *pending = &setup->connection->group.setup_pending;

    if (dt_load_acquire(pending) > 0)
        leave_late_paths(setup, now_ns);
    else
        setup->late_ns = 0; /* the next step's tasks have a time of their own */
    return dt_load_acquire(pending) == 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * Links that a device refuses
 */
static bool is_refused(const struct dt_path *path)
{
    return path->state == DT_PATH_UP && path->link_status == DT_AGAIN;
}

static bool is_one_linked(const struct dt_connection *c)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP && c->path[p].link_status == DT_OK)
            return true;
    }
    return false;
}

static void leave_out(struct dt_path *path)
{
    const struct dt_params *params = &path->group->environment->params;

    dt_warn("link-refused",
            "%s refused to connect its queue pairs to %s %u times, %llu ms apart; the connection is set up "
            "without this path (DETOUR_LINK_RETRY_CNT)",
            dt_path_name(path), path->peer_device, path->link_repeats + 1,
            (unsigned long long)params->link_retry_ms);
    path->state = DT_PATH_NONE;
}

static void repeat(struct dt_connection *c, uint32_t mask)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (mask & 1u << p) {
            c->path[p].link_repeats++;
            dt_path_submit_link(&c->path[p]);
        }
    }
}

bool dt_setup_repeats_links(struct dt_setup *setup, uint64_t now_ns)
{
    struct dt_connection *c = setup->connection;
    const struct dt_params *params = &c->environment->params;
    uint32_t due_mask = 0;

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        if (!is_refused(path))
            continue;
        if (setup->refused_ns == 0)
            setup->refused_ns = dt_deadline_ns(now_ns, REFUSED_NS);
        if (path->link_repeats < params->link_retry_count &&
            (!is_one_linked(c) || now_ns < setup->refused_ns))
            due_mask |= 1u << p;
        else
            leave_out(path);
    }
    if (due_mask && setup->repeat_ns == 0)
        setup->repeat_ns = dt_deadline_ns(now_ns, params->link_retry_ms * DT_NS_PER_MS);
    if (!due_mask || now_ns < setup->repeat_ns)
        return due_mask != 0;
    setup->repeat_ns = 0;
    repeat(c, due_mask);
    return true;
}
