/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One message travels around the ranks; the reported time is that of one hop: one-way latency, including
 * the copies into and out of the slot that a GPU kernel would make.
 */
#include "cli/perf/op.h"

static unsigned hops(unsigned ranks)
{
    return ranks;
}

static void plan(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions)
{
    size_t bytes = shape->count * shape->type->bytes;

    (void)program;
    if (shape->channel)
        return;
    if (shape->rank) {
        dt_perf_actions_add(
            actions,
            (struct dt_perf_action){
                .bytes = bytes, .source = DT_PERF_NOWHERE, .target = 0, .receive = true, .send = true});
        return;
    }
    dt_perf_actions_add(actions, (struct dt_perf_action){
                                     .bytes = bytes, .source = 0, .target = DT_PERF_NOWHERE, .send = true});
    dt_perf_actions_add(
        actions,
        (struct dt_perf_action){.bytes = bytes, .source = DT_PERF_NOWHERE, .target = 0, .receive = true});
}

static void expect(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected)
{
    dt_perf_op_fill(&dt_perf_op_latency, shape->type, 0, iteration, offset, bytes, expected);
}

const struct dt_perf_op dt_perf_op_latency = {
    .name = "latency",
    .summary = "one message round all ranks; the time of one hop",
    .ranks_min = 2,
    .channels_max = 1,
    .bytes_max = 128ul * 1024,
    .is_p2p = true,
    .is_whole = true,
    .slices = 1,
    .program_count = dt_perf_one,
    .ends = dt_perf_ends_ring,
    .bus_factor = dt_perf_bus_factor_one,
    .hops = hops,
    .layout = dt_perf_layout_same,
    .plan = plan,
    .expect = expect,
};
