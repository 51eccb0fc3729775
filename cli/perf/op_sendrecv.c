/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rank sends its buffer to the next rank and receives the previous rank's, both at once; in NCCL's
 * point-to-point chunks of up to 128 KiB, or with --raw as one message.
 */
#include "cli/perf/op.h"

#include "base/util.h"

enum program { SENDS, RECEIVES, PROGRAM_COUNT };

static unsigned program_count(unsigned ranks)
{
    (void)ranks;
    return PROGRAM_COUNT;
}

static struct dt_perf_ends ends(unsigned program)
{
    return (struct dt_perf_ends){
        .send_distance = program == SENDS,
        .receive_distance = program == RECEIVES,
    };
}

static void add(struct dt_perf_actions *actions, unsigned program, size_t offset, size_t bytes)
{
    dt_perf_actions_add(actions, (struct dt_perf_action){
                                     .bytes = bytes,
                                     .source = program == SENDS ? offset : DT_PERF_NOWHERE,
                                     .target = program == RECEIVES ? offset : DT_PERF_NOWHERE,
                                     .receive = program == RECEIVES,
                                     .send = program == SENDS,
                                 });
}

static void plan(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions)
{
    size_t first;
    size_t count = dt_perf_channel_part(shape, shape->count, &first);
    size_t begin = first * shape->type->bytes;
    size_t end = begin + count * shape->type->bytes;

    if (shape->count == 0 && shape->channel == 0)
        add(actions, program, 0, 0); /* a message of 0 bytes is a message */
    for (size_t at = begin; at < end; at += shape->slice_bytes)
        add(actions, program, at, dt_min_u64(shape->slice_bytes, end - at));
}

static void expect(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected)
{
    unsigned from = (shape->rank + shape->ranks - 1) % shape->ranks;

    dt_perf_op_fill(&dt_perf_op_sendrecv, shape->type, from, iteration, offset, bytes, expected);
}

const struct dt_perf_op dt_perf_op_sendrecv = {
    .name = "sendrecv",
    .summary = "each rank sends to the next, receives from the previous",
    .has_raw = true,
    .ranks_min = 1,
    .is_p2p = true,
    .slices = 1,
    .program_count = program_count,
    .ends = ends,
    .bus_factor = dt_perf_bus_factor_one,
    .hops = dt_perf_one,
    .layout = dt_perf_layout_same,
    .plan = plan,
    .expect = expect,
};
