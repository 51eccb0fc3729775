/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ring reduce-scatter: each share is reduced on its way around the ring and ends at its rank, chunk by
 * chunk. In place, the output is the rank's own share of the input: that share is read only when its sum is
 * written.
 */
#include "cli/perf/op.h"

/* A slice of `bytes` at `offset` of a share; at hop h this rank has the share of the rank h + 1 before it. */
static void add_slice(const struct dt_perf_shape *shape, unsigned h, size_t offset, size_t bytes,
                      struct dt_perf_actions *actions)
{
    unsigned owner = (shape->rank + 2 * shape->ranks - 1 - h) % shape->ranks;
    bool is_first = h == 0, is_last = h + 1 == shape->ranks;

    dt_perf_actions_add(actions, (struct dt_perf_action){
                                     .bytes = bytes,
                                     .source = owner * shape->count * shape->type->bytes + offset,
                                     .target = is_last ? offset : DT_PERF_NOWHERE,
                                     .receive = !is_first,
                                     .reduce = !is_first,
                                     .send = !is_last,
                                 });
}

static void plan(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions)
{
    (void)program;
    dt_perf_plan_slices(shape, shape->ranks, add_slice, actions);
}

static void layout(const struct dt_perf_shape *shape, struct dt_perf_layout *layout_out)
{
    layout_out->output_bytes = shape->count * shape->type->bytes;
    layout_out->input_bytes = layout_out->output_bytes * shape->ranks;
    layout_out->in_place_offset = layout_out->output_bytes * shape->rank;
}

static void expect(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected)
{
    size_t share = shape->rank * shape->count * shape->type->bytes;

    dt_perf_op_expect_sum(&dt_perf_op_reduce_scatter, shape, iteration, share + offset, bytes, expected);
}

const struct dt_perf_op dt_perf_op_reduce_scatter = {
    .name = "reduce_scatter",
    .summary = "ring reduce-scatter",
    .reduces = true,
    .has_shares = true,
    .has_in_place = true,
    .ranks_min = 2,
    .slices = 2,
    .ll_bytes_per_rank = 96ul * 1024,
    .program_count = dt_perf_one,
    .ends = dt_perf_ends_ring,
    .bus_factor = dt_perf_bus_factor_others,
    .hops = dt_perf_one,
    .layout = layout,
    .plan = plan,
    .expect = expect,
};
