/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Background copies in chunks: a consumer can send chunk k on while chunk k+1 is in flight.
 *
 * A lane is one direction of one GPU (cuda.h). It moves bytes in the order in which the copies were started,
 * with at most `depth` chunks in flight. The caller embeds `struct dt_copy` in its own object; a lane serves
 * its copies one after the other. No function here allocates, blocks or reads a clock.
 *
 * Threads: a lane and the copies in it belong to one thread. Any other thread may read a copy's progress
 * (dt_copy_done_bytes(), dt_copy_state()) and then access the bytes that are done.
 *
 * A chunk in flight cannot be stopped. Both memories of a copy must stay valid until dt_copy_is_finished().
 */
#ifndef DETOUR_HOSTPATH_COPY_H
#define DETOUR_HOSTPATH_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/list.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Chunks of a lane in flight, at most; a power of two. */
#define DT_COPY_DEPTH_MAX 16u

enum dt_copy_state {
    DT_COPY_IDLE,    /* never started: a zeroed copy */
    DT_COPY_RUNNING, /* in a lane */
    DT_COPY_FAILING, /* failed, with chunks still in flight */
    DT_COPY_DONE,    /* all bytes have arrived */
    DT_COPY_FAILED   /* only the first dt_copy_done_bytes() have arrived, and no more will */
};

/*
 * DT_COPY_POLLED: a reader polls the destination during the copy, as GPUs do that run NCCL's LL and LL128
 * protocols. Aligned 8-byte words must appear whole, and the last word of an aligned 128-byte line must not
 * appear before the rest of the line.
 */
enum dt_copy_flag { DT_COPY_POLLED = 1 };

struct dt_copy_lane;

struct dt_copy {
    struct dt_list node; /* in lane->copies while chunks remain to be started */
    struct dt_copy_lane *lane;
    uint8_t *to; /* in the address space of the lane: may be a GPU's address */
    const uint8_t *from;
    uint64_t bytes;
    uint64_t started_bytes;
    uint64_t done_bytes; /* arrived, contiguous from the start [atomic] */
    uint32_t chunk_bytes;
    uint32_t flags;     /* enum dt_copy_flag */
    uint32_t in_flight; /* chunks */
    uint32_t state;     /* enum dt_copy_state [atomic] */
};

struct dt_copy_lane_ops {
    /*
     * Starts chunk number `ticket` without blocking. DT_OK: it is in flight. DT_AGAIN: no room now. Any other
     * status was logged and fails the copy; no chunk was started.
     */
    enum dt_status (*start)(struct dt_copy_lane *lane, void *to, const void *from, size_t bytes,
                            uint32_t flags, uint32_t ticket);
    /*
     * Stores the ticket of the last finished chunk, or an earlier one. An error, which was logged, breaks the
     * lane: the chunks in flight never access memory again.
     */
    enum dt_status (*poll)(struct dt_copy_lane *lane, uint64_t now_ns, uint32_t *ticket);
};

struct dt_copy_lane {
    const struct dt_copy_lane_ops *ops;
    uint32_t depth;    /* at most DT_COPY_DEPTH_MAX */
    uint32_t started;  /* ticket of the last chunk started; tickets wrap */
    uint32_t finished; /* ticket of the last chunk known to be finished */
    bool is_broken;
    struct dt_list copies; /* with chunks to start, oldest first */
    struct {
        struct dt_copy *copy;
        uint32_t bytes;
    } chunk[DT_COPY_DEPTH_MAX]; /* in flight, by ticket */
};

/* `ops` must stay valid as long as the lane; depth in [1, DT_COPY_DEPTH_MAX]. */
void dt_copy_lane_init(struct dt_copy_lane *lane, const struct dt_copy_lane_ops *ops, uint32_t depth);

/*
 * Starts a copy that is zeroed or finished. A copy of 0 bytes is done at once; every other copy progresses
 * only in dt_copy_lane_progress(). chunk_bytes > 0; with DT_COPY_POLLED at least 128, and chunks end at
 * 128-byte lines of the destination.
 */
void dt_copy_start(struct dt_copy *copy, struct dt_copy_lane *lane, void *to, const void *from,
                   uint64_t bytes, uint32_t chunk_bytes, uint32_t flags);

/* No chunk of the copy is started any more. If some were left, it fails once none is in flight. */
void dt_copy_abandon(struct dt_copy *copy);

/* Collects the finished chunks and starts as many as there is room for. */
void dt_copy_lane_progress(struct dt_copy_lane *lane, uint64_t now_ns);

/* Nothing is in flight or waiting to be started. */
static inline bool dt_copy_lane_is_idle(const struct dt_copy_lane *lane)
{
    return lane->started == lane->finished && dt_list_is_empty(&lane->copies);
}

/* Any thread: bytes that have arrived, contiguous from the start, and may be read. */
static inline uint64_t dt_copy_done_bytes(const struct dt_copy *copy)
{
    return dt_load_acquire(&copy->done_bytes);
}

/* Any thread. */
static inline enum dt_copy_state dt_copy_state(const struct dt_copy *copy)
{
    return (enum dt_copy_state)dt_load_acquire(&copy->state);
}

/* Any thread: true when the copy accesses neither memory any more. */
static inline bool dt_copy_is_finished(const struct dt_copy *copy)
{
    enum dt_copy_state state = dt_copy_state(copy);

    return state != DT_COPY_RUNNING && state != DT_COPY_FAILING;
}

#ifdef __cplusplus
}
#endif

#endif
