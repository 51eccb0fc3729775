/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An exchange at the launcher: the parts of all ranks, and the answer to each of them.
 *
 *   kind                     a rank gives              a rank gets
 *   DT_JOB_FRAME_EXCHANGE    as many bytes as all      all parts in rank order
 *   DT_JOB_FRAME_GATHER      as many bytes as all      rank 0: all parts in rank order; the others: nothing
 *   DT_JOB_FRAME_DELIVER     records                   the records for it, by the ranks that they are from
 *
 * A delivery's part is struct dt_job_delivery and then its records, each with struct dt_job_record at its
 * begin. A part has at most DT_JOB_FRAME_BYTES_MAX divided by the number of ranks: all parts together, and so
 * each answer, fit in one frame.
 *
 * Pure. Owner: the launcher's thread.
 */
#ifndef DETOUR_JOB_EXCHANGE_H
#define DETOUR_JOB_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "job/error.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_job_delivery {
    uint32_t record_bytes; /* with struct dt_job_record; the same for all ranks */
};

struct dt_job_record {
    uint32_t rank; /* that the record is for; where it arrives: that it is from */
};

struct dt_job_part {
    uint32_t kind; /* 0: not there yet */
    uint32_t bytes;
    void *data; /* malloc'ed */
};

/* Zero is the state before dt_job_parts_init(). */
struct dt_job_parts {
    unsigned ranks;
    unsigned missing;         /* parts of this exchange */
    struct dt_job_part *part; /* [rank] */
    /* The answers, once they are made. */
    char *all;
    size_t *first; /* [rank]: of a delivery, where the records for the rank begin; [ranks]: their end */
};

/* The bytes that a part may have. */
size_t dt_job_part_bytes_max(unsigned ranks);

/* False: out of memory. */
bool dt_job_parts_init(struct dt_job_parts *parts, unsigned ranks);
void dt_job_parts_free(struct dt_job_parts *parts);

/*
 * Takes the part of a rank; `payload` is malloc'ed and belongs to the exchange from now on, also after an
 * error: a part that is too large, or a second one of the same rank.
 */
bool dt_job_parts_take(struct dt_job_parts *parts, unsigned rank, unsigned kind, void *payload, size_t bytes,
                       struct dt_job_error *error);

/*
 * Makes the answers once no part is missing. False, with an error that names a rank: the parts differ in kind
 * or size, or a delivery is malformed.
 */
bool dt_job_parts_answer(struct dt_job_parts *parts, struct dt_job_error *error);

/* The answer to a rank: a frame of the parts' kind. Valid until dt_job_parts_clear(). */
const void *dt_job_parts_for(const struct dt_job_parts *parts, unsigned rank, size_t *bytes);

/* Ends the exchange: all parts are missing again. */
void dt_job_parts_clear(struct dt_job_parts *parts);

#ifdef __cplusplus
}
#endif

#endif
