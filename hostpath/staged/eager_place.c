/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the sender: places at the receiver and their states. */
#include "hostpath/staged/eager_place.h"

#include <string.h>

#include "hostpath/staged/stage_inflight.h"
#include "base/check.h"
#include "base/clock.h"
#include "transport/protocol/work_id.h"
#include "transport/session/channel.h"

#define PLACE_BITS 3 /* of DT_EAGER_PLACES */

DT_STATIC_CHECK(1u << PLACE_BITS == DT_EAGER_PLACES, "a work id holds the number of a place");

#define BIT(state) (1u << DT_EAGER_##state)

/* From a state, a bit for each state that may follow. FREE follows a release, a loss, or a place that is not
 * used. */
static const uint8_t dt_eager_transitions[DT_EAGER_STATES] = {
    [DT_EAGER_FREE] = BIT(HELD),
    [DT_EAGER_HELD] = BIT(WRITTEN) | BIT(FREE),
    [DT_EAGER_WRITTEN] = BIT(FREE) | BIT(DISCARD_PENDING),
    [DT_EAGER_DISCARD_PENDING] = BIT(FREE) | BIT(DISCARD_SENT),
    [DT_EAGER_DISCARD_SENT] = BIT(FREE) | BIT(DISCARD_PENDING),
};

void dt_eager_place_set(struct dt_eager_place *place, enum dt_eager_state state)
{
    DT_CHECK(dt_eager_transitions[place->state] >> state & 1);
    place->state = (uint8_t)state;
}

struct dt_eager_place *dt_eager_place_of(struct dt_sender *s, const struct dt_staged *entry)
{
    struct dt_eager_place *place = &s->stage->eager.place[entry->eager - 1];

    DT_CHECK(entry->eager != DT_EAGER_NONE && entry->eager <= DT_EAGER_PLACES && place->entry == entry);
    return place;
}

uint32_t dt_eager_place_number(const struct dt_eager *eager, const struct dt_eager_place *place)
{
    return (uint32_t)(place - eager->place);
}

/* Identifies this use of the place in completions. */
static uint32_t work_number(const struct dt_eager *eager, const struct dt_eager_place *place)
{
    return place->generation << PLACE_BITS | dt_eager_place_number(eager, place);
}

uint64_t dt_eager_work_id(const struct dt_path *path, const struct dt_eager *eager,
                          const struct dt_eager_place *place)
{
    return dt_work_encode(DT_WORK_EAGER, path->index, 0, path->epoch, work_number(eager, place));
}

/* ------------------------------------------------------------------------------------------------------------
 * Entries of the stage's queue
 */
void dt_eager_set_candidate(struct dt_eager *eager, struct dt_staged *entry, bool is_candidate)
{
    DT_CHECK(eager->candidates >= (uint32_t)entry->is_candidate);
    eager->candidates += (uint32_t)is_candidate - (uint32_t)entry->is_candidate;
    entry->is_candidate = is_candidate;
}

void dt_eager_queued(struct dt_sender *s, struct dt_staged *entry)
{
    struct dt_eager *eager = &s->stage->eager;

    DT_CHECK(!entry->is_candidate);
    entry->eager = DT_EAGER_NONE;
    dt_eager_set_candidate(eager, entry,
                           dt_load_acquire(&eager->is_granted) && entry->bytes <= eager->grant.bytes);
    entry->queued = dt_ticks_now(s->connection.meter.ticks);
}

void dt_eager_matched(struct dt_sender *s, struct dt_staged *entry)
{
    dt_eager_set_candidate(&s->stage->eager, entry, false);
}

void dt_eager_delivered(struct dt_sender *s, struct dt_staged *entry)
{
    dt_eager_set_candidate(&s->stage->eager, entry, false);
    if (entry->eager != DT_EAGER_NONE && entry->eager != DT_EAGER_RELEASED)
        dt_eager_place_of(s, entry)->entry = NULL;
    entry->eager = DT_EAGER_NONE;
}

bool dt_eager_was_sent(const struct dt_sender *s, const struct dt_staged *entry)
{
    const struct dt_eager_place *place;

    if (entry->eager == DT_EAGER_NONE || entry->eager == DT_EAGER_RELEASED)
        return entry->eager == DT_EAGER_RELEASED;
    place = &s->stage->eager.place[entry->eager - 1];
    return place->state != DT_EAGER_HELD;
}

