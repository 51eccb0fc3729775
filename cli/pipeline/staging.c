/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/staging.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/param.h"
#include "cli/pipeline/pool.h"
#include "obs/command.h"

#define CONFIRM_COUNT 2

/* The memory and threads that the rank's links need. */
static bool set_pool(const struct dt_pipeline_options *options, struct dt_pipeline_position position)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    struct dt_pipeline_pool pool;
    char text[24];

    if (!dt_pipeline_pool_make(options, position, cores > 0 ? (uint32_t)cores : 1, &pool))
        return false;
    snprintf(text, sizeof text, "%" PRIu64, pool.bytes);
    setenv("DETOUR_HOSTPATH_BYTES", text, 0);
    snprintf(text, sizeof text, "%" PRIu32, pool.queues);
    setenv("DETOUR_HOSTPATH_QUEUES", text, 0);
    return true;
}

bool dt_pipeline_staging_prepare(struct dt_pipeline_staging *staging,
                                 const struct dt_pipeline_options *options,
                                 struct dt_pipeline_position position)
{
    *staging = (struct dt_pipeline_staging){0};
    if (options->mode != DT_PIPELINE_NCCL) {
        setenv("DETOUR_HOSTPATH", "on", 0);
    } else if (options->adapt && !dt_getenv_process(NULL, "DETOUR_HOSTPATH")) {
        staging->is_switched = true;
        setenv("DETOUR_HOSTPATH", "auto", 1); /* sets memory aside; dt_pipeline_staging_start() follows */
    }
    return set_pool(options, position);
}

bool dt_pipeline_staging_start(const struct dt_pipeline_staging *staging, struct dt_job_error *error)
{
    char answer[DT_COMMAND_ANSWER_BYTES];

    return !staging->is_switched || dt_pipeline_rules_order("hostpath off", answer, error);
}

static int64_t longest_ns(const struct detour_stage *stage)
{
    return stage->f_ns > stage->b_ns ? stage->f_ns : stage->b_ns;
}

/* A delay of the link behind stage i. */
static bool matters(const struct detour_profile *profile, int32_t i, int64_t delay_ns)
{
    int64_t low_ns = longest_ns(&profile->stages[i]), high_ns = longest_ns(&profile->stages[i + 1]);

    return delay_ns > (low_ns > high_ns ? low_ns : high_ns) / 1000 * DT_PIPELINE_CHANGE_PERMILLE;
}

bool dt_pipeline_staging_needs(const struct detour_profile *profile, const struct dt_pipeline_delays *delays,
                               int32_t from, int32_t to)
{
    for (int32_t i = 0; i < delays->link_count; i++) {
        int32_t low = profile->stages[i].device, high = profile->stages[i + 1].device;

        if ((low == from && high == to && matters(profile, i, delays->forward_ns[i])) ||
            (high == from && low == to && matters(profile, i, delays->backward_ns[i])))
            return true;
    }
    return false;
}

bool dt_pipeline_staging_differ(const struct detour_profile *profile, const struct dt_pipeline_delays *a,
                                const struct dt_pipeline_delays *b)
{
    for (int32_t i = 0; i + 1 < profile->stage_count; i++) {
        int32_t low = profile->stages[i].device, high = profile->stages[i + 1].device;

        if (dt_pipeline_staging_needs(profile, a, low, high) !=
                dt_pipeline_staging_needs(profile, b, low, high) ||
            dt_pipeline_staging_needs(profile, a, high, low) !=
                dt_pipeline_staging_needs(profile, b, high, low))
            return true;
    }
    return false;
}

bool dt_pipeline_staging_changes(struct dt_pipeline_staging *staging, const struct detour_profile *profile,
                                 const struct dt_pipeline_delays *agreed,
                                 const struct dt_pipeline_delays *measured)
{
    staging->changes = staging->is_switched && dt_pipeline_staging_differ(profile, agreed, measured)
                           ? staging->changes + 1
                           : 0;
    if (staging->changes < CONFIRM_COUNT)
        return false;
    staging->changes = 0;
    return true;
}

bool dt_pipeline_staging_set(struct dt_pipeline_staging *staging, const struct detour_profile *profile,
                             const struct dt_pipeline_delays *agreed, uint32_t position,
                             const unsigned *ranks, const struct dt_pipeline_process *processes,
                             struct dt_job_error *error)
{
    const uint32_t devices = (uint32_t)profile->device_count, first = position - position % devices;

    for (uint32_t device = 0; staging->is_switched && device < devices; device++) {
        bool is_on = dt_pipeline_staging_needs(profile, agreed, (int32_t)(position - first), (int32_t)device);
        unsigned peer = ranks[first + device];
        char line[sizeof processes->name + 32], answer[DT_COMMAND_ANSWER_BYTES];

        if (is_on == staging->is_on[peer])
            continue;
        snprintf(line, sizeof line, "hostpath %s peer=%s", is_on ? "on" : "off", processes[peer].name);
        if (!dt_pipeline_rules_order(line, answer, error))
            return false;
        staging->is_on[peer] = is_on;
    }
    return true;
}

void dt_pipeline_staging_reset(struct dt_pipeline_staging *staging)
{
    memset(staging->is_on, 0, sizeof staging->is_on);
}

uint32_t dt_pipeline_staging_flows(const struct dt_pipeline_staging *staging,
                                   const struct detour_profile *profile,
                                   const struct dt_pipeline_delays *agreed, const unsigned *ranks,
                                   uint32_t rank_count,
                                   struct dt_pipeline_flow flows[DT_PIPELINE_FLOWS_SHOWN])
{
    const uint32_t devices = (uint32_t)profile->device_count;
    uint32_t count = 0;

    for (uint32_t from = 0; staging->is_switched && from < rank_count; from++) {
        for (uint32_t device = 0; device < devices && count < DT_PIPELINE_FLOWS_SHOWN; device++) {
            if (dt_pipeline_staging_needs(profile, agreed, (int32_t)(from % devices), (int32_t)device))
                flows[count++] = (struct dt_pipeline_flow){
                    .from = (int32_t)ranks[from], .to = (int32_t)ranks[from - from % devices + device]};
        }
    }
    return count;
}
