/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the sender: from the stage's queue into places, and DISCARD. */
#include "hostpath/staged/eager_send.h"

#include <endian.h>

#include "hostpath/staged/eager_place.h"
#include "hostpath/staged/stage_copy.h"
#include "hostpath/staged/stage_inflight.h"
#include "base/check.h"
#include "base/clock.h"
#include "failover/planted.h"
#include "transport/protocol/immediate.h"

/*
 * How long an entry waits for its CTS before it is sent eagerly. A CTS that is on its way arrives sooner, and
 * saves the receiver a copy (64 to 512 KiB over the wire `local`: a quarter of the bandwidth); a link that
 * makes eager send worthwhile takes longer.
 */
#define PATIENCE_NS (100 * DT_NS_PER_US)

static bool is_queued(const struct dt_staged *entry)
{
    return !dt_list_is_empty(&entry->node);
}

/* ------------------------------------------------------------------------------------------------------------
 * Writing a place
 */

/*
 * The path for eager payloads, or NULL: none now. The receiver does not repeat the keys of a grant, so a path
 * whose keys were renewed (send_keys.h) carries none.
 */
static struct dt_path *eager_path(const struct dt_sender *s)
{
    struct dt_path *path = s->connection.current;

    return path && path->keys_since == 0 &&
                   s->stage->eager.grant.path_mask & s->stage->memory.path_mask & 1u << path->index &&
                   path->inline_bytes >= sizeof(struct dt_eager_header) && dt_qp_room(path->qp[0]) >= 2
               ? path
               : NULL;
}

/* Identifies the irecv of the payload. */
static struct dt_eager_header header_for(struct dt_sender *s, const struct dt_staged *entry,
                                         uint32_t generation)
{
    const struct dt_send_slot *slot = dt_sender_slot(s, s->next);
    bool is_matching = slot->state == DT_SEND_MATCHING; /* all its parts with the tag have their isend */
    uint32_t index = 0;

    for (const struct dt_list *node = s->stage->queue.next; node != &entry->node; node = node->next)
        index += dt_container_of(node, const struct dt_staged, node)->tag == entry->tag;
    if (DT_PLANTED(EAGER_INDEX))
        index = 0;
    return (struct dt_eager_header){
        .first = htole64(s->next + is_matching),
        .tag = htole32((uint32_t)entry->tag),
        .index = htole32(index),
        .bytes = htole32(entry->bytes),
        .generation = htole32(generation),
    };
}

