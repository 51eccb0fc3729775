/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measured times of an iteration beside those that the model predicts for the same order of operations
 * and what was slow in that iteration: as SVG, as a trace for Perfetto, as JSON.
 */
#ifndef DETOUR_CLI_PIPELINE_PICTURE_H
#define DETOUR_CLI_PIPELINE_PICTURE_H

#include <jansson.h>

#include "cli/pipeline/plan.h"
#include "cli/pipeline/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_pipeline_picture {
    const struct dt_pipeline_options *options;
    struct detour_arena *arena; /* has the schedules; NULL: there is no picture */
    struct detour_profile profile;
    struct detour_measured measured;
    struct detour_schedule *predicted;
    int64_t makespan_ns; /* of the prediction */
};

/* False with the reason in *error. dt_pipeline_picture_free() in both cases. */
bool dt_pipeline_picture_make(struct dt_pipeline_picture *picture, const struct dt_pipeline_options *options,
                              const struct dt_pipeline_timeline *timeline, struct detour_error *error);

/* DETOUR_FORMAT_SVG or DETOUR_FORMAT_TRACE. False with the reason in *error. The text lives as the picture.
 */
bool dt_pipeline_picture_write(const struct dt_pipeline_picture *picture, enum detour_format format,
                               struct detour_text *text, struct detour_error *error);

/* {"iteration", "operations", "messages"}; NULL when out of memory. */
json_t *dt_pipeline_picture_json(const struct dt_pipeline_picture *picture);

void dt_pipeline_picture_free(struct dt_pipeline_picture *picture);

#ifdef __cplusplus
}
#endif

#endif
