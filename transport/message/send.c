/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: isend, its test, and the completions of payload writes. */
#include "transport/message/send.h"

#include <endian.h>

#include "base/atomics.h"
#include "base/check.h"
#include "transport/message/memory.h"
#include "transport/message/send_keys.h"
#include "transport/message/send_multi.h"
#include "transport/message/send_partial.h"
#include "transport/message/send_path.h"
#include "transport/message/send_take.h"
#include "transport/protocol/immediate.h"
#include "transport/protocol/split.h"
#include "transport/protocol/work_id.h"

#define POLL_MAX 8

static struct dt_send_slot *slot_of(struct dt_sender *s, uint64_t sequence)
{
    struct dt_send_slot *slot = dt_sender_slot(s, sequence);

    __asm__("" : "+r"(slot)); /* the compiler keeps the address, instead of multiplying again at each use */
    return slot;
}

/* ------------------------------------------------------------------------------------------------------------
 * Posting: a whole message on one path
 */

/* The same of a message of one part. */
static inline __attribute__((always_inline)) struct dt_path *path_for_single(struct dt_sender *s,
                                                                             const struct dt_send_slot *slot)
{
    const struct dt_send_part *part = &slot->part[0];
    struct dt_path *path = s->connection.current;

    if (__builtin_expect(!path, 0))
        return dt_sender_other_path_for(s, slot);
    if (part->bytes > 0 &&
        __builtin_expect(
            !(dt_load_acquire(&part->memory->path_mask) & slot->entry[0].path_mask & 1u << path->index), 0))
        return dt_sender_other_path_for(s, slot);
    return path;
}

/*
 * The usual case, one part in one write, as short as it can be. DT_FULL: no room now. What it posts is what
 * dt_sender_post_all() would.
 */
static inline __attribute__((always_inline)) enum dt_status post_single(struct dt_path *path,
                                                                        const struct dt_send_slot *slot)
{
    const struct dt_send_part *part = &slot->part[0];
    const struct dt_cts_entry *entry = &slot->entry[0];
    struct dt_write write;
    enum dt_status status;

    write.local_addr = part->addr;
    write.remote_addr = le64toh(entry->address);
    write.wr_id = path->payload_id[0] | (uint32_t)slot->sequence;
    write.bytes = part->bytes;
    write.rkey = le32toh(entry->rkey[path->index]);
    write.imm = dt_imm_encode(DT_IMM_DATA, 0, slot->sequence);
    write.flags = DT_POST_IMM | DT_POST_SIGNALED;
    write.lkey = 0;
    if (part->bytes > 0) {
        write.lkey = part->memory->mr[path->index]->lkey;
        if (part->bytes <= path->inline_bytes && part->memory->is_host)
            write.flags |= DT_POST_INLINE;
    }
    status = dt_qp_post_write(path->qp[0], &write, 1);
    dt_qp_ring(path->qp[0]);
    return status;
}

/* A message that the device refused counts as posted: how much of it went out is not known. */
static inline __attribute__((always_inline)) bool
note_posted(struct dt_sender *s, struct dt_path *path, struct dt_send_slot *slot, enum dt_status status)
{
    if (status == DT_FULL)
        return false;
    dt_sender_mark_posted(path, slot);
    if (status != DT_OK)
        dt_connection_path_refused(&s->connection, path, "refused a write");
    return true;
}

static __attribute__((noinline)) bool post_sized(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_path *path = dt_sender_path_for(s, slot);

    DT_CHECK_HOT(slot->body.kind == DT_BODY_SIZED && (!path || path->state == DT_PATH_UP));
    return path && note_posted(s, path, slot, dt_sender_post_all(path, slot));
}

/* Posts a message with its payload. False: not now. */
static inline __attribute__((always_inline)) bool post_payload(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_path *path;

    if (__builtin_expect(slot->body.kind != DT_BODY_DATA, 0))
        return post_sized(s, slot);
    path = path_for_single(s, slot);
    DT_CHECK_HOT(!path || (path->state == DT_PATH_UP && path->qp_count == 1 && slot->parts == 1));
    return path && note_posted(s, path, slot, post_single(path, slot));
}