static void post_payload(struct dt_sender *s, struct dt_path *path, const struct dt_staged *entry,
                         const struct dt_eager_place *place)
{
    const struct dt_grant *grant = &s->stage->eager.grant;
    uint32_t i = dt_eager_place_number(&s->stage->eager, place);
    struct dt_eager_header header = header_for(s, entry, place->generation);
    struct dt_write write[2] = {{
        .wr_id = dt_eager_work_id(path, &s->stage->eager, place),
        .local_addr = (uintptr_t)&header,
        .remote_addr = grant->addr + i * DT_EAGER_HEADER_STRIDE,
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
        write[1].remote_addr = grant->addr + DT_EAGER_HEADERS_BYTES + (uint64_t)i * grant->bytes;
        write[1].bytes = entry->bytes;
        write[1].flags = entry->bytes <= path->inline_bytes ? DT_POST_INLINE : 0;
        count = 2;
    }
    write[count - 1].imm = dt_imm_encode(DT_IMM_EAGER, i, place->generation & DT_IMM_EAGER_GENERATION);
    write[count - 1].flags |= DT_POST_IMM | DT_POST_SIGNALED;
    status = dt_qp_post_write(path->qp[0], write, count);
    dt_qp_ring(path->qp[0]);
    if (status != DT_OK)
        dt_connection_path_refused(&s->connection, path, "refused a write");
}

/* A payload that the device refused counts as written. */
static void write_place(struct dt_sender *s, struct dt_path *path, struct dt_eager_place *place)
{
    struct dt_staged *entry = place->entry;

    DT_CHECK(is_queued(entry) && entry->bytes <= s->stage->eager.grant.bytes);
    dt_eager_place_leave_gate(s, place);
    dt_eager_place_set(place, DT_EAGER_WRITTEN);
    place->path = (uint8_t)path->index;
    place->epoch = path->epoch;
    place->is_confirmed = place->is_counted = place->is_lost = false;
    place->bytes = entry->bytes;
    place->generation++;
    place->inflight_bytes = dt_stage_inflight_add(s, entry->bytes);
    post_payload(s, path, entry, place);
}

/* ------------------------------------------------------------------------------------------------------------
 * Reserving places
 */

/* Reserves a free place for the entry, which may have to wait at the gate. */
static void hold_place(struct dt_sender *s, struct dt_staged *entry, struct dt_eager_place *place)
{
    struct dt_eager *eager = &s->stage->eager;

    DT_CHECK(is_queued(entry) && entry->eager == DT_EAGER_NONE && !place->entry);
    dt_eager_set_candidate(eager, entry, false);
    dt_eager_place_set(place, DT_EAGER_HELD);
    entry->eager = (uint8_t)(dt_eager_place_number(eager, place) + 1);
    place->entry = entry;
    eager->held++;
    place->handed = dt_ticks_now(s->connection.meter.ticks);
    place->number = dt_max_u64(s->next + dt_stage_unmatched(s->stage) - 1, eager->next_number);
    eager->next_number = place->number + 1;
    place->due_ns = DT_NEVER_NS;
    place->is_gated = !dt_gate_is_idle(&s->gate);
    if (place->is_gated)
        dt_gate_hand_over_early(s, place->number, entry->bytes);
}

static struct dt_eager_place *free_place(struct dt_eager *eager)
{
    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        if (eager->place[i].state == DT_EAGER_FREE)
            return &eager->place[i];
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

static void hold_places(struct dt_sender *s)
{
    struct dt_eager *eager = &s->stage->eager;

    while (eager->candidates > 0 && eager->is_accepted) {
        struct dt_eager_place *place = free_place(eager);
        struct dt_staged *entry = place ? next_candidate(s) : NULL;

        DT_CHECK(!place || entry); /* candidates are in the queue */
        if (!entry || !has_waited(s, entry) || !dt_stage_is_copied(entry))
            return;
        hold_place(s, entry, place);
    }
}

/* The HELD place that came to the gate first, and whose entry is not matched; or NULL. */
static struct dt_eager_place *first_held(struct dt_eager *eager)
{
    struct dt_eager_place *first = NULL;

    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        struct dt_eager_place *place = &eager->place[i];

        if (place->state == DT_EAGER_HELD && is_queued(place->entry) &&
            (!first || place->number < first->number))
            first = place;
    }
    return first;
}

static void write_places(struct dt_sender *s)
{
    struct dt_eager_place *place;

    while ((place = first_held(&s->stage->eager))) {
        struct dt_path *path = dt_eager_place_is_due(s, place) ? eager_path(s) : NULL;

        if (!path)
            return;
        write_place(s, path, place);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * DISCARD: the message of the payload is sent directly
 */
static bool post_discard(struct dt_sender *s, struct dt_eager_place *place)
{
    struct dt_connection *c = &s->connection;
    struct dt_path *path = place->is_confirmed ? c->current : &c->path[place->path];
    uint32_t i = dt_eager_place_number(&s->stage->eager, place);
    struct dt_write write = {
        .imm = dt_imm_encode(DT_IMM_EAGER, i,
                             DT_IMM_EAGER_UNWANTED | (place->generation & DT_IMM_EAGER_GENERATION)),
        .flags = DT_POST_IMM | DT_POST_SIGNALED,
    };
    enum dt_status status;

    if (!path || path->state != DT_PATH_UP || dt_qp_room(path->qp[0]) < 1)
        return false;
    write.wr_id = dt_eager_work_id(path, &s->stage->eager, place);
    write.remote_addr = path->peer_control_addr;
    write.rkey = path->peer_control_rkey;
    dt_eager_place_set(place, DT_EAGER_DISCARD_SENT);
    place->discard_path = (uint8_t)path->index;
    place->discard_epoch = path->epoch;
    status = dt_qp_post_write(path->qp[0], &write, 1);
    dt_qp_ring(path->qp[0]);
    if (status != DT_OK)
        dt_connection_path_refused(c, path, "refused a write");
    return true;
}

static void post_discards(struct dt_sender *s)
{
    struct dt_eager *eager = &s->stage->eager;

    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        if (eager->place[i].state == DT_EAGER_DISCARD_PENDING && post_discard(s, &eager->place[i])) {
            DT_CHECK(eager->discards > 0);
            eager->discards--;
        }
    }
}

void dt_eager_progress(struct dt_sender *s)
{
    struct dt_eager *eager = &s->stage->eager;

    /* A message that does not fit its irecv is still in the queue, with a part that seems to be its own. */
    if (dt_load_relaxed(&s->connection.failing) != DT_OK)
        return;
    if (eager->candidates > 0)
        hold_places(s);
    if (eager->held > 0)
        write_places(s);
    if (eager->discards > 0)
        post_discards(s);
}
