/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hanayo (Liu et al., "Harnessing Wave-like Pipeline Parallelism for Enhanced Large Model Training
 * Efficiency", 2023). The stages go down the devices and up again, once per wave: a device has 2 stages per
 * wave, and the two stages at a turn are on one device, so that nothing is sent there.
 *
 * Every device prefers a backward to a forward, then the older microbatch, then the later stage. As many
 * microbatches are open as there are devices, which is the memory of 1F1B on its first device. The times are
 * those of the profile; the paper derives the same order from equal times.
 */
#include <inttypes.h>

#include "sched/dispatch.h"
#include "sched/generator.h"

static enum detour_status check_waves(struct dt_call *call, const struct dt_problem *p)
{
    int32_t devices = p->device_count;

    if (p->stage_count % (2 * devices))
        return dt_fail(call, DETOUR_UNSUPPORTED,
                       "hanayo needs an even number of stages on each device; %" PRId32
                       " stages are on %" PRId32 " devices",
                       p->stage_count, devices);
    return dt_check_waves(call, p, "hanayo");
}

enum detour_status dt_generate_hanayo(struct dt_call *call, const struct dt_problem *p,
                                      struct dt_result *result)
{
    struct dt_dispatch_rule rule = {.fuse = true, .open_max = p->device_count};
    struct dt_timeline tl;
    int32_t *warmup;

    enum detour_status status = check_waves(call, p);
    if (!status && !dt_arena_new(call->arena, warmup, p->stage_count))
        status = dt_fail_memory(call->error);
    if (!status)
        status = dt_timeline_init(call, p, &tl);
    if (status)
        return status;
    rule.warmup = warmup; /* all 0: a backward always goes first */
    status = dt_dispatch(call, &tl, &rule);
    return status ? status : dt_timeline_finish(call, &tl, &result->schedule);
}
