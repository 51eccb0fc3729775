/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transfers of a move: the parameters of a device go to one rank while those of another device arrive in
 * their place. Slices pass through slots, so that memory of a constant size is registered, however large the
 * parameters are. A slice that has arrived stays in its slot until that part of the parameters has been
 * copied for the other rank. Owner: one thread.
 */
#ifndef DETOUR_CLI_PIPELINE_SLICES_H
#define DETOUR_CLI_PIPELINE_SLICES_H

#include "detour/mitigate.h"
#include "job/net.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_pipeline_slices_direction { DT_SLICES_SEND, DT_SLICES_RECEIVE, DT_SLICES_DIRECTIONS };

/* The fields of the caller; zero for the others. */
struct dt_pipeline_slices {
    const struct dt_job_plugin *plugin;
    const struct dt_job_connection *connections; /* [direction], with buffers of the size below */
    char *data;                                  /* is replaced */
    uint64_t bytes;                              /* at least 1; of both devices */

    uint64_t copied; /* slices in slots, for sending */
    uint64_t posted[DT_SLICES_DIRECTIONS];
    uint64_t completed[DT_SLICES_DIRECTIONS];
    void *requests[DT_SLICES_DIRECTIONS][DETOUR_MOVE_SLOTS]; /* of slice i: i % slots */
};

/* Of the slots of one direction. */
size_t dt_pipeline_slices_slot_bytes(uint64_t bytes);

/* Posts and tests one slice in each direction at most; never waits. */
bool dt_pipeline_slices_progress(struct dt_pipeline_slices *slices, struct dt_job_error *error);

bool dt_pipeline_slices_is_done(const struct dt_pipeline_slices *slices);

#ifdef __cplusplus
}
#endif

#endif
