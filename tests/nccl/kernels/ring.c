/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/ring.h"

#include <string.h>

#include "tests/nccl/kernels/chunk.h"
#include "tests/nccl/runtime/log.h"

struct ring {
    struct nh_mover mover;
    struct nh_end from_previous, to_next;
    const int *ranks; /* userRanks: this rank, the next one, ... */
    int index, rank_count, root;
    char *input, *output;
    ssize_t total;         /* elements of one rank's part over all channels */
    ssize_t offset, count; /* this channel's part */
    ssize_t chunk_elements;
    size_t bytes; /* of an element */
};

enum { RECEIVE = 1, SEND = 2 };

/*
 * One step: `directions` of RECEIVE and SEND; `source` and `destination` are places in elements of the input
 * and of the output, -1 for none.
 */
static int step(struct ring *ring, int directions, ssize_t source, ssize_t destination, ssize_t count,
                int is_last)
{
    struct nh_chunk chunk = {
        .receiver = directions & RECEIVE ? &ring->from_previous : NULL,
        .sender = directions & SEND ? &ring->to_next : NULL,
        .source = source < 0 ? NULL : ring->input + (size_t)source * ring->bytes,
        .destination = destination < 0 ? NULL : ring->output + (size_t)destination * ring->bytes,
        .count = count,
        .is_last = is_last,
    };

    return nh_move(&ring->mover, &chunk);
}

/* A chunk of one rank in a round of an all-reduce. */
struct part {
    ssize_t at, count;
};

static struct part part_of(const struct ring *ring, int chunk, ssize_t round_at, ssize_t chunk_elements)
{
    ssize_t at = chunk % ring->rank_count * chunk_elements, left = ring->count - round_at - at;

    return (struct part){ring->offset + round_at + at, chunk_elements < left ? chunk_elements : left};
}

static int all_reduce_round(struct ring *ring, ssize_t round_at, ssize_t size)
{
    const int n = ring->rank_count;
    struct part part = part_of(ring, ring->index + n - 1, round_at, size);

    if (step(ring, SEND, part.at, -1, part.count, 0))
        return -1;
    for (int j = 2; j < n; j++) {
        part = part_of(ring, ring->index + n - j, round_at, size);
        if (step(ring, RECEIVE | SEND, part.at, -1, part.count, 0))
            return -1;
    }
    part = part_of(ring, ring->index, round_at, size);
    if (step(ring, RECEIVE | SEND, part.at, part.at, part.count, 1))
        return -1;
    for (int j = 1; j < n - 1; j++) {
        part = part_of(ring, ring->index + n - j, round_at, size);
        if (step(ring, RECEIVE | SEND, -1, part.at, part.count, 0))
            return -1;
    }
    part = part_of(ring, ring->index + 1, round_at, size);
    return step(ring, RECEIVE, -1, part.at, part.count, 0);
}

static int all_reduce(struct ring *ring)
{
    const ssize_t n = ring->rank_count, alignment = 16 / (ssize_t)ring->bytes;
    ssize_t size = ring->chunk_elements, per_round = n * size;

    for (ssize_t at = 0; at < ring->count; at += per_round) {
        ssize_t left = ring->count - at;

        if (left < per_round)
            size = ((left + n - 1) / n + alignment - 1) / alignment * alignment;
        if (all_reduce_round(ring, at, size))
            return -1;
    }
    return 0;
}

static int all_gather(struct ring *ring, ssize_t at, ssize_t count)
{
    const int n = ring->rank_count;
    ssize_t own = at + ring->ranks[0] * ring->total;
    int is_in_place = ring->input + (size_t)at * ring->bytes == ring->output + (size_t)own * ring->bytes;

    if (step(ring, SEND, at, is_in_place ? -1 : own, count, 0))
        return -1;
    for (int j = 1; j < n - 1; j++)
        if (step(ring, RECEIVE | SEND, -1, at + ring->ranks[n - j] * ring->total, count, 0))
            return -1;
    return step(ring, RECEIVE, -1, at + ring->ranks[1] * ring->total, count, 0);
}

static int reduce_scatter(struct ring *ring, ssize_t at, ssize_t count)
{
    const int n = ring->rank_count;

    if (step(ring, SEND, at + ring->ranks[n - 1] * ring->total, -1, count, 0))
        return -1;
    for (int j = 2; j < n; j++)
        if (step(ring, RECEIVE | SEND, at + ring->ranks[n - j] * ring->total, -1, count, 0))
            return -1;
    return step(ring, RECEIVE, at + ring->ranks[0] * ring->total, at, count, 1);
}

static int broadcast(struct ring *ring, ssize_t at, ssize_t count)
{
    if (ring->ranks[0] == ring->root)
        return step(ring, SEND, at, ring->input == ring->output ? -1 : at, count, 0);
    if (ring->ranks[1] == ring->root)
        return step(ring, RECEIVE, -1, at, count, 0);
    return step(ring, RECEIVE | SEND, -1, at, count, 0);
}

static int reduce(struct ring *ring, ssize_t at, ssize_t count)
{
    if (ring->ranks[ring->rank_count - 1] == ring->root)
        return step(ring, SEND, at, -1, count, 0);
    if (ring->ranks[0] == ring->root)
        return step(ring, RECEIVE, at, at, count, 1);
    return step(ring, RECEIVE | SEND, at, -1, count, 0);
}

