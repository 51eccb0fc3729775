/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every rank sends a different share to each other rank, all at once, in NCCL's point-to-point chunks of
 * up to 128 KiB. Program 0 copies the local share; then each distance has a sending and a receiving program.
 */
#include "cli/perf/op.h"

#include "base/util.h"

static unsigned program_count(unsigned ranks)
{
    return 1 + 2 * (ranks - 1);
}

static unsigned distance_of(unsigned program)
{
    return (program + 1) / 2;
}

static bool sends(unsigned program)
{
    return program % 2 == 1;
}

static struct dt_perf_ends ends(unsigned program)
{
    return (struct dt_perf_ends){
        .send_distance = sends(program) ? distance_of(program) : 0,
        .receive_distance = sends(program) ? 0 : distance_of(program),
    };
}

static void plan(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions)
{
    unsigned distance = distance_of(program);
    unsigned to = (shape->rank + distance) % shape->ranks;
    unsigned from = (shape->rank + shape->ranks - distance) % shape->ranks;
    bool receives = !sends(program) && distance > 0;
    size_t share_bytes = shape->count * shape->type->bytes, first;
    size_t count = dt_perf_channel_part(shape, shape->count, &first);
    size_t begin = first * shape->type->bytes, end = begin + count * shape->type->bytes;

    for (size_t at = begin; at < end; at += shape->slice_bytes)
        dt_perf_actions_add(actions, (struct dt_perf_action){
                                         .bytes = dt_min_u64(shape->slice_bytes, end - at),
                                         .source = receives ? DT_PERF_NOWHERE : to * share_bytes + at,
                                         .target = sends(program) ? DT_PERF_NOWHERE : from * share_bytes + at,
                                         .receive = receives,
                                         .send = sends(program),
                                     });
}

static void layout(const struct dt_perf_shape *shape, struct dt_perf_layout *layout_out)
{
    layout_out->input_bytes = layout_out->output_bytes = shape->count * shape->type->bytes * shape->ranks;
    layout_out->in_place_offset = 0;
}

static void expect(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected)
{
    size_t share_bytes = shape->count * shape->type->bytes;

    for (size_t done = 0; done < bytes;) {
        unsigned from = (unsigned)((offset + done) / share_bytes);
        size_t at = (offset + done) % share_bytes;
        size_t part = dt_min_u64(bytes - done, share_bytes - at);

        dt_perf_op_fill(&dt_perf_op_alltoall, shape->type, from, iteration, shape->rank * share_bytes + at,
                        part, (char *)expected + done);
        done += part;
    }
}

const struct dt_perf_op dt_perf_op_alltoall = {
    .name = "alltoall",
    .summary = "each rank sends a share to each other one",
    .has_shares = true,
    .ranks_min = 2,
    .is_p2p = true,
    .slices = 1,
    .program_count = program_count,
    .ends = ends,
    .bus_factor = dt_perf_bus_factor_others,
    .hops = dt_perf_one,
    .layout = layout,
    .plan = plan,
    .expect = expect,
};
