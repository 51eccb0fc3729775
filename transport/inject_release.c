/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "transport/inject.h"
#include "transport/message/send.h"
#include "transport/net_state.h"
#include "transport/service_state.h"

/* NCCL is inside the connection whose message is due, and will post it; if not, the next attempt comes after
 * this time. */
#define OWNER_WAIT_NS (20 * DT_NS_PER_US)

void dt_inject_nic_init(struct dt_inject_nic *state)
{
    state->held_ns = DT_NEVER_NS;
    dt_delay_timer_init(&state->timer);
}

static void take_over(struct dt_connection *c)
{
    if (!dt_owner_take(&c->owner))
        return;
    DT_CHECK(c->service->claims == 0); /* between two rounds: the round's own claims are settled */
    dt_connection_progress(c);
    dt_owner_give_back(&c->owner);
}

/* When this sender's message is due, after what can be done now. */
static uint64_t release_one(struct dt_sender *s, bool is_news, uint64_t now_ns)
{
    struct dt_connection *c = &s->connection;
    uint64_t due_ns = dt_load_seq_cst(&s->gate.due_ns);
    uint32_t visits = dt_owner_visits(&c->owner);
    bool is_quiet = visits == s->gate.visits_seen;

    s->gate.visits_seen = visits;
    if (due_ns == DT_NEVER_NS || (due_ns > now_ns && !is_news))
        return due_ns;
    if (is_quiet || is_news)
        take_over(c);
    due_ns = dt_load_seq_cst(&s->gate.due_ns);
    return due_ns > now_ns ? due_ns : dt_deadline_ns(now_ns, OWNER_WAIT_NS);
}

/* Ends the holds whose time is over, on whichever device thread comes first. Returns the next end. */
static uint64_t expire_holds(struct dt_delay_table *table, uint64_t now_ns)
{
    uint64_t next_ns;
    size_t count = dt_delay_table_expire(table, now_ns, &next_ns);

    if (count > 0)
        dt_info("hold-ended", "%zu hold%s ended without `detour release`: the time given was over", count,
                count == 1 ? "" : "s");
    return next_ns;
}

uint64_t dt_inject_release(struct dt_nic *nic, uint64_t now_ns)
{
    struct dt_delay_table *table = nic->environment->inject->table;
    uint64_t held_ns = expire_holds(table, now_ns);
    uint32_t generation = dt_load_acquire(dt_delay_table_generation(table));
    bool is_news = generation != nic->service->inject.generation;

    nic->service->inject.generation = generation;
    if (generation == 0)
        return DT_NEVER_NS;
    dt_store_seq_cst(&nic->has_news, 0u);
    dt_list_for_each(node, &nic->service->connections)
    {
        struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

        if (c->is_sender && dt_load_acquire(&c->failing) == DT_OK &&
            !(dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED))
            held_ns = dt_earlier_ns(held_ns, release_one(dt_sender_of(c), is_news, now_ns));
    }
    nic->service->inject.held_ns = held_ns;
    return held_ns;
}