/* The oldest message that was never posted, which is `slot`'s. */
static inline __attribute__((always_inline)) bool post_next(struct dt_sender *s, struct dt_send_slot *slot)
{
    DT_CHECK_HOT(slot->sequence == s->next_post && s->next_post < s->next);
    if (!post_payload(s, slot))
        return false;
    s->next_post++;
    return true;
}

/* The same, of a message that may have to wait at the gate (gate.h). */
static __attribute__((cold, noinline)) bool post_gated(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (!dt_gate_may_post(s) || !post_next(s, slot))
        return false;
    dt_gate_posted(s, slot);
    return true;
}

/* It goes out in part, or has no payload to post, or must not be posted yet. */
static __attribute__((noinline)) bool post_unusual(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (slot->body.kind == DT_BODY_PENDING)
        return false;
    if (slot->body.kind == DT_BODY_TAKE) /* without the gate: its payload has passed it */
        return dt_sender_post_taken(s, slot) && ++s->next_post;
    return dt_sender_post_partial(s, slot) && ++s->next_post;
}

static inline bool post_oldest(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (slot->body.kind > DT_BODY_SIZED || slot->state != DT_SEND_READY || !dt_send_is_payload_ready(slot))
        return post_unusual(s, slot);
    return dt_gate_is_idle(&s->gate) ? post_next(s, slot) : post_gated(s, slot);
}

bool dt_sender_post_whole(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (slot->body.kind == DT_BODY_PENDING)
        return false;
    return slot->body.kind == DT_BODY_TAKE ? dt_sender_post_taken(s, slot) : post_payload(s, slot);
}

bool dt_sender_post_oldest(struct dt_sender *s)
{
    DT_CHECK(s->next_post <= s->next && s->next - s->next_post <= s->connection.slots);
    return s->next_post < s->next && post_oldest(s, slot_of(s, s->next_post));
}

static __attribute__((noinline)) void post_ready(struct dt_sender *s)
{
    while (dt_sender_post_oldest(s))
        continue;
}

/* ------------------------------------------------------------------------------------------------------------
 * Completions
 */
void dt_sender_complete(struct dt_sender *s, struct dt_send_slot *slot)
{
    uint64_t bytes = 0;

    DT_CHECK_HOT(slot->sequence < s->next_post && slot->reported <= slot->parts);
    dt_send_slot_set(slot, DT_SEND_DONE);
    for (uint32_t i = 0; i < slot->parts; i++) {
        slot->part[i].request.is_done = true;
        bytes += slot->part[i].bytes;
    }
    dt_count(&s->connection.completions, 1);
    if (__builtin_expect(slot->body.kind == DT_BODY_TAKE,
                         0)) /* its payload's time was measured when that arrived */
        dt_meter_count(&s->connection.meter, bytes);
    else
        dt_meter_sent(&s->connection.meter, slot->requested, slot->submitted, bytes);
}

static inline __attribute__((always_inline)) void handle(struct dt_sender *s, struct dt_path *path,
                                                         const struct dt_completion *completion)
{
    struct dt_work work = dt_work_decode(completion->wr_id);
    struct dt_send_slot *slot = slot_of(s, work.sequence);

    if (completion->status != DT_WC_SUCCESS) {
        dt_connection_path_failed(&s->connection, path, completion);
        return;
    }
    if (__builtin_expect(work.kind != DT_WORK_PAYLOAD, 0)) {
        s->connection.ops->completed(s, &work);
        return;
    }
    /* A completion of another epoch, or of a message that was completed otherwise, does not concern this
     * slot. */
    if (slot->state != DT_SEND_POSTED || (uint32_t)slot->sequence != work.sequence ||
        slot->path != path->index || (slot->epoch & 0xffff) != work.epoch)
        return;
    DT_CHECK_HOT(slot->qps_left > 0);
    if (--slot->qps_left == 0)
        dt_sender_complete(s, slot);
}

