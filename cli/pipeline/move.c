/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/move.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/exit.h"
#include "base/util.h"
#include "detour/mitigate.h"

enum { SEND, RECEIVE, DIRECTIONS };

/* ---- through the plugin ---- */

struct transfers {
    const struct dt_pipeline_move *move;
    struct dt_job_connection *connections; /* [DIRECTIONS] */
    uint64_t posted[DIRECTIONS];
    uint64_t completed[DIRECTIONS];
    void *requests[DIRECTIONS][DETOUR_MOVE_SLOTS]; /* of transfer i: i % slots */
};

static uint64_t transfer_count(const struct transfers *transfers)
{
    return (transfers->move->bytes + DETOUR_MOVE_SLICE_BYTES - 1) / DETOUR_MOVE_SLICE_BYTES;
}

static size_t bytes_of(const struct transfers *transfers, uint64_t number)
{
    return dt_min_u64(DETOUR_MOVE_SLICE_BYTES, transfers->move->bytes - number * DETOUR_MOVE_SLICE_BYTES);
}

/* Its request stays NULL when the plugin cannot take it now. */
static bool post(struct transfers *transfers, int direction, struct dt_job_error *error)
{
    const struct dt_job_plugin *plugin = &transfers->move->job->net.plugin;
    const struct dt_job_connection *connection = &transfers->connections[direction];
    uint64_t number = transfers->posted[direction];
    char *data = connection->buffer + number * DETOUR_MOVE_SLICE_BYTES;
    void **request = &transfers->requests[direction][number % DETOUR_MOVE_SLOTS];
    size_t bytes = bytes_of(transfers, number);

    *request = NULL;
    if (!(direction == SEND
              ? dt_job_isend(plugin, connection->comm, data, bytes, connection->mhandle, request, error)
              : dt_job_irecv(plugin, connection->comm, data, bytes, (int)connection->peer,
                             connection->mhandle, request, error)))
        return false;
    transfers->posted[direction] += *request != NULL;
    return true;
}

static bool progress(struct transfers *transfers, int direction, struct dt_job_error *error)
{
    struct dt_job_rank *job = transfers->move->job;
    uint64_t *posted = &transfers->posted[direction], *completed = &transfers->completed[direction];
    size_t bytes = 0;
    bool done;

    if (*posted < transfer_count(transfers) && *posted - *completed < DETOUR_MOVE_SLOTS &&
        !post(transfers, direction, error))
        return false;
    if (*completed == *posted)
        return true;
    if (!dt_job_test(&job->net.plugin, transfers->requests[direction][*completed % DETOUR_MOVE_SLOTS], &done,
                     &bytes, error))
        return false;
    if (done && direction == RECEIVE && bytes != bytes_of(transfers, *completed))
        return dt_job_fail(error, DT_EXIT_FAILED, "rank %u: %zu bytes of parameters instead of %zu",
                           job->net.rank, bytes, bytes_of(transfers, *completed));
    *completed += done;
    dt_fetch_add_relaxed(&job->net.heartbeat, done);
    return true;
}

static void work_transfers(void *arg)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    struct transfers *transfers = arg;
    const struct dt_pipeline_move *move = transfers->move;
    struct dt_job_error *error = &move->job->work_error;
    uint64_t count = transfer_count(transfers), before;

    memcpy(transfers->connections[SEND].buffer, move->data, move->bytes);
    while (transfers->completed[SEND] < count || transfers->completed[RECEIVE] < count) {
        before = transfers->completed[SEND] + transfers->completed[RECEIVE];
        if (!progress(transfers, SEND, error) || !progress(transfers, RECEIVE, error))
            return;
        if (before == transfers->completed[SEND] + transfers->completed[RECEIVE])
            nanosleep(&pause, NULL);
    }
    memcpy(move->data, transfers->connections[RECEIVE].buffer, move->bytes);
}

static bool move_through_plugin(const struct dt_pipeline_move *move)
{
    struct dt_job_connection connections[DIRECTIONS] = {
        [SEND] = {.peer = move->to, .sends = true, .buffer_bytes = move->bytes},
        [RECEIVE] = {.peer = move->from, .buffer_bytes = move->bytes},
    };
    struct transfers transfers = {.move = move, .connections = connections};
    bool moves = move->to != move->job->link->rank;

    if (!dt_job_rank_connect(move->job, connections, moves ? DIRECTIONS : 0))
        return false;
    dt_job_rank_doing(move->job, "moving parameters");
    return (!moves || dt_job_rank_do_work(move->job, work_transfers, &transfers)) &&
           dt_job_rank_close(move->job);
}

/* ---- through files ---- */

static bool fail_file(const struct dt_pipeline_move *move, const char *what, const char *path)
{
    return dt_job_fail(move->job->error, DT_EXIT_FAILED, "rank %u: %s: could not be %s: %s",
                       move->job->link->rank, path, what, strerror(errno));
}

static void name_file(const struct dt_pipeline_move *move, unsigned rank, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/detour-parameters-%u", move->directory, rank);
}

/* On the disk, and no longer in this machine's memory. */
static bool write_file(const struct dt_pipeline_move *move, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    uint64_t at = 0;
    ssize_t written = 1;

    while (fd >= 0 && at < move->bytes && written > 0) {
        written = write(fd, (const char *)move->data + at, move->bytes - at);
        at += written > 0 ? (uint64_t)written : 0;
    }
    bool is_good = fd >= 0 && at == move->bytes && fsync(fd) == 0;
    if (is_good)
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (fd >= 0)
        close(fd);
    return is_good || fail_file(move, "written", path);
}

static bool read_file(const struct dt_pipeline_move *move, const char *path)
{
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    uint64_t at = 0;
    ssize_t got = 1;

    while (fd >= 0 && at < move->bytes && got > 0) {
        got = read(fd, (char *)move->data + at, move->bytes - at);
        at += got > 0 ? (uint64_t)got : 0;
    }
    if (fd >= 0)
        close(fd);
    return at == move->bytes || fail_file(move, "read", path);
}

static bool move_through_files(const struct dt_pipeline_move *move)
{
    char mine[PATH_MAX], other[PATH_MAX];
    struct dt_job_rank *job = move->job;
    bool moves = move->to != job->link->rank;

    name_file(move, job->link->rank, mine);
    name_file(move, move->from, other);
    bool is_good =
        (!moves || write_file(move, mine)) && dt_job_exchange(job->link, NULL, 0, NULL, job->error) &&
        (!moves || read_file(move, other)) && dt_job_exchange(job->link, NULL, 0, NULL, job->error);
    if (moves)
        unlink(mine);
    return is_good;
}

bool dt_pipeline_move(const struct dt_pipeline_move *move)
{
    return move->directory[0] ? move_through_files(move) : move_through_plugin(move);
}
