/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/gate.h"

#include "base/check.h"
#include "base/log.h"
#include "transport/message/sender.h"
#include "transport/path/nic.h"

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
    const struct dt_inject *inject = s->connection.environment->inject;

    return inject->now_ns(inject->now_arg);
}

/* ------------------------------------------------------------------------------------------------------------
 * The gate
 */
static enum dt_status create_flow(struct dt_sender *s, struct dt_delay_flow **flow)
{
    struct dt_connection *c = &s->connection;
    struct dt_delay_link link = {
        .number = s->gate.number,
        .id = c->id,
        .peer = c->peer,
        .path_count = c->path_count,
    };

    for (uint32_t p = 0; p < c->path_count; p++) {
        link.device[p] = c->path[p].nic ? c->path[p].nic->name : "";
        link.device_index[p] = c->path[p].nic ? c->path[p].nic->index : 0;
    }
    return dt_delay_flow_create(c->environment->inject->table, &link, c->slots, flow);
}

enum dt_status dt_gate_open(struct dt_sender *s)
{
    enum dt_status status;

    s->gate.number = dt_fetch_add_relaxed(&s->connection.environment->inject->senders, 1);
    s->gate.due_ns = s->gate.message_ns = s->gate.early_ns = DT_NEVER_NS;
    status = create_flow(s, &s->gate.flow);
    if (status == DT_OK)
        s->gate.idle = dt_delay_flow_idle(s->gate.flow);
    return status;
}

enum dt_status dt_gate_open_early(struct dt_sender *s)
{
    return create_flow(s, &s->gate.early);
}

void dt_gate_close(struct dt_gate *gate)
{
    dt_delay_flow_destroy(gate->flow);
    dt_delay_flow_destroy(gate->early);
}

void dt_gate_end_holds(struct dt_gate *gate)
{
    dt_delay_flow_end_holds(gate->flow);
    if (gate->early)
        dt_delay_flow_end_holds(gate->early);
    if (dt_load_seq_cst(&gate->due_ns) != DT_NEVER_NS)
        dt_store_seq_cst(&gate->due_ns, 0); /* the device thread looks again */
}

void dt_gate_hand_over(struct dt_sender *s, const struct dt_send_slot *slot)
{
    const struct dt_path *path = s->connection.current;
    uint64_t bytes = 0;

    DT_CHECK(slot->state == DT_SEND_READY);
    DT_CHECK(slot->sequence >= s->next_post && slot->sequence < s->next);
    for (uint32_t i = 0; i < slot->parts; i++)
        bytes += slot->part[i].bytes;
    dt_delay_submit(s->gate.flow, slot->sequence, bytes, path ? path->index : 0, read_clock(s));
    s->gate.idle = dt_delay_flow_idle(s->gate.flow);
}

/* Publishes the due time, and wakes the device thread if it would sleep beyond it. */
static void hold(struct dt_sender *s)
{
    struct dt_nic *nic = s->connection.nic;
    uint64_t due_ns = dt_earlier_ns(s->gate.message_ns, s->gate.early_ns);

    if (dt_load_relaxed(&s->gate.due_ns) == due_ns)
        return;
    dt_store_seq_cst(&s->gate.due_ns, due_ns);
    if (due_ns == DT_NEVER_NS)
        return;
    dt_store_seq_cst(&nic->has_news, 1u);
    if (due_ns < dt_load_seq_cst(&nic->awake_ns))
        dt_nic_interrupt(nic);
}

bool dt_gate_may_post(struct dt_sender *s)
{
    uint64_t due_ns = dt_delay_due_ns(s->gate.flow, s->next_post);

    bool is_due = due_ns <= read_clock(s);

    DT_CHECK(s->next_post <= s->next);
    s->gate.idle = dt_delay_flow_idle(s->gate.flow);
    s->gate.message_ns = is_due ? DT_NEVER_NS : due_ns;
    hold(s);
    return is_due;
}

/* Returns true if the message's time has to start now: a hold is neither the network's nor the peer's. */
static bool leave(struct dt_sender *s, struct dt_delay_flow *flow, uint64_t sequence)
{
    struct dt_meter *meter = &s->connection.meter;
    uint64_t held_ns;

    if (!dt_delay_posted(flow, sequence, read_clock(s), &held_ns))
        return false;
    dt_meter_held(meter, held_ns);
    return true;
}

void dt_gate_posted(struct dt_sender *s, struct dt_send_slot *slot)
{
    DT_CHECK(slot->sequence < s->next_post); /* it was posted, and messages are posted in order */
    if (leave(s, s->gate.flow, slot->sequence))
        slot->requested = slot->submitted = dt_ticks_now(s->connection.meter.ticks);
    s->gate.idle = dt_delay_flow_idle(s->gate.flow);
}

void dt_gate_hand_over_early(struct dt_sender *s, uint64_t number, uint64_t bytes)
{
    const struct dt_path *path = s->connection.current;

    dt_delay_submit(s->gate.early, number, bytes, path ? path->index : 0, read_clock(s));
}

bool dt_gate_may_post_early(struct dt_sender *s, uint64_t number, uint64_t *due_ns)
{
    *due_ns = dt_delay_due_ns(s->gate.early, number);
    return *due_ns <= read_clock(s);
}

void dt_gate_hold_early(struct dt_sender *s, uint64_t due_ns)
{
    s->gate.early_ns = due_ns;
    hold(s);
}

bool dt_gate_posted_early(struct dt_sender *s, uint64_t number)
{
    return leave(s, s->gate.early, number);
}
