/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stage of a sender: copies into the pool, and how far they have come. All functions: owner of the
 * connection, unless they say otherwise.
 */
#ifndef DETOUR_HOSTPATH_STAGED_STAGE_COPY_H
#define DETOUR_HOSTPATH_STAGED_STAGE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "hostpath/staged/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Starts to copy the payload into the pool. A small one is copied at once. */
void dt_stage_copy_start(struct dt_stage *stage, struct dt_staged *entry, const void *data);
/* Copies one piece on the calling thread, if delegates have not claimed all of them. */
void dt_stage_copy_help(struct dt_staged *entry);
/* The copy is over, and not all bytes are there: fails the connection, and is true. */
bool dt_stage_copy_has_failed(const struct dt_staged *entry);
/* All of it is in the pool. If it never will be the connection fails. */
bool dt_stage_is_copied(const struct dt_staged *entry);
/* Bytes from the first one on that are in the pool. */
uint64_t dt_stage_copied_bytes(const struct dt_staged *entry);
/*
 * Waits until no copy reads a caller's memory, which takes as long as the copies do. Not on NCCL's progress
 * thread; no other thread may stage meanwhile.
 */
void dt_stage_finish_copies(struct dt_stage *stage);

#ifdef __cplusplus
}
#endif

#endif
