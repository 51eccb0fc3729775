/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving end: irecv with its clear-to-send, arrivals, and its test. */
#include "transport/message/receive.h"

#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "failover/planted.h"
#include "transport/message/flush.h"
#include "transport/message/memory.h"
#include "transport/protocol/memory_layout.h"
#include "transport/protocol/immediate.h"
#include "transport/protocol/split.h"
#include "transport/protocol/work_id.h"

#define POLL_MAX   16
#define IDLE_POLLS 64

static struct dt_recv_slot *slot_of(struct dt_receiver *r, uint64_t sequence)
{
    return dt_receiver_slot(r, sequence);
}

/* ------------------------------------------------------------------------------------------------------------
 * Arrivals
 */
static void complete(struct dt_receiver *r, struct dt_path *path, struct dt_recv_slot *slot)
{
    const struct dt_arrivals *arrivals = &slot->arrivals[path->index];
    uint64_t bytes = 0;

    DT_CHECK_HOT(slot->state == DT_RECV_OPEN && slot->sequence < r->next && !slot->request.is_done);
    if (__builtin_expect(slot->source != DT_PAYLOAD_WIRE, 0)) {
        dt_connection_fail(&r->connection, DT_PROTOCOL,
                           "the payload of message %llu was sent twice, eagerly and directly",
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
            slot->memory[i]->written_mask |= (uint32_t)(slot->bytes[i] > 0) << path->index;
            DT_CHECK_HOT(slot->memory[i]->open > 0);
            dt_count(&slot->memory[i]->open, -1u);
        }
    }
    slot->path = (uint8_t)path->index;
    dt_recv_slot_set(slot, DT_RECV_DONE);
    slot->request.is_done = true;
    dt_receiver_stamp(r, slot->sequence);
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
    uint32_t bytes = completion->bytes, share = q;

    if (__builtin_expect(imm.kind > DT_IMM_SIZED, 0))
        return q == 0 && completion->has_imm && r->connection.ops->arrival[imm.kind](r, path, completion);
    if (!completion->has_imm || slot->state != DT_RECV_OPEN ||
        ((uint32_t)slot->sequence & DT_IMM_SEQUENCE_MASK) != imm.sequence || imm.part >= slot->parts)
        return false;
    if (__builtin_expect(path->share_count != path->qp_count, 0)) {
        share = dt_split_share_of(slot->sequence, path->share_count, path->qp_count, q);
        if (share >= path->share_count)
            return false;
    }
    if (imm.kind == DT_IMM_SIZED) {
        bytes = 0;
        if (share == 0 && !read_record(path, slot, imm.part, &bytes))
            return false;
    }
    if (!dt_arrivals_add(arrivals, imm.part, share, bytes))
        return false;
    if (arrivals->seen == dt_arrivals_of_parts(path->whole_message, slot->parts))
        complete(r, path, slot);
    return true;
}

