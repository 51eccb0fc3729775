/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/switchover/settle.h"

#include "base/check.h"
#include "failover/planted.h"
#include "failover/switchover/replay.h"
#include "failover/switchover/state.h"
#include "transport/message/send.h"

/*
 * Posts again the messages that were posted on `from` and have not arrived. Those without a path or room now
 * stay READY and are posted as soon as there is one (dt_end_ops.post_again).
 */
static void replay_slots(struct dt_sender *s, struct dt_path *from, struct dt_send_slot *const *slots,
                         uint32_t count, struct dt_switchover_settled *settled)
{
    uint32_t left;

    for (uint32_t i = 0; i < count; i++)
        dt_send_slot_set(slots[i], DT_SEND_READY);
    left = dt_switchover_replay(from, slots, count, &settled->engines);
    DT_CHECK(left <= count);
    settled->again = count;
    settled->engines |= left > 0 ? DT_SWITCHOVER_BY_REPOST : 0;
    s->again += left;
    if (left > 0)
        dt_connection_notify(&s->connection, DT_NOTICE_AGAIN);
}

static bool is_of(const struct dt_send_slot *slot, const struct dt_path *path)
{
    return slot->parts > 0 && slot->path == path->index && slot->epoch == path->epoch;
}

/*
 * Acknowledged is not received: a device may acknowledge a message and die before software sees it. Until the
 * send was reported done, its buffers are valid and the message is sent again; afterwards it is lost.
 */
static bool reopen(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (slot->state != DT_SEND_DONE || slot->reported > 0)
        return false;
    DT_CHECK(slot->parts > 0 && slot->parts <= DT_PARTS_MAX);
    dt_page_add(&s->connection.meter.taken_back, 1);
    dt_sender_reopen(s, slot);
    return true;
}

static void fail_lost(struct dt_sender *s, const struct dt_path *path, const struct dt_send_slot *slot)
{
    dt_connection_fail(
        &s->connection, DT_PEER_ERROR,
        "message %llu was acknowledged by %s, which failed before the receiver could see it; it is "
        "lost (path %u, epoch %u)",
        (unsigned long long)slot->sequence, path->peer_device, path->index, path->epoch);
}

struct dt_switchover_settled dt_settle(struct dt_path *path)
{
    struct dt_sender *s = dt_sender_of(path->connection);
    uint32_t slots = s->connection.slots;
    struct dt_send_slot *missing[DT_SLOTS_MAX];
    struct dt_switchover_settled settled = {0};
    uint32_t count = 0, anew = 0;

    DT_CHECK(path->state == DT_PATH_NONE);
    s->connection.ops->settle(path, &path->switchover->resume);
    for (uint32_t i = 0; i < slots; i++) {
        struct dt_send_slot *slot = &s->slot[(s->next_post + i) & (slots - 1)]; /* the oldest first */

        if (!is_of(slot, path) && !(DT_PLANTED(REPLAY_ALL) && slot->state == DT_SEND_POSTED))
            continue;
        if (slot->state == DT_SEND_DONE || slot->state == DT_SEND_FREE) {
            if (DT_PLANTED(BLIND_TRUST) || dt_resume_has(&path->switchover->resume, slot->sequence))
                continue;
            if (s->connection.ops->announce_again(s, slot) || reopen(s, slot))
                anew++;
            else
                fail_lost(s, path, slot);
        }
        if (slot->state == DT_SEND_PARTIAL) { /* the receiver cannot have it */
            dt_sender_restart(slot);
            anew++;
        }
        if (slot->state != DT_SEND_POSTED)
            continue;
        if (dt_resume_has(&path->switchover->resume, slot->sequence)) {
            dt_sender_complete(s, slot);
            settled.held++;
        } else if (slot->body.kind == DT_BODY_TAKE) { /* no payload was posted that could be replayed */
            dt_sender_reopen(s, slot);
            anew++;
        } else {
            missing[count++] = slot;
        }
    }
    replay_slots(s, path, missing, count, &settled);
    DT_CHECK(settled.held + count + anew <= slots);
    settled.again += anew;
    settled.engines |= anew > 0 ? DT_SWITCHOVER_BY_REPOST : 0;
    s->connection.ops->post_again(&s->connection);
    return settled;
}
