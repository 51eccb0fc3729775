/* SPDX-License-Identifier: Apache-2.0 */
/* The sending end: isend, its test, and the completions of payload writes. */
#include <endian.h>

#include "base/check.h"
#include "transport/connection.h"
#include "transport/ahead.h"
#include "transport/immediate.h"
#include "transport/overlap.h"
#include "transport/staging.h"
#include "transport/work_id.h"

#define POLL_MAX 8

/* Notices that make an isend something else than the usual. */
#define IS_UNUSUAL ((uint32_t)(DT_NOTICE_PEER_CLOSED | DT_NOTICE_PEER_LOST | DT_NOTICE_STAGED))

static struct dt_send_slot *slot_of(struct dt_sender *s, uint64_t sequence)
{
    return &s->slot[sequence & (s->connection.slots - 1)];
}

/* ------------------------------------------------------------------------------------------------------------
 * Posting: a whole message on one path
 */

/* The paths that can carry the message: all its buffers, at both ends, are registered there. */
static inline uint32_t reachable_mask(const struct dt_send_slot *slot)
{
    uint32_t mask = ~0u;

    for (uint32_t i = 0; i < slot->parts; i++) {
        const struct dt_send_part *part = &slot->part[i];

        if (part->bytes > 0)
            mask &= part->memory->path_mask & slot->entry[i].path_mask;
    }
    return mask;
}

/* Another path than the usual one, or NULL: none now, or the connection has failed. */
static __attribute__((cold, noinline)) struct dt_path *other_path_for(struct dt_sender *s,
                                                                      const struct dt_send_slot *slot)
{
    struct dt_connection *c = &s->connection;
    uint32_t mask = reachable_mask(slot);

    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP && mask & 1u << p)
            return &c->path[p];
    }
    if (!(mask & ((1u << c->path_count) - 1)))
        dt_connection_fail(c, DT_SYSTEM, "no path reaches the buffers of message %llu at both ends",
                           (unsigned long long)slot->sequence);
    return NULL; /* one that does may come back */
}

static inline __attribute__((always_inline)) struct dt_path *path_for(struct dt_sender *s,
                                                                      const struct dt_send_slot *slot)
{
    struct dt_path *path = s->connection.current;

    return __builtin_expect(path && reachable_mask(slot) & 1u << path->index, 1) ? path
                                                                                 : other_path_for(s, slot);
}

