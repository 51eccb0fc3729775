/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the messages of one direction of one connection into samples for the monitor (monitor.h).
 *
 * Messages form bursts: a burst ends when nothing was outstanding for DT_SAMPLER_IDLE_NS. Bursts form
 * iterations (period.h), and each iteration is one sample: network seconds per byte. So neither different
 * sizes within an iteration nor the time in which the application sends nothing affects the samples. Traffic
 * without pauses is cut into pieces of a number of messages that takes at least DT_SAMPLER_CUT_NS. Where
 * bursts do not repeat but all messages have one size, for instance because unrelated events cause the
 * pauses, pauses are ignored and all traffic is cut into pieces, until more than a few messages of another
 * size arrive.
 *
 * Network time runs from the submission of a message that may be sent (its CTS has arrived) to its
 * completion. The wait for the CTS is counted separately: a peer that is not ready is not a slow link.
 *
 * Pure, no allocation. One thread.
 */
#ifndef DETOUR_DETECT_SAMPLER_H
#define DETOUR_DETECT_SAMPLER_H

#include <stdbool.h>
#include <stdint.h>

#include "detect/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pause: shorter than any relevant computation between two communications. */
#define DT_SAMPLER_IDLE_NS 1000000ull
/* A piece takes at least this: shorter ones would measure the scheduler, not the network. */
#define DT_SAMPLER_CUT_NS     50000000ull
#define DT_SAMPLER_CUT_FIRST  128 /* messages; doubled until a piece takes DT_SAMPLER_CUT_NS */
#define DT_SAMPLER_CUT_MAX    (1u << 20)
#define DT_SAMPLER_BURSTS     192 /* burst sizes kept to find the period */
#define DT_SAMPLER_PERIOD_MAX (DT_SAMPLER_BURSTS / 3)
#define DT_SAMPLER_UNBROKEN \
    16 /* cut bursts, of 50 ms each, after which a pause is unrelated to the traffic */

/* A message, or several without a pause between them, from the first to the last. */
struct dt_sampler_message {
    uint64_t requested_ns; /* the first isend call */
    uint64_t submitted_ns; /* CTS present and submitted; >= requested_ns */
    uint64_t done_ns;      /* completed; >= submitted_ns */
    uint64_t bytes;
    uint64_t messages;  /* >= 1 */
    uint64_t idle_ns;   /* of several: time between submitted_ns and done_ns with none in flight; 0 for one */
    uint64_t waited_ns; /* of idle_ns: time in which a message was requested */
};

struct dt_sampler {
    struct dt_monitor network; /* seconds per byte */
    struct dt_monitor waiting; /* seconds until CTS, per iteration */
    uint32_t period;           /* bursts per iteration; 0: unknown */
    bool is_piecewise;         /* no period: pieces of cut_messages replace bursts */
    uint64_t message_bytes;    /* size of the last message; if piecewise, of almost all messages */
    uint64_t same_from_burst;  /* first burst since which all messages have this size */
    uint64_t burst_count;
    double sizes[DT_SAMPLER_BURSTS]; /* bytes of the last bursts, a ring; of a cut one, scaled to exactly
                                        cut_messages */
    bool was_cut[DT_SAMPLER_BURSTS]; /* no pause followed the burst */
    /* the current burst */
    uint64_t burst_messages;
    uint64_t burst_others; /* messages with a size other than message_bytes */
    uint32_t cut_messages; /* a burst is cut after this many messages */
    uint64_t burst_began_ns;
    uint64_t burst_bytes;
    uint64_t burst_network_ns;
    uint64_t burst_waiting_ns;
    uint64_t busy_until_ns; /* end of the network time counted so far */
    /* the current iteration */
    uint32_t iteration_bursts;
    uint64_t iteration_bytes;
    uint64_t iteration_network_ns;
    uint64_t iteration_waiting_ns;
};

void dt_sampler_init(struct dt_sampler *sampler);

/* Messages in the order of completion. */
void dt_sampler_add(struct dt_sampler *sampler, const struct dt_sampler_message *message);

/* Ends the burst after a pause; called periodically while nothing is in flight. */
void dt_sampler_idle(struct dt_sampler *sampler, uint64_t now_ns);

/* The vote of this connection: its period, or 0. */
static inline uint32_t dt_sampler_found_period(const struct dt_sampler *sampler)
{
    return sampler->is_piecewise ? 0 : sampler->period;
}

/* Mean bytes between two pauses; 0: no pause for DT_SAMPLER_UNBROKEN bursts. */
uint64_t dt_sampler_between_pauses(const struct dt_sampler *sampler);

/*
 * Sets the period that the connections of the process voted for (period.h); 0: each keeps its own. Ignored if
 * piecewise: its bursts do not repeat, and the change would discard its samples.
 */
void dt_sampler_set_period(struct dt_sampler *sampler, uint32_t period);

#ifdef __cplusplus
}
#endif

#endif
