/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eager send, at the sender: the work requests of a message whose payload was sent eagerly, and the steps
 * when a path has failed.
 */
#include "hostpath/staged/eager_take.h"

#include "hostpath/staged/eager_place.h"
#include "hostpath/staged/stage_inflight.h"
#include "transport/message/send.h"
#include "transport/message/send_take.h"
#include "base/check.h"
#include "base/log.h"
#include "failover/planted.h"
#include "transport/protocol/work_id.h"

static uint8_t eager_of(const struct dt_staged_slot *staged, uint32_t part)
{
    return staged->mask & 1u << part ? staged->entry[part]->eager : DT_EAGER_NONE;
}

bool dt_eager_is_any(const struct dt_sender *s, const struct dt_send_slot *slot)
{
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (eager_of(dt_stage_slot(s, slot), i) != DT_EAGER_NONE)
            return true;
    }
    return false;
}

bool dt_eager_has_passed_gate(const struct dt_sender *s, const struct dt_send_slot *slot)
{
    return eager_of(dt_stage_slot(s, slot), 0) != DT_EAGER_NONE;
}

/* ------------------------------------------------------------------------------------------------------------
 * The body
 */
static struct dt_send_body pending_body(void)
{
    return (struct dt_send_body){.kind = DT_BODY_PENDING};
}

/* The entry's payload goes directly. False: it still has to wait at the gate. */
static bool decline(struct dt_sender *s, struct dt_staged *entry)
{
    struct dt_eager *eager = &s->stage->eager;
    struct dt_eager_place *place = dt_eager_place_of(s, entry);

    if (place->state == DT_EAGER_HELD) {
        if (!dt_eager_place_is_due(s, place))
            return false;
        dt_eager_place_leave_gate(s, place);
        dt_eager_place_free(eager, place, DT_EAGER_NONE);
        return true;
    }
    dt_eager_place_set(place, DT_EAGER_DISCARD_PENDING);
    place->entry = NULL;
    eager->discards++;
    entry->eager = DT_EAGER_NONE;
    return true;
}

static bool decline_all(struct dt_sender *s, const struct dt_send_slot *slot)
{
    const struct dt_staged_slot *staged = dt_stage_slot(s, slot);

    for (uint32_t i = 0; i < slot->parts; i++) {
        if (eager_of(staged, i) == DT_EAGER_NONE)
            continue;
        if (eager_of(staged, i) == DT_EAGER_RELEASED) {
            dt_connection_fail(
                &s->connection, DT_PROTOCOL,
                "the receiver has taken an eager message of %u bytes, and asks for its payload again",
                staged->entry[i]->bytes);
            return false;
        }
        if (!decline(s, staged->entry[i]))
            return false;
    }
    return true;
}

/* TAKE from this place; NULL: the place was released already. `path`: over this one, or NULL: any. */
static struct dt_send_body take_body(struct dt_sender *s, const struct dt_send_slot *slot,
                                     const struct dt_eager_place *place, const struct dt_path *path)
{
    DT_CHECK(!place || (place->state == DT_EAGER_WRITTEN && !place->is_lost));
    dt_stage_slot(s, slot)->taken_generation = place ? place->generation : 0;
    return (struct dt_send_body){
        .kind = DT_BODY_TAKE,
        .place = (uint8_t)(place ? dt_eager_place_number(&s->stage->eager, place) : 0),
        .path = (uint8_t)(path ? path->index : DT_PATHS_MAX),
        .epoch = path ? place->epoch : 0,
    };
}

struct dt_send_body dt_eager_choose_body(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_connection *c = &s->connection;
    struct dt_staged *entry = dt_stage_slot(s, slot)->entry[0];
    bool is_declined = slot->parts > 1 || !slot->entry[0].takes_eager;
    const struct dt_eager_place *place;

    if (!is_declined && entry->eager == DT_EAGER_RELEASED)
        return take_body(s, slot, NULL, NULL);
    if (!is_declined && entry->eager != DT_EAGER_NONE) {
        place = dt_eager_place_of(s, entry);
        if (place->state != DT_EAGER_HELD && place->is_confirmed)
            return take_body(s, slot, place, NULL);
        /* Not confirmed: TAKE follows the payload on its path, where settling decides if the path has failed.
         */
        if (place->state != DT_EAGER_HELD && !DT_PLANTED(EAGER_ANYWHERE))
            return take_body(s, slot, place, &c->path[place->path]);
    }
    return decline_all(s, slot) ? dt_sender_payload_body(c, slot) : pending_body();
}

