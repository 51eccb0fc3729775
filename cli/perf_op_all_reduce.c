/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring all-reduce in the order of NCCL's ring with its SIMPLE protocol: the data goes through in loops of one
 * chunk per rank; a chunk travels once around while it is added up and once more while it is handed out.
 * A chunk is two slices; a slice is a message of at most 1 MiB, and one of a short chunk may be empty.
 */
#include "cli/perf_op.h"

#include "base/util.h"

enum { SLICES_PER_CHUNK = 2 };

/* Where in the ring's loop an action stands: what it does with the received slice. */
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
    size_t count = dt_min_u64(loop->chunk, loop->count - begin);
    size_t slice = dt_align_up((count + SLICES_PER_CHUNK - 1) / SLICES_PER_CHUNK, 16);

    for (unsigned i = 0; i < SLICES_PER_CHUNK; i++) {
        size_t from = dt_min_u64(count, slice * i);
        size_t to = dt_min_u64(count, from + slice);

        add_slice(loop->actions, hop, (loop->first + begin + from) * element_bytes,
                  (to - from) * element_bytes);
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
    size_t chunk_max = shape->slice_bytes * SLICES_PER_CHUNK / shape->type->bytes;

    (void)program;
    for (size_t done = 0; done < count;) {
        size_t left = count - done;
        size_t chunk = dt_min_u64(chunk_max, dt_align_up((left + shape->ranks - 1) / shape->ranks, 16));
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
    .step_bytes = 512ul * 1024,
    .slice_steps = 2,
    .program_count = dt_perf_one,
    .ends = dt_perf_ends_ring,
    .bus_factor = bus_factor,
    .hops = dt_perf_one,
    .layout = dt_perf_layout_same,
    .plan = plan,
    .expect = expect,
};
