/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/net.h"
#include "transport/closing.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "failover/planted.h"
#include "failover/switchover/post.h"
#include "failover/switchover/switchover.h"
#include "transport/message/receive.h"
#include "transport/message/send.h"
#include "transport/net_state.h"
#include "transport/service_state.h"
#include "transport/session/session.h"

bool dt_closing_has_staged(const struct dt_connection *c)
{
    return c->ops->undelivered(c) > 0 && dt_load_acquire(&c->failing) == DT_OK &&
           !(dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED);
}

bool dt_closing_nic_has_staged(const struct dt_nic *nic)
{
    for (const struct dt_list *node = nic->service->connections.next; node != &nic->service->connections;
         node = node->next) {
        if (dt_closing_has_staged(dt_container_of(node, const struct dt_connection, node)))
            return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------------------
 * The end of a connection. All with nic->mutex.
 */

/* Takes it from the device thread and from every list. */
static void detach(struct dt_connection *c)
{
    DT_CHECK(!dt_list_is_empty(&c->node)); /* it is served exactly until here */
    dt_list_remove(&c->node);
    dt_turns_remove(c->nic, c);
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_switchover_report_end(&c->path[p]);
    if (c->is_sender)
        dt_health_remove(&c->net->health, dt_sender_of(c));
    else
        dt_pace_remove(&c->net->health.pace, &c->net->health.mutex, dt_receiver_of(c));
    DT_CHECK(c->service->claims == 0); /* between two rounds of the device thread */
    dt_meter_close(c);
}

/* Sends CLOSE{sequence}. The session lingers without its connection until the peer has acknowledged it. */
static void part(struct dt_connection *c, uint64_t sequence)
{
    struct dt_nic *nic = c->nic;
    uint64_t now_ns = dt_load_relaxed(&nic->environment->tick_ns);

    DT_CHECK(dt_list_is_empty(&c->session->node) && c->session->poller == &nic->service->poller);
    dt_session_send_close(c->session, sequence, now_ns);
    dt_list_push_back(&nic->service->sessions, &c->session->node);
    c->session = NULL;
    dt_nic_interrupt(nic);
}

void dt_closing_dispose(struct dt_connection *c)
{
    DT_CHECK(dt_list_is_empty(&c->node));
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_path_submit_destroy(&c->path[p]);
    dt_path_group_release(&c->group);
}

static void end(struct dt_connection *c)
{
    uint64_t sequence = c->ops->close_sequence(c);

    if (!DT_PLANTED(SILENT_CLOSE) && !DT_PLANTED(CLOSE_ONCE))
        dt_post_close(c, sequence, dt_load_relaxed(&c->environment->tick_ns));
    if (!DT_PLANTED(SILENT_CLOSE))
        part(c, sequence);
    dt_closing_dispose(c);
}

static void end_lingering(struct dt_connection *c)
{
    detach(c);
    end(c);
}

/* ------------------------------------------------------------------------------------------------------------
 * Lingering
 */
uint64_t dt_closing_progress(struct dt_connection *c, uint64_t now_ns)
{
    uint64_t linger_ns = c->environment->params.linger_ms * DT_NS_PER_MS;

    if (!c->service->is_closed)
        return DT_NEVER_NS;
    DT_CHECK(c->is_sender); /* a receiver stages nothing */
    if (c->service->linger_until_ns == 0)
        c->service->linger_until_ns = dt_deadline_ns(now_ns, linger_ns);
    if (dt_closing_has_staged(c) && now_ns < c->service->linger_until_ns)
        return c->service->linger_until_ns;
    if (dt_closing_has_staged(c))
        dt_warn("staged-lost",
                "connection %016llx to %s: %u staged messages could not be delivered within %llu ms of its "
                "close (DETOUR_LINGER_MS); they are lost",
                (unsigned long long)c->id, c->peer, c->ops->undelivered(c),
                (unsigned long long)c->environment->params.linger_ms);
    end_lingering(c);
    return DT_NEVER_NS;
}

void dt_closing_end_lingering(struct dt_nic *nic)
{
    dt_list_for_each(node, &nic->service->connections)
    {
        struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

        if (c->service->is_closed)
            end_lingering(c);
    }
}

/* Leaves the connection to the device thread if it has staged messages. */
static bool linger(struct dt_connection *c)
{
    struct dt_nic *nic = c->nic;
    bool lingers;

    pthread_mutex_lock(&nic->mutex);
    DT_CHECK(!c->service->is_closed); /* NCCL closes once */
    lingers = dt_closing_has_staged(c);
    c->service->is_closed = lingers;
    pthread_mutex_unlock(&nic->mutex);
    if (lingers)
        dt_gate_end_holds(&dt_sender_of(c)->gate);
    if (lingers)
        dt_nic_wake(nic);
    return lingers;
}

void dt_net_close(struct dt_connection *c)
{
    struct dt_nic *nic = c->nic;

    if (c->ops->may_linger(c) && linger(c))
        return;
    pthread_mutex_lock(&nic->mutex);
    detach(c);
    pthread_mutex_unlock(&nic->mutex);
    c->ops->finish_copies(c); /* NCCL may free its memory after this call */
    if (dt_load_relaxed(&c->open_requests) > 0)
        dt_info("closed-early", "connection %016llx %s %s is closed with %u requests outstanding",
                (unsigned long long)c->id, c->ops->direction, c->peer, dt_load_relaxed(&c->open_requests));
    pthread_mutex_lock(&nic->mutex);
    end(c);
    pthread_mutex_unlock(&nic->mutex);
}