/* ------------------------------------------------------------------------------------------------------------
 * Settling
 */

/* The payload was written over the epoch that is being settled, and has not arrived. */
static void lose(struct dt_sender *s, struct dt_eager_place *place)
{
    struct dt_eager *eager = &s->stage->eager;
    struct dt_staged *entry = place->entry;

    place->is_lost = true;
    if (!place->is_counted)
        dt_stage_inflight_lost(s, place->bytes);
    dt_eager_place_free(eager, place, DT_EAGER_NONE);
    if (entry && !dt_list_is_empty(&entry->node))
        dt_eager_set_candidate(eager, entry, true);
}

static void settle_place(struct dt_sender *s, const struct dt_path *path, const struct dt_resume *resume,
                         struct dt_eager_place *place)
{
    uint32_t i = dt_eager_place_number(&s->stage->eager, place);
    bool is_of = place->state >= DT_EAGER_WRITTEN && !place->is_confirmed && place->path == path->index &&
                 place->epoch == path->epoch;

    if (is_of && (resume->eager[i] == (uint8_t)place->generation || DT_PLANTED(EAGER_TRUST))) {
        place->is_confirmed = true;
        dt_eager_place_count(s, place);
    } else if (is_of) {
        lose(s, place);
    }
    if (place->state == DT_EAGER_DISCARD_SENT && place->discard_path == path->index &&
        place->discard_epoch == path->epoch) {
        dt_eager_place_set(place, DT_EAGER_DISCARD_PENDING);
        s->stage->eager.discards++;
    }
}

static void check_counts(const struct dt_eager *eager)
{
    uint32_t held = 0, discards = 0;

    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        held += eager->place[i].state == DT_EAGER_HELD;
        discards += eager->place[i].state == DT_EAGER_DISCARD_PENDING;
    }
    DT_CHECK(eager->held == held && eager->discards == discards);
}

void dt_eager_settle(struct dt_path *path, const struct dt_resume *resume)
{
    struct dt_sender *s = dt_sender_of(path->connection);

    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++)
        settle_place(s, path, resume, &s->stage->eager.place[i]);
    check_counts(&s->stage->eager);
}

bool dt_eager_announce_again(struct dt_sender *s, const struct dt_send_slot *slot)
{
    struct dt_eager *eager = &s->stage->eager;
    uint64_t bit = 1ull << (slot - s->slot);
    const struct dt_eager_place *place;

    if (slot->body.kind != DT_BODY_TAKE)
        return false;
    place = &eager->place[slot->body.place];
    if (place->is_lost && place->generation == dt_stage_slot(s, slot)->taken_generation)
        return false;
    s->again += !(eager->take_again & bit);
    eager->take_again |= bit;
    dt_connection_notify(&s->connection, DT_NOTICE_AGAIN);
    return true;
}

/* Posts TAKE once more for a message that is complete. */
static void resend_take(struct dt_sender *s, struct dt_path *path, struct dt_send_slot *slot)
{
    if (slot->state != DT_SEND_DONE && slot->state != DT_SEND_FREE) {
        dt_connection_fail(
            &s->connection, DT_PROTOCOL,
            "the receiver lacks a message, and has published another one for its slot (message %llu)",
            (unsigned long long)slot->sequence);
        return;
    }
    DT_CHECK(slot->body.kind == DT_BODY_TAKE);
    slot->path = (uint8_t)path->index; /* if that fails, too, it is asked for once more */
    slot->epoch = path->epoch;
    /* No completion is needed: the message is complete. */
    dt_sender_post_take(path, slot, dt_work_encode(DT_WORK_EAGER, path->index, 0, path->epoch, 0));
}

uint32_t dt_eager_resend_takes(struct dt_sender *s)
{
    struct dt_eager *eager = &s->stage->eager;
    struct dt_path *path = s->connection.current;
    uint32_t count = 0;

    DT_CHECK(s->connection.slots == DT_SLOTS_MAX || eager->take_again >> s->connection.slots == 0);
    while (eager->take_again && path && path->state == DT_PATH_UP && dt_qp_room(path->qp[0]) > 0) {
        struct dt_send_slot *slot = &s->slot[__builtin_ctzll(eager->take_again)];

        eager->take_again &= eager->take_again - 1;
        resend_take(s, path, slot);
        count++;
    }
    return count;
}
