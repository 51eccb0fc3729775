/* SPDX-License-Identifier: Apache-2.0 */
/* Going ahead: the sender. */
#include <endian.h>

#include <string.h>

#include "base/clock.h"
#include "base/planted.h"
#include "transport/ahead.h"
#include "transport/immediate.h"
#include "transport/staging.h"
#include "transport/work_id.h"

#define PLACE_BITS 3 /* of DT_AHEAD_PLACES */

/*
 * So long an entry waits for its clear-to-send before it goes ahead. One that is on its way comes sooner, and
 * spares the receiver a copy (64 to 512 KiB over the wire `local`: a quarter of the bandwidth); a link for
 * which going ahead is worth it takes longer.
 */
#define PATIENCE_NS (100 * DT_NS_PER_US)

static struct dt_ahead *ahead_of(struct dt_sender *s)
{
    return &s->stage->ahead;
}

void dt_ahead_granted(struct dt_sender *s, const struct dt_grant *grant)
{
    if (!s->stage || dt_load_relaxed(&s->stage->ahead.is_granted))
        return;
    s->stage->ahead.grant = *grant;
    dt_store_release(&s->stage->ahead.is_granted, 1u);
}

/* ------------------------------------------------------------------------------------------------------------
 * Entries in the stage's queue
 */
static bool may_go(const struct dt_ahead *ahead, const struct dt_staged *entry)
{
    return entry->ahead == DT_AHEAD_NONE && entry->bytes <= ahead->grant.bytes;
}

void dt_ahead_queued(struct dt_sender *s, struct dt_staged *entry)
{
    struct dt_ahead *ahead = ahead_of(s);

    entry->ahead = DT_AHEAD_NONE;
    entry->is_candidate = dt_load_acquire(&ahead->is_granted) && may_go(ahead, entry);
    ahead->candidates += entry->is_candidate;
    entry->queued = dt_ticks_now(s->connection.meter.ticks);
}

static void drop_candidate(struct dt_ahead *ahead, struct dt_staged *entry)
{
    ahead->candidates -= entry->is_candidate;
    entry->is_candidate = false;
}

void dt_ahead_matched(struct dt_sender *s, struct dt_staged *entry)
{
    drop_candidate(ahead_of(s), entry);
}

static bool is_queued(const struct dt_staged *entry)
{
    return !dt_list_is_empty(&entry->node);
}

/* ------------------------------------------------------------------------------------------------------------
 * Places
 */
static struct dt_ahead_place *place_of(struct dt_ahead *ahead, const struct dt_staged *entry)
{
    return &ahead->place[entry->ahead - 1];
}

static uint32_t number_of(const struct dt_ahead *ahead, const struct dt_ahead_place *place)
{
    return (uint32_t)(place - ahead->place);
}

/* What completions of this use of the place say. */
static uint32_t work_number(const struct dt_ahead *ahead, const struct dt_ahead_place *place)
{
    return place->generation << PLACE_BITS | number_of(ahead, place);
}

static void release(struct dt_ahead_place *place, uint8_t entry_ahead)
{
    if (place->entry)
        place->entry->ahead = entry_ahead;
    place->entry = NULL;
    place->state = DT_AHEAD_FREE;
}

/* The payload has come, as its completion or RESUME says. */
static void count(struct dt_sender *s, struct dt_ahead_place *place)
{
    if (place->is_counted)
        return;
    place->is_counted = true;
    dt_count(&s->connection.completions, 1);
    dt_meter_serviced(&s->connection.meter, place->handed, place->handed, place->bytes);
    dt_stage_came(s, place->handed, place->bytes, place->underway_bytes);
}

void dt_ahead_complete(struct dt_sender *s, uint32_t sequence)
{
    struct dt_ahead_place *place = &ahead_of(s)->place[sequence & (DT_AHEAD_PLACES - 1)];

    if (place->state >= DT_AHEAD_WRITTEN && work_number(ahead_of(s), place) == sequence)
        count(s, place);
}

