/* SPDX-License-Identifier: Apache-2.0 */
/* Ring broadcast from rank 0, chunk by chunk; the last rank passes nothing on. */
#include "cli/perf/op.h"

static void add_slice(const struct dt_perf_shape *shape, unsigned h, size_t offset, size_t bytes,
                      struct dt_perf_actions *actions)
{
    (void)h;
    dt_perf_actions_add(actions, (struct dt_perf_action){
                                     .bytes = bytes,
                                     .source = shape->rank == 0 ? offset : DT_PERF_NOWHERE,
                                     .target = offset,
                                     .receive = shape->rank != 0,
                                     .send = shape->rank + 1 < shape->ranks,
                                 });
}

static void plan(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions)
{
    (void)program;
    dt_perf_plan_slices(shape, 1, add_slice, actions);
}

static void expect(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected)
{
    dt_perf_op_fill(&dt_perf_op_broadcast, shape->type, 0, iteration, offset, bytes, expected);
}

const struct dt_perf_op dt_perf_op_broadcast = {
    .name = "broadcast",
    .summary = "ring broadcast from rank 0",
    .has_root = true,
    .has_in_place = true,
    .ranks_min = 2,
    .slices = 1,
    .ll_bytes = 128ul * 1024,
    .program_count = dt_perf_one,
    .ends = dt_perf_ends_ring,
    .bus_factor = dt_perf_bus_factor_one,
    .hops = dt_perf_one,
    .layout = dt_perf_layout_same,
    .plan = plan,
    .expect = expect,
};
