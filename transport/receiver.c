/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving end: irecv with its clear-to-send, arrivals, and its test. */
#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "transport/ahead.h"
#include "transport/connection.h"
#include "transport/immediate.h"
#include "transport/landing.h"
#include "transport/work_id.h"

#define POLL_MAX   16
#define IDLE_POLLS 64

/* Notices that make an irecv something else than the usual. */
#define IS_UNUSUAL ((uint32_t)(DT_NOTICE_PEER_CLOSED | DT_NOTICE_PEER_LOST | DT_NOTICE_STAGED))

static struct dt_recv_slot *slot_of(struct dt_receiver *r, uint64_t sequence)
{
    return &r->slot[sequence & (r->connection.slots - 1)];
}

/* ------------------------------------------------------------------------------------------------------------
 * Arrivals
 */
static void complete(struct dt_receiver *r, struct dt_path *path, struct dt_recv_slot *slot)
{
    const struct dt_arrivals *arrivals = &slot->arrivals[path->index];
    uint64_t bytes = 0;

    if (__builtin_expect(r->ahead != NULL, 0) && dt_ahead_is_found(r, slot)) {
        dt_connection_fail(&r->connection, DT_PROTOCOL, "message %llu came directly, and went ahead, too",
                           (unsigned long long)slot->sequence);
        return;
    }
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (arrivals->bytes[i] > slot->capacity[i]) {
            dt_connection_fail(&r->connection, DT_PROTOCOL,
                               "part %u of message %llu has %llu bytes, %u were posted", i,
                               (unsigned long long)slot->sequence, (unsigned long long)arrivals->bytes[i],
                               slot->capacity[i]);
            return;
        }
        slot->bytes[i] = (uint32_t)arrivals->bytes[i];
        bytes += slot->bytes[i];
        if (slot->memory[i]) {
            slot->memory[i]->written_mask |= 1u << path->index;
            dt_count(&slot->memory[i]->open, -1u);
        }
    }
    slot->path = (uint8_t)path->index;
    slot->state = DT_RECV_DONE;
    slot->request.is_done = true;
    dt_count(&r->connection.completions, 1);
    dt_meter_count(&r->connection.meter, bytes);
}

/* The size of a part that came in several writes; false: the record is not this message's. */
static bool read_record(const struct dt_path *path, const struct dt_recv_slot *slot, uint32_t part,
                        uint32_t *bytes)
{
    size_t offset = dt_record_offset(path->connection->slots, slot->sequence, part);
    uint64_t record = le64toh(dt_load_acquire((const uint64_t *)(const void *)(path->control + offset)));

    *bytes = (uint32_t)record;
    return record >> 32 == (uint32_t)slot->sequence;
}

/* One share of one part is here. False: it cannot be. */
static bool arrive(struct dt_receiver *r, struct dt_path *path, uint32_t q,
                   const struct dt_completion *completion)
{
    struct dt_imm imm = dt_imm_decode(completion->imm);
    struct dt_recv_slot *slot = slot_of(r, imm.sequence);
    struct dt_arrivals *arrivals = &slot->arrivals[path->index];
    uint32_t bytes = completion->bytes;

    if (__builtin_expect(imm.kind > DT_IMM_SIZED, 0))
        return q == 0 && dt_ahead_arrive(r, path, completion);
    if (!completion->has_imm || slot->state != DT_RECV_OPEN ||
        ((uint32_t)slot->sequence & DT_IMM_SEQUENCE_MASK) != imm.sequence || imm.part >= slot->parts)
        return false;
    if (imm.kind == DT_IMM_SIZED) {
        bytes = 0;
        if (q == 0 && !read_record(path, slot, imm.part, &bytes))
            return false;
    }
    if (!dt_arrivals_add(arrivals, imm.part, q, bytes))
        return false;
    if (arrivals->seen == dt_arrivals_all(slot->parts, path->qp_count))
        complete(r, path, slot);
    return true;
}

/* A blank receive was used. Posts them again a batch at a time. */
static void refill(struct dt_receiver *r, struct dt_path *path, uint32_t q)
{
    if (++path->recv_used[q] < DT_BLANK_BATCH)
        return;
    path->recv_used[q] = 0;
    if (dt_qp_post_blank_recvs(path->qp[q], DT_BLANK_BATCH) != DT_OK)
        dt_connection_path_refused(&r->connection, path, "refused receives");
}

