/* SPDX-License-Identifier: Apache-2.0 */
/* The position of a rank in the grid, which --exchange changes, and the parameters that belong to it. */
#ifndef DETOUR_CLI_PIPELINE_PLACE_H
#define DETOUR_CLI_PIPELINE_PLACE_H

#include "cli/pipeline/options.h"
#include "cli/pipeline/parameters.h"
#include "cli/pipeline/ranks.h"
#include "job/rank.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_place {
    const struct dt_pipeline_options *options;
    struct dt_pipeline_position home; /* at the start: what is slow belongs to it */
    struct dt_pipeline_position position;
    unsigned ranks[DT_PIPELINE_RANKS_MAX];    /* [position]: who is there */
    struct dt_pipeline_parameters parameters; /* --exchange, --checkpoint */
    struct dt_pipeline_options moved;         /* with what is slow where it is now */
};

void dt_pipeline_place_init(struct dt_pipeline_place *place, const struct dt_pipeline_options *options,
                            unsigned rank);

/* With --exchange, --checkpoint, or remedies of a controller: those of the device, a parameter for each
 * gradient. False when out of memory. */
bool dt_pipeline_place_create_parameters(struct dt_pipeline_place *place,
                                         const struct detour_profile *profile);
void dt_pipeline_place_free(struct dt_pipeline_place *place);

/* The start of a run: this rank can write to the folder of the exchanges that name it (,through=DIR). False
 * with the reason in *error. */
bool dt_pipeline_place_check_folder(const struct dt_pipeline_place *place, unsigned rank,
                                    struct dt_job_error *error);

/* The checkpoint of this rank after that many iterations. It belongs to the position: its number is that of
 * the rank which begins there, so that a new run finds it whatever was exchanged. */
struct dt_checkpoint_id dt_pipeline_place_checkpoint(const struct dt_pipeline_place *place,
                                                     uint32_t iterations);

/*
 * Takes the position of that iteration, with its parameters, while no connection is open: every rank calls
 * this. place->moved is then what the model calculates with. False with the reason in job->error.
 */
bool dt_pipeline_place_change(struct dt_pipeline_place *place, struct dt_job_rank *job, uint32_t iteration);

/* After that many iterations every parameter is what it would be without exchanges
 * and restarts. False with the reason in
 * *error. */
bool dt_pipeline_place_check(const struct dt_pipeline_place *place, uint32_t iterations,
                             struct dt_job_error *error);

/* The start of a run: *iteration is its first one, with the parameters of the checkpoint before it, compared
 * with what they are to be; 0: a new run. False with the reason in job->error. */
bool dt_pipeline_place_resume(struct dt_pipeline_place *place, struct dt_job_rank *job, uint32_t *iteration);

#ifdef __cplusplus
}
#endif

#endif
