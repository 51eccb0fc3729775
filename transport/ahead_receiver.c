/* SPDX-License-Identifier: Apache-2.0 */
/* Going ahead: the receiver. */
#include <endian.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/ascending.h"
#include "base/log.h"
#include "base/node_memory.h"
#include "base/planted.h"
#include "base/util.h"
#include "transport/ahead.h"
#include "transport/immediate.h"
#include "transport/line.h"
#include "transport/nic.h"
#include "transport/staging.h"

/* Up to here a copy by NCCL's own thread is quicker than telling another one. */
#define INLINE_COPY_BYTES (64u << 10)

/* A connection takes no more than this part of what is left. */
#define SHARE 4

/* ------------------------------------------------------------------------------------------------------------
 * The granted memory
 */

/* So many bytes for each payload, or 0: there is too little left. What is taken of the process's is *bytes.
 */
static uint32_t take_room(struct dt_net *net, uint64_t *bytes)
{
    uint64_t used = dt_load_acquire(&net->hostpath.granted_bytes);
    uint64_t left, each;

    do {
        left = net->params.hostpath_bytes > used ? net->params.hostpath_bytes - used : 0;
        each = dt_min_u64(left / SHARE / DT_AHEAD_PLACES, DT_AHEAD_BYTES_MAX) & ~(uint64_t)4095;
        *bytes = DT_AHEAD_HEADERS_BYTES + each * DT_AHEAD_PLACES;
    } while (each > 0 && !dt_compare_swap(&net->hostpath.granted_bytes, &used, used + *bytes));
    return (uint32_t)each;
}

static void give_room(struct dt_net *net, uint64_t bytes)
{
    dt_fetch_sub_acq_rel(&net->hostpath.granted_bytes, bytes);
}

void dt_ahead_open(struct dt_connection *c)
{
    struct dt_ahead_store *store;
    uint64_t room_bytes;
    uint32_t bytes;

    if (c->is_sender || !c->net->hostpath.is_on || c->version < DT_PROTOCOL_VERSION_AHEAD)
        return;
    bytes = take_room(c->net, &room_bytes);
    if (bytes == 0)
        return;
    store = calloc(1, sizeof *store);
    if (store)
        store->memory = dt_node_memory_alloc(room_bytes, c->nic->info.numa_node);
    if (!store || !store->memory || dt_stage_open_delegates(c->nic) != DT_OK) {
        if (store)
            dt_node_memory_free(store->memory, room_bytes);
        free(store);
        give_room(c->net, room_bytes);
        return;
    }
    store->memory_bytes = room_bytes;
    store->bytes = bytes;
    dt_receiver_of(c)->ahead = store;
}

void dt_ahead_close(struct dt_receiver *r)
{
    if (!r->ahead)
        return;
    dt_node_memory_free(r->ahead->memory, r->ahead->memory_bytes);
    give_room(r->connection.net, r->ahead->memory_bytes);
    free(r->ahead);
    r->ahead = NULL;
}

void dt_ahead_grant(struct dt_receiver *r)
{
    struct dt_connection *c = &r->connection;
    struct dt_writer *out = dt_line_out(c->line);
    struct dt_grant grant = {0};

    if (!r->ahead)
        return;
    for (uint32_t p = 0; p < c->path_count; p++) {
        if (!c->path[p].ahead_mr)
            continue;
        grant.rkey[p] = c->path[p].ahead_mr->rkey;
        grant.path_mask |= 1u << p;
    }
    if (!grant.path_mask || !out)
        return;
    grant.addr = (uintptr_t)r->ahead->memory;
    grant.bytes = r->ahead->bytes;
    dt_grant_encode(&grant, c->path_count, out);
    dt_line_flush(c->line);
}

void dt_ahead_start(struct dt_receiver *r)
{
    if (!r->ahead)
        return;
    r->connection.attended |= DT_NOTICE_STAGED;
    dt_connection_notify(&r->connection, DT_NOTICE_STAGED);
}

