/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grey failure: a path that neither works nor says so. It is suspect when its oldest work has made no
 * progress for a set time; it has failed when then its own probe is not answered while another path's is, or
 * when the device gives its probe up. A path that is only slow answers its probe; so does the device of a
 * peer that is only busy or stopped, but perhaps late, and then on no path.
 *
 * Where the probe is answered and nothing comes all the same, a completion queue may have gone silent. Two
 * facts tell it from a slow path:
 *
 *   known     the peer, which is asked, has the work, and long after that it is not reported here
 *   stopped   the device, which is asked once its probe was answered, says that a queue pair of the path is
 * in the error state: it gave the work up, and the completion that says so never came
 *
 * Each holds for the work that it was learned of (its mark), and for no later one.
 */
#ifndef DETOUR_FAILOVER_STALL_H
#define DETOUR_FAILOVER_STALL_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_stall {
    uint64_t mark;     /* changes when the oldest work makes progress; 0: there is none */
    uint64_t since_ns; /* it has not changed since */
    uint64_t asked_ns; /* a probe is under way since; 0: none */
    uint64_t sent_ns;  /* the last probe was posted, which other questions may share */
    bool is_answered;  /* the last probe was */
    bool is_refused;   /* a probe came back with an error: the hardware's retries for it are over */
    bool is_queried;   /* the device was asked for its queue pairs since the last probe, about queried_mark */
    uint64_t known_mark; /* the work with this mark is done at the far end, as is known since known_ns */
    uint64_t known_ns;
    uint64_t queried_mark;
    uint64_t stopped_mark; /* the device gave the work with this mark up */
};

/* Looks at the path's oldest work. True: nothing has come of it for limit_ns, a probe should be sent. */
static inline bool dt_stall_look(struct dt_stall *stall, uint64_t mark, uint64_t limit_ns, uint64_t now_ns)
{
    if (mark != stall->mark || mark == 0) {
        stall->mark = mark;
        stall->since_ns = now_ns;
    }
    return now_ns - stall->since_ns >= limit_ns && stall->asked_ns == 0;
}

/* A probe goes out. */
static inline void dt_stall_ask(struct dt_stall *stall, uint64_t now_ns)
{
    stall->asked_ns = now_ns;
    stall->is_answered = false;
    stall->is_queried = false;
}

/* It was answered. */
static inline void dt_stall_answer(struct dt_stall *stall)
{
    stall->is_answered = true;
}

/* It came back with an error. */
static inline void dt_stall_refuse(struct dt_stall *stall)
{
    stall->is_refused = true;
}

/* Two probes that were sent together: has the first path failed? At once when its device says so; else once
 * the second's was answered, and the first's had limit_ns for its answer. */
static inline bool dt_stall_has_failed(const struct dt_stall *stall, const struct dt_stall *other,
                                       uint64_t limit_ns, uint64_t now_ns)
{
    bool is_silent = stall->asked_ns != 0 && !stall->is_answered && now_ns - stall->asked_ns >= limit_ns;

    return stall->is_refused || (is_silent && other->asked_ns != 0 && other->is_answered);
}

/* The oldest work, as it was looked at last, is done at the far end. */
static inline void dt_stall_know(struct dt_stall *stall, uint64_t now_ns)
{
    if (stall->known_mark != stall->mark)
        stall->known_ns = now_ns;
    stall->known_mark = stall->mark;
}

/* That has been known for limit_ns, and nothing was heard of it here. */
static inline bool dt_stall_is_deaf(const struct dt_stall *stall, uint64_t limit_ns, uint64_t now_ns)
{
    return stall->mark != 0 && stall->known_mark == stall->mark && now_ns - stall->known_ns >= limit_ns;
}

/* The device lives and is to be asked whether it gave the oldest work up: once for each probe. */
static inline bool dt_stall_wants_query(const struct dt_stall *stall)
{
    return stall->mark != 0 && stall->asked_ns != 0 && stall->is_answered && !stall->is_queried;
}

/* It is asked. */
static inline void dt_stall_query(struct dt_stall *stall)
{
    stall->is_queried = true;
    stall->queried_mark = stall->mark;
}

/* It did. */
static inline void dt_stall_stop(struct dt_stall *stall)
{
    stall->stopped_mark = stall->queried_mark;
}

/* It did, and nothing was heard of the work since. */
static inline bool dt_stall_has_stopped(const struct dt_stall *stall)
{
    return stall->mark != 0 && stall->stopped_mark == stall->mark;
}

/* The question is over; the next one comes after another limit_ns without progress. */
static inline void dt_stall_rest(struct dt_stall *stall, uint64_t now_ns)
{
    stall->asked_ns = 0;
    stall->since_ns = now_ns;
}

#ifdef __cplusplus
}
#endif

#endif
