/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replays the sends of a failed queue pair on another one: copies their elements from send queue to send
 * queue and changes the few fields that belong to a queue pair. Both queue pairs use the `dv` back end, which
 * owns its send queue and so has every posted element in the format that the device reads.
 *
 * The unit is a run of consecutive elements with one wr_id: all elements of one message on that queue pair. A
 * run counts only if the old queue still holds it completely, from the first element to the last.
 *
 * Threads: the old queue pair is only read from memory, so it may be in the error state and its CQ be polled
 * empty; it must exist. The new one belongs to its owner (queue.h).
 */
#ifndef DETOUR_VERBS_WQE_COPY_H
#define DETOUR_VERBS_WQE_COPY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "verbs/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_REPLAY_RUNS_MAX 64u /* in one call */

/*
 * Maps the fields of an element to those of the new queue pair's device and peer. Each function is called
 * twice and answers the same. False: there is no equivalent, and nothing is copied.
 */
struct dt_replay_map {
    void *arg;
    uint64_t (*wr_id)(void *arg, uint64_t wr_id);
    /* A local segment of `bytes` > 0 at `addr`; not asked for inline payload. */
    bool (*local)(void *arg, uint64_t wr_id, uint64_t addr, uint32_t bytes, uint32_t *lkey);
    /* The place `bytes` > 0 are written to, or read from. */
    bool (*remote)(void *arg, uint64_t wr_id, uint64_t bytes, uint64_t *addr, uint32_t *rkey);
};

/*
 * Copies the runs with the `count` wr_ids, each named once, in the order in which they were posted; all or
 * nothing. Only the last element of each is signaled. They start with the next dt_qp_ring(to).
 *
 *   DT_UNSUPPORTED  not two queue pairs of dv, or an element is too long for the new queue
 *   DT_NOT_FOUND    a run is not (or not as a whole) in the old queue any more
 *   DT_FULL         no room for all of them
 *   DT_INVALID      the map has nothing for an element, more than DT_REPLAY_RUNS_MAX, or the old queue does
 *                   not hold what was posted
 *
 * Nothing is logged: the caller can post the messages anew instead.
 */
enum dt_status dt_qp_copy_wqes(const struct dt_qp *from, struct dt_qp *to, const uint64_t *wr_ids,
                               uint32_t count, const struct dt_replay_map *map);

#ifdef __cplusplus
}
#endif

#endif