void dt_sender_handle(struct dt_sender *s, struct dt_path *path, const struct dt_completion *completion)
{
    handle(s, path, completion);
}

static void poll_queue(struct dt_sender *s, struct dt_path *path, uint32_t q)
{
    struct dt_completion completion[POLL_MAX];
    int count = dt_cq_poll(path->send_cq[q], completion, POLL_MAX);

    for (int i = 0; i < count; i++)
        handle(s, path, &completion[i]);
    if (count < 0)
        dt_connection_path_refused(&s->connection, path, "a completion queue failed");
}

static void poll_path(struct dt_sender *s, struct dt_path *path)
{
    for (uint32_t q = 0; q < path->qp_count; q++) {
        if (dt_qp_sends_outstanding(path->qp[q]) > 0)
            poll_queue(s, path, q);
    }
}

/*
 * A clear-to-send is awaited. It comes into memory, without a completion, so a poll finds nothing that is
 * needed; but a software RNIC receives while it is polled.
 */
static void poll_waiting(struct dt_sender *s)
{
    if (s->connection.current)
        poll_queue(s, s->connection.current, 0);
}

void dt_sender_poll(struct dt_sender *s)
{
    struct dt_connection *c = &s->connection;

    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP)
            poll_path(s, &c->path[p]);
    }
}

void dt_sender_progress(struct dt_sender *s)
{
    dt_sender_poll(s);
    if (__builtin_expect(s->next_post < s->next, 0))
        post_ready(s);
}

/* ------------------------------------------------------------------------------------------------------------
 * isend: which part of which message it is
 */

/* Fetches the CTS of the next message, whichever path it came on. False while it has not come. */
static bool fetch_cts(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_connection *c = &s->connection;
    const struct dt_path *path = c->path;
    size_t offset = (s->next & (c->slots - 1)) * sizeof(struct dt_cts_row);

    for (uint32_t p = 0; p < c->path_count; p++, path++) {
        const uint8_t *control = dt_load_acquire(&path->control); /* a late path's is made meanwhile */
        const struct dt_cts_row *row;
        bool is_broken;

        if (!control)
            continue;
        row = (const struct dt_cts_row *)(const void *)(control + offset);
        if (dt_cts_read(row, s->next, slot->entry, &is_broken)) {
            if (__builtin_expect(s->next < s->keys_since, 0))
                dt_sender_drop_stale_keys(s, slot, s->next, p);
            return true;
        }
        if (is_broken)
            dt_connection_fail(c, DT_PROTOCOL, "the receiver's clear-to-send of message %llu makes no sense",
                               (unsigned long long)s->next);
    }
    return false;
}

/* How busy the processors of the receiver's host are, for the device thread. */
static inline void note_processor(struct dt_sender *s, const struct dt_cts_entry *entry)
{
    uint32_t processor;

    memcpy(&processor, entry->processor, sizeof processor);
    dt_store_relaxed(&s->peer_processor, processor);
}

/* The slot of the message that is being matched, or NULL: no CTS, or an older message still holds the slot.
 */
static inline struct dt_send_slot *matching_slot(struct dt_sender *s)
{
    struct dt_send_slot *slot = slot_of(s, s->next);

    if (slot->state == DT_SEND_MATCHING)
        return slot;
    if (slot->state != DT_SEND_FREE)
        return NULL;
    if (!fetch_cts(s, slot)) {
        dt_meter_waits(&s->connection.meter);
        poll_waiting(s);
        return NULL;
    }
    DT_CHECK_HOT(slot->entry[0].parts >= 1 && slot->entry[0].parts <= DT_PARTS_MAX);
    DT_CHECK_HOT(s->next - s->next_post <= s->connection.slots);
    slot->sequence = s->next;
    slot->parts = slot->entry[0].parts;
    note_processor(s, &slot->entry[0]);
    slot->taken_mask = 0;
    slot->missing = slot->parts;
    slot->reported = 0;
    dt_send_slot_set(slot, DT_SEND_MATCHING);
    return slot;
}

