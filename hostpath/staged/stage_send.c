/* SPDX-License-Identifier: Apache-2.0 */
/* The stage of a sender: isend and its test, progress. */
#include "hostpath/staged/stage_send.h"

#include "base/check.h"
#include "hostpath/staged/eager_place.h"
#include "hostpath/staged/eager_send.h"
#include "hostpath/staged/stage_copy.h"
#include "hostpath/staged/stage_deliver.h"
#include "hostpath/staged/stage_late.h"
#include "hostpath/staged/stage_match.h"
#include "transport/message/memory.h"
#include "transport/message/send.h"

static dt_test_function test_staged;

/* A new entry with the payload, at the end of the queue; NULL: no room. */
static struct dt_staged *stage_payload(struct dt_sender *s, const void *data, uint32_t bytes, int tag,
                                       struct dt_memory *memory)
{
    struct dt_stage *stage = s->stage;
    bool has_lacked_room = stage->lacks_room;
    struct dt_staged *entry = dt_stage_take_entry(stage, bytes);

    if (stage->lacks_room && !has_lacked_room)
        dt_page_add(&s->connection.meter.row->full_count, 1);
    if (!entry)
        return NULL;
    entry->request = (struct dt_request){
        .connection = &s->connection,
        .test = test_staged,
        .slot = (uint32_t)(entry - stage->entry),
        .is_open = true,
    };
    entry->tag = tag;
    entry->bytes = bytes;
    entry->memory = memory;
    entry->is_delivered = false;
    entry->is_of_gpu = bytes > 0 && memory->gpu;
    entry->is_by_delegates = false;
    entry->is_direct = false;
    dt_page_add(&s->connection.meter.row->staged_count, 1);
    dt_page_add(&s->connection.meter.row->staged_bytes, bytes);
    dt_stage_copy_start(stage, entry, data);
    dt_list_push_back(&stage->queue, &entry->node);
    dt_eager_queued(s, entry);
    return entry;
}

/* ------------------------------------------------------------------------------------------------------------
 * isend
 */
static enum dt_status isend_direct(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                                   struct dt_memory *memory, struct dt_request **request)
{
    struct dt_send_slot *complete;
    enum dt_status status;

    if (dt_stage_has_tag(s->stage, tag))
        return DT_OK; /* although its CTS may have come just now */
    status = dt_sender_isend_part(s, data, bytes, tag, memory, request, &complete);
    if (complete)
        dt_stage_hand_over(s, complete);
    if (*request)
        s->stage->lacks_room = false;
    return status;
}

static bool may_stage(const struct dt_sender *s, const struct dt_memory *memory)
{
    enum dt_hostpath_mode mode = dt_stage_mode(s);

    if (mode == DT_HOSTPATH_OFF || (mode == DT_HOSTPATH_AUTO && !s->stage->decision.is_on))
        return false;
    return !memory || memory->is_host || (memory->gpu && !dt_stage_late_is_any(s->stage));
}

enum dt_status dt_stage_isend(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                              struct dt_memory *memory, struct dt_request **request)
{
    struct dt_staged *entry = NULL;

    dt_stage_reclaim(s);
    dt_stage_match(s);
    if (dt_load_relaxed(&s->connection.failing) != DT_OK)
        return DT_OK;
    if (may_stage(s, memory))
        entry = stage_payload(s, data, bytes, tag, memory);
    if (!entry)
        return isend_direct(s, data, bytes, tag, memory, request);
    if (memory)
        dt_count(&memory->open, 1);
    dt_count(&s->connection.open_requests, 1);
    s->stage->lacks_room = false;
    dt_count(&s->stage->given_out, 1);
    dt_count(&s->stage->undelivered, 1);
    DT_CHECK(s->stage->undelivered <= DT_STAGED_MAX && s->stage->given_out <= DT_STAGED_MAX);
    *request = &entry->request;
    dt_stage_match(s);
    dt_eager_progress(s);
    return DT_OK;
}

/* ------------------------------------------------------------------------------------------------------------
 * test, and progress
 */
void dt_stage_progress(struct dt_sender *s)
{
    dt_sender_poll(s);
    dt_stage_post(s);
    dt_stage_reclaim(s);
    dt_stage_match(s);
    dt_eager_progress(s);
    if (!dt_list_is_empty(&s->stage->late)) /* other connections wait for its memory */
        dt_stage_late_collect(s->stage);
}

/* Of an isend that went directly: staged ones progress as well, since the two may be parts of one message. */
enum dt_status dt_stage_test_direct(struct dt_request *request, int *done, int *bytes)
{
    struct dt_sender *s = dt_sender_of(request->connection);
    enum dt_status status = dt_connection_check(&s->connection);

    if (!request->is_open)
        return DT_INVALID;
    if (status == DT_OK)
        dt_stage_progress(s);
    status = dt_send_answer(request, status, done, bytes);
    /* It may be complete since a moment ago, and the next isend may be far away: `auto` would count that
     * time. */
    if (*done)
        dt_stage_reclaim(s);
    return status;
}

static void report(struct dt_sender *s, struct dt_staged *entry, int *bytes)
{
    if (bytes)
        *bytes = (int)entry->bytes;
    if (entry->memory) {
        DT_CHECK(entry->memory->open > 0);
        dt_count(&entry->memory->open, -1u);
    }
    entry->memory = NULL;
    DT_CHECK(entry->request.is_open && s->stage->given_out > 0);
    entry->request.is_open = false;
    dt_count(&s->stage->given_out, -1u);
    if (entry->is_delivered)
        dt_stage_free_entry(s, entry);
}

/* Of an isend that is staged: it is done when its payload is copied, or delivered without that. */
static enum dt_status test_staged(struct dt_request *request, int *done, int *bytes)
{
    struct dt_sender *s = dt_sender_of(request->connection);
    struct dt_staged *entry = &s->stage->entry[request->slot];
    enum dt_status status;
    bool was_copied;

    if (!request->is_open)
        return DT_INVALID;
    was_copied = dt_load_acquire(&entry->copies_left) == 0;
    status = dt_connection_check(&s->connection);
    if (status == DT_OK)
        dt_stage_progress(s);
    /* The copy may still read the caller's memory; deregistering it, and closing, wait for that. */
    if (status != DT_OK && !entry->is_delivered)
        return status == DT_AGAIN ? DT_OK : status;
    if (entry->is_direct && !entry->is_delivered) /* the device reads the caller's memory */
        return DT_OK;
    if (!was_copied)
        dt_stage_copy_help(entry);
    if ((dt_load_acquire(&entry->copies_left) > 0 && !entry->is_direct) || dt_stage_copy_has_failed(entry))
        return DT_OK;
    if (!was_copied) /* the next call may be far away */
        dt_stage_progress(s);
    report(s, entry, bytes);
    *done = 1;
    return DT_OK;
}