static uint8_t *payload_of(const struct dt_ahead_store *store, uint32_t place)
{
    return store->memory + DT_AHEAD_HEADERS_BYTES + (size_t)place * store->bytes;
}

/* ------------------------------------------------------------------------------------------------------------
 * Copying out
 */
static struct dt_ahead_receive *receive_of(const struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    return &r->ahead->receive[slot - r->slot];
}

static void release(struct dt_ahead_store *store, uint32_t place)
{
    struct dt_ahead_held *held = &store->held[place];

    held->state = DT_AHEAD_EMPTY;
    store->released[place] = (uint8_t)held->generation;
}

/* The message is where it belongs, and its memory the caller's. */
static void finish(struct dt_receiver *r, uint32_t place, struct dt_recv_slot *slot)
{
    struct dt_ahead_held *held = &r->ahead->held[place];

    receive_of(r, slot)->is_copied = true;
    slot->bytes[0] = held->bytes;
    if (slot->memory[0])
        dt_count(&slot->memory[0]->open, -1u);
    slot->memory[0] = NULL;
    dt_count(&r->connection.completions, 1);
    dt_meter_count(&r->connection.meter, held->bytes);
    release(r->ahead, place);
}

static void start_large_copy(struct dt_receiver *r, uint32_t place, void *to)
{
    struct dt_ahead_held *held = &r->ahead->held[place];

    held->state = DT_AHEAD_COPIED;
    r->beside_open++;
    dt_store_relaxed(&held->copies_left, dt_copy_pieces(held->bytes, DT_COPY_PIECE_BYTES));
    dt_store_relaxed(&held->delegates_hold, 1u);
    held->copy = (struct dt_host_copy){
        .to = to,
        .from = payload_of(r->ahead, place),
        .bytes = held->bytes,
        .piece_bytes = DT_COPY_PIECE_BYTES,
        .job_count = 1,
        .is_polled = true,
        .left = &held->copies_left,
        .held = &held->delegates_hold,
    };
    dt_delegates_push(&r->connection.nic->delegates, &held->copy);
}

/* What is in the place is this message. */
static void copy_out(struct dt_receiver *r, uint32_t place, struct dt_recv_slot *slot)
{
    struct dt_ahead_held *held = &r->ahead->held[place];
    struct dt_ahead_receive *receive = receive_of(r, slot);

    receive->is_found = true;
    held->slot = (uint32_t)(slot - r->slot);
    /* A delegate that has slept ever since may still know the job. */
    if (held->bytes > INLINE_COPY_BYTES && dt_load_acquire(&held->delegates_hold) == 0) {
        start_large_copy(r, place, receive->data);
        return;
    }
    if (held->bytes > 0)
        dt_copy_ascending(receive->data, payload_of(r->ahead, place), held->bytes);
    finish(r, place, slot);
}

void dt_ahead_see_copies(struct dt_receiver *r)
{
    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        struct dt_ahead_held *held = &r->ahead->held[i];

        if (held->state != DT_AHEAD_COPIED || dt_load_acquire(&held->copies_left) > 0)
            continue;
        r->beside_open--;
        finish(r, i, &r->slot[held->slot]);
    }
}

