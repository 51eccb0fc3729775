/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grey failure: a path that neither works nor says so. It is suspect when its oldest work has made no
 * progress for a set time; it has failed when then its own probe is not answered while another path's is, or
 * when the device gives its probe up. A path that is only slow answers its probe; so does the device of a
 * peer that is only busy or stopped, but perhaps late, and then on no path.
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
    bool is_answered;  /* the last probe was */
    bool is_refused;   /* a probe came back with an error: the hardware's retries for it are over */
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
