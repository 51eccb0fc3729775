/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/pool.h"

#include "base/clock.h"
#include "base/util.h"
#include "cli/pipeline/plan.h"
#include "cli/pipeline/replicas.h"

#define POOL_BYTES_MAX    (1ull << 36) /* of the setting, as the next */
#define QUEUES_MAX        16
#define SLICE_BYTES       (512 * 1024) /* of the executor, in the mode nccl */
#define COPY_BYTES_PER_S  1500000000.0 /* of a copy thread at least: docs/benchmarks.md, host path */
#define GRANULES_OF_BYTES 2048         /* of a pool, at least: each transfer is rounded up to a granule */

/* What the flows of a device need in an iteration. */
struct need {
    double messages; /* in the pool at a time */
    double per_ns;   /* made, at the highest rate */
};

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* A flow of messages that are made every interval_ns. */
static void add_flow(const struct detour_profile *profile, int64_t interval_ns, int64_t latency_ns,
                     int64_t serial_ns, struct need *need)
{
    double interval = (double)(interval_ns > 0 ? interval_ns : 1);
    double messages = (double)latency_ns / interval + profile->device_count + 1;

    if ((double)serial_ns > interval)
        messages = profile->microbatch_count;
    need->messages += smaller(messages, profile->microbatch_count);
    need->per_ns += 1 / interval;
}

static struct need need_of(const struct detour_profile *profile, int32_t device)
{
    struct need need = {0};

    for (int32_t i = 0; i + 1 < profile->stage_count; i++) {
        const struct detour_stage *low = &profile->stages[i], *high = low + 1;
        const struct detour_link *link = &profile->links[i];

        if (low->device == high->device)
            continue;
        if (low->device == device)
            add_flow(profile, low->f_ns, link->forward_ns, link->forward_serial_ns, &need);
        if (high->device == device)
            add_flow(profile, high->b_ns, link->backward_ns, link->backward_serial_ns, &need);
    }
    return need;
}

/* What is looked for: the largest need of a device in the iterations that were added. */
struct search {
    const struct dt_pipeline_options *options;
    struct dt_pipeline_position position;
    struct need largest;
};

static bool add_iteration(struct search *search, uint32_t iteration)
{
    struct detour_profile profile;

    if (iteration >= search->options->iterations && iteration > 0)
        return true;
    if (!dt_pipeline_profile_make(search->options, search->position.replica, iteration, &profile))
        return false;
    profile.microbatch_count = dt_pipeline_options_microbatches_max(search->options);
    struct need need = need_of(&profile, search->position.device);
    dt_pipeline_profile_free(&profile);
    search->largest.messages = larger(search->largest.messages, need.messages);
    search->largest.per_ns = larger(search->largest.per_ns, need.per_ns);
    return true;
}

/* The need grows when a link becomes slow, and when a device becomes faster. */
static bool add_all(struct search *search)
{
    const struct dt_pipeline_slow *slow = &search->options->slow;
    bool made = add_iteration(search, 0);

    for (size_t i = 0; made && i < slow->link_count; i++)
        made = add_iteration(search, slow->links[i].period.from);
    for (size_t i = 0; made && i < slow->device_count; i++)
        made = add_iteration(search, slow->devices[i].period.from) &&
               add_iteration(search, slow->devices[i].period.to);
    return made;
}

bool dt_pipeline_pool_make(const struct dt_pipeline_options *options, struct dt_pipeline_position position,
                           uint32_t cores, struct dt_pipeline_pool *pool)
{
    uint64_t slice = options->slice_bytes ? options->slice_bytes : SLICE_BYTES;
    uint64_t piece = options->mode == DT_PIPELINE_NCCL ? dt_min_u64(slice, options->payload_bytes)
                                                       : options->payload_bytes;
    uint32_t share = cores / (uint32_t)(options->devices * options->replicas);
    struct search search = {.options = options, .position = position};

    if (!add_all(&search))
        return false;
    const struct need need = search.largest;
    double pieces = need.messages * (double)((options->payload_bytes + piece - 1) / piece);
    double bytes = need.messages * (double)options->payload_bytes;
    if (options->replicas > 1) {
        pieces += DT_PIPELINE_GRADIENT_SLOTS;
        bytes += DT_PIPELINE_GRADIENT_SLOTS *
                 (double)dt_min_u64(DT_PIPELINE_GRADIENT_SLICE_BYTES, options->gradient_bytes);
    }
    bytes += pieces * larger(bytes / GRANULES_OF_BYTES, 4096);
    double queues = need.per_ns * (double)options->payload_bytes * (double)DT_NS_PER_S / COPY_BYTES_PER_S;
    pool->bytes = dt_align_up((uint64_t)smaller(larger(bytes, (double)DT_PIPELINE_POOL_BYTES_MIN),
                                                (double)POOL_BYTES_MAX - (1 << 20)),
                              1 << 20);
    pool->queues = (uint32_t)smaller(larger(1, queues + 1), smaller(QUEUES_MAX, larger(1, share)));
    return true;
}
