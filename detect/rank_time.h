/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The iteration time of a process (iteration.h), and how much of an iteration it computes: so that a slow
 * GPU is seen, not only a slow link.
 *
 * The computing gap of a burst of messages is the time in which the process had the input and had not yet
 * offered the output: from the later of the arrival of the input and the burst offered before to the moment
 * at which the burst is wanted. The sum over the bursts of an iteration is compared with that of healthy
 * iterations (monitor.h). It also grows, less, when another process is slow and the inputs arrive at other
 * moments. So the computation is slow if the growth of the gaps is most of the growth of the iteration, and
 * lengthens it. The time of the last computations, after which nothing is sent, is part of the next
 * iteration's first gap.
 *
 * The input of a burst is not known to a plugin. Messages that pass through a process are in order: the k-th
 * message to one peer needs the k-th message from another peer that sends as many per iteration (a stage in
 * the middle of a pipeline, a ring). Without such a peer it is the peer itself: the last stage answers each
 * activation with a gradient; the first one sends an activation after a gradient that is a number of
 * messages older. This number, the offset, is the smallest one with which no input arrived after its output
 * was wanted. When all that such a device has sent is answered, at the end of an iteration, the last answer
 * is the input. An input that arrives while the burst before it is still computed hides a part of that time:
 * the gap is a lower bound of the computation. A sender has a limited number of messages in flight; where a
 * slow link fills this window, the rest of a transfer is wanted as earlier messages leave, long after its
 * input came. So a gap begins after the last message of the connection that left before the burst was wanted,
 * too. A gap whose input is not known does not count. With several stages per device, inputs from two peers
 * alternate; there the computing gap may contain waiting, and it is as large as the iteration at most.
 *
 * Pure, no allocation. One thread, or under one mutex.
 */
#ifndef DETOUR_DETECT_RANK_TIME_H
#define DETOUR_DETECT_RANK_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "detect/iteration.h"
#include "detect/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RANK_TIME_ARRIVALS 2048 /* remembered per receiving connection */
#define DT_RANK_TIME_SENDERS  64   /* compared, the first ones; further ones do not count */
/* An iteration is evaluated this long after its end: by then the times of all connections are here. */
#define DT_RANK_TIME_SETTLE_NS 50000000ull
#define DT_RANK_TIME_ENDS      64 /* of iterations, remembered until they are evaluated */
#define DT_RANK_TIME_FLIGHT    64 /* messages in flight at most; NCCL has 32 */

/* A connection that receives. */
struct dt_rank_receiver {
    struct dt_list node;
    uint32_t peer;                              /* a number for the process at the other end */
    uint64_t count;                             /* messages received */
    uint64_t arrived_ns[DT_RANK_TIME_ARRIVALS]; /* a ring, ascending */
};

/* A connection that sends. */
struct dt_rank_sender {
    struct dt_list node;
    uint32_t peer;
    bool counts; /* it is one of the first DT_RANK_TIME_SENDERS; else its messages are not noted */
    struct dt_iteration iteration;
    struct dt_rank_receiver *input; /* NULL: not known */
    uint64_t offset;                /* message n needs message n - offset of the input */
    int64_t unanswered;             /* messages sent without an answer, the fewest so far; with an offset */
    uint64_t answered_phase;        /* of a period, in messages: where that was */
    uint64_t next_burst;            /* the first one that is not evaluated */
    uint64_t ends_ns[DT_RANK_TIME_ENDS]; /* of its iterations, a ring by their number */
    uint64_t left_count;
    uint64_t left_ns[DT_RANK_TIME_FLIGHT]; /* when its messages left, a ring */
    uint64_t after_ns[DT_ITERATION_MARKS]; /* [burst]: the last message before it that had left, left */
};

struct dt_rank_time {
    struct dt_list senders; /* those that count are the first */
    struct dt_list receivers;
    uint32_t counted;             /* senders that count */
    struct dt_rank_sender *clock; /* the connection whose iterations are the process's; NULL: none */
    uint64_t clock_iterations;    /* of them, evaluated */
    uint64_t clock_period;        /* messages of an iteration, when the first of them was evaluated */
    uint64_t end_ns;              /* of the last iteration that was evaluated */
    struct dt_monitor compute;    /* of compute_ns */
    struct dt_monitor whole;      /* of iteration_ns */
    bool is_slow;
    uint64_t began_ns[DT_MONITOR_HISTORY]; /* the samples of `compute`, by their number */
    /* The result, of the last iteration that was evaluated. */
    uint64_t iterations;
    uint64_t iteration_ns; /* 0: not known */
    uint64_t compute_ns;   /* 0: not known */
};

void dt_rank_time_init(struct dt_rank_time *rank);

void dt_rank_time_add_sender(struct dt_rank_time *rank, struct dt_rank_sender *sender, uint32_t peer);
void dt_rank_time_remove_sender(struct dt_rank_time *rank, struct dt_rank_sender *sender);
void dt_rank_time_add_receiver(struct dt_rank_time *rank, struct dt_rank_receiver *receiver, uint32_t peer);
void dt_rank_time_remove_receiver(struct dt_rank_time *rank, struct dt_rank_receiver *receiver);

/* Messages wanted, the first of them at this time, that have left, the last of them at left_ns: the sender
 * may use their place. And messages arrived, the last of them at this time. In the order of the connection.
 */
void dt_rank_time_wanted(struct dt_rank_sender *sender, uint64_t wanted_ns, uint64_t left_ns,
                         uint64_t messages);
void dt_rank_time_arrived(struct dt_rank_receiver *receiver, uint64_t arrived_ns, uint64_t messages);

/*
 * Evaluates the iterations that ended at least DT_RANK_TIME_SETTLE_NS before now_ns. While `is_disturbed`, a
 * link of the process is slow: computing gaps may contain the wait for it, so they are not judged. At least
 * once per 100 ms; 2 steps per burst and connection. Several iterations are one sample.
 */
void dt_rank_time_update(struct dt_rank_time *rank, uint64_t now_ns, bool is_disturbed);

/* Of the computation. */
struct dt_verdict dt_rank_time_verdict(const struct dt_rank_time *rank);
/* When the first slow iteration began; 0: it is not slow. */
uint64_t dt_rank_time_since_ns(const struct dt_rank_time *rank);

#ifdef __cplusplus
}
#endif

#endif