void dt_receiver_handle(struct dt_receiver *r, struct dt_path *path, const struct dt_completion *completion)
{
    uint32_t q = dt_work_decode(completion->wr_id).qp;

    if (completion->status != DT_WC_SUCCESS) {
        dt_connection_path_failed(&r->connection, path, completion);
        return;
    }
    DT_CHECK(q < path->qp_count);
    if (!arrive(r, path, q, completion)) {
        dt_connection_fail(
            &r->connection, DT_PROTOCOL,
            "an arrival that is no open message's (immediate 0x%08x, %u bytes, queue pair %u of %s)",
            completion->imm, completion->bytes, completion->qpn, dt_path_name(path));
        return;
    }
    if (path->state != DT_PATH_NONE)
        refill(r, path, q);
}

/* Finds out which clear-to-send writes are complete. */
static void poll_cts(struct dt_receiver *r, struct dt_path *path)
{
    struct dt_completion completion[POLL_MAX];
    int count = dt_cq_poll(path->send_cq[0], completion, POLL_MAX);

    for (int i = 0; i < count; i++) {
        if (completion[i].status != DT_WC_SUCCESS)
            dt_connection_path_failed(&r->connection, path, &completion[i]);
        else
            path->cts_done = dt_work_decode(completion[i].wr_id).sequence;
    }
    if (count < 0)
        dt_connection_path_refused(&r->connection, path, "a completion queue failed");
}

/*
 * The sender may have another path in use from the beginning, for memory that a device at one of the ends
 * does not take. From the first message that comes so on all paths are polled.
 */
static void look_elsewhere(struct dt_receiver *r)
{
    struct dt_connection *c = &r->connection;
    struct dt_completion completion[POLL_MAX];

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        int count = path->is_polled || path->state == DT_PATH_NONE
                        ? 0
                        : dt_cq_poll(path->recv_cq, completion, POLL_MAX);

        if (count == 0)
            continue;
        c->has_switched = true;
        dt_connection_choose_path(c);
        for (int i = 0; i < count; i++)
            dt_receiver_handle(r, path, &completion[i]);
        if (count < 0)
            dt_connection_path_refused(c, path, "a completion queue failed");
    }
}

/* Nothing arrives: now and then there is time to look whether a clear-to-send has failed, and elsewhere. */
static __attribute__((noinline)) void look_around(struct dt_receiver *r, struct dt_path *path)
{
    poll_cts(r, path);
    if (!r->connection.has_switched && r->idle_polls % IDLE_POLLS == 0)
        look_elsewhere(r);
}

static __attribute__((noinline)) void progress_beside(struct dt_receiver *r)
{
    dt_receiver_flush_progress(r);
    if (r->landings)
        dt_landing_progress(r);
    if (r->ahead)
        dt_ahead_see_copies(r);
}

void dt_receiver_progress(struct dt_receiver *r)
{
    struct dt_connection *c = &r->connection;
    struct dt_completion completion[POLL_MAX];

    for (uint32_t p = 0; p < c->path_count; p++) {
        struct dt_path *path = &c->path[p];
        int count;

        if (!path->is_polled)
            continue;
        count = dt_cq_poll(path->recv_cq, completion, POLL_MAX);
        for (int i = 0; i < count; i++)
            dt_receiver_handle(r, path, &completion[i]);
        if (count < 0)
            dt_connection_path_refused(c, path, "a completion queue failed");
        if (count == 0 &&
            (path->cts_posted - path->cts_done >= r->cts_period || ++r->idle_polls % IDLE_POLLS == 0))
            look_around(r, path);
    }
    if (__builtin_expect(r->beside_open > 0, 0))
        progress_beside(r);
}

/* ------------------------------------------------------------------------------------------------------------
 * irecv
 */

/*
 * A row may be written over, and its slot in the send queue used again, when its last clear-to-send on this
 * path is known to be complete: until then the device may read it again.
 */
static bool may_send_cts(struct dt_receiver *r, struct dt_path *path)
{
    uint32_t window = r->connection.slots;

    if (path->cts_posted - path->cts_done >= window / 2) {
        poll_cts(r, path);
        if (path->state != DT_PATH_UP) /* it failed just now */
            return false;
    }
    return path->cts_posted - path->cts_done < window && dt_qp_room(path->qp[0]) > 0;
}

static void fill_entry(struct dt_cts_entry *entry, const struct dt_recv_slot *slot, uint32_t part,
                       uint64_t addr, int tag, uint32_t path_count)
{
    const struct dt_memory *memory = slot->memory[part];

    entry->address = htole64(addr);
    entry->bytes = htole32(slot->capacity[part]);
    entry->tag = htole32((uint32_t)tag);
    entry->path_mask = memory ? (uint8_t)memory->path_mask : 0;
    for (uint32_t p = 0; p < path_count; p++)
        entry->rkey[p] = memory && memory->mr[p] ? htole32(memory->mr[p]->rkey) : 0;
    entry->part = (uint8_t)part;
    entry->parts = slot->parts;
    entry->sequence_plus_1 = htole64(slot->sequence + 1);
}

