/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/replicas.h"

#include "pipeline/ring_model.h"

struct dt_gradients_options dt_pipeline_replicas_gradients(const struct dt_pipeline_options *options,
                                                           const struct detour_profile *profile,
                                                           struct dt_pipeline_position position)
{
    uint64_t stages = 0;

    for (int32_t i = 0; i < profile->stage_count; i++)
        stages += profile->stages[i].device == position.device;
    return (struct dt_gradients_options){.device = position.device,
                                         .replica = position.replica,
                                         .replicas = options->replicas,
                                         .places =
                                             stages * options->gradient_bytes / DT_GRADIENTS_ELEMENT_BYTES,
                                         .place_bytes = DT_GRADIENTS_ELEMENT_BYTES,
                                         .kept_bytes = DT_GRADIENTS_ELEMENT_BYTES,
                                         .slice_bytes = DT_PIPELINE_GRADIENT_SLICE_BYTES,
                                         .slots = DT_PIPELINE_GRADIENT_SLOTS};
}

/* From a replica of the device to the next one. */
static struct dt_ring_link link_of(const struct dt_pipeline_slow *slow, uint32_t iteration,
                                   struct dt_pipeline_position from, int32_t replicas)
{
    struct dt_pipeline_position to = {from.device, (from.replica + 1) % replicas};
    struct dt_ring_link link = {0};

    for (size_t i = 0; i < slow->link_count; i++) {
        const struct dt_pipeline_slow_link *one = &slow->links[i];

        if (dt_pipeline_period_has(&one->period, iteration) && dt_pipeline_slow_link_joins(one, from, to))
            *(one->serial ? &link.serial_ns : &link.latency_ns) += one->delay_ns;
    }
    return link;
}

static int64_t ring_end_ns(const struct dt_pipeline_options *options, const struct detour_profile *profile,
                           int32_t device, uint32_t iteration, const int64_t *ended_ns)
{
    struct dt_pipeline_position position = {device, 0};
    struct dt_gradients_options gradients = dt_pipeline_replicas_gradients(options, profile, position);
    struct dt_ring_link links[DT_PIPELINE_RANKS_MAX];
    int64_t column_ns[DT_PIPELINE_RANKS_MAX];
    const struct dt_ring ring = {.replicas = options->replicas,
                                 .slices = dt_gradients_slices(&gradients),
                                 .slots = gradients.slots,
                                 .links = links};

    for (; position.replica < options->replicas; position.replica++) {
        links[position.replica] = link_of(&options->slow, iteration, position, options->replicas);
        column_ns[position.replica] = ended_ns[dt_pipeline_rank_of(options->devices, position)];
    }
    return dt_ring_end_ns(&ring, column_ns);
}

int64_t dt_pipeline_replicas_end_ns(const struct dt_pipeline_options *options,
                                    const struct detour_profile *profile, uint32_t iteration,
                                    const int64_t *ended_ns)
{
    int64_t last_ns = 0;

    for (int32_t device = 0; device < options->devices; device++) {
        int64_t end_ns = options->replicas > 1 ? ring_end_ns(options, profile, device, iteration, ended_ns)
                                               : ended_ns[device];

        if (end_ns < 0)
            return -1;
        last_ns = end_ns > last_ns ? end_ns : last_ns;
    }
    return last_ns;
}
