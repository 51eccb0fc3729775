/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end as data: the table of legal transitions, and the changes of a slot that are off the data
 * path. */
#include "transport/message/sender.h"

#include "base/check.h"

#define BIT(state) (1u << DT_SEND_##state)

const uint8_t dt_send_transitions[DT_SEND_STATES] = {
    [DT_SEND_FREE] = BIT(MATCHING),
    [DT_SEND_MATCHING] = BIT(READY),
    [DT_SEND_READY] = BIT(PARTIAL) | BIT(POSTED) | BIT(DONE), /* DONE: the peer had it when it closed */
    [DT_SEND_PARTIAL] = BIT(PARTIAL) | BIT(POSTED) | BIT(READY),
    [DT_SEND_POSTED] = BIT(DONE) | BIT(READY),
    [DT_SEND_DONE] = BIT(FREE) | BIT(READY), /* READY: the device that acknowledged it lost it */
};

void dt_sender_init(struct dt_sender *s, dt_test_function *test)
{
    for (uint32_t i = 0; i < DT_SLOTS_MAX; i++) {
        for (uint32_t part = 0; part < DT_PARTS_MAX; part++)
            s->slot[i].part[part].request = (struct dt_request){
                .connection = &s->connection,
                .test = test,
                .part = (uint8_t)part,
                .slot = i,
            };
    }
}

uint64_t dt_sender_first_incomplete(const struct dt_sender *s)
{
    uint64_t first = s->next;

    for (uint32_t i = 0; i < s->connection.slots; i++) {
        const struct dt_send_slot *slot = &s->slot[i];

        if (slot->state != DT_SEND_FREE && slot->state != DT_SEND_DONE && slot->sequence < first)
            first = slot->sequence;
    }
    return first;
}

void dt_sender_reopen(struct dt_sender *s, struct dt_send_slot *slot)
{
    DT_CHECK(slot->state == DT_SEND_POSTED || (slot->state == DT_SEND_DONE && slot->reported == 0));
    DT_CHECK(slot->sequence < s->next_post &&
             s->again < 2 * s->connection.slots); /* a message, and its TAKE */
    for (uint32_t i = 0; i < slot->parts; i++)
        slot->part[i].request.is_done = false;
    if (slot->body.kind == DT_BODY_TAKE)
        slot->body.kind = DT_BODY_PENDING;
    dt_send_slot_set(slot, DT_SEND_READY);
    s->again++;
    dt_connection_notify(&s->connection, DT_NOTICE_AGAIN);
}

void dt_sender_restart(struct dt_send_slot *slot)
{
    DT_CHECK(slot->state == DT_SEND_PARTIAL);
    slot->posted_bytes = 0;
    slot->is_refused = false;
    dt_send_slot_set(slot, DT_SEND_READY);
}
