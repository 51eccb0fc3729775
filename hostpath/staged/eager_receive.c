/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the receiver: arrivals, matching, copying out, and the test. */
#include "hostpath/staged/eager_receive.h"

#include <endian.h>
#include <sched.h>
#include <string.h>

#include "base/ascending.h"
#include "base/check.h"
#include "base/util.h"
#include "failover/planted.h"
#include "transport/message/receive.h"
#include "transport/path/nic.h"
#include "transport/protocol/immediate.h"

/* Up to here a copy by NCCL's own thread is faster than waking another one. */
#define INLINE_COPY_BYTES (64u << 10)

#define BIT(state) (1u << DT_ARRIVAL_##state)

static const uint8_t transitions[DT_ARRIVAL_STATES] = {
    [DT_ARRIVAL_NONE] = BIT(WAITING),
    [DT_ARRIVAL_WAITING] = BIT(COPYING) | BIT(NONE), /* NONE: copied inline, or discarded */
    [DT_ARRIVAL_COPYING] = BIT(NONE),
};

/* The only place where an arrival changes its state. */
static void set(struct dt_eager_arrival *arrival, enum dt_eager_arrival_state state)
{
    DT_CHECK(transitions[arrival->state] >> state & 1);
    arrival->state = (uint8_t)state;
}

static uint8_t *payload_of(const struct dt_eager_store *store, uint32_t place)
{
    return store->memory + DT_EAGER_HEADERS_BYTES + (size_t)place * store->bytes;
}

static struct dt_eager_receive *receive_of(const struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    return &r->eager->receive[slot - r->slot];
}

/* ------------------------------------------------------------------------------------------------------------
 * Copying out
 */
static void release(struct dt_eager_store *store, uint32_t place)
{
    struct dt_eager_arrival *arrival = &store->arrival[place];

    set(arrival, DT_ARRIVAL_NONE);
    store->released[place] = (uint8_t)arrival->generation;
}

static void finish(struct dt_receiver *r, uint32_t place, struct dt_recv_slot *slot)
{
    dt_receiver_place_payload(r, slot, r->eager->arrival[place].bytes);
    release(r->eager, place);
}

static void start_large_copy(struct dt_receiver *r, uint32_t place, void *to)
{
    struct dt_eager_arrival *arrival = &r->eager->arrival[place];

    DT_CHECK(dt_load_acquire(&arrival->copies_left) == 0);
    set(arrival, DT_ARRIVAL_COPYING);
    r->side_open++;
    dt_store_relaxed(&arrival->copies_left, dt_copy_pieces(arrival->bytes, DT_COPY_PIECE_BYTES));
    dt_store_relaxed(&arrival->delegates_hold, 1u);
    arrival->copy = (struct dt_host_copy){
        .to = to,
        .from = payload_of(r->eager, place),
        .bytes = arrival->bytes,
        .piece_bytes = DT_COPY_PIECE_BYTES,
        .job_count = 1,
        .is_polled = true,
        .left = &arrival->copies_left,
        .held = &arrival->delegates_hold,
    };
    dt_delegates_push(&r->connection.nic->delegates, &arrival->copy);
}

/* The arrival is the payload of this message. */
static void copy_out(struct dt_receiver *r, uint32_t place, struct dt_recv_slot *slot)
{
    struct dt_eager_arrival *arrival = &r->eager->arrival[place];
    void *to = receive_of(r, slot)->data;

    DT_CHECK(arrival->state == DT_ARRIVAL_WAITING && arrival->bytes <= slot->capacity[0]);
    DT_CHECK(slot->state == DT_RECV_OPEN && slot->source == DT_PAYLOAD_WIRE);
    slot->source = DT_PAYLOAD_STORE;
    arrival->slot = (uint32_t)(slot - r->slot);
    /* A delegate that has slept since the place's last use may still hold its job. */
    if (arrival->bytes > INLINE_COPY_BYTES && dt_load_acquire(&arrival->delegates_hold) == 0) {
        start_large_copy(r, place, to);
        return;
    }
    if (arrival->bytes > 0)
        dt_copy_ascending(to, payload_of(r->eager, place), arrival->bytes);
    finish(r, place, slot);
}