void dt_ahead_read_row(struct dt_sender *s, const struct dt_cts_entry *row)
{
    struct dt_ahead *ahead = ahead_of(s);
    uint64_t released;

    ahead->is_welcome = row->takes_ahead;
    memcpy(&released, row->released, sizeof released);
    if (released == ahead->released)
        return;
    ahead->released = released;
    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        struct dt_ahead_place *place = &ahead->place[i];

        if (place->state < DT_AHEAD_WRITTEN || row->released[i] != (uint8_t)place->generation)
            continue;
        count(s, place);
        ahead->unwanted -= place->state == DT_AHEAD_UNWANTED;
        release(place, DT_AHEAD_RELEASED);
    }
}

bool dt_ahead_has_come(const struct dt_sender *s, const struct dt_staged *entry)
{
    const struct dt_ahead_place *place;

    if (entry->ahead == DT_AHEAD_NONE || entry->ahead == DT_AHEAD_RELEASED)
        return entry->ahead == DT_AHEAD_RELEASED;
    place = &s->stage->ahead.place[entry->ahead - 1];
    return place->state != DT_AHEAD_HELD && (place->is_known || place->is_counted);
}

void dt_ahead_delivered(struct dt_sender *s, struct dt_staged *entry)
{
    struct dt_ahead *ahead = ahead_of(s);

    drop_candidate(ahead, entry);
    if (entry->ahead != DT_AHEAD_NONE && entry->ahead != DT_AHEAD_RELEASED)
        place_of(ahead, entry)->entry = NULL;
    entry->ahead = DT_AHEAD_NONE;
}

/* ------------------------------------------------------------------------------------------------------------
 * The gate
 */
static uint64_t earliest_due_ns(const struct dt_ahead *ahead)
{
    uint64_t due_ns = DT_NEVER_NS;

    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        if (ahead->place[i].state == DT_AHEAD_HELD)
            due_ns = dt_earlier_ns(due_ns, ahead->place[i].due_ns);
    }
    return due_ns;
}

/* Its turn has come; if not, Detour's thread will look in time. */
static bool is_due(struct dt_sender *s, struct dt_ahead_place *place)
{
    bool is_due;

    if (!place->is_gated)
        return true;
    is_due = dt_gate_may_go(s, place->number, &place->due_ns);
    if (is_due)
        place->due_ns = DT_NEVER_NS;
    dt_gate_hold_ahead(s, earliest_due_ns(ahead_of(s)));
    return is_due;
}

static void leave_gate(struct dt_sender *s, const struct dt_ahead_place *place)
{
    ahead_of(s)->held--;
    if (place->is_gated)
        dt_gate_went(s, place->number);
}

/* ------------------------------------------------------------------------------------------------------------
 * Going
 */

/* The path to go over, or NULL: not now. */
static struct dt_path *way(const struct dt_sender *s)
{
    struct dt_path *path = s->connection.current;

    return path && s->stage->ahead.grant.path_mask & s->stage->memory.path_mask & 1u << path->index &&
                   path->inline_bytes >= sizeof(struct dt_ahead_header) && dt_qp_room(path->qp[0]) >= 2
               ? path
               : NULL;
}

/* Which irecv it is for. */
static struct dt_ahead_header header_for(struct dt_sender *s, const struct dt_staged *entry,
                                         uint32_t generation)
{
    const struct dt_send_slot *slot = &s->slot[s->next & (s->connection.slots - 1)];
    bool is_matching = slot->state == DT_SEND_MATCHING; /* all its parts with the tag have their isend */
    uint32_t index = 0;

    for (const struct dt_list *node = s->stage->queue.next; node != &entry->node; node = node->next)
        index += dt_container_of(node, const struct dt_staged, node)->tag == entry->tag;
    if (DT_PLANTED(AHEAD_INDEX))
        index = 0;
    return (struct dt_ahead_header){
        .first = htole64(s->next + is_matching),
        .tag = htole32((uint32_t)entry->tag),
        .index = htole32(index),
        .bytes = htole32(entry->bytes),
        .generation = htole32(generation),
    };
}

