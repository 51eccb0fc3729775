/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/glance.h"

#include "base/util.h"
#include "failover/switchover/stall_watch.h"
#include "failover/switchover/state.h"
#include "transport/message/connection.h"
#include "transport/message/meter.h"
#include "transport/message/receiver.h"
#include "transport/net_state.h"
#include "transport/service_state.h"
#include "transport/session/session.h"

DT_STATIC_CHECK(2 * DT_VISIT_COMPLETIONS <= DT_METER_SAMPLES_EACH &&
                    2 * DT_VISIT_COMPLETIONS <= DT_ARRIVAL_STAMPS,
                "stamps are taken before they are merged or written over");

/* A visit would find what the one before has found. */
static bool is_enough(const struct dt_turns *turns, const struct dt_connection *c, uint64_t now_ns)
{
    const struct dt_service_connection *service = c->service;
    bool is_open = dt_load_relaxed(&c->open_requests) > 0;

    return !turns->is_thorough && now_ns < service->visit_ns && (!is_open || now_ns < service->watch_ns) &&
           (dt_load_relaxed(&c->notices) & ~(uint32_t)DT_NOTICE_RESTING) == 0 &&
           dt_load_relaxed(&c->failing) == DT_OK &&
           dt_load_relaxed(&c->completions) - service->completions_seen < DT_VISIT_COMPLETIONS;
}

enum dt_glance_finding dt_glance(const struct dt_turns *turns, struct dt_connection *c, uint64_t now_ns)
{
    struct dt_service_connection *service = c->service;
    bool is_open = dt_load_relaxed(&c->open_requests) > 0;
    uint32_t visits = dt_owner_visits(&c->owner);

    if (!is_enough(turns, c, now_ns))
        return DT_GLANCE_VISIT;
    if (is_open || visits != service->visits_seen)
        service->busy_ns = now_ns;
    if (visits != service->visits_seen) {
        service->visits_seen = visits;
        service->idle_since_ns = now_ns;
        return DT_GLANCE_IN_USE;
    }
    if (!is_open)
        return DT_GLANCE_QUIET;
    return !(visits & 1) && now_ns - service->idle_since_ns >=
                                c->nic->environment->params.idle_takeover_us * DT_NS_PER_US
               ? DT_GLANCE_TAKEOVER
               : DT_GLANCE_IN_USE;
}

/* No path, session or end of the peer needs each round. */
static bool is_calm(const struct dt_connection *c)
{
    return !c->switchover->is_switching && c->session->state == DT_SESSION_UP && !c->session->is_ready &&
           !c->service->is_closed && !c->service->is_peer_lost;
}

void dt_glance_settle(const struct dt_turns *turns, struct dt_connection *c, uint64_t now_ns)
{
    struct dt_service_connection *service = c->service;

    service->visit_ns = 0;
    if (turns->count <= turns->rest_min || !is_calm(c))
        return;
    service->visit_ns = dt_earlier_ns(service->deadline_ns, dt_deadline_ns(now_ns, DT_VISIT_PERIOD_NS));
    service->watch_ns = dt_stall_watch_due_ns(c);
}