void dt_eager_finish_copied(struct dt_receiver *r)
{
    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        const struct dt_eager_arrival *arrival = &r->eager->arrival[i];

        if (arrival->state != DT_ARRIVAL_COPYING || dt_load_acquire(&arrival->copies_left) > 0)
            continue;
        DT_CHECK(r->side_open > 0);
        r->side_open--;
        finish(r, i, &r->slot[arrival->slot]);
    }
}

void dt_eager_finish_copies(struct dt_receiver *r)
{
    struct dt_delegates *delegates = &r->connection.nic->delegates;

    if (!r->eager)
        return;
    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        const struct dt_eager_arrival *arrival = &r->eager->arrival[i];

        while (dt_load_acquire(&arrival->copies_left) > 0 || dt_load_acquire(&arrival->delegates_hold) > 0) {
            if (delegates->has_threads)
                sched_yield();
            else
                dt_delegates_run(delegates);
        }
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Matching
 */

/* Counts the parts of one message. True: the arrival's own part is among them. */
static bool count_parts(struct dt_receiver *r, struct dt_eager_arrival *arrival,
                        const struct dt_recv_slot *slot)
{
    const struct dt_eager_receive *receive = receive_of(r, slot);

    arrival->next = slot->sequence + 1;
    for (uint32_t i = 0; i < slot->parts; i++) {
        if (receive->tag[i] == arrival->tag && arrival->left-- == 0)
            return true;
    }
    return false;
}

/* The message is the next one to be counted, or a later one. */
static void try_message(struct dt_receiver *r, uint32_t place, struct dt_recv_slot *slot)
{
    struct dt_eager_arrival *arrival = &r->eager->arrival[place];

    DT_CHECK(arrival->is_tracked && arrival->next <= slot->sequence);
    if (!count_parts(r, arrival, slot))
        return;
    arrival->is_tracked = false;
    if (receive_of(r, slot)->takes_eager && slot->state == DT_RECV_OPEN && slot->source == DT_PAYLOAD_WIRE &&
        arrival->bytes <= slot->capacity[0])
        copy_out(r, place, slot);
}

/* Goes through the messages whose irecv was posted already, as far back as they are remembered. */
static void track(struct dt_receiver *r, uint32_t place)
{
    struct dt_eager_arrival *arrival = &r->eager->arrival[place];
    uint32_t slots = r->connection.slots;

    arrival->is_tracked = r->next < slots || arrival->next >= r->next - slots;
    while (arrival->is_tracked && arrival->next < r->next)
        try_message(r, place, dt_receiver_slot(r, arrival->next));
}

void dt_eager_look(struct dt_receiver *r, struct dt_recv_slot *slot)
{
    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        const struct dt_eager_arrival *arrival = &r->eager->arrival[i];

        if (arrival->state == DT_ARRIVAL_WAITING && arrival->is_tracked && arrival->next <= slot->sequence)
            try_message(r, i, slot);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Arrivals
 */
static DT_READS_DEVICE_MEMORY struct dt_eager_header read_header(const struct dt_eager_store *store,
                                                                 uint32_t place)
{
    const void *at = store->memory + (size_t)place * DT_EAGER_HEADER_STRIDE;

    return *(const struct dt_eager_header *)at;
}

static bool arrive(struct dt_receiver *r, uint32_t place, uint32_t generation)
{
    struct dt_eager_store *store = r->eager;
    struct dt_eager_arrival *arrival = &store->arrival[place];
    struct dt_eager_header header = read_header(store, place);

    if (arrival->state != DT_ARRIVAL_NONE || le32toh(header.bytes) > store->bytes ||
        (le32toh(header.generation) & DT_IMM_EAGER_GENERATION) != generation)
        return false;
    set(arrival, DT_ARRIVAL_WAITING);
    arrival->generation = le32toh(header.generation);
    arrival->tag = le32toh(header.tag);
    arrival->bytes = le32toh(header.bytes);
    arrival->next = le64toh(header.first);
    arrival->left = le32toh(header.index);
    store->arrived[place] = (uint8_t)arrival->generation;
    if (DT_PLANTED(EAGER_EARLY))
        store->released[place] = (uint8_t)arrival->generation;
    track(r, place);
    return true;
}

/* Repeated, or for a place that was released meanwhile, it changes nothing. */
static void discard(struct dt_eager_store *store, uint32_t place, uint32_t generation)
{
    const struct dt_eager_arrival *arrival = &store->arrival[place];

    if (arrival->state == DT_ARRIVAL_WAITING && (arrival->generation & DT_IMM_EAGER_GENERATION) == generation)
        release(store, place);
}

bool dt_eager_arrive(struct dt_receiver *r, struct dt_path *path, const struct dt_completion *completion)
{
    struct dt_imm imm = dt_imm_decode(completion->imm);
    uint32_t generation = imm.sequence & DT_IMM_EAGER_GENERATION;

    (void)path;
    if (!r->eager)
        return false;
    if (!(imm.sequence & DT_IMM_EAGER_UNWANTED))
        return arrive(r, imm.part, generation);
    discard(r->eager, imm.part, generation);
    return true;
}

bool dt_eager_take(struct dt_receiver *r, struct dt_path *path, const struct dt_completion *completion)
{
    struct dt_imm imm = dt_imm_decode(completion->imm);
    struct dt_recv_slot *slot = dt_receiver_slot(r, imm.sequence);
    const struct dt_eager_arrival *arrival;

    if (!r->eager || slot->state != DT_RECV_OPEN || !receive_of(r, slot)->takes_eager ||
        ((uint32_t)slot->sequence & DT_IMM_SEQUENCE_MASK) != imm.sequence)
        return false;
    if (slot->source == DT_PAYLOAD_WIRE) {
        arrival = &r->eager->arrival[imm.part];
        if (arrival->state != DT_ARRIVAL_WAITING || arrival->bytes > slot->capacity[0])
            return false;
        copy_out(r, imm.part, slot);
    }
    dt_receiver_take(path, slot);
    return true;
}

/* ------------------------------------------------------------------------------------------------------------
 * irecv, and its test
 */

/* By NCCL's thread, which is here to ask whether the copy is done: no more than for a small message. */
static void help(struct dt_receiver *r, const struct dt_recv_slot *slot)
{
    uint32_t number = (uint32_t)(slot - r->slot);

    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++) {
        struct dt_eager_arrival *arrival = &r->eager->arrival[i];

        if (arrival->state == DT_ARRIVAL_COPYING && arrival->slot == number)
            dt_host_copy_help(&arrival->copy);
    }
    dt_eager_finish_copied(r);
}

static void report(struct dt_receiver *r, struct dt_recv_slot *slot, int *bytes)
{
    if (slot->state == DT_RECV_DONE)
        dt_receiver_report(r, slot, bytes);
    else
        dt_receiver_report_early(r, slot, bytes);
}

static enum dt_status test(struct dt_request *request, int *done, int *bytes)
{
    struct dt_receiver *r = dt_receiver_of(request->connection);
    struct dt_recv_slot *slot = &r->slot[request->slot];
    enum dt_status status;

    if (!request->is_open)
        return DT_INVALID;
    status = dt_connection_check(&r->connection);
    if (status == DT_OK)
        dt_receiver_progress(r);
    if (slot->source == DT_PAYLOAD_STORE && status != DT_CLOSED)
        help(r, slot); /* what has arrived counts, whatever happened afterwards */
    if (slot->source == DT_PAYLOAD_IN_PLACE ||
        (slot->state == DT_RECV_DONE && slot->source == DT_PAYLOAD_WIRE)) {
        report(r, slot, bytes);
        *done = 1;
        return DT_OK;
    }
    return status == DT_AGAIN || (slot->source == DT_PAYLOAD_STORE && status != DT_CLOSED) ? DT_OK : status;
}

void dt_eager_await(struct dt_receiver *r, struct dt_recv_slot *slot, void *const *data, const int *tags)
{
    struct dt_eager_receive *receive = receive_of(r, slot);
    bool is_bounced = slot->request.test != dt_receive_test;
    bool is_host = !slot->memory[0] || slot->memory[0]->is_host;

    DT_CHECK(slot->source == DT_PAYLOAD_WIRE);
    *receive = (struct dt_eager_receive){
        .data = data[0],
        .takes_eager = slot->parts == 1 && is_host && !is_bounced,
    };
    for (uint32_t i = 0; i < slot->parts; i++)
        receive->tag[i] = (uint32_t)tags[i];
    if (receive->takes_eager)
        slot->request.test = test;
}

void dt_eager_fill(const struct dt_receiver *r, const struct dt_recv_slot *slot, struct dt_cts_entry *row)
{
    row->takes_eager = receive_of(r, slot)->takes_eager;
    memcpy(row->released, r->eager->released, sizeof row->released);
}
