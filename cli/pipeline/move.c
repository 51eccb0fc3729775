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
#include "cli/pipeline/slices.h"

/* ---- through the plugin ---- */

struct work {
    struct dt_job_rank *job;
    struct dt_pipeline_slices slices;
};

static uint64_t completed(const struct dt_pipeline_slices *slices)
{
    return slices->completed[DT_SLICES_SEND] + slices->completed[DT_SLICES_RECEIVE];
}

static void work_slices(void *arg)
{
    static const struct timespec pause = {.tv_nsec = 20000};
    struct work *work = arg;

    while (!dt_pipeline_slices_is_done(&work->slices)) {
        uint64_t before = completed(&work->slices), done;

        if (!dt_pipeline_slices_progress(&work->slices, &work->job->work_error))
            return;
        done = completed(&work->slices) - before;
        dt_fetch_add_relaxed(&work->job->net.heartbeat, done);
        if (!done)
            nanosleep(&pause, NULL);
    }
}

static bool move_through_plugin(const struct dt_pipeline_move *move)
{
    size_t bytes = dt_pipeline_slices_slot_bytes(move->bytes);
    struct dt_job_connection connections[DT_SLICES_DIRECTIONS] = {
        [DT_SLICES_SEND] = {.peer = move->to, .sends = true, .buffer_bytes = bytes},
        [DT_SLICES_RECEIVE] = {.peer = move->from, .buffer_bytes = bytes},
    };
    struct work work = {move->job,
                        {.plugin = &move->job->net.plugin,
                         .connections = connections,
                         .data = move->data,
                         .bytes = move->bytes}};
    bool moves = move->to != move->job->link->rank;

    if (!dt_job_rank_connect(move->job, connections, moves ? DT_SLICES_DIRECTIONS : 0))
        return false;
    dt_job_rank_doing(move->job, "moving parameters");
    return (!moves || dt_job_rank_do_work(move->job, work_slices, &work)) && dt_job_rank_close(move->job);
}

/* ---- through files ---- */

static bool fail_file(const struct dt_pipeline_move *move, const char *what, const char *path)
{
    return dt_job_fail(move->job->error, DT_EXIT_FAILED, "rank %u: %s: could not be %s: %s",
                       move->job->link->rank, path, what, strerror(errno));
}

static void name_file(const char *directory, unsigned rank, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/detour-parameters-%u", directory, rank);
}

static int create_file(const char *path)
{
    return open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
}

bool dt_pipeline_move_check_folder(const char *directory, unsigned rank, struct dt_job_error *error)
{
    char path[PATH_MAX];
    int fd;

    name_file(directory, rank, path);
    fd = create_file(path);
    if (fd < 0)
        return dt_job_fail(error, DT_EXIT_USAGE,
                           "rank %u: --exchange through=%s: %s could not be created: %s; expected a folder "
                           "that this rank can write to",
                           rank, directory, strrchr(path, '/') + 1, strerror(errno));
    close(fd);
    unlink(path);
    return true;
}

/* On the disk, and no longer in this machine's memory. */
static bool write_file(const struct dt_pipeline_move *move, const char *path)
{
    int fd = create_file(path);
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

    name_file(move->directory, job->link->rank, mine);
    name_file(move->directory, move->from, other);
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
