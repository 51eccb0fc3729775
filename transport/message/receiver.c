/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving end as data: the table of legal transitions, and payload that does not come from a path. */
#include "transport/message/receiver.h"

#include "base/check.h"

#define BIT(state) (1u << DT_RECV_##state)

const uint8_t dt_recv_transitions[DT_RECV_STATES] = {
    [DT_RECV_FREE] = BIT(OPEN),
    [DT_RECV_OPEN] = BIT(DONE) | BIT(FREE), /* FREE: it was reported before its TAKE came */
    [DT_RECV_DONE] = BIT(FREE),
};

void dt_receiver_place_payload(struct dt_receiver *r, struct dt_recv_slot *slot, uint32_t bytes)
{
    DT_CHECK(slot->state != DT_RECV_FREE && slot->parts == 1 && slot->source == DT_PAYLOAD_STORE);
    DT_CHECK(bytes <= slot->capacity[0]);
    slot->source = DT_PAYLOAD_IN_PLACE;
    slot->bytes[0] = bytes;
    if (slot->memory[0]) {
        DT_CHECK(slot->memory[0]->open > 0);
        dt_count(&slot->memory[0]->open, -1u);
    }
    slot->memory[0] = NULL;
    dt_receiver_stamp(r, slot->sequence);
    dt_count(&r->connection.completions, 1);
    dt_meter_count(&r->connection.meter, bytes);
}

void dt_receiver_take(struct dt_path *path, struct dt_recv_slot *slot)
{
    DT_CHECK(slot->state == DT_RECV_OPEN && slot->source != DT_PAYLOAD_WIRE);
    /* Reported early, it is in place: the report ended the request. */
    DT_CHECK(slot->request.is_open || slot->source == DT_PAYLOAD_IN_PLACE);
    slot->path = (uint8_t)path->index;
    dt_recv_slot_set(slot, slot->request.is_open ? DT_RECV_DONE : DT_RECV_FREE);
    dt_count(&path->connection->completions, 1);
}

uint64_t dt_receiver_take_stamp(struct dt_receiver *r, uint64_t *stamp)
{
    uint64_t next = r->rank_next, value = dt_load_relaxed(&r->arrived[next % DT_ARRIVAL_STAMPS]);
    uint8_t laps = (uint8_t)(value - next / DT_ARRIVAL_STAMPS); /* written since the one awaited */

    if (value == 0 || laps >= 0x80) /* nothing, or the stamp of a lap before */
        return 0;
    *stamp = value & ~0xffull;
    r->rank_next = next + 1 + (uint64_t)laps * DT_ARRIVAL_STAMPS;
    return r->rank_next - next;
}

uint64_t dt_receiver_first_incomplete(const struct dt_receiver *r)
{
    uint64_t first = r->next;

    for (uint32_t i = 0; i < r->connection.slots; i++) {
        if (r->slot[i].state == DT_RECV_OPEN && r->slot[i].sequence < first)
            first = r->slot[i].sequence;
    }
    DT_CHECK(r->next - first <= r->connection.slots); /* the window of the slots */
    return first;
}

bool dt_recv_slot_is_missing(const struct dt_recv_slot *slot)
{
    return slot->state == DT_RECV_OPEN && slot->source != DT_PAYLOAD_IN_PLACE;
}

uint64_t dt_receiver_first_missing(const struct dt_receiver *r)
{
    uint64_t first = r->next;

    for (uint32_t i = 0; i < r->connection.slots; i++) {
        if (dt_recv_slot_is_missing(&r->slot[i]) && r->slot[i].sequence < first)
            first = r->slot[i].sequence;
    }
    return first;
}
