/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: from the queue into messages, and posting. */
#include "hostpath/staged/stage_match.h"

#include "base/check.h"
#include "failover/planted.h"
#include "hostpath/staged/eager_place.h"
#include "hostpath/staged/eager_take.h"
#include "hostpath/staged/stage_copy.h"
#include "hostpath/staged/stage_inflight.h"
#include "hostpath/staged/stage_late.h"
#include "transport/message/send.h"
#include "transport/message/send_again.h"

/* ------------------------------------------------------------------------------------------------------------
 * From the queue into messages
 */

/* The oldest entry that a part of the message waits for. */
static struct dt_staged *find_entry(struct dt_stage *stage, const struct dt_send_slot *slot, int *part)
{
    struct dt_staged *found = NULL;

    dt_list_for_each(node, &stage->queue)
    {
        struct dt_staged *entry = dt_container_of(node, struct dt_staged, node);

        int i = dt_sender_find_part(slot, entry->tag);

        if (i < 0)
            continue;
        *part = i;
        found = entry;
        if (!DT_PLANTED(STAGED_ORDER))
            break;
    }
    return found;
}

/* False: the receiver has posted less; the connection fails. */
static bool put(struct dt_sender *s, struct dt_send_slot *slot, int i, struct dt_staged *entry)
{
    struct dt_staged_slot *staged = dt_stage_slot(s, slot);
    struct dt_memory *memory = entry->bytes > 0 ? &s->stage->memory : NULL;

    if (!dt_sender_fits(s, slot, i, entry->bytes))
        return false;
    DT_CHECK(!dt_list_is_empty(&entry->node) && !entry->is_delivered && !(staged->mask & 1u << i));
    dt_list_remove(&entry->node);
    dt_eager_matched(s, entry);
    dt_meter_tag(&s->connection.meter, entry->tag);
    staged->entry[i] = entry;
    staged->mask |= (uint8_t)(1u << i);
    if (dt_sender_fill_part(slot, i, entry->at, entry->bytes, memory))
        dt_stage_hand_over(s, slot);
    return true;
}

void dt_stage_match(struct dt_sender *s)
{
    while (!dt_list_is_empty(&s->stage->queue)) {
        struct dt_send_slot *slot = dt_sender_matching_slot(s);
        struct dt_staged *entry;
        int part;

        if (slot)
            dt_eager_read_row(s, &slot->entry[0]);
        entry = slot ? find_entry(s->stage, slot, &part) : NULL;
        if (!entry || !put(s, slot, part, entry))
            return;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Posting
 */
static void update_ready_bytes(struct dt_sender *s, struct dt_send_slot *slot, uint32_t i)
{
    struct dt_send_part *part = &slot->part[i];
    struct dt_staged *entry = dt_stage_slot(s, slot)->entry[i];
    bool is_copied = dt_stage_is_copied(entry);
    uint64_t copied;

    if (!is_copied)
        dt_stage_late_check(s, slot, i, entry);
    if (entry->is_direct)
        return;
    copied = is_copied ? entry->bytes : dt_stage_copied_bytes(entry);

    DT_CHECK(copied <= part->bytes);
    part->ready_bytes = (uint32_t)dt_max_u64(part->ready_bytes, copied);
}

/* What of a READY or PARTIAL message may be posted now, and as what. */
static void update(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_staged_slot *staged = dt_stage_slot(s, slot);

    if (staged->mask == 0)
        return;
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (staged->mask & 1u << i && slot->part[i].ready_bytes < slot->part[i].bytes)
            update_ready_bytes(s, slot, i);
    }
    /* Where an eager payload is, and whether it has arrived, may change until TAKE is posted. */
    if (slot->state == DT_SEND_READY && slot->body.kind > DT_BODY_SIZED && dt_send_is_payload_ready(slot))
        slot->body = dt_eager_choose_body(s, slot);
}

void dt_stage_post(struct dt_sender *s)
{
    while (s->next_post < s->next) {
        update(s, dt_sender_slot(s, s->next_post));
        if (!dt_sender_post_oldest(s))
            return;
    }
}

void dt_stage_hand_over(struct dt_sender *s, struct dt_send_slot *slot)
{
    bool has_passed_gate = dt_eager_has_passed_gate(s, slot);

    dt_sender_hand_over(s, slot);
    if (dt_eager_is_any(s, slot))
        slot->body.kind = DT_BODY_PENDING;
    dt_stage_inflight_message(s, slot);
    if (!has_passed_gate && !dt_gate_is_idle(&s->gate))
        dt_gate_hand_over(s, slot);
    dt_stage_post(s);
}

uint32_t dt_stage_post_again(struct dt_sender *s)
{
    uint32_t announced = dt_eager_resend_takes(s);
    uint64_t sequence = dt_sender_first_again(s);
    struct dt_send_slot *slot;

    DT_CHECK(announced <= s->again);
    s->again -= announced;
    while ((slot = dt_sender_find_again(s, &sequence))) {
        update(s, slot);
        if (!dt_sender_repost(s, slot))
            break;
    }
    return s->again;
}
