/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/takeover.h"

#include "base/check.h"
#include "base/clock.h"
#include "failover/switchover/stall_watch.h"
#include "transport/closing.h"
#include "transport/service_state.h"

bool dt_takeover_is_due(const struct dt_connection *c, uint64_t now_ns)
{
    uint64_t takeover_ns = dt_closing_has_staged(c) ? DT_STAGED_PERIOD_NS
                                                    : c->environment->params.idle_takeover_us * DT_NS_PER_US;
    uint32_t visits = dt_owner_visits(&c->owner);

    return dt_load_relaxed(&c->open_requests) > 0 && visits == c->service->visits_seen && !(visits & 1) &&
           now_ns - c->service->idle_since_ns >= takeover_ns;
}

void dt_takeover_run(struct dt_connection *c, uint64_t now_ns)
{
    DT_CHECK(dt_load_acquire(&c->owner.holder) == DT_HOLDER_DETOUR);
    c->service->idle_since_ns = now_ns;
    dt_page_add(&c->meter.row->takeover_count, 1);
    dt_connection_progress(c);
    if (dt_load_acquire(&c->notices) != c->attended)
        dt_connection_attend(c);
}

/* Keeps progress_ns: when the last request completed, or no request was open. */
static void observe_progress(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t completions = dt_load_relaxed(&c->completions);

    if (completions != c->service->completions_seen || dt_load_relaxed(&c->open_requests) == 0)
        dt_store_relaxed(&c->progress_ns, now_ns);
    c->service->completions_seen = completions;
}

/* The sender closes once its messages are acknowledged; a device that failed since may have lost some. */
static bool awaits_closed_sender(const struct dt_connection *c)
{
    return !c->is_sender && dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_CLOSED &&
           dt_load_relaxed(&c->open_requests) > 0;
}

static bool is_draining(const struct dt_connection *c)
{
    return (c->service->is_peer_lost || awaits_closed_sender(c)) &&
           !(dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_LOST);
}

static void drain_lost_peer(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t wait_ns = c->service->is_peer_lost ? DT_PEER_DEAD_WAIT_NS : DT_PEER_CLOSED_WAIT_NS;

    if (dt_load_relaxed(&c->notices) & DT_NOTICE_PEER_LOST)
        return;
    if (!is_draining(c))
        c->service->peer_lost_ns = 0;
    else if (c->service->peer_lost_ns == 0 ||
             c->service->completions_seen != dt_load_relaxed(&c->completions))
        c->service->peer_lost_ns = now_ns;
    else if (now_ns - c->service->peer_lost_ns >= wait_ns)
        dt_connection_notify(c, DT_NOTICE_PEER_LOST);
}

bool dt_takeover_observe(struct dt_connection *c, uint64_t now_ns)
{
    uint32_t visits = dt_owner_visits(&c->owner);
    bool is_visited = visits != c->service->visits_seen;
    bool is_busy = is_visited || dt_load_relaxed(&c->open_requests) > 0;

    drain_lost_peer(c, now_ns);
    observe_progress(c, now_ns);
    dt_stall_watch_visits(c, is_visited, c->service->idle_since_ns, now_ns);
    DT_CHECK(c->service->idle_since_ns <= now_ns);
    if (is_visited) {
        c->service->visits_seen = visits;
        c->service->idle_since_ns = now_ns;
    }
    return is_busy || is_draining(c);
}