static int run(struct ring *ring, enum nh_collective collective)
{
    if (collective == NH_ALL_REDUCE)
        return all_reduce(ring);
    for (ssize_t at = 0; at < ring->count; at += ring->chunk_elements) {
        ssize_t left = ring->count - at, count = ring->chunk_elements < left ? ring->chunk_elements : left;
        ssize_t place = ring->offset + at;
        int result = collective == NH_ALL_GATHER       ? all_gather(ring, place, count)
                     : collective == NH_REDUCE_SCATTER ? reduce_scatter(ring, place, count)
                     : collective == NH_BROADCAST      ? broadcast(ring, place, count)
                                                       : reduce(ring, place, count);

        if (result)
            return -1;
    }
    return 0;
}

/* The parts of the channels: the first, those between, the last (ncclCollCbdPart). */
static void set_part(struct ring *ring, const struct nh_block *block, const char *work)
{
    static const int grain_bytes[] = {[NH_LL] = 16, [NH_LL128] = 1920, [NH_SIMPLE] = 512};
    const char *cbd = work + block->layout->coll_cbd;
    ssize_t low = (ssize_t)nh_uint64_t(cbd, 0), middle = (ssize_t)nh_uint64_t(cbd, 8);
    ssize_t high = (ssize_t)nh_uint64_t(cbd, 16);
    uint64_t grains = nh_uint64_t(cbd, NH_COLL_GRAINS);
    int first = work[NH_COLL_BITS] & 0xff, last = work[NH_COLL_BITS + 1] & 0xff;
    int channel = block->channel_index, which;

    ring->total = low + middle * (last - first - 1) + high;
    if (channel == first) {
        which = 0, ring->offset = 0, ring->count = low;
    } else if (channel == last) {
        which = 2, ring->offset = low + (last - first - 1) * middle, ring->count = high;
    } else {
        which = 1, ring->offset = low + (channel - first - 1) * middle, ring->count = middle;
    }
    ring->chunk_elements = (ssize_t)(grains >> 21 * which & 0x1fffff) *
                           (grain_bytes[ring->mover.protocol] / (ssize_t)ring->bytes);
}

/* The argument of the operation, possibly behind a pointer to one element. */
static uint64_t loaded_argument(const struct nh_block *block, const char *work, size_t bytes)
{
    uint64_t argument = nh_uint64_t(work, block->layout->coll_cbd + NH_COLL_ARGUMENT), value = 0;

    if (!(work[NH_COLL_BITS + 3] & 1))
        return argument;
    memcpy(&value, (const void *)(uintptr_t)argument, bytes);
    return value;
}

static uint64_t argument_of(const struct nh_block *block, const char *work,
                            const struct nh_function *function)
{
    uint64_t argument = loaded_argument(block, work, nh_type_bytes(function->type));
    int is_signed = function->type == NH_INT8 || function->type == NH_INT32 || function->type == NH_INT64;

    if (function->operation == NH_SUM_POST_DIV && !block->layout->average_packed)
        argument = argument * 2 + (unsigned)is_signed;
    return argument;
}

static void refuse_the_rest(const char *work, const struct nh_function *function)
{
    if (function->collective == NH_COLLECTIVE_UNKNOWN || function->algorithm != NH_ALGORITHM_RING)
        nh_die("collective %d, protocol %d: only rings are run here; set NCCL_ALGO=Ring",
               function->collective, function->protocol);
    if (work[NH_COLL_BITS + 3] & 6)
        nh_die("collective %d on registered buffers is not run here", function->collective);
}

int nh_run_ring(const struct nh_block *block, const char *work, const struct nh_function *function)
{
    const int is_rooted = function->collective == NH_BROADCAST || function->collective == NH_REDUCE;
    const int is_sliced = function->protocol == NH_SIMPLE && !is_rooted;
    struct ring ring = {
        .ranks = nh_pointer(block->channel, NH_RING_USER_RANKS),
        .index = nh_int(block->channel, block->layout->ring_index),
        .rank_count = nh_int(block->comm, NH_COMM_RANKS),
        .root = nh_int(work, NH_COLL_ROOT),
        .input = nh_pointer(work, block->layout->coll_send),
        .output = nh_pointer(work, block->layout->coll_recv),
        .bytes = nh_type_bytes(function->type),
        .mover = {.block = block,
                  .protocol = function->protocol,
                  .slices = is_sliced ? 2 : 1,
                  .steps = is_sliced ? 2 : 1},
    };
    int chunk_steps = ring.mover.slices * ring.mover.steps, result;

    refuse_the_rest(work, function);
    ring.mover.reduction =
        (struct nh_reduction){function->operation, function->type, argument_of(block, work, function)};
    ring.mover.step_elements =
        nh_int(block->comm, NH_COMM_BUFFER_BYTES + 4 * NH_SIMPLE) / NH_SLOTS / (ssize_t)ring.bytes;
    set_part(&ring, block, work);
    ring.from_previous = nh_end_open(block, nh_int(block->channel, NH_RING_PREVIOUS), 0, 0, chunk_steps);
    ring.to_next = nh_end_open(block, nh_int(block->channel, NH_RING_NEXT), 1, 0, chunk_steps);
    result = run(&ring, function->collective);
    nh_end_close(&ring.from_previous);
    nh_end_close(&ring.to_next);
    return result;
}
