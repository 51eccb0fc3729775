/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gray failure: a path that makes no progress and reports no error. A path is suspect when its oldest work
 * has made no progress for a set time. It has failed when its liveness probe is not answered while another
 * path's is, or when the device gives the probe up. A path that is only slow answers its probe; so does the
 * device of a peer that is only busy or stopped, but possibly late, and then on no path.
 *
 * If the probe is answered and the work is still not reported, its completion queue may be silent. Two facts
 * distinguish that from a slow path:
 *
 *   known     the peer, which is queried, has the work, and long after that no completion reports it here
 *   stopped   the device, which is queried once after each answered probe, has a queue pair of the path
 *             in the error state: it aborted the work, and the completion that reports this is lost
 *
 * Each fact holds for the work that it was learned about (its mark), and for no later work.
 *
 * Pure functions of (state, observation, now_ns); the driver is failover/switchover/stall_watch.c.
 */
#ifndef DETOUR_FAILOVER_STALL_H
#define DETOUR_FAILOVER_STALL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kind of a path's oldest work. */
enum dt_stall_work {
    DT_STALL_NONE,      /* there is none */
    DT_STALL_SEND,      /* sender: a posted message; progress: queue pairs whose completion is outstanding */
    DT_STALL_AWAIT_CTS, /* sender: a message without its clear-to-send */
    DT_STALL_RECEIVE,   /* receiver: an open receive; progress: completions of the connection */
    DT_STALL_CTS        /* receiver: clear-to-send writes without completion; progress: those that have one */
};

/* The oldest work at one look. Two marks are equal if and only if the work has made no progress between them.
 */
struct dt_stall_mark {
    uint32_t work; /* enum dt_stall_work */
    uint32_t progress;
    uint64_t sequence; /* of the message; 0 for CTS */
};

struct dt_stall {
    struct dt_stall_mark mark; /* at the last look */
    uint64_t since_ns;         /* the mark has not changed since then */
    uint64_t asked_ns;         /* a probe has been under way since then; 0: none */
    uint64_t sent_ns; /* probe queue pair: when a write was posted while none was outstanding, or when the
                         last one was answered; several stalls may share a probe */
    bool is_answered; /* the last probe was answered */
    bool is_refused;  /* a probe completed with an error: the hardware's retries for it are over */
    bool is_queried;  /* the device was queried since the last probe, about queried_mark */
    struct dt_stall_mark known_mark; /* this work is done at the peer, which is known since known_ns */
    uint64_t known_ns;
    struct dt_stall_mark queried_mark;
    struct dt_stall_mark stopped_mark; /* the device gave this work up */
};

static inline bool dt_stall_is_same(const struct dt_stall_mark *a, const struct dt_stall_mark *b)
{
    return a->work == b->work && a->progress == b->progress && a->sequence == b->sequence;
}

static inline bool dt_stall_has_work(const struct dt_stall *stall)
{
    return stall->mark.work != DT_STALL_NONE;
}

/* A look at the path's oldest work. True: it has made no progress for limit_ns, so a probe should be sent. */
static inline bool dt_stall_observe(struct dt_stall *stall, struct dt_stall_mark mark, uint64_t limit_ns,
                                    uint64_t now_ns)
{
    if (mark.work == DT_STALL_NONE || !dt_stall_is_same(&mark, &stall->mark)) {
        stall->mark = mark;
        stall->since_ns = now_ns;
    }
    return now_ns - stall->since_ns >= limit_ns && stall->asked_ns == 0;
}

static inline void dt_stall_probe_sent(struct dt_stall *stall, uint64_t now_ns)
{
    stall->asked_ns = now_ns;
    stall->is_answered = false;
    stall->is_queried = false;
}

static inline void dt_stall_probe_answered(struct dt_stall *stall)
{
    stall->is_answered = true;
}

/* The probe completed with an error, or its completion queue is silent. */
static inline void dt_stall_probe_failed(struct dt_stall *stall)
{
    stall->is_refused = true;
}

/*
 * Two paths were probed together: has the first one failed? At once if its probe failed; else once the
 * other's probe was answered and the first one's has been under way for limit_ns.
 */
static inline bool dt_stall_has_failed(const struct dt_stall *stall, const struct dt_stall *other,
                                       uint64_t limit_ns, uint64_t now_ns)
{
    bool is_silent = stall->asked_ns != 0 && !stall->is_answered && now_ns - stall->asked_ns >= limit_ns;

    return stall->is_refused || (is_silent && other->asked_ns != 0 && other->is_answered);
}

/* The work of the last look is done at the peer. */
static inline void dt_stall_known_done(struct dt_stall *stall, uint64_t now_ns)
{
    if (!dt_stall_is_same(&stall->known_mark, &stall->mark))
        stall->known_ns = now_ns;
    stall->known_mark = stall->mark;
}

/* The work has been known to be done for limit_ns, and no completion has reported it. */
static inline bool dt_stall_is_silent(const struct dt_stall *stall, uint64_t limit_ns, uint64_t now_ns)
{
    return dt_stall_has_work(stall) && dt_stall_is_same(&stall->known_mark, &stall->mark) &&
           now_ns - stall->known_ns >= limit_ns;
}

/* Whether to query the device for its queue pairs: once after each answered probe. */
static inline bool dt_stall_needs_query(const struct dt_stall *stall)
{
    return dt_stall_has_work(stall) && stall->asked_ns != 0 && stall->is_answered && !stall->is_queried;
}

static inline void dt_stall_query_sent(struct dt_stall *stall)
{
    stall->is_queried = true;
    stall->queried_mark = stall->mark;
}

/* The query found a queue pair in the error state. */
static inline void dt_stall_known_stopped(struct dt_stall *stall)
{
    stall->stopped_mark = stall->queried_mark;
}

/* The device gave the work up, and no completion has reported it since. */
static inline bool dt_stall_has_stopped(const struct dt_stall *stall)
{
    return dt_stall_has_work(stall) && dt_stall_is_same(&stall->stopped_mark, &stall->mark);
}

/* The probe is over; the next one follows after another limit_ns without progress. */
static inline void dt_stall_restart(struct dt_stall *stall, uint64_t now_ns)
{
    stall->asked_ns = 0;
    stall->since_ns = now_ns;
}

#ifdef __cplusplus
}
#endif

#endif