static void post_payload(struct dt_sender *s, struct dt_path *path, const struct dt_staged *entry,
                         const struct dt_ahead_place *place)
{
    const struct dt_grant *grant = &s->stage->ahead.grant;
    uint32_t i = number_of(&s->stage->ahead, place);
    struct dt_ahead_header header = header_for(s, entry, place->generation);
    struct dt_write write[2] = {{
        .wr_id =
            dt_work_encode(DT_WORK_AHEAD, path->index, 0, path->epoch, work_number(&s->stage->ahead, place)),
        .local_addr = (uintptr_t)&header,
        .remote_addr = grant->addr + i * DT_AHEAD_HEADER_STRIDE,
        .bytes = sizeof header,
        .rkey = grant->rkey[path->index],
        .flags = DT_POST_INLINE,
    }};
    uint32_t count = 1;
    enum dt_status status;

    if (entry->bytes > 0) {
        write[1] = write[0];
        write[1].local_addr = (uintptr_t)entry->at;
        write[1].lkey = s->stage->memory.mr[path->index]->lkey;
        write[1].remote_addr = grant->addr + DT_AHEAD_HEADERS_BYTES + (uint64_t)i * grant->bytes;
        write[1].bytes = entry->bytes;
        write[1].flags = entry->bytes <= path->inline_bytes ? DT_POST_INLINE : 0;
        count = 2;
    }
    write[count - 1].imm = dt_imm_encode(DT_IMM_AHEAD, i, place->generation & DT_IMM_AHEAD_GENERATION);
    write[count - 1].flags |= DT_POST_IMM | DT_POST_SIGNALED;
    status = dt_qp_post_write(path->qp[0], write, count);
    dt_qp_ring(path->qp[0]);
    if (status != DT_OK)
        dt_connection_path_refused(&s->connection, path, "refused a write");
}

/* The entry is in the queue. What the device refuses counts as written. */
static void go(struct dt_sender *s, struct dt_path *path, struct dt_ahead_place *place)
{
    struct dt_staged *entry = place->entry;

    leave_gate(s, place);
    place->state = DT_AHEAD_WRITTEN;
    place->path = (uint8_t)path->index;
    place->epoch = path->epoch;
    place->is_known = place->is_counted = place->is_lost = false;
    place->bytes = entry->bytes;
    place->generation++;
    place->underway_bytes = dt_stage_goes(s, entry->bytes);
    post_payload(s, path, entry, place);
}

/* Puts an entry into a free place, and at the gate if there is one. */
static void take_place(struct dt_sender *s, struct dt_staged *entry, struct dt_ahead_place *place)
{
    struct dt_ahead *ahead = ahead_of(s);

    drop_candidate(ahead, entry);
    entry->ahead = (uint8_t)(number_of(ahead, place) + 1);
    place->entry = entry;
    place->state = DT_AHEAD_HELD;
    ahead->held++;
    place->handed = dt_ticks_now(s->connection.meter.ticks);
    place->number = dt_max_u64(s->next + dt_stage_unmatched(s->stage) - 1, ahead->next_number);
    ahead->next_number = place->number + 1;
    place->due_ns = DT_NEVER_NS;
    place->is_gated = !dt_gate_is_idle(&s->gate);
    if (place->is_gated)
        dt_gate_hand_over_ahead(s, place->number, entry->bytes);
}

static struct dt_ahead_place *free_place(struct dt_ahead *ahead)
{
    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        if (ahead->place[i].state == DT_AHEAD_FREE)
            return &ahead->place[i];
    }
    return NULL;
}