/* The row of the message's slot, in this path's control memory. */
static inline struct dt_cts_row *row_of(const struct dt_path *path, const struct dt_recv_slot *slot)
{
    return (struct dt_cts_row *)(void *)path->control + (slot->sequence & (path->connection->slots - 1));
}

/* Writes the row of the message, which is filled in, into the sender's ring of this path. */
static inline __attribute__((always_inline)) void publish(struct dt_receiver *r, struct dt_path *path,
                                                          struct dt_recv_slot *slot)
{
    struct dt_cts_row *row = row_of(path, slot);
    struct dt_write write = {
        .local_addr = (uintptr_t)row,
        .remote_addr = path->peer_control_addr + (uint64_t)((uint8_t *)row - path->control),
        .bytes = slot->parts * (uint32_t)sizeof row->entry[0],
        .lkey = path->control_mr->lkey,
        .rkey = path->peer_control_rkey,
    };
    enum dt_status status;

    slot->path = (uint8_t)path->index;
    path->cts_posted++;
    write.wr_id = dt_work_encode(DT_WORK_CTS, path->index, 0, path->epoch, path->cts_posted);
    if (path->cts_posted % r->cts_period == 0)
        write.flags |= DT_POST_SIGNALED;
    if (write.bytes <= path->inline_bytes)
        write.flags |= DT_POST_INLINE;
    status = dt_qp_post_write(path->qp[0], &write, 1);
    dt_qp_ring(path->qp[0]);
    if (status != DT_OK)
        dt_connection_path_refused(&r->connection, path, "refused a clear-to-send");
}

/* A row is the same on all paths, so the one that was written for the path that failed is copied. */
void dt_receiver_publish_again(struct dt_receiver *r)
{
    struct dt_connection *c = &r->connection;

    for (uint64_t sequence = dt_receiver_first_incomplete(r); r->again > 0 && sequence < r->next;
         sequence++) {
        struct dt_recv_slot *slot = slot_of(r, sequence);

        if (slot->state != DT_RECV_OPEN || slot->path < DT_PATHS_MAX)
            continue;
        if (!c->current || !may_send_cts(r, c->current))
            return;
        memcpy(row_of(c->current, slot), row_of(&c->path[slot->path - DT_PATHS_MAX], slot),
               slot->parts * sizeof(struct dt_cts_entry));
        publish(r, c->current, slot);
        r->again--;
    }
    r->again = 0; /* the others were brought by another path before they could be offered again */
}

static void open_slot(struct dt_receiver *r, struct dt_recv_slot *slot, unsigned n, const uint32_t *bytes,
                      struct dt_memory *const *memories)
{
    struct dt_connection *c = &r->connection;

    slot->sequence = r->next;
    slot->parts = (uint8_t)n;
    slot->state = DT_RECV_OPEN;
    slot->request = (struct dt_request){
        .connection = c,
        .slot = (uint32_t)(slot->sequence & (c->slots - 1)),
        .kind = DT_REQUEST_RECEIVE,
        .is_open = true,
    };
    for (unsigned i = 0; i < n; i++) {
        slot->capacity[i] = bytes[i];
        slot->memory[i] = memories[i];
        if (memories[i])
            dt_count(&memories[i]->open, 1);
    }
    for (uint32_t p = 0; p < c->path_count; p++)
        dt_arrivals_clear(&slot->arrivals[p]);
    dt_count(&c->open_requests, 1);
    r->next++;
}

/* False: not now. */
static inline __attribute__((always_inline)) bool
open_receive(struct dt_receiver *r, unsigned n, void *const *data, const uint32_t *bytes, const int *tags,
             struct dt_memory *const *memories, struct dt_request **request, bool may_land)
{
    struct dt_connection *c = &r->connection;
    struct dt_recv_slot *slot = slot_of(r, r->next);
    struct dt_path *path = c->current;

    if (slot->state != DT_RECV_FREE || !path || !may_send_cts(r, path))
        return false;
    open_slot(r, slot, n, bytes, memories);
    if (may_land && r->landings)
        dt_landing_await(r, slot, data);
    if (may_land && r->ahead)
        dt_ahead_await(r, slot, data, tags);
    *request = &slot->request;
    for (unsigned i = 0; i < n; i++) {
        dt_meter_tag(&c->meter, tags[i]);
        fill_entry(&row_of(path, slot)->entry[i], slot, i, (uintptr_t)data[i], tags[i], c->path_count);
    }
    if (may_land && r->ahead)
        dt_ahead_fill(r, slot, &row_of(path, slot)->entry[0]);
    publish(r, path, slot);
    if (may_land && r->ahead)
        dt_ahead_look(r, slot);
    return true;
}