/* A zero-length receive was used. Posts them again a batch at a time. */
static void refill(struct dt_receiver *r, struct dt_path *path, uint32_t q)
{
    DT_CHECK_HOT(path->recv_used[q] < DT_EMPTY_RECV_BATCH);
    if (++path->recv_used[q] < DT_EMPTY_RECV_BATCH)
        return;
    path->recv_used[q] = 0;
    if (dt_qp_post_empty_recvs(path->qp[q], DT_EMPTY_RECV_BATCH) != DT_OK)
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

static __attribute__((noinline)) void progress_side(struct dt_receiver *r)
{
    dt_receiver_flush_progress(r);
    r->connection.ops->progress_copies(r);
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
    if (__builtin_expect(r->side_open > 0, 0))
        progress_side(r);
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
    uint32_t mask = memory ? dt_load_acquire(&memory->path_mask) : 0;

    entry->address = htole64(addr);
    entry->bytes = htole32(slot->capacity[part]);
    entry->tag = htole32((uint32_t)tag);
    entry->path_mask = (uint8_t)mask;
    for (uint32_t p = 0; p < path_count; p++)
        entry->rkey[p] = mask & 1u << p ? htole32(dt_load_relaxed(&memory->mr[p]->rkey)) : 0;
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

    DT_CHECK_HOT(path->cts_posted - path->cts_done < r->connection.slots);
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

void dt_receiver_publish(struct dt_receiver *r, struct dt_recv_slot *slot)
{
    publish(r, r->connection.current, slot);
}

/* A row is the same on all paths, so the one that was written for the path that failed is copied. */
void dt_receiver_publish_again(struct dt_receiver *r)
{
    struct dt_connection *c = &r->connection;

    DT_CHECK(r->again <= c->slots);
    for (uint64_t sequence = dt_receiver_first_incomplete(r); r->again > 0 && sequence < r->next;
         sequence++) {
        struct dt_recv_slot *slot = slot_of(r, sequence);

        if (slot->state != DT_RECV_OPEN || !slot->is_unpublished)
            continue;
        if (!c->current || !may_send_cts(r, c->current))
            return;
        DT_CHECK(slot->sequence == sequence && slot->path < c->path_count);
        memcpy(row_of(c->current, slot), row_of(&c->path[slot->path], slot),
               slot->parts * sizeof(struct dt_cts_entry));
        publish(r, c->current, slot);
        slot->is_unpublished = false;
        r->again--;
    }
    r->again = 0; /* the others were brought by another path before they could be offered again */
}

/* Of all paths, in a row that was copied; some may have the memory since the row was written. */
static void refresh_keys(const struct dt_recv_slot *slot, struct dt_cts_row *row, uint32_t path_count)
{
    for (uint32_t i = 0; i < slot->parts; i++) {
        const struct dt_memory *memory = slot->memory[i];
        uint32_t mask = memory ? dt_load_acquire(&memory->path_mask) : 0;

        for (uint32_t p = 0; p < path_count; p++) {
            if (mask & 1u << p)
                row->entry[i].rkey[p] = htole32(dt_load_relaxed(&memory->mr[p]->rkey));
        }
        row->entry[i].path_mask |= (uint8_t)mask;
    }
}

/*
 * The epoch has just come into use: no clear-to-send was written over it, so each open receive has room, and
 * no row is being read by the device.
 */
void dt_receiver_renew_keys(struct dt_receiver *r, struct dt_path *path)
{
    struct dt_connection *c = &r->connection;

    DT_CHECK(path->cts_posted == 0);
    for (uint64_t sequence = dt_receiver_first_incomplete(r);
         sequence < r->next && sequence < path->keys_since && !DT_PLANTED(KEYS_ONCE); sequence++) {
        struct dt_recv_slot *slot = slot_of(r, sequence);
        struct dt_cts_row *row = row_of(path, slot);

        if (slot->state != DT_RECV_OPEN || slot->sequence != sequence)
            continue;
        if (slot->path != path->index)
            memcpy(row, row_of(&c->path[slot->path], slot), slot->parts * sizeof(struct dt_cts_entry));
        refresh_keys(slot, row, c->path_count);
        publish(r, path, slot);
        if (slot->is_unpublished) {
            slot->is_unpublished = false;
            r->again--;
        }
    }
}

static inline __attribute__((always_inline)) struct dt_recv_slot *
open_slot(struct dt_receiver *r, unsigned n, const uint32_t *bytes, struct dt_memory *const *memories)
{
    struct dt_connection *c = &r->connection;
    struct dt_recv_slot *slot = slot_of(r, r->next);

    if (slot->state != DT_RECV_FREE || !c->current || !may_send_cts(r, c->current))
        return NULL;
    DT_CHECK_HOT(n >= 1 && n <= DT_PARTS_MAX && !slot->request.is_open);
    slot->sequence = r->next;
    slot->parts = (uint8_t)n;
    dt_recv_slot_set(slot, DT_RECV_OPEN);
    slot->is_unpublished = false;
    slot->source = DT_PAYLOAD_WIRE;
    slot->request = (struct dt_request){
        .connection = c,
        .test = dt_receive_test,
        .slot = (uint32_t)(slot->sequence & (c->slots - 1)),
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
    return slot;
}

struct dt_recv_slot *dt_receiver_open(struct dt_receiver *r, unsigned n, const uint32_t *bytes,
                                      struct dt_memory *const *memories)
{
    return open_slot(r, n, bytes, memories);
}

static inline __attribute__((always_inline)) struct dt_cts_row *
fill_row(struct dt_receiver *r, const struct dt_recv_slot *slot, void *const *data, const int *tags)
{
    struct dt_connection *c = &r->connection;
    struct dt_cts_row *row = row_of(c->current, slot);
    uint32_t processor = dt_load_relaxed(&r->processor);

    memcpy(row->entry[0].processor, &processor, sizeof processor);
    for (unsigned i = 0; i < slot->parts; i++) {
        dt_meter_tag(&c->meter, tags[i]);
        fill_entry(&row->entry[i], slot, i, (uintptr_t)data[i], tags[i], c->path_count);
    }
    return row;
}

struct dt_cts_row *dt_receiver_fill_row(struct dt_receiver *r, const struct dt_recv_slot *slot,
                                        void *const *data, const int *tags)
{
    return fill_row(r, slot, data, tags);
}

bool dt_receiver_irecv(struct dt_receiver *r, unsigned n, void *const *data, const uint32_t *bytes,
                       const int *tags, struct dt_memory *const *memories, struct dt_request **request)
{
    struct dt_recv_slot *slot = open_slot(r, n, bytes, memories);

    if (!slot)
        return false;
    *request = &slot->request;
    fill_row(r, slot, data, tags);
    publish(r, r->connection.current, slot);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * test
 */
static inline void close_request(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    for (uint32_t i = 0; bytes && i < slot->parts; i++)
        bytes[i] = (int)slot->bytes[i];
    DT_CHECK_HOT(slot->request.is_open && r->connection.open_requests > 0);
    slot->request.is_open = false;
    dt_count(&r->connection.open_requests, -1u);
}

static inline void report(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    close_request(r, slot, bytes);
    dt_recv_slot_set(slot, DT_RECV_FREE);
}

void dt_receiver_report(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    report(r, slot, bytes);
}

void dt_receiver_report_early(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    DT_CHECK(slot->state == DT_RECV_OPEN && slot->source == DT_PAYLOAD_IN_PLACE);
    close_request(r, slot, bytes);
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
