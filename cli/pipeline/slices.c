/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/slices.h"

#include <string.h>

#include "base/exit.h"
#include "base/util.h"

enum { SEND = DT_SLICES_SEND, RECEIVE = DT_SLICES_RECEIVE };

static uint64_t slice_count(const struct dt_pipeline_slices *slices)
{
    return (slices->bytes + DETOUR_MOVE_SLICE_BYTES - 1) / DETOUR_MOVE_SLICE_BYTES;
}

static size_t bytes_of(const struct dt_pipeline_slices *slices, uint64_t number)
{
    return dt_min_u64(DETOUR_MOVE_SLICE_BYTES, slices->bytes - number * DETOUR_MOVE_SLICE_BYTES);
}

static char *slot_of(const struct dt_pipeline_slices *slices, int direction, uint64_t number)
{
    return slices->connections[direction].buffer + number % DETOUR_MOVE_SLOTS * DETOUR_MOVE_SLICE_BYTES;
}

static char *place_of(const struct dt_pipeline_slices *slices, uint64_t number)
{
    return slices->data + number * DETOUR_MOVE_SLICE_BYTES;
}

/* Its request stays NULL when the plugin cannot take it now. */
static bool post(struct dt_pipeline_slices *slices, int direction, struct dt_job_error *error)
{
    const struct dt_job_connection *connection = &slices->connections[direction];
    uint64_t number = slices->posted[direction];
    char *slot = slot_of(slices, direction, number);
    void **request = &slices->requests[direction][number % DETOUR_MOVE_SLOTS];
    size_t bytes = bytes_of(slices, number);

    *request = NULL;
    if (direction == SEND && slices->copied == number) {
        memcpy(slot, place_of(slices, number), bytes);
        slices->copied++;
    }
    if (!(direction == SEND ? dt_job_isend(slices->plugin, connection->comm, slot, bytes, connection->mhandle,
                                           request, error)
                            : dt_job_irecv(slices->plugin, connection->comm, slot, bytes,
                                           (int)connection->peer, connection->mhandle, request, error)))
        return false;
    slices->posted[direction] += *request != NULL;
    return true;
}

static bool take(const struct dt_pipeline_slices *slices, uint64_t number, size_t bytes,
                 struct dt_job_error *error)
{
    if (bytes != bytes_of(slices, number))
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %zu bytes of parameters instead of %zu",
                           slices->plugin->rank, bytes, bytes_of(slices, number));
    memcpy(place_of(slices, number), slot_of(slices, RECEIVE, number), bytes);
    return true;
}

static bool progress(struct dt_pipeline_slices *slices, int direction, struct dt_job_error *error)
{
    uint64_t *posted = &slices->posted[direction], *completed = &slices->completed[direction];
    size_t bytes = 0;
    bool done;

    if (*posted < slice_count(slices) && *posted - *completed < DETOUR_MOVE_SLOTS &&
        !post(slices, direction, error))
        return false;
    if (*completed == *posted || (direction == RECEIVE && *completed == slices->copied))
        return true;
    if (!dt_job_test(slices->plugin, slices->requests[direction][*completed % DETOUR_MOVE_SLOTS], &done,
                     &bytes, error) ||
        (done && direction == RECEIVE && !take(slices, *completed, bytes, error)))
        return false;
    *completed += done;
    return true;
}

size_t dt_pipeline_slices_slot_bytes(uint64_t bytes)
{
    return dt_min_u64(bytes, (uint64_t)DETOUR_MOVE_SLOTS * DETOUR_MOVE_SLICE_BYTES);
}

bool dt_pipeline_slices_progress(struct dt_pipeline_slices *slices, struct dt_job_error *error)
{
    return progress(slices, SEND, error) && progress(slices, RECEIVE, error);
}

bool dt_pipeline_slices_is_done(const struct dt_pipeline_slices *slices)
{
    return slices->completed[SEND] == slice_count(slices) &&
           slices->completed[RECEIVE] == slice_count(slices);
}
