/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints of a job, between two iterations: every rank writes its file (checkpoint_file.h), and all ranks
 * exchange whether it is on the disk. Only then do they remove the files of the checkpoint before. So at any
 * time there is an iteration of which all ranks have a file, once the first checkpoint has been made; a job
 * resumes from the newest one. A checkpoint that one rank cannot write is discarded by all, and the job goes
 * on.
 *
 * Main thread of a rank; all ranks call these functions at the same point.
 */
#ifndef DETOUR_CLI_PIPELINE_CHECKPOINT_H
#define DETOUR_CLI_PIPELINE_CHECKPOINT_H

#include "cli/pipeline/checkpoint_file.h"
#include "job/error.h"
#include "job/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* --checkpoint, --every, --resume. */
struct dt_pipeline_checkpoints {
    const char *directory; /* NULL: none are made */
    uint32_t every;        /* iterations; 0: only on request */
    bool resumes;
};

enum dt_pipeline_checkpoint_kind {
    DT_PIPELINE_CHECKPOINT_NONE,
    DT_PIPELINE_CHECKPOINT_PERIODIC,
    DT_PIPELINE_CHECKPOINT_EARLY,  /* on request */
    DT_PIPELINE_CHECKPOINT_FAILED, /* a rank could not write its file */
};

/* What is due after `iterations` iterations; `is_requested`: at any rank. */
enum dt_pipeline_checkpoint_kind dt_pipeline_checkpoint_due(const struct dt_pipeline_checkpoints *checkpoints,
                                                            uint32_t iterations, bool is_requested);

/*
 * Makes a checkpoint of id->iterations. *kind becomes FAILED, with the first rank's reason in `reason`, when
 * it is not made. False, with *error: the job has ended.
 */
bool dt_pipeline_checkpoint_save(const struct dt_pipeline_checkpoints *checkpoints,
                                 const struct dt_checkpoint_id *id,
                                 const struct dt_pipeline_parameters *parameters, struct dt_job_link *link,
                                 enum dt_pipeline_checkpoint_kind *kind,
                                 char reason[DT_CHECKPOINT_REASON_BYTES], struct dt_job_error *error);

/*
 * The start of a run. With --resume: reads the newest checkpoint that all ranks have, whose iterations go to
 * id->iterations; 0, with the parameters as they are, if no rank has any. Without: there must be none.
 * False with the reason in *error.
 */
bool dt_pipeline_checkpoint_begin(const struct dt_pipeline_checkpoints *checkpoints,
                                  struct dt_checkpoint_id *id, struct dt_pipeline_parameters *parameters,
                                  struct dt_job_link *link, struct dt_job_error *error);

/* What a rank has at the start. */
struct dt_pipeline_checkpoint_offer {
    uint32_t files;                          /* by name */
    uint32_t count;                          /* of these, valid ones */
    uint32_t valid[DT_CHECKPOINT_LIST_MAX];  /* iterations, descending */
    char reason[DT_CHECKPOINT_REASON_BYTES]; /* why the newest invalid file is refused; "": none is */
};

/* The largest number of iterations that all ranks offer; 0: there is none. Pure. */
uint32_t dt_pipeline_checkpoint_newest_of_all(const struct dt_pipeline_checkpoint_offer *offers,
                                              unsigned ranks);

#ifdef __cplusplus
}
#endif

#endif