static struct dt_staged *next_candidate(const struct dt_sender *s)
{
    dt_list_for_each(node, &s->stage->queue)
    {
        struct dt_staged *entry = dt_container_of(node, struct dt_staged, node);

        if (entry->is_candidate)
            return entry;
    }
    return NULL;
}

static bool has_waited(const struct dt_sender *s, const struct dt_staged *entry)
{
    const struct dt_ticks *ticks = s->connection.meter.ticks;
    uint64_t now = dt_ticks_now(ticks);

    return now > entry->queued && dt_ticks_to_ns(ticks, now - entry->queued) >= PATIENCE_NS;
}

static void take_places(struct dt_sender *s)
{
    struct dt_ahead *ahead = ahead_of(s);

    while (ahead->candidates > 0 && ahead->is_welcome) {
        struct dt_ahead_place *place = free_place(ahead);
        struct dt_staged *entry = place ? next_candidate(s) : NULL;

        if (!entry || !has_waited(s, entry) || !dt_stage_is_entry_copied(entry))
            return;
        take_place(s, entry, place);
    }
}

/* The one that came to the gate first, or NULL. */
static struct dt_ahead_place *first_held(struct dt_ahead *ahead)
{
    struct dt_ahead_place *first = NULL;

    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        struct dt_ahead_place *place = &ahead->place[i];

        if (place->state == DT_AHEAD_HELD && is_queued(place->entry) &&
            (!first || place->number < first->number))
            first = place;
    }
    return first;
}

