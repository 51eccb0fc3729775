/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/place.h"

#include <inttypes.h>

#include "base/exit.h"
#include "cli/pipeline/move.h"
#include "cli/pipeline/replicas.h"

void dt_pipeline_place_init(struct dt_pipeline_place *place, const struct dt_pipeline_options *options,
                            unsigned rank)
{
    *place = (struct dt_pipeline_place){.options = options};
    place->home = place->position = dt_pipeline_position_of(options->devices, rank);
    for (unsigned i = 0; i < DT_PIPELINE_RANKS_MAX; i++)
        place->ranks[i] = i;
}

bool dt_pipeline_place_create_parameters(struct dt_pipeline_place *place,
                                         const struct detour_profile *profile)
{
    const struct dt_pipeline_options *options = place->options;
    bool is_needed = options->checkpoints.directory || options->exchanges.count > 0 ||
                     (options->adapt == DT_PIPELINE_ADAPT_CONTROL && options->replicas > 1);

    return !is_needed || dt_pipeline_parameters_create(
                             &place->parameters, place->position.device,
                             dt_pipeline_replicas_gradients(place->options, profile, place->position).places);
}

bool dt_pipeline_place_check_folder(const struct dt_pipeline_place *place, unsigned rank,
                                    struct dt_job_error *error)
{
    const struct dt_pipeline_exchanges *exchanges = &place->options->exchanges;

    return !exchanges->directory[0] || !dt_pipeline_exchanges_name(exchanges, rank) ||
           dt_pipeline_move_check_folder(exchanges->directory, rank, error);
}

struct dt_checkpoint_id dt_pipeline_place_checkpoint(const struct dt_pipeline_place *place,
                                                     uint32_t iterations)
{
    return (struct dt_checkpoint_id){
        .rank = dt_pipeline_rank_of(place->options->devices, place->position),
        .device = place->position.device,
        .microbatches = dt_pipeline_options_share(place->options, place->position.replica, iterations).total,
        .iterations = iterations};
}

void dt_pipeline_place_free(struct dt_pipeline_place *place)
{
    dt_pipeline_parameters_free(&place->parameters);
}

/* The model calculates with what is slow where it is now. */
static bool move_slow(struct dt_pipeline_place *place, uint32_t iteration, struct dt_job_error *error)
{
    const struct dt_pipeline_options *options = place->options;

    place->moved = *options;
    return dt_pipeline_exchanges_move_slow(&options->exchanges, options->devices, options->replicas,
                                           iteration, &options->slow, &place->moved.slow) ||
           dt_job_fail(error, DT_EXIT_USAGE, "--exchange: more than %d slow links or devices of all replicas",
                       DT_PIPELINE_SLOW_MAX);
}

bool dt_pipeline_place_change(struct dt_pipeline_place *place, struct dt_job_rank *job, uint32_t iteration)
{
    const struct dt_pipeline_exchanges *exchanges = &place->options->exchanges;
    const int32_t devices = place->options->devices;
    unsigned position = dt_pipeline_exchanges_position_of(exchanges, job->link->rank, iteration);
    struct dt_pipeline_move move = {.job = job,
                                    .from = place->ranks[position],
                                    .data = place->parameters.elements,
                                    .bytes = place->parameters.count * sizeof *place->parameters.elements,
                                    .directory = exchanges->directory};

    for (unsigned i = 0; i < job->link->ranks; i++)
        place->ranks[i] = dt_pipeline_exchanges_rank_at(exchanges, i, iteration);
    move.to = place->ranks[dt_pipeline_rank_of(devices, place->position)];
    place->position = dt_pipeline_position_of(devices, position);
    return dt_pipeline_move(&move) && move_slow(place, iteration, job->error);
}

bool dt_pipeline_place_check(const struct dt_pipeline_place *place, uint32_t iterations,
                             struct dt_job_error *error)
{
    int32_t microbatches =
        dt_pipeline_options_share(place->options, place->position.replica, iterations).total;
    unsigned rank = place->ranks[dt_pipeline_rank_of(place->options->devices, place->position)];
    uint64_t wrong;

    if (!place->parameters.elements ||
        dt_pipeline_parameters_check(&place->parameters, place->position.device, iterations, microbatches,
                                     &wrong))
        return true;
    return dt_job_fail(error, DT_EXIT_FAILED,
                       "rank %u: parameter %" PRIu64 " of device %" PRId32 " is not what %" PRIu32
                       " iterations make it",
                       rank, wrong, place->position.device, iterations);
}

bool dt_pipeline_place_resume(struct dt_pipeline_place *place, struct dt_job_rank *job, uint32_t *iteration)
{
    struct dt_checkpoint_id id = dt_pipeline_place_checkpoint(place, 0);

    if (!dt_pipeline_checkpoint_begin(&place->options->checkpoints, &id, &place->parameters, job->link,
                                      job->error))
        return false;
    *iteration = id.iterations;
    if (*iteration >= place->options->iterations)
        return dt_job_fail(job->error, DT_EXIT_USAGE,
                           "--resume: the checkpoint is of %" PRIu32
                           " iterations; nothing is left of --iterations %" PRIu32,
                           *iteration, place->options->iterations);
    return dt_pipeline_place_check(place, *iteration, job->error);
}
