/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/param.h"
#include "cli/arg.h"
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

/* One line for each content. */
static void refuse_file(const struct dt_runtime_dir *dir, const char *name, const char *text, size_t bytes,
                        const char *reason, uint64_t *refused)
{
    uint64_t digest = dt_digest_add(DT_DIGEST_EMPTY, text, bytes);

    if (*refused == digest)
        return;
    *refused = digest;
    dt_arg_refuse("detour pipeline", "%s/%s is not followed: %s", dir->path, name, reason);
}

bool dt_pipeline_follow_decision(enum dt_decision_kind kind, struct dt_decision *decision, uint64_t *refused)
{
    const bool is_remedy = kind == DT_DECISION_REMEDY;
    const char *name = is_remedy ? DT_REMEDY_FILE : DT_DECISION_FILE;
    char *text = malloc(DT_STORE_RECORD_BYTES);
    char reason[DT_RECORD_REASON_BYTES];
    struct dt_runtime_dir dir;
    bool is_read = false;

    if (text && dt_runtime_dir_open(dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR"), 0, &dir, reason,
                                    sizeof reason) == DT_OK) {
        size_t bytes = read_file(&dir, name, text, DT_STORE_RECORD_BYTES);
        bool is_decision = bytes && dt_decision_read(text, bytes, decision, reason) == DT_OK;

        is_read = is_decision && decision->kind == (int32_t)kind;
        if (is_decision && !is_read)
            snprintf(reason, sizeof reason, "kind: expected %s", is_remedy ? "remedy" : "replan");
        if (bytes && !is_read)
            refuse_file(&dir, name, text, bytes, reason, refused);
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
    if (is_continued || !dt_pipeline_follow_decision(DT_DECISION_REPLAN, &decision, &follow->refused))
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

/* Of a rank; ranks: [position]: who is there. */
static int32_t position_of(const unsigned *ranks, int32_t rank, uint32_t rank_count)
{
    uint32_t position = 0;

    if (!ranks)
        return rank;
    while (position < rank_count && ranks[position] != (unsigned)rank)
        position++;
    return (int32_t)position;
}

static void place_links(const struct dt_pipeline_follow *follow, const unsigned *ranks, uint32_t rank_count,
                        struct dt_pipeline_verdicts *verdicts)
{
    for (uint32_t position = 0; position < rank_count; position++) {
        verdicts[position] = (struct dt_pipeline_verdicts){0};
        for (size_t i = 0; i < DT_PIPELINE_VERDICTS_MAX; i++)
            verdicts[position].slow[i].to_rank = -1;
    }
    for (size_t i = 0; i < follow->link_count; i++) {
        struct dt_decided_link link = follow->links[i];

        link.from_rank = position_of(ranks, link.from_rank, rank_count);
        link.to_rank = position_of(ranks, link.to_rank, rank_count);
        if ((uint32_t)link.from_rank < rank_count && (uint32_t)link.to_rank < rank_count)
            add(&verdicts[link.from_rank], &link);
    }
}

static bool read_new(struct dt_pipeline_follow *follow)
{
    struct dt_decision decision;

    if (!dt_pipeline_follow_decision(DT_DECISION_REPLAN, &decision, &follow->refused) ||
        !is_new(follow, &decision))
        return false;
    follow->link_count = decision.link_count;
    memcpy(follow->links, decision.links, decision.link_count * sizeof *decision.links);
    return true;
}

bool dt_pipeline_follow_read(struct dt_pipeline_follow *follow, struct dt_pipeline_verdicts *verdicts,
                             uint32_t ranks)
{
    if (!read_new(follow))
        return false;
    place_links(follow, follow->ranks, ranks, verdicts);
    return true;
}

void dt_pipeline_follow_delays(const struct dt_pipeline_follow *follow, const struct detour_profile *profile,
                               int32_t replicas, const unsigned *ranks, struct dt_pipeline_delays *delays)
{
    struct dt_pipeline_verdicts verdicts[DT_PIPELINE_RANKS_MAX];

    place_links(follow, ranks, (uint32_t)(profile->device_count * replicas), verdicts);
    dt_pipeline_delays_of_replicas(profile, replicas, verdicts, delays);
}

void dt_pipeline_follow_refuse(const struct dt_pipeline_follow *follow, const char *reason)
{
    dt_arg_refuse("detour pipeline", "decision %" PRId64 " of the controller (replan) is not taken: %s",
                  follow->number, reason);
}

bool dt_pipeline_follow_next(struct dt_pipeline_follow *follow, const struct detour_profile *profile,
                             int32_t replicas, struct dt_pipeline_delays *delays)
{
    if (read_new(follow))
        follow->tries = DT_PIPELINE_FOLLOW_TRIES;
    if (follow->tries == 0)
        return false;
    follow->tries--;
    dt_pipeline_follow_delays(follow, profile, replicas, follow->ranks, delays);
    return true;
}