/* The first free part with this tag, or -1: the isend belongs to a later message. */
static int find_part(const struct dt_send_slot *slot, int tag)
{
    if (slot->parts == 1) /* while it is being matched, its only part is free */
        return slot->entry[0].tag == htole32((uint32_t)tag) ? 0 : -1;
    for (int i = 0; i < slot->parts; i++) {
        if (!(slot->taken_mask & 1u << i) && slot->entry[i].tag == htole32((uint32_t)tag))
            return i;
    }
    return -1;
}

static struct dt_send_part *take_part(struct dt_sender *s, struct dt_send_slot *slot, int i)
{
    struct dt_send_part *part = &slot->part[i];

    DT_CHECK_HOT(!(slot->taken_mask & 1u << i) && !part->request.is_open);
    slot->taken_mask |= (uint8_t)(1u << i);
    part->request.is_open = true;
    part->request.is_done = false;
    dt_count(&s->connection.open_requests, 1);
    return part;
}

/* The message may go. */
static inline void stamp(struct dt_meter *meter, struct dt_send_slot *slot)
{
    slot->submitted = dt_ticks_now(meter->ticks);
    slot->requested = __builtin_expect(meter->requested != 0, 0) ? meter->requested : slot->submitted;
    meter->requested = 0;
}

bool dt_sender_fits(struct dt_sender *s, const struct dt_send_slot *slot, int i, uint32_t bytes)
{
    uint32_t capacity = le32toh(slot->entry[i].bytes);

    if (__builtin_expect(bytes <= capacity, 1))
        return true;
    dt_connection_fail(&s->connection, DT_INVALID,
                       "isend of %u bytes (tag %d) for an irecv of %u bytes: the two ranks disagree about "
                       "counts or settings",
                       bytes, (int)le32toh(slot->entry[i].tag), capacity);
    return false;
}

static inline uint8_t payload_kind(const struct dt_connection *c, const struct dt_send_slot *slot)
{
    bool is_single = slot->parts == 1 && c->qps == 1 && slot->part[0].bytes <= c->chunk_bytes &&
                     slot->part[0].bytes <= c->adaptive_bytes;

    return is_single ? DT_BODY_DATA : DT_BODY_SIZED;
}

struct dt_send_body dt_sender_payload_body(const struct dt_connection *c, const struct dt_send_slot *slot)
{
    return (struct dt_send_body){.kind = payload_kind(c, slot)};
}

static inline __attribute__((always_inline)) void hand_over(struct dt_sender *s, struct dt_send_slot *slot)
{
    DT_CHECK_HOT(slot->missing == 0 && slot->sequence == s->next);
    DT_CHECK_HOT(slot->taken_mask == (1u << slot->parts) - 1);
    dt_send_slot_set(slot, DT_SEND_READY);
    dt_store_relaxed(&s->next, s->next + 1);
    stamp(&s->connection.meter, slot);
    slot->body.kind = payload_kind(&s->connection, slot);
}

void dt_sender_hand_over(struct dt_sender *s, struct dt_send_slot *slot)
{
    hand_over(s, slot);
}

static __attribute__((cold, noinline)) void post_through_gate(struct dt_sender *s,
                                                              const struct dt_send_slot *slot)
{
    dt_gate_hand_over(s, slot);
    post_ready(s);
}

/* A message without staged parts was handed over. */
static inline __attribute__((always_inline)) void post_handed_over(struct dt_sender *s,
                                                                   struct dt_send_slot *slot)
{
    if (!dt_gate_is_idle(&s->gate))
        post_through_gate(s, slot);
    else if (__builtin_expect(slot->sequence == s->next_post, 1))
        post_next(s, slot);
    else
        post_ready(s); /* older ones wait for room */
}

/* Takes the part that the isend belongs to; *complete becomes its message if that has all its parts now, else
 * NULL. */
