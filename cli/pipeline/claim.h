/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose remedies a runtime directory has: the last job that followed a controller there, by its folder of
 * checkpoints, in the file `remedy-job`. A run that continues a job takes a remedy that it finds only if no
 * other job has been there since. Each rank writes the file in its own runtime directory, as a later run may
 * have rank 0 on another host.
 */
#ifndef DETOUR_CLI_PIPELINE_CLAIM_H
#define DETOUR_CLI_PIPELINE_CLAIM_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_CLAIM_FILE "remedy-job"

/* `checkpoints`: the folder. Also false if nothing can be read. */
bool dt_pipeline_claim_is(const char *checkpoints);

/* As the next run is to find it; NULL: of a job that no run continues. One line on standard error if it
 * cannot be written; without a runtime directory there is nothing to write. */
void dt_pipeline_claim_set(const char *checkpoints);

#ifdef __cplusplus
}
#endif

#endif
