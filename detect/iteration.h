/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long does an iteration of the job take? From the times at which one connection's messages were wanted.
 *
 * A training step sends the same messages in the same rhythm each time, so the autocorrelation of the pauses
 * between them is highest at the lag of one iteration (FALCON, arXiv 2410.12588, section 4.1). FALCON sees
 * the types of NCCL's calls; a plugin sees messages, which in a pipeline all have one size, so the rhythm is
 * that of the pauses. Differences to dt_period_find(), which has sizes and a fixed threshold: pauses are
 * noisy, so the lag is the one that correlates best, and the smallest of about equally good ones. Otherwise
 * the rhythm of the microbatches would be taken for the one of the iteration. On a slow link the pauses of
 * the microbatches may correlate as well: a lag is refuted by a longer one in which a place differs, on
 * average, from the place a lag before by several standard errors. On a busy processor a multiple may
 * correlate best: a part of it that repeats as well, and whose own parts do not, is the period; while there
 * is such a part of the present period, the time of an iteration is not known.
 *
 * The period is kept in messages, not in bursts and not in time: a schedule that changes, a link that
 * becomes slow, and bursts that merge leave the number of messages of an iteration unchanged. An iteration
 * begins with a certain message, and after a long pause; if both disagree because messages were missed, the
 * longest pause nearby decides, so one missed message does not move the later iterations.
 *
 * Pure, no allocation. One thread.
 */
#ifndef DETOUR_DETECT_ITERATION_H
#define DETOUR_DETECT_ITERATION_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_ITERATION_PAUSE_NS 1000000ull /* a shorter time between two messages is no pause */
#define DT_ITERATION_MARKS    512        /* bursts remembered; a third of it is the longest iteration */

/* A burst: messages of which each was wanted less than a pause after the one before. */
struct dt_iteration_burst {
    uint64_t wanted_ns; /* its first message */
    uint64_t first;     /* number of that message on the connection */
};

struct dt_iteration {
    struct dt_iteration_burst marks[DT_ITERATION_MARKS]; /* a ring */
    uint64_t mark_count;
    uint64_t message_count;
    uint64_t last_ns;      /* the last message was wanted */
    uint64_t period;       /* messages per iteration; 0: unknown */
    uint32_t period_marks; /* bursts, when the period was found */
    bool is_doubtful;      /* a part of it repeats as well: no time is reported */
    uint32_t candidate;    /* bursts, found once and not confirmed; 0: none */
    uint32_t part;         /* bursts, a part of the period that the last search found; 0: none */
    uint32_t part_times;   /* searches before it that found the same part */
    uint64_t find_at;      /* mark_count of the next search */
    uint64_t find_step;
    uint64_t begin_mark;    /* the present iteration began with it */
    uint64_t begin_message; /* the number of its first message */
    int64_t away;      /* messages from the expected begin to the longest pause, the last time; 0: none */
    uint64_t pause_ns; /* usual pause before an iteration */
    uint32_t strange;  /* iterations in a row that did not begin where they were expected */
    /* Of the last complete iteration. */
    uint64_t iterations; /* complete ones */
    uint64_t begin_ns;
    uint64_t end_ns;
};

void dt_iteration_init(struct dt_iteration *iteration);

/* `messages` (at least 1) of the connection, the first of them wanted at wanted_ns, in order. Returns whether
 * an iteration has ended: begin_ns and end_ns are its times. */
bool dt_iteration_add(struct dt_iteration *iteration, uint64_t wanted_ns, uint64_t messages);

/* Whether the number of messages of an iteration is known without doubt. */
static inline bool dt_iteration_is_known(const struct dt_iteration *iteration)
{
    return iteration->period && !iteration->is_doubtful;
}

/* The time of the last complete iteration; 0: none is complete. */
static inline uint64_t dt_iteration_ns(const struct dt_iteration *iteration)
{
    return iteration->end_ns - iteration->begin_ns;
}

/* The burst with this number, among the last DT_ITERATION_MARKS. */
static inline const struct dt_iteration_burst *dt_iteration_burst_of(const struct dt_iteration *iteration,
                                                                     uint64_t number)
{
    return &iteration->marks[number % DT_ITERATION_MARKS];
}

/* The first number that is still remembered. */
static inline uint64_t dt_iteration_oldest(const struct dt_iteration *iteration)
{
    return iteration->mark_count > DT_ITERATION_MARKS ? iteration->mark_count - DT_ITERATION_MARKS : 0;
}

/* Messages of a burst, so far. */
uint64_t dt_iteration_messages(const struct dt_iteration *iteration, uint64_t number);

/*
 * The connection of `count` (pointers to) connections of one process whose iteration is that of the job: the
 * time that most of them have, to 2 %, and the longest of equally frequent ones, since a connection may
 * follow the microbatches alone. NULL: no period is known. count^2 steps.
 */
const struct dt_iteration *dt_iteration_vote(const struct dt_iteration *const *connections, uint32_t count);

#ifdef __cplusplus
}
#endif

#endif
