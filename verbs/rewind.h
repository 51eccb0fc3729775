/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends of a failed queue pair once more, by another one: their elements are copied from send queue to send
 * queue, with the few fields changed that belong to a queue pair. Both queue pairs are of the `dv` back end,
 * which owns its send queue and therefore has all that was posted, in the format that the device reads.
 *
 * What is looked for in the old queue is a run of elements with one wr_id: all that one message has on that
 * queue pair. A run counts only if it is there as a whole, from the first element to the last.
 *
 * Threads: of the old queue pair nothing is read but memory, so it may be in the error state, and its CQ be
 * polled empty; it must exist. The new one is its owner's (queue.h).
 */
#ifndef DETOUR_VERBS_REWIND_H
#define DETOUR_VERBS_REWIND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "verbs/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_REWIND_RUNS_MAX 64u /* in one call */

/*
 * What the new queue pair's device and peer have in place of what stands in an element. Each is asked twice
 * and answers the same. False: there is nothing for it, nothing is copied.
 */
struct dt_rewind_map {
    void *arg;
    uint64_t (*wr_id)(void *arg, uint64_t wr_id);
    /* A local segment of `bytes` > 0 at `addr`; not asked for inline payload. */
    bool (*local)(void *arg, uint64_t wr_id, uint64_t addr, uint32_t bytes, uint32_t *lkey);
    /* The place `bytes` > 0 are written to, or read from. */
    bool (*remote)(void *arg, uint64_t wr_id, uint64_t bytes, uint64_t *addr, uint32_t *rkey);
};

/*
 * Copies the runs with the `count` wr_ids, each named once, in the order in which they were posted; all or
 * nothing. Only the last element of each is signalled. They start with the next dt_qp_ring(to).
 *
 *   DT_UNSUPPORTED  not two queue pairs of dv, or an element is too long for the new queue
 *   DT_NOT_FOUND    a run is not (or not as a whole) in the old queue any more
 *   DT_FULL         no room for all of them
 *   DT_INVALID      the map has nothing for an element, more than DT_REWIND_RUNS_MAX, or the old queue does
 *                   not hold what was posted
 *
 * Nothing is logged: the caller has another way, to post them anew.
 */
enum dt_status dt_qp_rewind(const struct dt_qp *from, struct dt_qp *to, const uint64_t *wr_ids,
                            uint32_t count, const struct dt_rewind_map *map);

#ifdef __cplusplus
}
#endif

#endif