static void go_all(struct dt_sender *s)
{
    struct dt_ahead *ahead = ahead_of(s);
    struct dt_ahead_place *place;

    while ((place = first_held(ahead))) {
        struct dt_path *path = is_due(s, place) ? way(s) : NULL;

        if (!path)
            return;
        go(s, path, place);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Places whose message goes directly
 */
static bool tell(struct dt_sender *s, struct dt_ahead_place *place)
{
    struct dt_connection *c = &s->connection;
    struct dt_path *path = place->is_known ? c->current : &c->path[place->path];
    uint32_t i = number_of(ahead_of(s), place);
    struct dt_write write = {
        .imm = dt_imm_encode(DT_IMM_AHEAD, i,
                             DT_IMM_AHEAD_UNWANTED | (place->generation & DT_IMM_AHEAD_GENERATION)),
        .flags = DT_POST_IMM | DT_POST_SIGNALED,
    };
    enum dt_status status;

    if (!path || path->state != DT_PATH_UP || dt_qp_room(path->qp[0]) < 1)
        return false;
    write.wr_id = dt_work_encode(DT_WORK_AHEAD, path->index, 0, path->epoch, work_number(ahead_of(s), place));
    write.remote_addr = path->peer_control_addr;
    write.rkey = path->peer_control_rkey;
    place->state = DT_AHEAD_TOLD;
    place->told_path = (uint8_t)path->index;
    place->told_epoch = path->epoch;
    status = dt_qp_post_write(path->qp[0], &write, 1);
    dt_qp_ring(path->qp[0]);
    if (status != DT_OK)
        dt_connection_path_refused(c, path, "refused a write");
    return true;
}

static void tell_all(struct dt_sender *s)
{
    struct dt_ahead *ahead = ahead_of(s);

    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        if (ahead->place[i].state == DT_AHEAD_UNWANTED && tell(s, &ahead->place[i]))
            ahead->unwanted--;
    }
}

void dt_ahead_progress(struct dt_sender *s)
{
    struct dt_ahead *ahead = ahead_of(s);

    /* A message that does not fit its irecv is still in the queue, with a part that seems to be its. */
    if (dt_load_relaxed(&s->connection.failing) != DT_OK)
        return;
    if (ahead->candidates > 0)
        take_places(s);
    if (ahead->held > 0)
        go_all(s);
    if (ahead->unwanted > 0)
        tell_all(s);
}

/* ------------------------------------------------------------------------------------------------------------
 * The message is to be posted
 */
bool dt_ahead_has_turn(const struct dt_send_slot *slot)
{
    return slot->staged_mask & 1 && slot->part[0].staged->ahead != DT_AHEAD_NONE;
}

static bool takes(const struct dt_send_slot *slot)
{
    return slot->parts == 1 && slot->entry[0].takes_ahead;
}

/* The message goes directly; false: its turn at the gate has not come. */
static bool decline(struct dt_sender *s, struct dt_staged *entry)
{
    struct dt_ahead *ahead = ahead_of(s);
    struct dt_ahead_place *place = place_of(ahead, entry);

    if (place->state == DT_AHEAD_HELD) {
        if (!is_due(s, place))
            return false;
        leave_gate(s, place);
        release(place, DT_AHEAD_NONE);
        return true;
    }
    place->entry = NULL;
    place->state = DT_AHEAD_UNWANTED;
    ahead->unwanted++;
    entry->ahead = DT_AHEAD_NONE;
    return true;
}

static enum dt_ahead_answer decline_all(struct dt_sender *s, const struct dt_send_slot *slot)
{
    for (uint32_t i = 0; i < slot->parts; i++) {
        struct dt_staged *entry = slot->part[i].staged;

        if (!(slot->staged_mask & 1u << i) || entry->ahead == DT_AHEAD_NONE)
            continue;
        if (entry->ahead == DT_AHEAD_RELEASED) {
            dt_connection_fail(
                &s->connection, DT_PROTOCOL,
                "the receiver has taken a message of %u bytes that went ahead, and wants it again",
                entry->bytes);
            return DT_AHEAD_NOT_NOW;
        }
        if (!decline(s, entry))
            return DT_AHEAD_NOT_NOW;
    }
    return DT_AHEAD_DIRECTLY;
}

static void mark(const struct dt_path *path, uint32_t epoch, struct dt_send_slot *slot)
{
    dt_sender_mark_posted(path, slot);
    slot->epoch = epoch;
    slot->qps_left = 1;
    slot->is_taken = true;
}

/* From where; NULL: it was released already. */
static void note_place(struct dt_send_slot *slot, const struct dt_ahead *ahead,
                       const struct dt_ahead_place *place)
{
    slot->taken_place = (uint8_t)(place ? number_of(ahead, place) : 0);
    slot->taken_generation = place ? place->generation : 0;
}

static void say_take(struct dt_path *path, const struct dt_send_slot *slot, uint64_t wr_id)
{
    struct dt_write write = {
        .wr_id = wr_id,
        .remote_addr = path->peer_control_addr,
        .rkey = path->peer_control_rkey,
        .imm = dt_imm_encode(DT_IMM_TAKE, slot->taken_place, slot->sequence),
        .flags = DT_POST_IMM | DT_POST_SIGNALED,
    };
    enum dt_status status = dt_qp_post_write(path->qp[0], &write, 1);

    dt_qp_ring(path->qp[0]);
    if (status != DT_OK)
        dt_connection_path_refused(path->connection, path, "refused a write");
}

static enum dt_ahead_answer post_take(struct dt_sender *s, struct dt_path *path,
                                      const struct dt_ahead_place *place, struct dt_send_slot *slot)
{
    if (!path || dt_qp_room(path->qp[0]) < 1)
        return DT_AHEAD_NOT_NOW;
    note_place(slot, ahead_of(s), place);
    mark(path, path->epoch, slot);
    say_take(path, slot, path->payload_id[0] | (uint32_t)slot->sequence);
    return DT_AHEAD_POSTED;
}

enum dt_ahead_answer dt_ahead_post(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_connection *c = &s->connection;
    struct dt_staged *entry = slot->part[0].staged;
    struct dt_ahead_place *place;
    struct dt_path *path;

    if (!takes(slot))
        return decline_all(s, slot);
    if (entry->ahead == DT_AHEAD_NONE)
        return DT_AHEAD_DIRECTLY;
    if (entry->ahead == DT_AHEAD_RELEASED)
        return post_take(s, c->current, NULL, slot);
    place = place_of(ahead_of(s), entry);
    if (place->state == DT_AHEAD_HELD)
        return decline(s, entry) ? DT_AHEAD_DIRECTLY : DT_AHEAD_NOT_NOW;
    if (place->is_known)
        return post_take(s, c->current, place, slot);
    path = &c->path[place->path];
    if (path->state == DT_PATH_UP && !DT_PLANTED(AHEAD_ANYWHERE))
        return post_take(s, path, place, slot);
    if (DT_PLANTED(AHEAD_ANYWHERE))
        return decline_all(s, slot);
    note_place(slot, ahead_of(s), place);
    mark(path, place->epoch, slot); /* the switch decides */
    return DT_AHEAD_POSTED;
}

/* ------------------------------------------------------------------------------------------------------------
 * The path has failed
 */

/* What was written over the epoch that is being settled, and has not come. */
static void lose(struct dt_sender *s, struct dt_ahead_place *place)
{
    struct dt_ahead *ahead = ahead_of(s);
    struct dt_staged *entry = place->entry;

    ahead->unwanted -= place->state == DT_AHEAD_UNWANTED;
    place->is_lost = true;
    if (!place->is_counted)
        dt_stage_lost(s, place->bytes);
    release(place, DT_AHEAD_NONE);
    if (!entry || !is_queued(entry))
        return;
    entry->is_candidate = true;
    ahead->candidates++;
}

void dt_ahead_settle(struct dt_path *path)
{
    struct dt_sender *s = dt_sender_of(path->connection);

    if (!s->stage)
        return;
    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        struct dt_ahead_place *place = &ahead_of(s)->place[i];
        bool is_of = place->state >= DT_AHEAD_WRITTEN && !place->is_known && place->path == path->index &&
                     place->epoch == path->epoch;

        if (is_of && (path->resume.ahead[i] == (uint8_t)place->generation || DT_PLANTED(AHEAD_TRUST))) {
            place->is_known = true;
            count(s, place);
        } else if (is_of) {
            lose(s, place);
        }
        if (place->state == DT_AHEAD_TOLD && place->told_path == path->index &&
            place->told_epoch == path->epoch) {
            place->state = DT_AHEAD_UNWANTED;
            ahead_of(s)->unwanted++;
        }
    }
}

