/* SPDX-License-Identifier: Apache-2.0 */
/* Ring all-gather: each rank's share travels once around, chunk by chunk. */
#include "cli/perf/op.h"

#include "base/util.h"

enum hop { FIRST_SEND, COPY_AND_SEND, COPY_LAST };

/* A slice of `bytes` at `offset` of a share; hop h brings the share of the rank h before. */
static void add_slice(const struct dt_perf_shape *shape, unsigned h, size_t offset, size_t bytes,
                      struct dt_perf_actions *actions)
{
    unsigned owner = (shape->rank + shape->ranks - h) % shape->ranks;
    enum hop hop = h == 0 ? FIRST_SEND : h + 1 < shape->ranks ? COPY_AND_SEND : COPY_LAST;

    dt_perf_actions_add(actions, (struct dt_perf_action){
                                     .bytes = bytes,
                                     .source = hop == FIRST_SEND ? offset : DT_PERF_NOWHERE,
                                     .target = owner * shape->count * shape->type->bytes + offset,
                                     .receive = hop != FIRST_SEND,
                                     .send = hop != COPY_LAST,
                                 });
}

static void plan(const struct dt_perf_shape *shape, unsigned program, struct dt_perf_actions *actions)
{
    (void)program;
    dt_perf_plan_slices(shape, shape->ranks, add_slice, actions);
}

static void layout(const struct dt_perf_shape *shape, struct dt_perf_layout *layout_out)
{
    layout_out->input_bytes = shape->count * shape->type->bytes;
    layout_out->output_bytes = layout_out->input_bytes * shape->ranks;
    layout_out->in_place_offset = layout_out->input_bytes * shape->rank;
}

static void expect(const struct dt_perf_shape *shape, uint64_t iteration, size_t offset, size_t bytes,
                   void *expected)
{
    size_t share_bytes = shape->count * shape->type->bytes;

    for (size_t done = 0; done < bytes;) {
        unsigned owner = (unsigned)((offset + done) / share_bytes);
        size_t at = (offset + done) % share_bytes;
        size_t part = dt_min_u64(bytes - done, share_bytes - at);

        dt_perf_op_fill(&dt_perf_op_all_gather, shape->type, owner, iteration, at, part,
                        (char *)expected + done);
        done += part;
    }
}

const struct dt_perf_op dt_perf_op_all_gather = {
    .name = "all_gather",
    .summary = "ring all-gather",
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