/* Some of the connection's memory has a shadow, or messages may come ahead. */
static __attribute__((noinline)) bool open_landing(struct dt_receiver *r, unsigned n, void *const *data,
                                                   const uint32_t *bytes, const int *tags,
                                                   struct dt_memory *const *memories,
                                                   struct dt_request **request)
{
    /* The slot's last message may have been reported ahead of its TAKE, which nobody has polled for since. */
    if (r->ahead && slot_of(r, r->next)->state != DT_RECV_FREE)
        dt_receiver_progress(r);
    return open_receive(r, n, data, bytes, tags, memories, request, true);
}

static enum dt_status irecv_owned(struct dt_receiver *r, unsigned n, void *const *data, const uint32_t *bytes,
                                  const int *tags, struct dt_memory *const *memories,
                                  struct dt_request **request)
{
    struct dt_connection *c = &r->connection;
    enum dt_status status = dt_connection_check(c);
    bool is_open;

    if (status != DT_OK)
        return status == DT_AGAIN ? DT_OK : status;
    if (__builtin_expect(c->attended & IS_UNUSUAL, 0)) {
        if (c->attended & ~(uint32_t)DT_NOTICE_STAGED & IS_UNUSUAL) {
            dt_connection_fail(c, DT_PEER_ERROR, "irecv of message %llu, but the sender is gone",
                               (unsigned long long)r->next);
            return DT_OK;
        }
        is_open = open_landing(r, n, data, bytes, tags, memories, request);
    } else {
        is_open = open_receive(r, n, data, bytes, tags, memories, request, false);
    }
    if (!is_open)
        dt_meter_refused(&c->meter);
    return DT_OK;
}

enum dt_status dt_irecv(struct dt_connection *c, unsigned n, void *const *data, const uint32_t *bytes,
                        const int *tags, struct dt_memory *const *memories, struct dt_request **request)
{
    enum dt_status status;

    *request = NULL;
    if (c->is_sender)
        return DT_INVALID;
    if (!dt_owner_enter(&c->owner))
        return DT_OK;
    status = irecv_owned(dt_receiver_of(c), n, data, bytes, tags, memories, request);
    dt_owner_leave(&c->owner);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------
 * test, and the peer's goodbye
 */
static inline void report(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    for (uint32_t i = 0; bytes && i < slot->parts; i++)
        bytes[i] = (int)slot->bytes[i];
    slot->request.is_open = false;
    slot->state = DT_RECV_FREE;
    dt_count(&r->connection.open_requests, -1u);
}

void dt_receiver_report(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    report(r, slot, bytes);
}

enum dt_status dt_receive_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_receiver *r = dt_receiver_of(request->connection);
    struct dt_recv_slot *slot = &r->slot[request->slot];
    enum dt_status status;

    if (!request->is_open)
        return DT_INVALID;
    status = dt_connection_check(&r->connection);
    if (!request->is_done && status == DT_OK)
        dt_receiver_progress(r);
    if (!request->is_done)
        return status == DT_AGAIN ? DT_OK : status;
    report(r, slot, bytes);
    *done = 1;
    return DT_OK;
}

void dt_receiver_peer_closed(struct dt_receiver *r, uint64_t sequence)
{
    uint32_t lost = 0;

    for (uint32_t i = 0; i < r->connection.slots; i++)
        lost += r->slot[i].state == DT_RECV_OPEN && r->slot[i].sequence >= sequence &&
                !dt_ahead_is_copied(r, &r->slot[i]);
    if (lost > 0)
        dt_connection_fail(&r->connection, DT_PEER_ERROR, "the sender closed with %u messages outstanding",
                           lost);
}

uint64_t dt_receiver_first_incomplete(const struct dt_receiver *r)
{
    uint64_t first = r->next;

    for (uint32_t i = 0; i < r->connection.slots; i++) {
        if (r->slot[i].state == DT_RECV_OPEN && r->slot[i].sequence < first)
            first = r->slot[i].sequence;
    }
    return first;
}

uint64_t dt_receiver_first_missing(const struct dt_receiver *r)
{
    uint64_t first = r->next;

    for (uint32_t i = 0; i < r->connection.slots; i++) {
        const struct dt_recv_slot *slot = &r->slot[i];

        if (slot->state == DT_RECV_OPEN && slot->sequence < first && !dt_ahead_is_copied(r, slot))
            first = slot->sequence;
    }
    return first;
}
