/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replay: messages that were last posted on a fenced queue pair and that the receiver does not have are
 * posted again on another queue pair. Two engines do this with the same result:
 *
 *   wqe     copies their work queue elements from send queue to send queue (verbs/wqe_copy.h). Both queue
 * pairs use the `dv` back end, which owns its send queue, so that queue is the only record needed. repost the
 * connection posts them from its own requests: for `std` queue pairs, queue pairs that were destroyed by the
 * fence, and elements that were overwritten.
 *
 * Neither engine keeps a log, so neither costs anything while no path fails.
 *
 * Threads: the owner of the new queue pair. No engine blocks, allocates or logs.
 */
#ifndef DETOUR_FAILOVER_REPLAY_H
#define DETOUR_FAILOVER_REPLAY_H

#include <stdint.h>

#include "base/status.h"
#include "verbs/queue.h"
#include "verbs/wqe_copy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The connection's side of a replay. */
struct dt_replay_source {
    struct dt_replay_map map; /* wqe */
    /*
     * repost: posts all work requests of the message on `to`, as they were posted the first time, without
     * ringing the doorbell. DT_FULL: no room for all of them; none was posted.
     */
    enum dt_status (*post)(void *arg, struct dt_qp *to, uint64_t wr_id);
    void *arg;
};

struct dt_replay {
    const struct dt_qp *from; /* fenced; NULL: destroyed */
    struct dt_qp *to;
    const uint64_t *wr_ids; /* of the messages as posted on `from`; at most DT_REPLAY_RUNS_MAX */
    uint32_t count;
    const struct dt_replay_source *source;
};

struct dt_replay_engine {
    const char *name;
    /* Posts without ringing the doorbell. *done: the number of wr_ids posted, from the first on. */
    enum dt_status (*post)(const struct dt_replay *replay, uint32_t *done);
};

extern const struct dt_replay_engine dt_replay_wqe;
extern const struct dt_replay_engine dt_replay_repost;

/*
 * Replays all messages with the wqe engine or, where it cannot, with repost, and rings the doorbell once.
 * *engine (may be NULL) is set to the engine used. On an error, which is that of repost, *done messages were
 * replayed:
 *
 *   DT_FULL        no room for the next one now
 *   DT_PATH_ERROR  the new queue pair has failed as well
 */
enum dt_status dt_replay_run(const struct dt_replay *replay, uint32_t *done,
                             const struct dt_replay_engine **engine);

#ifdef __cplusplus
}
#endif

#endif
