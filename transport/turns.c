/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/turns.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/util.h"
#include "transport/message/connection.h"
#include "transport/net_state.h"
#include "transport/service_state.h"

/* How far ahead a round fetches; what the second one finds was fetched by the first. */
#define FETCH_CONNECTION 16
#define FETCH_SERVICE    8

void dt_turns_init(struct dt_turns *turns)
{
    *turns = (struct dt_turns){.rest_min = DT_REST_MIN};
    dt_list_init(&turns->resting);
}

void dt_turns_fini(struct dt_turns *turns)
{
    DT_CHECK(turns->count == 0); /* each close removes its connection */
    free(turns->busy);
    turns->busy = NULL;
}

static void fill_gaps(struct dt_turns *turns)
{
    uint32_t count = 0;

    for (uint32_t i = 0; turns->has_gaps && i < turns->busy_count; i++) {
        struct dt_connection *c = turns->busy[i];

        if (!c)
            continue;
        c->service->busy_index = count;
        turns->busy[count++] = c;
    }
    if (turns->has_gaps)
        turns->busy_count = count;
    turns->has_gaps = false;
    DT_CHECK(turns->busy_count + turns->resting_count == turns->count);
}

/* Until the gaps are filled again each connection may leave one and get up once. */
bool dt_turns_reserve(struct dt_turns *turns)
{
    uint32_t wanted = turns->count + turns->reserved + 1;
    struct dt_connection **busy;

    fill_gaps(turns);
    if (2 * wanted > turns->busy_room) {
        /* It is an array of pointers. NOLINTNEXTLINE(bugprone-sizeof-expression) */
        busy = realloc(turns->busy, 4 * (size_t)wanted * sizeof busy[0]);
        if (!busy)
            return false;
        turns->busy = busy;
        turns->busy_room = 4 * wanted;
    }
    turns->reserved++;
    return true;
}

static void push_busy(struct dt_turns *turns, struct dt_connection *c)
{
    DT_CHECK(turns->busy_count < turns->busy_room);
    c->service->busy_index = turns->busy_count;
    turns->busy[turns->busy_count++] = c;
}

static void take_from_busy(struct dt_turns *turns, struct dt_connection *c)
{
    DT_CHECK(c->service->busy_index < turns->busy_count && turns->busy[c->service->busy_index] == c);
    turns->busy[c->service->busy_index] = NULL;
    turns->has_gaps = true;
}

static void get_up(struct dt_turns *turns, struct dt_connection *c)
{
    if (!c->service->is_resting)
        return;
    DT_CHECK(turns->resting_count > 0 && !dt_list_is_empty(&turns->resting));
    c->service->is_resting = false;
    turns->resting_count--;
    dt_list_remove(&c->turn);
    push_busy(turns, c);
}

static void lie_down(struct dt_turns *turns, struct dt_connection *c)
{
    DT_CHECK(turns->resting_count < turns->count);
    take_from_busy(turns, c);
    c->service->is_resting = true;
    turns->resting_count++;
    dt_list_push_back(&turns->resting, &c->turn);
    dt_connection_notify(c, DT_NOTICE_RESTING);
}

void dt_turns_add(struct dt_nic *nic, struct dt_connection *c, uint64_t now_ns)
{
    struct dt_turns *turns = &nic->service->turns;

    DT_CHECK(c->nic == nic && dt_list_is_empty(&c->turn) && !c->service->is_resting);
    DT_CHECK(turns->reserved > 0);
    c->service->busy_ns = now_ns;
    turns->reserved--;
    turns->count++;
    push_busy(turns, c);
}

/* Those that NCCL has called since they rest. */
static void take_roused(struct dt_nic *nic)
{
    struct dt_connection *next =
        dt_load_relaxed(&nic->roused) ? dt_exchange_acq_rel(&nic->roused, NULL) : NULL;

    while (next) {
        struct dt_connection *c = next;

        DT_CHECK(c->nic == nic);
        next = c->roused_next; /* NCCL may put it there again once the mark is gone */
        c->service->busy_ns = DT_NEVER_NS;
        c->service->visit_ns = 0;
        get_up(&nic->service->turns, c);
        dt_store_release(&c->is_roused, 0u);
    }
}

void dt_turns_remove(struct dt_nic *nic, struct dt_connection *c)
{
    struct dt_turns *turns = &nic->service->turns;

    take_roused(nic); /* it may be among them */
    DT_CHECK(turns->count > 0 && !dt_load_relaxed(&c->is_roused));
    if (c->service->is_resting)
        dt_list_remove(&c->turn);
    else
        take_from_busy(turns, c);
    turns->resting_count -= c->service->is_resting;
    turns->count--;
    c->service->is_resting = false;
    DT_CHECK(turns->resting_count <= turns->count);
}

uint32_t dt_turns_begin(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_turns *turns = &nic->service->turns;
    uint64_t elapsed_ns = now_ns > turns->turned_ns ? now_ns - turns->turned_ns : 0;

    fill_gaps(turns);
    take_roused(nic);
    turns->round++;
    turns->is_thorough = dt_exchange_acq_rel(&nic->has_work, 0u);
    uint64_t count = turns->resting_count, share = count * elapsed_ns;

    if (turns->is_thorough || elapsed_ns >= DT_REST_TURN_NS || count == 0) {
        turns->turned_ns = now_ns;
        return turns->resting_count;
    }
    turns->turned_ns = now_ns - share % DT_REST_TURN_NS / count;
    return (uint32_t)(share / DT_REST_TURN_NS);
}

struct dt_connection *dt_turns_busy(const struct dt_turns *turns, uint32_t index)
{
    uint32_t left = turns->busy_count - index;

    DT_CHECK(left > 0);
    if (left > FETCH_CONNECTION && turns->busy[index + FETCH_CONNECTION]) {
        __builtin_prefetch(turns->busy[index + FETCH_CONNECTION]);
        __builtin_prefetch(&turns->busy[index + FETCH_CONNECTION]->service);
    }
    if (left > FETCH_SERVICE && turns->busy[index + FETCH_SERVICE])
        __builtin_prefetch(turns->busy[index + FETCH_SERVICE]->service);
    return turns->busy[index];
}

bool dt_turns_visit(struct dt_turns *turns, struct dt_connection *c)
{
    DT_CHECK(c->service->round != turns->round); /* once in a round */
    c->service->round = turns->round;
    turns->visit_count++;
    return c->service->is_resting || c->service->busy_ns == DT_NEVER_NS;
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
        service->deadline_ns < dt_deadline_ns(now_ns, 2 * DT_REST_TURN_NS))
        get_up(turns, c);
    else if (!service->is_resting && now_ns - service->busy_ns >= DT_REST_AFTER_NS)
        lie_down(turns, c);
}
