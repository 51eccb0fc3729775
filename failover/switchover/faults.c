/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/faults.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "detour/stat.h"
#include "failover/planted.h"
#include "failover/switchover/actions.h"
#include "transport/message/flush.h"
#include "transport/message/receive.h"
#include "transport/session/session.h"

/* ------------------------------------------------------------------------------------------------------------
 * Faults and hints
 */
static void explain(struct dt_path *path, uint32_t faults)
{
    struct dt_path_switchover *switchover = path->switchover;
    uint32_t p = path->index;

    DT_CHECK(p < path->connection->path_count && &path->connection->path[p] == path);
    if (faults & 1u << (DT_FAULT_COMPLETION + p)) {
        switchover->cause = DETOUR_STAT_CAUSE_FAILED_WORK;
        dt_path_describe_error(path, &path->bad_completion, switchover->why, sizeof switchover->why);
    } else if (faults & 1u << (DT_FAULT_REFUSED + p)) {
        switchover->cause = DETOUR_STAT_CAUSE_REFUSED;
        snprintf(switchover->why, sizeof switchover->why, "%s %s", dt_path_name(path), path->refusal);
    } else if (faults & 1u << (DT_FAULT_EVENT + p)) {
        switchover->cause = DETOUR_STAT_CAUSE_DEVICE_EVENT;
        memcpy(switchover->why, path->device_event.name, sizeof path->device_event.name);
    } else {
        switchover->cause = DETOUR_STAT_CAUSE_DRAINED;
        snprintf(switchover->why, sizeof switchover->why, "%s was drained by the operator",
                 dt_path_name(path));
    }
}

static uint32_t others_up(const struct dt_connection *c, const struct dt_path *path)
{
    uint32_t count = 0;

    for (uint32_t p = 0; p < c->path_count; p++)
        count += &c->path[p] != path && c->path[p].state == DT_PATH_UP;
    return count;
}

/*
 * Whether the fault may wait. A port can regain its link before the hardware's retries are over, and a drain
 * has time: without another path, fencing this one gains nothing.
 */
static bool may_wait(const struct dt_path *path, uint32_t faults)
{
    const uint32_t bit = 1u << path->index;

    if (faults & (bit << DT_FAULT_COMPLETION | bit << DT_FAULT_REFUSED))
        return false;
    if (faults & bit << DT_FAULT_EVENT && path->device_event.type != DT_EVENT_PORT_ERROR)
        return false;
    return others_up(path->connection, path) == 0;
}

/* The faults without a drain that was ended meanwhile. */
static uint32_t current_faults(const struct dt_path *path, uint32_t faults)
{
    return dt_path_is_drained(path) ? faults : faults & ~(1u << (DT_FAULT_ADMIN + path->index));
}

/* A sender that has closed or died sends no SWITCH. */
static bool can_peer_stop(const struct dt_session *session)
{
    return session && session->state != DT_SESSION_ENDED && !session->is_peer_dead &&
           !session->has_peer_closed;
}

bool dt_faults_may_await_switch(const struct dt_path *path)
{
    const struct dt_connection *c = path->connection;

    return !c->is_sender && !dt_load_relaxed(&path->nic->is_dead) && can_peer_stop(c->session) &&
           !(dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_CLOSED) && /* its CLOSE may have come in band */
           !DT_PLANTED(FENCE_UNASKED);
}

void dt_faults_begin(struct dt_path *path, uint64_t now_ns)
{
    dt_switchover_step(path, dt_faults_may_await_switch(path) ? DT_PATH_SUSPECT : DT_PATH_FAULT, now_ns);
}

void dt_faults_expire_stop(struct dt_path *path, uint64_t now_ns)
{
    const struct dt_connection *c = path->connection;

    if (path->switchover->stop_ns == 0)
        return;
    if (!dt_faults_may_await_switch(path)) {
        dt_switchover_step(path, DT_PATH_FAULT, now_ns);
        return;
    }
    if (now_ns < path->switchover->stop_ns)
        return;
    dt_info("stop-unanswered",
            "connection %016llx from %s: path %u, %s to %s: the sender has not confirmed within %llu ms that "
            "it has stopped: the path is fenced without that",
            (unsigned long long)c->id, c->peer, path->index, dt_path_name(path), path->peer_device,
            (unsigned long long)c->environment->params.fence_ms);
    dt_switchover_step(path, DT_PATH_FAULT, now_ns);
}

