/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rewind: messages that were last posted on a fenced queue pair, and that the receiver does not have, are
 * posted again on another one. Two engines do it, and behave alike:
 *
 *   wqe     copies their elements from send queue to send queue (verbs/rewind.h). Both queue pairs are of the
 *           `dv` back end, which owns its send queue, so that queue is the only record needed.
 *   repost  has the connection post them from its own requests. For everything else: `std` queue pairs, a
 *           queue pair that was destroyed to fence it, elements that later ones have overwritten.
 *
 * Neither keeps a log of its own; while nothing fails, neither costs anything.
 *
 * Threads: of the owner of the new queue pair. No engine blocks, allocates or logs.
 */
#ifndef DETOUR_FAILOVER_REWIND_H
#define DETOUR_FAILOVER_REWIND_H

#include <stdint.h>

#include "base/status.h"
#include "verbs/queue.h"
#include "verbs/rewind.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the connection knows. */
struct dt_rewind_source {
    struct dt_rewind_map map; /* wqe */
    /*
     * repost: posts all that the message has on this queue pair, as it was posted the first time, and does
     * not ring. DT_FULL: no room for all of it, and nothing was posted.
     */
    enum dt_status (*post)(void *arg, struct dt_qp *to, uint64_t wr_id);
    void *arg;
};

struct dt_rewind {
    const struct dt_qp *from; /* fenced; NULL: it is gone */
    struct dt_qp *to;
    const uint64_t *wr_ids; /* of the messages, as they were posted on `from`; at most DT_REWIND_RUNS_MAX */
    uint32_t count;
    const struct dt_rewind_source *source;
};

struct dt_rewind_engine {
    const char *name;
    /* Posts again, without ringing; *done is how many of the wr_ids, from the first on, were posted. */
    enum dt_status (*post)(const struct dt_rewind *rewind, uint32_t *done);
};

extern const struct dt_rewind_engine dt_rewind_wqe;
extern const struct dt_rewind_engine dt_rewind_repost;

/*
 * Posts all of them again with the engine that can, and rings once. *engine, which may be NULL, becomes the
 * one that did it. On an error, which is repost's, *done of them were posted and rung for:
 *
 *   DT_FULL        no room for the next one now
 *   DT_PATH_ERROR  the new queue pair has failed as well
 */
enum dt_status dt_rewind_run(const struct dt_rewind *rewind, uint32_t *done,
                             const struct dt_rewind_engine **engine);

#ifdef __cplusplus
}
#endif

#endif
