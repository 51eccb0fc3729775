/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sender's half of a switch: RESUME{p,e} decides the messages last posted on (p,e), and no others. What
 * the receiver has is complete; the rest is rewound, whole messages in the order of their sequence.
 */
#include "base/planted.h"
#include "transport/ahead.h"
#include "transport/overlap.h"
#include "transport/switch.h"

/*
 * Rewinds what was posted on `from` and has not arrived. What has no path or no room now stays ready, and
 * goes out by itself as soon as it can.
 */
static void rewind_slots(struct dt_sender *s, struct dt_path *from, struct dt_send_slot *const *slots,
                         uint32_t count, struct dt_switch_settled *settled)
{
    uint32_t left;

    for (uint32_t i = 0; i < count; i++)
        slots[i]->state = DT_SEND_READY;
    left = dt_switch_rewind(from, slots, count, &settled->engines);
    settled->again = count;
    settled->engines |= left > 0 ? DT_SWITCH_BY_REPOST : 0;
    s->again += left;
    if (left > 0)
        dt_connection_notify(&s->connection, DT_NOTICE_AGAIN);
}

static bool is_of(const struct dt_send_slot *slot, const struct dt_path *path)
{
    return slot->parts > 0 && slot->path == path->index && slot->epoch == path->epoch;
}

/*
 * Acknowledged is not received: a device may acknowledge what it then takes along when it dies. As long as
 * NCCL has not been told of the send, its buffers are still there to be sent again; afterwards the message is
 * lost.
 */
static bool take_back(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (slot->state != DT_SEND_DONE || slot->reported > 0)
        return false;
    for (uint32_t i = 0; i < slot->parts; i++)
        slot->part[i].request.is_done = false;
    slot->is_taken = false;
    slot->state = DT_SEND_READY;
    dt_page_add(&s->connection.meter.taken_back, 1);
    s->again++;
    dt_connection_notify(&s->connection, DT_NOTICE_AGAIN);
    return true;
}

static void say_lost(struct dt_sender *s, const struct dt_path *path, const struct dt_send_slot *slot)
{
    dt_connection_fail(
        &s->connection, DT_PEER_ERROR,
        "message %llu was acknowledged by %s, which failed before the receiver could see it; it is "
        "lost (path %u, epoch %u)",
        (unsigned long long)slot->sequence, path->peer_device, path->index, path->epoch);
}

/* What was posted of it was no payload, so that there is nothing to rewind: ahead.h knows what to post now.
 */
static void post_again_later(struct dt_sender *s, struct dt_send_slot *slot)
{
    slot->is_taken = false;
    slot->state = DT_SEND_READY;
    s->again++;
    dt_connection_notify(&s->connection, DT_NOTICE_AGAIN);
}

struct dt_switch_settled dt_switch_settle(struct dt_path *path)
{
    struct dt_sender *s = dt_sender_of(path->connection);
    uint32_t slots = s->connection.slots;
    struct dt_send_slot *missing[DT_SLOTS_MAX];
    struct dt_switch_settled settled = {0};
    uint32_t count = 0, anew = 0;

    dt_ahead_settle(path);
    for (uint32_t i = 0; i < slots; i++) {
        struct dt_send_slot *slot = &s->slot[(s->next_post + i) & (slots - 1)]; /* the oldest first */

        if (!is_of(slot, path) && !(DT_PLANTED(REWIND_ALL) && slot->state == DT_SEND_POSTED))
            continue;
        if (slot->state == DT_SEND_DONE || slot->state == DT_SEND_FREE) {
            if (DT_PLANTED(BLIND_TRUST) || dt_resume_has(&path->resume, slot->sequence))
                continue;
            if (dt_ahead_take_again(s, slot) || take_back(s, slot))
                anew++;
            else
                say_lost(s, path, slot);
        }
        if (slot->state == DT_SEND_BEGUN) { /* the receiver cannot have it */
            dt_overlap_settled(slot);
            anew++;
        }
        if (slot->state != DT_SEND_POSTED)
            continue;
        if (dt_resume_has(&path->resume, slot->sequence)) {
            dt_sender_complete(s, slot);
            settled.held++;
        } else if (slot->is_taken) {
            post_again_later(s, slot);
            anew++;
        } else {
            missing[count++] = slot;
        }
    }
    rewind_slots(s, path, missing, count, &settled);
    settled.again += anew;
    settled.engines |= anew > 0 ? DT_SWITCH_BY_REPOST : 0;
    dt_sender_post_again(s);
    return settled;
}