void dt_faults_process(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t faults = dt_exchange_acq_rel(&c->faults, 0u);
    const uint32_t of_path =
        1u << DT_FAULT_COMPLETION | 1u << DT_FAULT_REFUSED | 1u << DT_FAULT_EVENT | 1u << DT_FAULT_ADMIN;

    DT_CHECK((faults & ~(of_path * ((1u << c->path_count) - 1))) == 0); /* of paths that exist */
    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];

        faults = current_faults(path, faults);
        if (!(faults & of_path << p) || may_wait(path, faults))
            continue;
        if (path->switchover->stop_ns == 0) /* else the path has failed already: the first reason counts */
            explain(path, faults);
        dt_faults_begin(path, now_ns);
        if (!c->is_sender && !path->fence.is_active && dt_load_relaxed(&path->nic->is_dead))
            dt_receiver_flush_lose(dt_receiver_of(c), path);
    }
}

void dt_hints_process(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t hints = dt_exchange_acq_rel(&c->hints, 0u);

    DT_CHECK(hints >> c->path_count == 0);
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (!(hints & 1u << p))
            continue;
        dt_recovery_hint(&c->path[p].switchover->recovery, now_ns);
        if (!c->is_sender)
            dt_switchover_step(&c->path[p], DT_PATH_RECOVER, now_ns);
    }
}

bool dt_faults_is_out_of_use(const struct dt_path *path)
{
    const struct dt_connection *c = path->connection;

    if (!dt_path_is_drained(path))
        return false;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (dt_load_relaxed(&c->path[p].state) == DT_PATH_UP)
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------------------
 * No path at all
 */
/* A drained path is the last resort. */
static void try_drained(struct dt_connection *c)
{
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (dt_path_is_drained(&c->path[p]))
            __atomic_fetch_or(&c->hints, 1u << p, __ATOMIC_ACQ_REL);
    }
}

static const char *state_name(const struct dt_path *path)
{
    return dt_path_state_name((enum dt_path_end)path->machine.end, path->machine.state);
}

static void describe_paths(const struct dt_connection *c, char *text, size_t bytes)
{
    size_t used = 0;

    for (uint32_t p = 0; p < c->path_count && used < bytes; p++)
        used += (size_t)snprintf(
            text + used, bytes - used, "; path %u, %s to %s, %s: %s", p, dt_path_name(&c->path[p]),
            *c->path[p].peer_device ? c->path[p].peer_device : "none", state_name(&c->path[p]),
            *c->path[p].switchover->why ? c->path[p].switchover->why : "never worked");
}

/* Logged at once: the next line about the connection may be an error minutes later. */
static void begin_waiting(struct dt_connection *c, uint64_t now_ns)
{
    char paths[512];

    c->switchover->pathless_ns = now_ns;
    describe_paths(c, paths, sizeof paths);
    dt_info("no-path",
            "connection %016llx %s %s on %s: no path is left%s; it waits %llu ms for one to come back",
            (unsigned long long)c->id, c->ops->direction, c->peer, c->nic->name, paths,
            (unsigned long long)c->environment->params.dead_ms);
    try_drained(c);
}

void dt_faults_watch_pathless(struct dt_connection *c, uint64_t now_ns)
{
    char paths[512];

    if (c->current) {
        c->switchover->pathless_ns = 0;
        return;
    }
    if (c->switchover->pathless_ns == 0)
        begin_waiting(c, now_ns);
    if (now_ns - c->switchover->pathless_ns < c->environment->params.dead_ms * DT_NS_PER_MS)
        return;
    describe_paths(c, paths, sizeof paths);
    dt_connection_fail(c, DT_PEER_ERROR, "no path for %llu ms%s",
                       (unsigned long long)((now_ns - c->switchover->pathless_ns) / DT_NS_PER_MS), paths);
}
