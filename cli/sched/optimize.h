/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched optimize`: its parts. Functions that return int return an exit code, after an error line. */
#ifndef DETOUR_CLI_SCHED_OPTIMIZE_H
#define DETOUR_CLI_SCHED_OPTIMIZE_H

#include <stdio.h>

#include "cli/sched/run.h"
#include "detour/optimize.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A run and its result. */
struct dt_optimize_run {
    struct dt_sched_run *run;
    const struct detour_model *model;
    struct detour_optimization *result;
    const struct detour_pipeline *kept; /* of the model without --slow-...; NULL: there are no such options */
    struct detour_model_link *slow_links; /* as the next, freed with the run */
    struct detour_model_device *slow_devices;
};

/* The report as one JSON document. */
int dt_optimize_write_json(const struct dt_optimize_run *r);

/* The table of baselines and result, which layers are on which device, and the schedule, for a terminal. */
int dt_optimize_write_text(const struct dt_optimize_run *r, const struct detour_text *schedule);

/* The model cut into stages on their devices; below it `schedule`, an SVG of its own. */
int dt_optimize_write_svg(const struct dt_optimize_run *r, const struct detour_text *schedule,
                          const char *path);

/*
 * The partition in the syntax of Megatron-LM's --pipeline-model-parallel-layout: E, t, L for the embedding, a
 * decoder layer and the loss with its output layer, stages divided by |. Stage i has to be on device i modulo
 * the devices; else NULL. The caller frees it.
 */
char *dt_optimize_layout(const struct detour_model *model, const struct detour_partition *partition);

#ifdef __cplusplus
}
#endif

#endif