static inline __attribute__((always_inline)) enum dt_status
isend_part(struct dt_sender *s, void *data, uint32_t bytes, int tag, struct dt_memory *memory,
           struct dt_request **request, struct dt_send_slot **complete)
{
    struct dt_send_slot *slot = matching_slot(s);
    int i = slot ? find_part(slot, tag) : -1;
    struct dt_send_part *part;

    *complete = NULL;
    if (i < 0) {
        dt_meter_refused(&s->connection.meter);
        return DT_OK;
    }
    if (!dt_sender_fits(s, slot, i, bytes))
        return DT_INVALID;
    dt_meter_tag(&s->connection.meter, tag);
    part = take_part(s, slot, i);
    part->addr = (uintptr_t)data;
    part->bytes = part->ready_bytes = bytes;
    part->memory = memory;
    if (memory)
        dt_count(&memory->open, 1);
    *request = &part->request;
    DT_CHECK_HOT(slot->missing > 0);
    if (--slot->missing == 0)
        *complete = slot;
    return DT_OK;
}

enum dt_status dt_sender_isend(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                               struct dt_memory *memory, struct dt_request **request)
{
    struct dt_send_slot *complete;
    enum dt_status status = isend_part(s, data, bytes, tag, memory, request, &complete);

    if (complete) {
        hand_over(s, complete);
        post_handed_over(s, complete);
    }
    return status;
}

enum dt_status dt_sender_isend_part(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                                    struct dt_memory *memory, struct dt_request **request,
                                    struct dt_send_slot **complete)
{
    return isend_part(s, data, bytes, tag, memory, request, complete);
}

struct dt_send_slot *dt_sender_matching_slot(struct dt_sender *s)
{
    return matching_slot(s);
}

int dt_sender_find_part(const struct dt_send_slot *slot, int tag)
{
    return find_part(slot, tag);
}

bool dt_sender_fill_part(struct dt_send_slot *slot, int i, void *data, uint32_t bytes,
                         struct dt_memory *memory)
{
    struct dt_send_part *part = &slot->part[i];

    DT_CHECK(slot->state == DT_SEND_MATCHING && slot->missing > 0 && !(slot->taken_mask & 1u << i));
    part->request.is_open = false;
    part->addr = (uintptr_t)data;
    part->bytes = bytes;
    part->ready_bytes = 0;
    part->memory = memory;
    slot->taken_mask |= (uint8_t)(1u << i);
    return --slot->missing == 0;
}

/* ------------------------------------------------------------------------------------------------------------
 * test
 */
static void report(struct dt_sender *s, struct dt_request *request, int *bytes)
{
    struct dt_send_slot *slot = &s->slot[request->slot];
    struct dt_send_part *part = &slot->part[request->part];

    DT_CHECK_HOT(slot->state == DT_SEND_DONE && request->is_open);
    DT_CHECK_HOT(!part->memory || part->memory->open > 0);
    if (bytes)
        *bytes = (int)part->bytes;
    /* Not before: until it is reported the message may have to be sent again (settle.c). */
    if (part->memory)
        dt_count(&part->memory->open, -1u);
    request->is_open = false;
    DT_CHECK_HOT(s->connection.open_requests > 0);
    dt_count(&s->connection.open_requests, -1u);
    dt_sender_report_parts(slot, 1);
}

static inline enum dt_status answer(struct dt_sender *s, struct dt_request *request, enum dt_status status,
                                    int *done, int *bytes)
{
    if (!request->is_done)
        return status == DT_AGAIN ? DT_OK : status;
    report(s, request, bytes);
    *done = 1;
    return DT_OK;
}

enum dt_status dt_send_answer(struct dt_request *request, enum dt_status status, int *done, int *bytes)
{
    return answer(dt_sender_of(request->connection), request, status, done, bytes);
}

enum dt_status dt_send_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_sender *s = dt_sender_of(request->connection);
    enum dt_status status;

    if (!request->is_open)
        return DT_INVALID;
    status = dt_connection_check(&s->connection);
    if (!request->is_done && status == DT_OK)
        dt_sender_progress(s);
    return answer(s, request, status, done, bytes);
}