struct dt_path *dt_sender_path_for(struct dt_sender *s, const struct dt_send_slot *slot)
{
    return path_for(s, slot);
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

static inline __attribute__((always_inline)) enum dt_status post(struct dt_path *path,
                                                                 const struct dt_send_slot *slot)
{
    if (slot->parts == 1 && path->qp_count == 1 && slot->part[0].bytes <= path->connection->chunk_bytes)
        return post_single(path, slot);
    return dt_sender_post_all(path, slot);
}

static inline __attribute__((always_inline)) void mark_posted(const struct dt_path *path,
                                                              struct dt_send_slot *slot)
{
    slot->path = (uint8_t)path->index;
    slot->epoch = path->epoch;
    slot->qps_left = (uint8_t)path->qp_count;
    slot->state = DT_SEND_POSTED;
}

void dt_sender_mark_posted(const struct dt_path *path, struct dt_send_slot *slot)
{
    mark_posted(path, slot);
}

/* Posts a message that is ready. False: not now. A message that the device refused counts as posted: how much
 * of it went out is not known. */
static inline __attribute__((always_inline)) bool post_slot(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_path *path = path_for(s, slot);
    enum dt_status status = path ? post(path, slot) : DT_FULL;

    if (status == DT_FULL)
        return false;
    mark_posted(path, slot);
    if (status != DT_OK)
        dt_connection_path_refused(&s->connection, path, "refused a write");
    return true;
}

/* The oldest message that was never posted, which is `slot`'s. */
static inline __attribute__((always_inline)) bool post_next(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (!post_slot(s, slot))
        return false;
    s->next_post++;
    return true;
}

/* The same, of a message that may have to wait at the gate (inject.h). */
static __attribute__((cold, noinline)) bool post_gated(struct dt_sender *s)
{
    struct dt_send_slot *slot = slot_of(s, s->next_post);

    if (!dt_gate_may_post(s) || !post_next(s, slot))
        return false;
    dt_gate_posted(s, slot->sequence);
    return true;
}

/* A staged message may still be on its way to where it is sent from; then a part of it may go. */
static __attribute__((noinline)) bool post_staged(struct dt_sender *s, struct dt_send_slot *slot)
{
    bool is_copied = dt_stage_is_copied(slot);
    enum dt_ahead_answer answer;

    if (!is_copied || slot->state == DT_SEND_BEGUN)
        return dt_overlap_progress(s, slot, is_copied);
    answer = dt_ahead_post(s, slot);
    if (answer == DT_AHEAD_DIRECTLY)
        return dt_gate_is_idle(&s->gate) ? post_next(s, slot) : post_gated(s);
    s->next_post += answer == DT_AHEAD_POSTED;
    return answer == DT_AHEAD_POSTED;
}

static inline bool post_oldest(struct dt_sender *s, struct dt_send_slot *slot)
{
    if (__builtin_expect(slot->staged_mask != 0, 0))
        return post_staged(s, slot);
    return dt_gate_is_idle(&s->gate) ? post_next(s, slot) : post_gated(s);
}

static __attribute__((noinline)) void post_ready(struct dt_sender *s)
{
    while (s->next_post < s->next && post_oldest(s, slot_of(s, s->next_post)))
        continue;
}

static __attribute__((cold, noinline)) void hand_over_gated(struct dt_sender *s,
                                                            const struct dt_send_slot *slot)
{
    if (!dt_ahead_has_turn(slot))
        dt_gate_hand_over(s, slot);
    post_ready(s);
}

void dt_sender_post_again(struct dt_sender *s)
{
    uint64_t sequence = s->next_post > s->connection.slots ? s->next_post - s->connection.slots : 0;

    if (s->stage)
        s->again -= dt_ahead_say_again(s);
    for (; s->again > 0 && sequence < s->next_post; sequence++) {
        struct dt_send_slot *slot = slot_of(s, sequence);

        enum dt_ahead_answer answer = DT_AHEAD_DIRECTLY;

        if (slot->sequence != sequence || slot->state != DT_SEND_READY)
            continue;
        if (slot->staged_mask)
            answer = dt_ahead_post(s, slot);
        if (answer == DT_AHEAD_NOT_NOW || (answer == DT_AHEAD_DIRECTLY && !post_slot(s, slot)))
            return;
        s->again--;
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Completions
 */
void dt_sender_complete(struct dt_sender *s, struct dt_send_slot *slot)
{
    uint64_t bytes = 0;

    slot->state = DT_SEND_DONE;
    for (uint32_t i = 0; i < slot->parts; i++) {
        slot->part[i].request.is_done = true;
        bytes += slot->part[i].bytes;
    }
    dt_count(&s->connection.completions, 1);
    if (__builtin_expect(slot->is_taken, 0)) /* the time that its payload took is known already */
        dt_meter_count(&s->connection.meter, bytes);
    else
        dt_meter_sent(&s->connection.meter, slot->wanted, slot->handed, bytes);
}

static __attribute__((cold, noinline)) void handle_other(struct dt_sender *s, const struct dt_work *work)
{
    if (work->kind == DT_WORK_AHEAD)
        dt_ahead_complete(s, work->sequence);
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
        handle_other(s, &work);
        return;
    }
    /* One of another epoch, or of a message that was completed otherwise, says nothing about this slot. */
    if (slot->state != DT_SEND_POSTED || (uint32_t)slot->sequence != work.sequence ||
        slot->path != path->index || (slot->epoch & 0xffff) != work.epoch)
        return;
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

void dt_sender_progress(struct dt_sender *s)
{
    struct dt_connection *c = &s->connection;

    for (uint32_t p = 0; p < c->path_count; p++) {
        if (c->path[p].state == DT_PATH_UP)
            poll_path(s, &c->path[p]);
    }
    if (__builtin_expect(s->next_post < s->next, 0))
        post_ready(s);
}

/* ------------------------------------------------------------------------------------------------------------
 * The peer is going
 */
void dt_sender_peer_closed(struct dt_sender *s, uint64_t sequence)
{
    uint32_t lost = 0;

    for (uint32_t i = 0; i < s->connection.slots; i++) {
        struct dt_send_slot *slot = &s->slot[i];

        /* It has it; only the acknowledgement was lost. */
        if (slot->sequence < sequence && slot->sequence < s->next_post &&
            (slot->state == DT_SEND_POSTED || slot->state == DT_SEND_READY)) {
            s->again -= slot->state == DT_SEND_READY;
            dt_sender_complete(s, slot);
        }
        lost += slot->state == DT_SEND_POSTED || slot->state == DT_SEND_READY ||
                slot->state == DT_SEND_BEGUN || (slot->state == DT_SEND_MATCHING && slot->taken_mask);
    }
    if (s->stage)
        lost += dt_stage_peer_closed(s, sequence > s->next ? sequence - s->next : 0);
    if (lost > 0)
        dt_connection_fail(&s->connection, DT_PEER_ERROR, "the receiver closed with %u messages outstanding",
                           lost);
}

uint64_t dt_sender_first_incomplete(const struct dt_sender *s)
{
    uint64_t first = s->next;

    for (uint32_t i = 0; i < s->connection.slots; i++) {
        const struct dt_send_slot *slot = &s->slot[i];

        if (slot->state != DT_SEND_FREE && slot->state != DT_SEND_DONE && slot->sequence < first)
            first = slot->sequence;
    }
    return first;
}

/* ------------------------------------------------------------------------------------------------------------
 * isend: which part of which message it is
 */

/* Fetches the CTS of the next message, whichever path it came on. False while it has not come. */
static bool fetch_cts(struct dt_sender *s, struct dt_send_slot *slot)
{
    struct dt_connection *c = &s->connection;
    size_t offset = (s->next & (c->slots - 1)) * sizeof(struct dt_cts_row);

    for (uint32_t p = 0; p < c->path_count; p++) {
        const struct dt_cts_row *row;
        bool is_broken;

        if (!c->path[p].control)
            continue;
        row = (const struct dt_cts_row *)(const void *)(c->path[p].control + offset);
        if (dt_cts_read(row, s->next, slot->entry, &is_broken))
            return true;
        if (is_broken)
            dt_connection_fail(c, DT_PROTOCOL, "the receiver's clear-to-send of message %llu makes no sense",
                               (unsigned long long)s->next);
    }
    return false;
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
    slot->sequence = s->next;
    slot->parts = slot->entry[0].parts;
    slot->taken_mask = 0;
    slot->missing = slot->parts;
    slot->reported = 0;
    slot->is_taken = false;
    slot->state = DT_SEND_MATCHING;
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

void dt_sender_init(struct dt_sender *s)
{
    for (uint32_t i = 0; i < DT_SLOTS_MAX; i++) {
        for (uint32_t part = 0; part < DT_PARTS_MAX; part++)
            s->slot[i].part[part].request = (struct dt_request){
                .connection = &s->connection,
                .kind = DT_REQUEST_SEND,
                .part = (uint8_t)part,
                .slot = i,
            };
    }
}

static struct dt_send_part *take_part(struct dt_sender *s, struct dt_send_slot *slot, int i)
{
    struct dt_send_part *part = &slot->part[i];

    slot->taken_mask |= (uint8_t)(1u << i);
    part->request.is_open = true;
    part->request.is_done = false;
    dt_count(&s->connection.open_requests, 1);
    return part;
}

/* The message may go. */
static inline void stamp(struct dt_meter *meter, struct dt_send_slot *slot)
{
    slot->handed = dt_ticks_now(meter->ticks);
    slot->wanted = __builtin_expect(meter->wanted != 0, 0) ? meter->wanted : slot->handed;
    meter->wanted = 0;
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

static inline __attribute__((always_inline)) void hand_over(struct dt_sender *s, struct dt_send_slot *slot,
                                                            bool may_be_staged)
{
    slot->state = DT_SEND_READY;
    dt_store_relaxed(&s->next, s->next + 1);
    stamp(&s->connection.meter, slot);
    if (may_be_staged)
        dt_stage_handed_over(s, slot);
    if (!dt_gate_is_idle(&s->gate))
        hand_over_gated(s, slot);
    else if (__builtin_expect(slot->sequence == s->next_post, 1) && !may_be_staged)
        post_next(s, slot);
    else
        post_ready(s); /* older ones wait for room */
}

static inline __attribute__((always_inline)) enum dt_status
isend_direct(struct dt_sender *s, void *data, uint32_t bytes, int tag, struct dt_memory *memory,
             struct dt_request **request, bool may_be_staged)
{
    struct dt_send_slot *slot = matching_slot(s);
    int i = slot ? find_part(slot, tag) : -1;
    struct dt_send_part *part;

    if (i < 0) {
        dt_meter_refused(&s->connection.meter);
        return DT_OK;
    }
    if (!dt_sender_fits(s, slot, i, bytes))
        return DT_INVALID;
    dt_meter_tag(&s->connection.meter, tag);
    part = take_part(s, slot, i);
    part->addr = (uintptr_t)data;
    part->bytes = bytes;
    part->memory = memory;
    if (memory)
        dt_count(&memory->open, 1);
    *request = &part->request;
    if (--slot->missing == 0)
        hand_over(s, slot, may_be_staged);
    return DT_OK;
}

static enum dt_status isend_owned(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                                  struct dt_memory *memory, struct dt_request **request)
{
    enum dt_status status = dt_connection_check(&s->connection);

    if (status != DT_OK)
        return status == DT_AGAIN ? DT_OK : status;
    if (__builtin_expect(s->connection.attended & IS_UNUSUAL, 0)) {
        if (!(s->connection.attended & ~(uint32_t)DT_NOTICE_STAGED & IS_UNUSUAL))
            return dt_stage_isend(s, data, bytes, tag, memory, request);
        dt_connection_fail(&s->connection, DT_PEER_ERROR, "isend of message %llu, but the receiver is gone",
                           (unsigned long long)s->next);
        return DT_OK;
    }
    return isend_direct(s, data, bytes, tag, memory, request, false);
}

struct dt_send_slot *dt_sender_matching_slot(struct dt_sender *s)
{
    return matching_slot(s);
}

int dt_sender_find_part(const struct dt_send_slot *slot, int tag)
{
    return find_part(slot, tag);
}

void dt_sender_hand_over(struct dt_sender *s, struct dt_send_slot *slot)
{
    hand_over(s, slot, true);
}

enum dt_status dt_sender_isend_direct(struct dt_sender *s, void *data, uint32_t bytes, int tag,
                                      struct dt_memory *memory, struct dt_request **request)
{
    return isend_direct(s, data, bytes, tag, memory, request, true);
}

enum dt_status dt_isend(struct dt_connection *c, void *data, uint32_t bytes, int tag,
                        struct dt_memory *memory, struct dt_request **request)
{
    enum dt_status status;

    *request = NULL;
    if (!c->is_sender)
        return DT_INVALID;
    if (!dt_owner_enter(&c->owner))
        return DT_OK;
    status = isend_owned(dt_sender_of(c), data, bytes, tag, memory, request);
    dt_owner_leave(&c->owner);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * test
 */
static void report(struct dt_sender *s, struct dt_request *request, int *bytes)
{
    struct dt_send_slot *slot = &s->slot[request->slot];
    struct dt_send_part *part = &slot->part[request->part];

    if (bytes)
        *bytes = (int)part->bytes;
    /* Not before: until it is reported the message may have to be sent again (switch_sender.c). */
    if (part->memory)
        dt_count(&part->memory->open, -1u);
    request->is_open = false;
    dt_count(&s->connection.open_requests, -1u);
    if (++slot->reported == slot->parts)
        slot->state = DT_SEND_FREE;
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
    if (!request->is_done)
        return status == DT_AGAIN ? DT_OK : status;
    report(s, request, bytes);
    *done = 1;
    return DT_OK;
}
