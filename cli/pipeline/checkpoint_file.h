/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checkpoint of a rank: a file with the parameters of its device after a number of iterations. It is
 * written to a temporary file of the same folder, to the disk, and renamed; so a file under its final name is
 * complete. The folder may be the same for all ranks, or of each host.
 *
 *   checkpoint-RANK.ITERATIONS   a header and the parameters, in the machine's byte order
 *   checkpoint-RANK.new          being written
 *   checkpoint-now               a request for an early checkpoint; its content does not matter
 *
 * Files are input like any other: one that is damaged, truncated or of another job is refused. No threads.
 */
#ifndef DETOUR_CLI_PIPELINE_CHECKPOINT_FILE_H
#define DETOUR_CLI_PIPELINE_CHECKPOINT_FILE_H

#include "cli/pipeline/parameters.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_CHECKPOINT_REQUEST      "checkpoint-now"
#define DT_CHECKPOINT_REASON_BYTES 192
#define DT_CHECKPOINT_LIST_MAX     8

/* What a file is of; all of it is in the header. */
struct dt_checkpoint_id {
    uint32_t rank;
    int32_t device;
    int32_t microbatches; /* of all replicas, of an iteration */
    uint32_t iterations;  /* that the parameters have had */
};

/* False with one line in `reason`, and no new file. */
bool dt_checkpoint_write(const char *directory, const struct dt_checkpoint_id *id,
                         const struct dt_pipeline_parameters *parameters,
                         char reason[DT_CHECKPOINT_REASON_BYTES]);

/* Replaces the elements; parameters->count is what the file must have. False with one line in `reason`, and
 * undefined elements. */
bool dt_checkpoint_read(const char *directory, const struct dt_checkpoint_id *id,
                        struct dt_pipeline_parameters *parameters, char reason[DT_CHECKPOINT_REASON_BYTES]);

/* The iterations of a rank's files by their names, the largest ones, in descending order. -1: the folder
 * cannot be read; one line in `reason`. */
int dt_checkpoint_list(const char *directory, uint32_t rank, uint32_t list[DT_CHECKPOINT_LIST_MAX],
                       char reason[DT_CHECKPOINT_REASON_BYTES]);

void dt_checkpoint_remove(const char *directory, uint32_t rank, uint32_t iterations);

/* Takes a request: true for one caller, which has removed the file. */
bool dt_checkpoint_take_request(const char *directory);

#ifdef __cplusplus
}
#endif

#endif
