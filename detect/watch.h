/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of one connection, watched: messages go in, a verdict comes out.
 *
 * Messages make bursts: a burst ends when nothing was under way for DT_WATCH_IDLE_NS. Bursts make iterations
 * (period.h), and an iteration gives one sample to the monitor (monitor.h): network seconds per byte. So
 * sizes that differ within an iteration do no harm, and neither does the time in which nothing was to be
 * sent. Traffic that never pauses is cut after a number of messages that takes DT_WATCH_CUT_NS at least.
 * Where nothing repeats, as when something else makes it pause now and then, but all messages are of a size,
 * pauses no longer count and all of it is cut so, until more than a few messages of another size come.
 *
 * Network time is from the hand-over of a message that may be sent (its clear-to-send is here) to its
 * completion. Time in which the peer had not said clear-to-send is counted apart: a peer that is not ready is
 * no slow link.
 *
 * Pure, no allocation. One thread.
 */
#ifndef DETOUR_DETECT_WATCH_H
#define DETOUR_DETECT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "detect/monitor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A pause; shorter than any computation between two communications that matter. */
#define DT_WATCH_IDLE_NS    1000000ull
#define DT_WATCH_CUT_NS     50000000ull /* shorter pieces would show what the scheduler does, not the network */
#define DT_WATCH_CUT_FIRST  128         /* messages; twice as many until they take so long */
#define DT_WATCH_CUT_MAX    (1u << 20)
#define DT_WATCH_BURSTS     192 /* sizes that are kept to find the period in */
#define DT_WATCH_PERIOD_MAX (DT_WATCH_BURSTS / 3)
#define DT_WATCH_UNBROKEN   16 /* so many bursts to a pause, of 50 ms each: it is none of the traffic's */

/* A message; or several with no pause between them, seen from the first to the last of them. */
struct dt_watched {
    uint64_t wanted_ns; /* NCCL asked for it first */
    uint64_t handed_ns; /* its clear-to-send was there and it was handed over; >= wanted_ns */
    uint64_t done_ns;   /* it was complete; >= handed_ns */
    uint64_t bytes;
    uint64_t messages;  /* >= 1 */
    uint64_t idle_ns;   /* of several: between `handed_ns` and `done_ns`, none was under way; 0 for one */
    uint64_t waited_ns; /* of that, one was wanted */
};

struct dt_watch {
    struct dt_monitor network; /* seconds per byte */
    struct dt_monitor waiting; /* seconds until clear-to-send, per iteration */
    uint32_t period;           /* bursts per iteration; 0: not known yet */
    bool is_piecewise;         /* none was found, and pieces of so many messages take the place of bursts */
    uint64_t message_bytes;    /* the size of the last message; of almost all where it is piecewise */
    uint64_t same_from_burst;  /* and of all messages of the bursts since this one */
    uint64_t burst_count;
    double sizes[DT_WATCH_BURSTS]; /* bytes of the last bursts, a ring; of one that was cut, as if that had
                                      been after `cut_messages` exactly */
    bool was_cut[DT_WATCH_BURSTS]; /* and whether there was no pause behind them */
    /* the burst under way */
    uint64_t burst_messages;
    uint64_t burst_others; /* of another size than the one before, or than those of pieces */
    uint32_t cut_messages; /* it ends after so many */
    uint64_t burst_began_ns;
    uint64_t burst_bytes;
    uint64_t burst_network_ns;
    uint64_t burst_waiting_ns;
    uint64_t busy_until_ns; /* end of the network time counted so far */
    /* the iteration under way */
    uint32_t iteration_bursts;
    uint64_t iteration_bytes;
    uint64_t iteration_network_ns;
    uint64_t iteration_waiting_ns;
};

void dt_watch_init(struct dt_watch *watch);

/* Messages in the order of completion. */
void dt_watch_message(struct dt_watch *watch, const struct dt_watched *message);

/* Ends a burst that is over; to be called now and then while nothing is under way. */
void dt_watch_idle(struct dt_watch *watch, uint64_t now_ns);

/* The period that was found, or 0: what a connection votes for. */
static inline uint32_t dt_watch_found_period(const struct dt_watch *watch)
{
    return watch->is_piecewise ? 0 : watch->period;
}

/* Bytes from one pause to the next, on average; 0: it does not pause, or not for DT_WATCH_UNBROKEN bursts. */
uint64_t dt_watch_between_pauses(const struct dt_watch *watch);

/*
 * What the connections of a process have voted for (period.h); 0 leaves each its own. Where pieces take the
 * place of bursts nothing changes: its own bursts repeat in nothing, so what is known would be lost for
 * nothing.
 */
void dt_watch_set_period(struct dt_watch *watch, uint32_t period);

#ifdef __cplusplus
}
#endif

#endif