void dt_ahead_finish_copies(struct dt_receiver *r)
{
    if (!r->ahead)
        return;
    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        const struct dt_ahead_held *held = &r->ahead->held[i];
        struct dt_delegates *delegates = &r->connection.nic->delegates;

        while (dt_load_acquire(&held->copies_left) > 0 || dt_load_acquire(&held->delegates_hold) > 0) {
            if (delegates->has_threads)
                sched_yield();
            else
                dt_delegates_run(delegates);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Whose it is
 */

/* Counts the parts of one message. True: the one it is for is among them. */
static bool is_for(struct dt_receiver *r, struct dt_ahead_held *held, const struct dt_recv_slot *slot)
{
    const struct dt_ahead_receive *receive = receive_of(r, slot);

    held->next = slot->sequence + 1;
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (receive->tag[i] == held->tag && held->left-- == 0)
            return true;
    }
    return false;
}

/* The message, whose sequence is not before held->next. */
static void try_message(struct dt_receiver *r, uint32_t place, struct dt_recv_slot *slot)
{
    struct dt_ahead_held *held = &r->ahead->held[place];
    const struct dt_ahead_receive *receive = receive_of(r, slot);

    if (!is_for(r, held, slot))
        return;
    held->is_tracked = false;
    if (receive->takes && slot->state == DT_RECV_OPEN && !receive->is_found &&
        held->bytes <= slot->capacity[0])
        copy_out(r, place, slot);
}

/* Looks through the messages that are there already; as far back as they are remembered. */
static void track(struct dt_receiver *r, uint32_t place)
{
    struct dt_ahead_held *held = &r->ahead->held[place];
    uint32_t slots = r->connection.slots;

    held->is_tracked = r->next < slots || held->next >= r->next - slots;
    while (held->is_tracked && held->next < r->next) {
        struct dt_recv_slot *slot = &r->slot[held->next & (slots - 1)];

        try_message(r, place, slot);
    }
}

void dt_ahead_look(struct dt_receiver *r, struct dt_recv_slot *slot)
{
    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        const struct dt_ahead_held *held = &r->ahead->held[i];

        if (held->state == DT_AHEAD_WAITS && held->is_tracked && held->next <= slot->sequence)
            try_message(r, i, slot);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * irecv
 */
void dt_ahead_await(struct dt_receiver *r, struct dt_recv_slot *slot, void *const *data, const int *tags)
{
    struct dt_ahead_receive *receive = receive_of(r, slot);
    bool is_landing = slot->request.kind == DT_REQUEST_LANDING;
    bool is_host = !slot->memory[0] || slot->memory[0]->is_host;

    *receive =
        (struct dt_ahead_receive){.data = data[0], .takes = slot->parts == 1 && is_host && !is_landing};
    for (uint32_t i = 0; i < slot->parts; i++)
        receive->tag[i] = (uint32_t)tags[i];
    if (receive->takes)
        slot->request.kind = DT_REQUEST_AHEAD;
}

void dt_ahead_fill(const struct dt_receiver *r, const struct dt_recv_slot *slot, struct dt_cts_entry *row)
{
    row->takes_ahead = receive_of(r, slot)->takes;
    memcpy(row->released, r->ahead->released, sizeof row->released);
}

/* ------------------------------------------------------------------------------------------------------------
 * Arrivals
 */
static DT_READS_DEVICE_MEMORY struct dt_ahead_header read_header(const struct dt_ahead_store *store,
                                                                 uint32_t place)
{
    const void *at = store->memory + (size_t)place * DT_AHEAD_HEADER_STRIDE;

    return *(const struct dt_ahead_header *)at;
}

static bool arrive(struct dt_receiver *r, uint32_t place, uint32_t generation)
{
    struct dt_ahead_store *store = r->ahead;
    struct dt_ahead_held *held = &store->held[place];
    struct dt_ahead_header header = read_header(store, place);

    if (held->state != DT_AHEAD_EMPTY || le32toh(header.bytes) > store->bytes ||
        (le32toh(header.generation) & DT_IMM_AHEAD_GENERATION) != generation)
        return false;
    held->state = DT_AHEAD_WAITS;
    held->generation = le32toh(header.generation);
    held->tag = le32toh(header.tag);
    held->bytes = le32toh(header.bytes);
    held->next = le64toh(header.first);
    held->left = le32toh(header.index);
    store->arrived[place] = (uint8_t)held->generation;
    if (DT_PLANTED(AHEAD_EARLY))
        store->released[place] = (uint8_t)held->generation;
    track(r, place);
    return true;
}

/* Said twice, or of what was released meanwhile, it changes nothing. */
static bool unwant(struct dt_ahead_store *store, uint32_t place, uint32_t generation)
{
    const struct dt_ahead_held *held = &store->held[place];

    if (held->state == DT_AHEAD_WAITS && (held->generation & DT_IMM_AHEAD_GENERATION) == generation)
        release(store, place);
    return true;
}

/* The sender's word that the message is complete. */
static bool take(struct dt_receiver *r, struct dt_path *path, struct dt_imm imm)
{
    struct dt_recv_slot *slot = &r->slot[imm.sequence & (r->connection.slots - 1)];
    struct dt_ahead_receive *receive = receive_of(r, slot);
    const struct dt_ahead_held *held = &r->ahead->held[imm.part];

    if (slot->state != DT_RECV_OPEN || !receive->takes ||
        ((uint32_t)slot->sequence & DT_IMM_SEQUENCE_MASK) != imm.sequence)
        return false;
    if (!receive->is_found) {
        if (held->state != DT_AHEAD_WAITS || held->bytes > slot->capacity[0])
            return false;
        copy_out(r, imm.part, slot);
    }
    slot->path = (uint8_t)path->index;
    slot->state = receive->is_reported ? DT_RECV_FREE : DT_RECV_DONE;
    dt_count(&r->connection.completions, 1);
    return true;
}

bool dt_ahead_arrive(struct dt_receiver *r, struct dt_path *path, const struct dt_completion *completion)
{
    struct dt_imm imm = dt_imm_decode(completion->imm);
    uint32_t generation = imm.sequence & DT_IMM_AHEAD_GENERATION;

    if (!r->ahead || !completion->has_imm)
        return false;
    if (imm.kind == DT_IMM_TAKE)
        return take(r, path, imm);
    return imm.sequence & DT_IMM_AHEAD_UNWANTED ? unwant(r->ahead, imm.part, generation)
                                                : arrive(r, imm.part, generation);
}

/* ------------------------------------------------------------------------------------------------------------
 * Test
 */
bool dt_ahead_is_found(const struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    return slot->request.kind == DT_REQUEST_AHEAD && receive_of(r, slot)->is_found;
}

bool dt_ahead_is_copied(const struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    return r->ahead && slot->request.kind == DT_REQUEST_AHEAD && receive_of(r, slot)->is_copied;
}

/* The slot is used again when TAKE has come. */
static void report(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    if (slot->state == DT_RECV_DONE) {
        dt_receiver_report(r, slot, bytes);
        return;
    }
    if (bytes)
        *bytes = (int)slot->bytes[0];
    receive_of(r, slot)->is_reported = true;
    slot->request.is_open = false;
    dt_count(&r->connection.open_requests, -1u);
}

/* By NCCL's thread, which is here to ask whether the copy is done: no more than for a small message. */
static void help(struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    uint32_t number = (uint32_t)(slot - r->slot);

    for (uint32_t i = 0; i < DT_AHEAD_PLACES; i++) {
        struct dt_ahead_held *held = &r->ahead->held[i];

        if (held->state == DT_AHEAD_COPIED && held->slot == number)
            dt_host_copy_help(&held->copy);
    }
    dt_ahead_see_copies(r);
}

enum dt_status dt_ahead_test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_receiver *r = dt_receiver_of(request->connection);
    struct dt_recv_slot *slot = &r->slot[request->slot];
    const struct dt_ahead_receive *receive = receive_of(r, slot);
    enum dt_status status;

    if (!request->is_open)
        return DT_INVALID;
    status = dt_connection_check(&r->connection);
    if (status == DT_OK)
        dt_receiver_progress(r);
    if (receive->is_found && !receive->is_copied && status != DT_CLOSED)
        help(r, slot); /* what has arrived counts, whatever happened afterwards */
    if (receive->is_copied || (slot->state == DT_RECV_DONE && !receive->is_found)) {
        report(r, slot, bytes);
        *done = 1;
        return DT_OK;
    }
    return status == DT_AGAIN || (receive->is_found && status != DT_CLOSED) ? DT_OK : status;
}
