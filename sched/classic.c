/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules with fused W and a fixed pattern: GPipe and 1F1B. */
#include <inttypes.h>

#include "sched/generator.h"
#include "sched/schedule.h"

/* Huang et al., "GPipe", 2019. With several stages on a device the forwards go stage by stage. */
enum detour_status dt_generate_gpipe(struct dt_call *call, const struct dt_problem *p,
                                     struct dt_result *result)
{
    struct dt_builder builder;
    enum detour_status status = dt_builder_init(call, p, &builder);

    if (status)
        return status;
    for (int32_t i = 0; i < p->stage_count; i++)
        for (int32_t j = 0; j < p->microbatch_count; j++)
            dt_builder_push(&builder, DETOUR_OP_F, i, j);
    for (int32_t i = p->stage_count - 1; i >= 0; i--)
        for (int32_t j = 0; j < p->microbatch_count; j++)
            dt_builder_push(&builder, DETOUR_OP_BW, i, j);
    return dt_builder_finish(call, &builder, &result->schedule);
}

/*
 * Narayanan et al., "PipeDream", 2019, with a flush: stage i runs S - i forwards ahead and then alternates,
 * so it holds no more than S - i activations.
 */
enum detour_status dt_generate_1f1b(struct dt_call *call, const struct dt_problem *p,
                                    struct dt_result *result)
{
    struct dt_builder builder;

    if (!p->one_stage_per_device)
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "1f1b needs one stage per device; %" PRId32 " stages are on %" PRId32
                       " devices (interleaved is its form for that)",
                       p->stage_count, p->device_count);
    enum detour_status status = dt_builder_init(call, p, &builder);
    if (status)
        return status;
    for (int32_t i = 0; i < p->stage_count; i++) {
        int32_t forward = 0;
        for (int32_t j = 0; j < p->microbatch_count; j++) {
            while (forward < p->microbatch_count && forward < j + p->stage_count - i)
                dt_builder_push(&builder, DETOUR_OP_F, i, forward++);
            dt_builder_push(&builder, DETOUR_OP_BW, i, j);
        }
    }
    return dt_builder_finish(call, &builder, &result->schedule);
}