bool dt_ahead_take_again(struct dt_sender *s, const struct dt_send_slot *slot)
{
    uint64_t bit = 1ull << (slot - s->slot);
    const struct dt_ahead_place *place;

    if (!slot->is_taken)
        return false;
    place = &ahead_of(s)->place[slot->taken_place];
    if (place->is_lost && place->generation == slot->taken_generation)
        return false;
    s->again += !(ahead_of(s)->again & bit);
    ahead_of(s)->again |= bit;
    dt_connection_notify(&s->connection, DT_NOTICE_AGAIN);
    return true;
}

uint32_t dt_ahead_say_again(struct dt_sender *s)
{
    struct dt_ahead *ahead = ahead_of(s);
    struct dt_path *path = s->connection.current;
    uint32_t said = 0;

    while (ahead->again && path && path->state == DT_PATH_UP && dt_qp_room(path->qp[0]) > 0) {
        uint32_t i = (uint32_t)__builtin_ctzll(ahead->again);
        struct dt_send_slot *slot = &s->slot[i];

        ahead->again &= ahead->again - 1;
        slot->path = (uint8_t)path->index; /* if that fails, too, it is asked for once more */
        slot->epoch = path->epoch;
        /* A completion says nothing new. */
        say_take(path, slot, dt_work_encode(DT_WORK_AHEAD, path->index, 0, path->epoch, 0));
        said++;
    }
    return said;
}
