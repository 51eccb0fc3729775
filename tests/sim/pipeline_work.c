/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/pipeline_work.h"

#include "base/check.h"
#include "base/util.h"
#include "pipeline/grid.h"
#include "tests/sim/pipeline_end.h"
#include "transport/protocol/split.h"

#define PIECE_BYTES_MIN (128u << 10) /* transport/message/send_partial.c */
#define STAMP_BYTES_MIN (16u << 10)

uint32_t dt_pipeline_sim_stamp_bytes(const struct dt_pipeline_sim_options *options)
{
    uint32_t piece = dt_split_chunk_bytes((uint32_t)options->message_bytes, PIECE_BYTES_MIN, false);
    uint32_t stamp = DT_PIPELINE_STAMP_EVERY;

    /* A packet that is no longer than a block is carried completely, as all pieces of gradients are. */
    if (options->mode == DT_PIPELINE_NCCL || piece <= DT_PIPELINE_STAMP_EVERY ||
        piece >= options->message_bytes)
        return stamp;
    while (piece % stamp != 0)
        stamp /= 2;
    return stamp < (options->replicas > 1 ? DT_PIPELINE_STAMP_EVERY : STAMP_BYTES_MIN) ? 0 : stamp;
}

/* Replicas of the options, at least one. */
static int32_t replica_count(const struct dt_pipeline_sim_options *options)
{
    return options->replicas ? options->replicas : 1;
}

struct dt_pipeline_share dt_pipeline_sim_share(const struct dt_pipeline_sim_options *options, uint32_t host,
                                               uint32_t iteration)
{
    return dt_pipeline_share_of(&options->shares, replica_count(options), options->profile->microbatch_count,
                                dt_pipeline_position_of(options->program->device_count, host).replica,
                                iteration);
}

static uint32_t permille_of(const struct dt_pipeline_sim_options *options, uint32_t host)
{
    const struct dt_pipeline_position position =
        dt_pipeline_position_of(options->program->device_count, host);
    uint64_t permille = 1000;

    for (uint32_t i = 0; i < options->slow_device_count; i++) {
        const struct dt_pipeline_slow_device *slow = &options->slow_device[i];

        if (slow->device == position.device &&
            (slow->replica == position.replica || slow->replica == DT_PIPELINE_SIM_EVERY_REPLICA))
            permille = permille * slow->permille / 1000;
    }
    return (uint32_t)permille;
}

struct dt_executor_work dt_pipeline_sim_work(const struct dt_pipeline_sim_options *options,
                                             const struct detour_program *program, uint32_t host,
                                             uint32_t iteration)
{
    struct dt_executor_work work = {.profile = options->profile,
                                    .program = program,
                                    .iteration = iteration,
                                    .compute_permille = permille_of(options, host)};
    int32_t count = dt_pipeline_sim_share(options, host, iteration).count;

    for (size_t i = 0; i < options->variant_count; i++) {
        if (options->variants[i].profile.microbatch_count != count)
            continue;
        work.profile = &options->variants[i].profile;
        work.program = options->variants[i].program;
    }
    DT_CHECK(work.profile->microbatch_count == count);
    return work;
}

struct dt_gradients_options dt_pipeline_sim_gradients(const struct dt_pipeline_sim_options *options,
                                                      struct dt_pipeline_position position)
{
    return (struct dt_gradients_options){
        .device = position.device,
        .replica = position.replica,
        .replicas = options->replicas,
        .places = dt_align_up(options->gradient_bytes, DT_PIPELINE_STAMP_EVERY) / DT_PIPELINE_STAMP_EVERY,
        .place_bytes = DT_PIPELINE_STAMP_EVERY,
        .kept_bytes = DT_SIM_STAMP_BYTES,
        .slice_bytes = DT_PIPELINE_SIM_SLICE_BYTES,
        .slots =
            (uint32_t)dt_max_u64(1, options->slots * options->slice_bytes / DT_PIPELINE_SIM_SLICE_BYTES)};
}

uint64_t dt_pipeline_sim_slice_delay_ns(const struct dt_pipeline_sim_options *options,
                                        const struct dt_pipeline_slow_link *slow)
{
    return slow->is_serial ? slow->delay_ns * DT_PIPELINE_SIM_SLICE_BYTES / options->message_bytes
                           : slow->delay_ns;
}
