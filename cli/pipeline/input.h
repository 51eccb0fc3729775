/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of `detour pipeline`: a profile (--profile) and a schedule for it (--plan), as `detour sched
 * plan` and `detour sched optimize` write them.
 */
#ifndef DETOUR_CLI_PIPELINE_INPUT_H
#define DETOUR_CLI_PIPELINE_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/pipeline/ranks.h"
#include "detour/sched_format.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_STAGES_MAX (2 * DT_PIPELINE_RANKS_MAX)

struct dt_pipeline_input {
    struct detour_arena *arena;           /* has what the members below point to; NULL: no file was read */
    const struct detour_profile *profile; /* &unified; NULL: the options describe it */
    struct detour_schedule *schedule;     /* NULL: --schedule names an algorithm */
    uint64_t digest;                      /* of the files' bytes */
    struct detour_profile unified;
    struct detour_link links[DT_PIPELINE_STAGES_MAX];
};

/*
 * Reads the profile and, unless its path is NULL, the schedule. Links between the same two devices get the
 * largest of their delays, since a run delays all messages from one device to another alike. False with the
 * reason in *error: a file that cannot be read, is not a document of that kind, or is too large for a run.
 * dt_pipeline_input_free() in both cases. *input must not be moved.
 */
bool dt_pipeline_input_read(struct dt_pipeline_input *input, const char *profile_path, const char *plan_path,
                            struct detour_error *error);
void dt_pipeline_input_free(struct dt_pipeline_input *input);

#ifdef __cplusplus
}
#endif

#endif
