/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/param.h"
#include "cli/pipeline/claim.h"
#include "controller/execute.h"
#include "detour/stat.h"
#include "obs/runtime_dir.h"

/* The bytes of the file, at most `room`; 0: it cannot be read. A FIFO in its place must not block. */
static size_t read_file(const struct dt_runtime_dir *dir, const char *name, char *text, size_t room)
{
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    size_t bytes = 0;
    ssize_t got = 1;

    while (fd >= 0 && bytes < room && got > 0) {
        got = read(fd, text + bytes, room - bytes);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            bytes += (size_t)got;
    }
    if (fd >= 0)
        close(fd);
    return bytes;
}

bool dt_pipeline_follow_decision(enum dt_decision_kind kind, struct dt_decision *decision)
{
    const char *name = kind == DT_DECISION_REMEDY ? DT_REMEDY_FILE : DT_DECISION_FILE;
    char *text = malloc(DT_STORE_RECORD_BYTES);
    char reason[DT_RECORD_REASON_BYTES];
    struct dt_runtime_dir dir;
    bool is_read = false;

    if (text && dt_runtime_dir_open(dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR"), 0, &dir, reason,
                                    sizeof reason) == DT_OK) {
        size_t bytes = read_file(&dir, name, text, DT_STORE_RECORD_BYTES);

        is_read = bytes && dt_decision_read(text, bytes, decision, reason) == DT_OK &&
                  decision->kind == (int32_t)kind;
        dt_runtime_dir_close(&dir);
    }
    free(text);
    return is_read;
}

static bool is_new(struct dt_pipeline_follow *follow, const struct dt_decision *decision)
{
    if (decision->time_ns <= follow->time_ns && /* a controller with another store numbers anew */
        (decision->fence < follow->fence ||
         (decision->fence == follow->fence && decision->number <= follow->number)))
        return false;
    follow->time_ns = decision->time_ns;
    follow->fence = decision->fence;
    follow->number = decision->number;
    return true;
}

/* By this host's clock, since its agent writes the file; the decision has the time of the controller. */
static bool is_written_since(int64_t began_ns)
{
    char reason[DT_RECORD_REASON_BYTES];
    struct dt_runtime_dir dir;
    struct stat file;
    bool is_found;

    if (dt_runtime_dir_open(dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR"), 0, &dir, reason, sizeof reason) !=
        DT_OK)
        return false;
    is_found = fstatat(dir.fd, DT_DECISION_FILE, &file, AT_SYMLINK_NOFOLLOW) == 0;
    dt_runtime_dir_close(&dir);
    return is_found && file.st_mtim.tv_sec * (int64_t)DT_NS_PER_S + file.st_mtim.tv_nsec >= began_ns;
}

void dt_pipeline_follow_start(struct dt_pipeline_follow *follow, int64_t began_ns, bool is_continued)
{
    struct dt_decision decision;

    *follow = (struct dt_pipeline_follow){0};
    if (is_continued || !dt_pipeline_follow_decision(DT_DECISION_REPLAN, &decision))
        return;
    if (!is_written_since(began_ns)) /* after reading: a file that replaces it meanwhile is new */
        is_new(follow, &decision);
}

/* INT64_MAX: not known. */
static int64_t own_start_ns(void)
{
    struct detour_stat_snapshot *snapshot;
    int64_t start_ns = INT64_MAX;

    if (detour_stat_read(dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR"), dt_runtime_own_number(), &snapshot,
                         NULL))
        return start_ns;
    if (detour_stat_process_count(snapshot) > 0)
        start_ns = detour_stat_get_process(snapshot, 0)->start_ns;
    detour_stat_free(snapshot);
    return start_ns;
}

void dt_pipeline_follow_begin(struct dt_pipeline_follow *follow,
                              const struct dt_pipeline_checkpoints *checkpoints, uint32_t iteration,
                              const unsigned *ranks)
{
    dt_pipeline_follow_start(follow, own_start_ns(),
                             checkpoints->resumes && iteration > 0 &&
                                 dt_pipeline_claim_is(checkpoints->directory));
    follow->ranks = ranks;
}

static void add(struct dt_pipeline_verdicts *verdicts, const struct dt_decided_link *link)
{
    for (size_t i = 0; i < DT_PIPELINE_VERDICTS_MAX; i++) {
        if (verdicts->slow[i].to_rank >= 0)
            continue;
        verdicts->slow[i].to_rank = link->to_rank;
        verdicts->slow[i].delay_ns = link->delay_ns;
        return;
    }
}

/* Of a rank; ranks have exchanged their positions. */
static int32_t position_of(const struct dt_pipeline_follow *follow, int32_t rank, uint32_t ranks)
{
    uint32_t position = 0;

    if (!follow->ranks)
        return rank;
    while (position < ranks && follow->ranks[position] != (unsigned)rank)
        position++;
    return (int32_t)position;
}

bool dt_pipeline_follow_read(struct dt_pipeline_follow *follow, struct dt_pipeline_verdicts *verdicts,
                             uint32_t ranks)
{
    struct dt_decision decision;

    if (!dt_pipeline_follow_decision(DT_DECISION_REPLAN, &decision) || !is_new(follow, &decision))
        return false;
    for (uint32_t rank = 0; rank < ranks; rank++) {
        verdicts[rank] = (struct dt_pipeline_verdicts){0};
        for (size_t i = 0; i < DT_PIPELINE_VERDICTS_MAX; i++)
            verdicts[rank].slow[i].to_rank = -1;
    }
    for (size_t i = 0; i < decision.link_count; i++) {
        struct dt_decided_link link = decision.links[i];

        link.from_rank = position_of(follow, link.from_rank, ranks);
        link.to_rank = position_of(follow, link.to_rank, ranks);
        if ((uint32_t)link.from_rank < ranks && (uint32_t)link.to_rank < ranks)
            add(&verdicts[link.from_rank], &link);
    }
    return true;
}

bool dt_pipeline_follow_next(struct dt_pipeline_follow *follow, const struct detour_profile *profile,
                             int32_t replicas, struct dt_pipeline_delays *delays)
{
    struct dt_pipeline_verdicts verdicts[DT_PIPELINE_RANKS_MAX];

    if (dt_pipeline_follow_read(follow, verdicts, (uint32_t)(profile->device_count * replicas))) {
        dt_pipeline_delays_of_replicas(profile, replicas, verdicts, &follow->delays);
        follow->tries = DT_PIPELINE_FOLLOW_TRIES;
    }
    if (follow->tries == 0)
        return false;
    follow->tries--;
    *delays = follow->delays;
    return true;
}
