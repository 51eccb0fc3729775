/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/turns.h"

#include "base/check.h"
#include "base/util.h"
#include "transport/message/connection.h"
#include "transport/net_state.h"
#include "transport/service_state.h"

void dt_turns_init(struct dt_turns *turns)
{
    *turns = (struct dt_turns){.rest_min = DT_REST_MIN};
    dt_list_init(&turns->busy);
    dt_list_init(&turns->resting);
}

static void get_up(struct dt_turns *turns, struct dt_connection *c)
{
    if (!c->service->is_resting)
        return;
    DT_CHECK(turns->resting_count > 0 && !dt_list_is_empty(&turns->resting));
    c->service->is_resting = false;
    turns->resting_count--;
    dt_list_remove(&c->turn);
    dt_list_push_back(&turns->busy, &c->turn);
}

static void lie_down(struct dt_turns *turns, struct dt_connection *c)
{
    DT_CHECK(turns->resting_count < turns->count);
    c->service->is_resting = true;
    turns->resting_count++;
    dt_list_remove(&c->turn);
    dt_list_push_back(&turns->resting, &c->turn);
    dt_connection_notify(c, DT_NOTICE_RESTING);
}

void dt_turns_add(struct dt_nic *nic, struct dt_connection *c, uint64_t now_ns)
{
    struct dt_turns *turns = &nic->service->turns;

    DT_CHECK(c->nic == nic && dt_list_is_empty(&c->turn) && !c->service->is_resting);
    c->service->busy_ns = now_ns;
    turns->count++;
    dt_list_push_back(&turns->busy, &c->turn);
}

/* Those that NCCL has called since they rest. */
static void take_roused(struct dt_nic *nic)
{
    struct dt_connection *next =
        dt_load_relaxed(&nic->roused) ? dt_exchange_acq_rel(&nic->roused, NULL) : NULL;

    while (next) {
        struct dt_connection *c = next;

        DT_CHECK(c->nic == nic && !dt_list_is_empty(&c->turn));
        next = c->roused_next; /* NCCL may put it there again once the mark is gone */
        c->service->busy_ns = DT_NEVER_NS;
        get_up(&nic->service->turns, c);
        dt_store_release(&c->is_roused, 0u);
    }
}

void dt_turns_remove(struct dt_nic *nic, struct dt_connection *c)
{
    struct dt_turns *turns = &nic->service->turns;

    take_roused(nic); /* it may be among them */
    DT_CHECK(turns->count > 0 && !dt_list_is_empty(&c->turn) && !dt_load_relaxed(&c->is_roused));
    turns->resting_count -= c->service->is_resting;
    turns->count--;
    c->service->is_resting = false;
    dt_list_remove(&c->turn);
    DT_CHECK(turns->resting_count <= turns->count);
}

uint32_t dt_turns_begin(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_turns *turns = &nic->service->turns;
    uint64_t elapsed_ns = now_ns > turns->turned_ns ? now_ns - turns->turned_ns : 0;

    take_roused(nic);
    turns->round++;
    uint64_t count = turns->resting_count, share = count * elapsed_ns;

    if (dt_exchange_acq_rel(&nic->has_work, 0u) || elapsed_ns >= DT_REST_AFTER_NS || count == 0) {
        turns->turned_ns = now_ns;
        return turns->resting_count;
    }
    turns->turned_ns = now_ns - share % DT_REST_AFTER_NS / count;
    return (uint32_t)(share / DT_REST_AFTER_NS);
}

void dt_turns_visit(struct dt_turns *turns, struct dt_connection *c)
{
    DT_CHECK(c->service->round != turns->round); /* once in a round */
    c->service->round = turns->round;
    turns->visit_count++;
}

struct dt_connection *dt_turns_next(struct dt_turns *turns)
{
    struct dt_list *node = turns->resting.next;
    struct dt_connection *c = dt_container_of(node, struct dt_connection, turn);

    if (dt_list_is_empty(&turns->resting) || c->service->round == turns->round)
        return NULL;
    dt_list_remove(node);
    dt_list_push_back(&turns->resting, node);
    return c;
}

void dt_turns_settle(struct dt_turns *turns, struct dt_connection *c, bool is_busy, uint64_t now_ns)
{
    struct dt_service_connection *service = c->service;

    if (is_busy || service->busy_ns == DT_NEVER_NS)
        service->busy_ns = now_ns;
    if (is_busy || service->is_closed || turns->count <= turns->rest_min ||
        service->deadline_ns < dt_deadline_ns(now_ns, 2 * DT_REST_AFTER_NS))
        get_up(turns, c);
    else if (!service->is_resting && now_ns - service->busy_ns >= DT_REST_AFTER_NS)
        lie_down(turns, c);
}