/* ------------------------------------------------------------------------------------------------------------
 * Granted, written, arrived, released
 */
enum dt_status dt_eager_frame(struct dt_sender *s, const struct dt_frame *frame)
{
    const struct dt_connection *c = &s->connection;
    struct dt_eager *eager = &s->stage->eager;
    struct dt_grant grant;
    enum dt_status status;

    if (frame->type != DT_FRAME_GRANT)
        return DT_PROTOCOL;
    status = dt_grant_decode(frame->body, frame->bytes, c->path_count, &grant);
    if (status != DT_OK || dt_load_relaxed(&eager->is_granted))
        return status;
    eager->grant = grant;
    dt_store_release(&eager->is_granted, 1u);
    return DT_OK;
}

void dt_eager_place_free(struct dt_eager *eager, struct dt_eager_place *place, uint8_t entry_eager)
{
    DT_CHECK(place->state != DT_EAGER_DISCARD_PENDING || eager->discards > 0);
    eager->discards -= place->state == DT_EAGER_DISCARD_PENDING;
    if (place->entry)
        place->entry->eager = entry_eager;
    place->entry = NULL;
    dt_eager_place_set(place, DT_EAGER_FREE);
}

void dt_eager_place_count(struct dt_sender *s, struct dt_eager_place *place)
{
    DT_CHECK(place->state >= DT_EAGER_WRITTEN && !place->is_lost);
    if (place->is_counted)
        return;
    place->is_counted = true;
    dt_count(&s->connection.completions, 1);
    dt_meter_serviced(&s->connection.meter, place->handed, place->handed, place->bytes);
    dt_stage_inflight_arrived(s, place->handed, place->bytes, place->inflight_bytes);
}

void dt_eager_completed(struct dt_sender *s, const struct dt_work *work)
{
    struct dt_eager *eager = &s->stage->eager;
    struct dt_eager_place *place = &eager->place[work->sequence & (DT_EAGER_PLACES - 1)];

    if (work->kind == DT_WORK_EAGER && place->state >= DT_EAGER_WRITTEN &&
        work_number(eager, place) == work->sequence)
        dt_eager_place_count(s, place);
}

void dt_eager_read_row(struct dt_sender *s, const struct dt_cts_entry *row)
{
    struct dt_eager *eager = &s->stage->eager;
    uint64_t released;

    eager->is_accepted = row->takes_eager;
    memcpy(&released, row->released, sizeof released);
    if (released == eager->released)
        return;
    eager->released = released;
    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        struct dt_eager_place *place = &eager->place[i];

        if (place->state < DT_EAGER_WRITTEN || row->released[i] != (uint8_t)place->generation)
            continue;
        dt_eager_place_count(s, place);
        dt_eager_place_free(eager, place, DT_EAGER_RELEASED);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * The gate
 */
static uint64_t earliest_due_ns(const struct dt_eager *eager)
{
    uint64_t due_ns = DT_NEVER_NS;

    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        if (eager->place[i].state == DT_EAGER_HELD)
            due_ns = dt_earlier_ns(due_ns, eager->place[i].due_ns);
    }
    return due_ns;
}

bool dt_eager_place_is_due(struct dt_sender *s, struct dt_eager_place *place)
{
    bool is_due;

    DT_CHECK(place->state == DT_EAGER_HELD);
    if (!place->is_gated)
        return true;
    is_due = dt_gate_may_post_early(s, place->number, &place->due_ns);
    if (is_due)
        place->due_ns = DT_NEVER_NS;
    dt_gate_hold_early(s, earliest_due_ns(&s->stage->eager));
    return is_due;
}

void dt_eager_place_leave_gate(struct dt_sender *s, struct dt_eager_place *place)
{
    DT_CHECK(place->state == DT_EAGER_HELD && s->stage->eager.held > 0);
    s->stage->eager.held--;
    if (place->is_gated && dt_gate_posted_early(s, place->number))
        place->handed = dt_ticks_now(s->connection.meter.ticks);
}
