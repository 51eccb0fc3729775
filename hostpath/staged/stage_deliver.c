/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: delivered messages release their memory. */
#include "hostpath/staged/stage_deliver.h"

#include "base/check.h"
#include "failover/planted.h"
#include "hostpath/staged/eager_place.h"
#include "hostpath/staged/stage_inflight.h"
#include "transport/message/send_again.h"

/* ------------------------------------------------------------------------------------------------------------
 * Delivered
 */
/* A late copy may still write to it: it is freed with the entry (stage_late.h). */
static void free_memory(struct dt_stage *stage, struct dt_staged *entry)
{
    if (entry->is_direct)
        return;
    if (entry->at)
        dt_pool_free(stage->pool, entry->at, entry->bytes);
    entry->at = NULL;
}

static void free_slot_memory(struct dt_sender *s, const struct dt_staged_slot *staged)
{
    for (uint32_t left = staged->mask; left; left &= left - 1)
        free_memory(s->stage, staged->entry[__builtin_ctz(left)]);
}

/* The receiver has the entry's payload, and its memory is free. */
static void deliver(struct dt_sender *s, struct dt_staged *entry)
{
    DT_CHECK(!entry->is_delivered && (!entry->at || entry->is_direct) && s->stage->undelivered > 0);
    entry->is_delivered = true;
    dt_eager_delivered(s, entry);
    dt_count(&s->stage->undelivered, -1u);
    if (!entry->request.is_open)
        dt_stage_free_entry(s, entry);
}

static void release_slot(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_staged_slot *staged = dt_stage_slot(s, slot);
    uint32_t mask = staged->mask;

    free_slot_memory(s, staged);
    staged->mask = 0;
    for (uint32_t left = mask; left; left &= left - 1)
        deliver(s, staged->entry[__builtin_ctz(left)]);
    if (mask)
        dt_sender_report_parts(slot, (uint32_t)__builtin_popcount(mask));
}

/* A direct message may have been reported already; then its slot is free, and not used again yet, since isend
 * reclaims first. */
void dt_stage_reclaim(struct dt_sender *s)
{
    struct dt_stage *stage = s->stage;

    DT_CHECK(stage->reclaim_next <= s->next && s->next - stage->reclaim_next <= s->connection.slots);
    for (; stage->reclaim_next < s->next; stage->reclaim_next++) {
        struct dt_send_slot *slot = dt_sender_slot(s, stage->reclaim_next);
        const struct dt_staged_slot *staged = dt_stage_slot(s, slot);

        if (DT_PLANTED(STAGED_EARLY) && slot->state == DT_SEND_POSTED)
            free_slot_memory(s, staged);
        if (slot->state != DT_SEND_DONE && slot->state != DT_SEND_FREE)
            return;
        dt_stage_inflight_lost(s, dt_stage_message_bytes(slot));
        /* An eager payload was judged when it arrived. */
        if (dt_stage_mode(s) == DT_HOSTPATH_AUTO && slot->body.kind != DT_BODY_TAKE)
            dt_stage_decide(s, slot->submitted, staged->inflight_bytes);
        release_slot(s, slot);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * The peer closes
 */

/*
 * The receiver has completed `count` messages more than have found an isend: payloads of the queue that were
 * sent eagerly, and taken. Each took at least one entry, whether its completion has come or not: a completion
 * queue may be silent. Returns how many entries are left nevertheless; if none is, all are delivered.
 */
static uint32_t deliver_queue(struct dt_sender *s, uint64_t count)
{
    struct dt_stage *stage = s->stage;
    uint32_t unmatched = 0, sent = 0;

    dt_list_for_each(node, &stage->queue)
    {
        unmatched++;
        sent += dt_eager_was_sent(s, dt_container_of(node, const struct dt_staged, node));
    }
    sent = (uint32_t)dt_min_u64(sent, count);
    if (unmatched > sent)
        return unmatched - sent;
    while (!dt_list_is_empty(&stage->queue)) {
        struct dt_staged *entry = dt_container_of(dt_list_pop_front(&stage->queue), struct dt_staged, node);

        free_memory(stage, entry);
        deliver(s, entry);
    }
    return 0;
}

void dt_stage_peer_closed(struct dt_sender *s, uint64_t sequence)
{
    uint32_t left = dt_sender_complete_closed(s, sequence);

    dt_sender_fail_closed(s, left + deliver_queue(s, sequence > s->next ? sequence - s->next : 0));
}
