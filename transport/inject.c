/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/inject.h"

#include "base/log.h"
#include "transport/connection.h"
#include "transport/nic.h"

/* NCCL is at the connection whose message is due: it will post it. If it stays away, look again so soon. */
#define DOOR_WAIT_NS (20 * DT_NS_PER_US)

enum dt_status dt_inject_open(struct dt_inject *inject, uint64_t (*now_ns)(void *arg), void *now_arg)
{
    inject->now_ns = now_ns;
    inject->now_arg = now_arg;
    return dt_delay_table_create(&inject->table);
}

void dt_inject_close(struct dt_inject *inject)
{
    dt_delay_table_destroy(inject->table);
}

static uint64_t read_clock(const struct dt_sender *s)
{
    const struct dt_inject *inject = &s->connection.net->inject;

    return inject->now_ns(inject->now_arg);
}

/* ------------------------------------------------------------------------------------------------------------
 * The gate
 */
enum dt_status dt_gate_open(struct dt_sender *s)
{
    struct dt_connection *c = &s->connection;
    struct dt_inject *inject = &c->net->inject;
    struct dt_delay_link link = {
        .number = dt_fetch_add_relaxed(&inject->senders, 1),
        .id = c->id,
        .peer = c->peer,
        .path_count = c->path_count,
    };
    enum dt_status status;

    for (uint32_t p = 0; p < c->path_count; p++) {
        link.device[p] = c->path[p].nic ? c->path[p].nic->name : "";
        link.device_index[p] = c->path[p].nic ? c->path[p].nic->index : 0;
    }
    s->gate.due_ns = s->gate.message_ns = s->gate.ahead_ns = DT_NEVER_NS;
    status = dt_delay_flow_create(inject->table, &link, c->slots, &s->gate.flow);
    if (status == DT_OK && c->net->hostpath.is_on)
        status = dt_delay_flow_create(inject->table, &link, c->slots, &s->gate.ahead);
    if (status == DT_OK)
        s->gate.idle = dt_delay_flow_idle(s->gate.flow);
    return status;
}

void dt_gate_close(struct dt_gate *gate)
{
    dt_delay_flow_destroy(gate->flow);
    dt_delay_flow_destroy(gate->ahead);
}

void dt_gate_hand_over(struct dt_sender *s, const struct dt_send_slot *slot)
{
    const struct dt_path *path = s->connection.current;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < slot->parts; i++)
        bytes += slot->part[i].bytes;
    dt_delay_hand_over(s->gate.flow, slot->sequence, bytes, path ? path->index : 0, read_clock(s));
    s->gate.idle = dt_delay_flow_idle(s->gate.flow);
}

/* Detour's thread may sleep beyond the time: then it has to be woken. */
static void hold(struct dt_sender *s)
{
    struct dt_nic *nic = s->connection.nic;
    uint64_t due_ns = dt_earlier_ns(s->gate.message_ns, s->gate.ahead_ns);

    if (dt_load_relaxed(&s->gate.due_ns) == due_ns)
        return;
    dt_store_seq_cst(&s->gate.due_ns, due_ns);
    if (due_ns == DT_NEVER_NS)
        return;
    dt_store_seq_cst(&nic->inject.has_news, 1u);
    if (due_ns < dt_load_seq_cst(&nic->inject.awake_ns))
        dt_nic_wake(nic);
}

bool dt_gate_may_post(struct dt_sender *s)
{
    uint64_t due_ns = dt_delay_due_ns(s->gate.flow, s->next_post);

    bool is_due = due_ns <= read_clock(s);

    s->gate.idle = dt_delay_flow_idle(s->gate.flow);
    s->gate.message_ns = is_due ? DT_NEVER_NS : due_ns;
    hold(s);
    return is_due;
}

void dt_gate_posted(struct dt_sender *s, uint64_t sequence)
{
    dt_delay_posted(s->gate.flow, sequence, read_clock(s));
    s->gate.idle = dt_delay_flow_idle(s->gate.flow);
}

void dt_gate_hand_over_ahead(struct dt_sender *s, uint64_t number, uint64_t bytes)
{
    const struct dt_path *path = s->connection.current;

    dt_delay_hand_over(s->gate.ahead, number, bytes, path ? path->index : 0, read_clock(s));
}

bool dt_gate_may_go(struct dt_sender *s, uint64_t number, uint64_t *due_ns)
{
    *due_ns = dt_delay_due_ns(s->gate.ahead, number);
    return *due_ns <= read_clock(s);
}

void dt_gate_hold_ahead(struct dt_sender *s, uint64_t due_ns)
{
    s->gate.ahead_ns = due_ns;
    hold(s);
}

void dt_gate_went(struct dt_sender *s, uint64_t number)
{
    dt_delay_posted(s->gate.ahead, number, read_clock(s));
}

/* ------------------------------------------------------------------------------------------------------------
 * Detour's thread
 */
void dt_inject_nic_init(struct dt_inject_nic *state)
{
    state->held_ns = DT_NEVER_NS;
    dt_delay_timer_init(&state->timer);
}

static void take_over(struct dt_connection *c)
{
    if (!dt_owner_take(&c->owner))
        return;
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
    return due_ns > now_ns ? due_ns : dt_deadline_ns(now_ns, DOOR_WAIT_NS);
}

uint64_t dt_inject_release(struct dt_nic *nic, uint64_t now_ns)
{
    uint32_t generation = dt_load_acquire(dt_delay_table_generation(nic->net->inject.table));
    bool is_news = generation != nic->inject.generation;
    uint64_t held_ns = DT_NEVER_NS;

    nic->inject.generation = generation;
    if (generation == 0)
        return held_ns;
    dt_store_seq_cst(&nic->inject.has_news, 0u);
    dt_list_for_each(node, &nic->connections)
    {
        struct dt_connection *c = dt_container_of(node, struct dt_connection, node);

        if (c->is_sender && dt_load_acquire(&c->failing) == DT_OK &&
            !(dt_load_relaxed(&c->notices) & DT_NOTICE_ABANDONED))
            held_ns = dt_earlier_ns(held_ns, release_one(dt_sender_of(c), is_news, now_ns));
    }
    nic->inject.held_ns = held_ns;
    return held_ns;
}
