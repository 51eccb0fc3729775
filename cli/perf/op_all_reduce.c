/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring all-reduce in the order of NCCL's ring: the data passes in loops of one chunk per rank; a chunk
 * travels around the ring once to be reduced and once to be distributed. With the Simple protocol a chunk is
 * two slices; a slice is a message of at most 1 MiB, and a slice of a short chunk may be empty.
 */
#include "cli/perf/op.h"

#include "base/util.h"

enum { CHUNK_ALIGN_BYTES = 16 };

/* Position of an action in the ring's loop: how the received slice is used. */
enum hop { FIRST_SEND, ADD_AND_SEND, ADD_LAST, COPY_AND_SEND, COPY_LAST };

struct loop {
    const struct dt_perf_shape *shape;
    struct dt_perf_actions *actions;
    size_t first; /* element */
    size_t count; /* elements of this loop, all ranks together */
    size_t chunk; /* elements of one rank's chunk */
};

static void add_slice(struct dt_perf_actions *actions, enum hop hop, size_t offset, size_t bytes)
{
    bool adds = hop == ADD_AND_SEND || hop == ADD_LAST;
    bool writes = hop == ADD_LAST || hop == COPY_AND_SEND || hop == COPY_LAST;

    dt_perf_actions_add(actions, (struct dt_perf_action){
                                     .bytes = bytes,
                                     .source = hop == FIRST_SEND || adds ? offset : DT_PERF_NOWHERE,
                                     .target = writes ? offset : DT_PERF_NOWHERE,
                                     .receive = hop != FIRST_SEND,
                                     .reduce = adds,
                                     .send = hop != COPY_LAST,
                                 });
}

/* The slices of chunk number `index`, which may lie partly or wholly beyond the end of the data. */
static void add_chunk(const struct loop *loop, enum hop hop, unsigned index)
{
    size_t element_bytes = loop->shape->type->bytes;
    size_t begin = dt_min_u64(loop->count, loop->chunk * (index % loop->shape->ranks));
    size_t bytes = dt_min_u64(loop->chunk, loop->count - begin) * element_bytes, done = 0;

    for (unsigned i = 0; i < loop->shape->slices; i++) {
        size_t slice = dt_perf_slice_of(loop->shape, bytes, bytes - done);

        add_slice(loop->actions, hop, (loop->first + begin) * element_bytes + done, slice);
        done += slice;
    }
}

static void plan_loop(const struct loop *loop)
{
    unsigned ranks = loop->shape->ranks;
    unsigned rank = loop->shape->rank;

    add_chunk(loop, FIRST_SEND, rank + ranks - 1);
    for (unsigned step = 2; step < ranks; step++)
        add_chunk(loop, ADD_AND_SEND, rank + ranks - step);
    add_chunk(loop, ADD_LAST, rank);
    for (unsigned step = 1; step < ranks - 1; step++)
        add_chunk(loop, COPY_AND_SEND, rank + ranks - step);
    add_chunk(loop, COPY_LAST, rank + 1);
}

static void plan(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions)
{
    size_t first;
    size_t count = dt_perf_channel_part(shape, shape->count, &first);
    size_t chunk_max = shape->slice_bytes * shape->slices / shape->type->bytes;
    size_t align = CHUNK_ALIGN_BYTES / shape->type->bytes;

    (void)program;
    for (size_t done = 0; done < count;) {
        size_t left = count - done;
        size_t chunk = dt_min_u64(chunk_max, dt_align_up((left + shape->ranks - 1) / shape->ranks, align));
        struct loop loop = {shape, actions, first + done, dt_min_u64(left, chunk * shape->ranks), chunk};

        plan_loop(&loop);
        done += loop.count;
    }
}

static void expect(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected)
{
    dt_perf_op_expect_sum(&dt_perf_op_all_reduce, shape, iteration, offset, bytes, expected);
}

/* Each byte crosses a link 2 (n-1)/n times. */
static double bus_factor(unsigned ranks)
{
    return 2.0 * (ranks - 1) / ranks;
}

const struct dt_perf_op dt_perf_op_all_reduce = {
    .name = "all_reduce",
    .summary = "ring all-reduce",
    .reduces = true,
    .has_in_place = true,
    .ranks_min = 2,
    .slices = 2,
    .ll_bytes = 160ul * 1024,
    .ll_bytes_per_rank = 120ul * 1024,
    .program_count = dt_perf_one,
    .ends = dt_perf_ends_ring,
    .bus_factor = bus_factor,
    .hops = dt_perf_one,
    .layout = dt_perf_layout_same,
    .plan = plan,
    .expect = expect,
};
