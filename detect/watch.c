/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/watch.h"

#include <string.h>

#include "base/util.h"
#include "detect/period.h"

#define FIND_EVERY   32 /* bursts between two searches for a period that is not known */
#define OTHERS_SHARE 16 /* the part of a piece that messages of other sizes may be */

void dt_watch_init(struct dt_watch *watch)
{
    memset(watch, 0, sizeof *watch);
    watch->cut_messages = DT_WATCH_CUT_FIRST;
    dt_monitor_init(&watch->network);
    dt_monitor_init(&watch->waiting);
}

static void begin_iteration(struct dt_watch *watch)
{
    watch->iteration_bursts = 0;
    watch->iteration_bytes = watch->iteration_network_ns = watch->iteration_waiting_ns = 0;
}

/* Samples of other iterations cannot be compared with what is known. */
static void set_period(struct dt_watch *watch, uint32_t period, bool is_piecewise)
{
    watch->period = period;
    watch->is_piecewise = is_piecewise;
    dt_monitor_init(&watch->network);
    dt_monitor_init(&watch->waiting);
    begin_iteration(watch);
}

void dt_watch_set_period(struct dt_watch *watch, uint32_t period)
{
    if (period == 0 || period == watch->period || period > DT_WATCH_PERIOD_MAX || watch->is_piecewise)
        return;
    set_period(watch, period, false);
}

static void find_period(struct dt_watch *watch)
{
    uint32_t count = (uint32_t)dt_min_u64(watch->burst_count, DT_WATCH_BURSTS);
    double sizes[DT_WATCH_BURSTS];
    /* Unbroken traffic has less to be found in it. */
    bool is_unbroken = watch->was_cut[(watch->burst_count - 1) % DT_WATCH_BURSTS];
    bool is_same = watch->burst_count >= watch->same_from_burst + (is_unbroken ? 1 : DT_WATCH_BURSTS);

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = watch->sizes[(watch->burst_count - count + i) % DT_WATCH_BURSTS];
    dt_watch_set_period(watch, dt_period_find(sizes, count));
    if (watch->period == 0 && is_same)
        set_period(watch, 1, true);
}

/* Times per byte of other messages cannot be compared either; but a few of them change nothing. */
static void note_size(struct dt_watch *watch, uint64_t bytes, uint64_t messages)
{
    if (bytes == watch->message_bytes)
        return;
    watch->burst_others += messages;
    if (watch->is_piecewise && watch->burst_others < watch->cut_messages / OTHERS_SHARE)
        return;
    watch->message_bytes = bytes;
    watch->same_from_burst = watch->burst_count + 1; /* the burst under way may have others */
    if (watch->is_piecewise) {
        set_period(watch, 0, false);
        watch->burst_count = 0; /* the sizes were those of pieces */
        watch->same_from_burst = 1;
    }
}

static void end_iteration(struct dt_watch *watch)
{
    if (watch->iteration_bytes > 0) {
        dt_monitor_add(&watch->network,
                       (double)watch->iteration_network_ns / 1e9 / (double)watch->iteration_bytes);
        /* A microsecond more: a wait of nothing is no number to take a logarithm of. */
        dt_monitor_add(&watch->waiting, (double)(watch->iteration_waiting_ns + 1000) / 1e9);
    }
    begin_iteration(watch);
}

/*
 * A burst of `messages`; or what it is taken for: its size and its waiting are those of so many, as its
 * network time is that of a byte.
 */
static void end_burst(struct dt_watch *watch, uint64_t messages, bool is_cut)
{
    double share = (double)messages / (double)watch->burst_messages;

    watch->was_cut[watch->burst_count % DT_WATCH_BURSTS] = is_cut;
    watch->sizes[watch->burst_count++ % DT_WATCH_BURSTS] = (double)watch->burst_bytes * share;
    watch->iteration_bursts++;
    watch->iteration_bytes += watch->burst_bytes;
    watch->iteration_network_ns += watch->burst_network_ns;
    watch->iteration_waiting_ns += (uint64_t)((double)watch->burst_waiting_ns * share);
    watch->burst_bytes = watch->burst_network_ns = watch->burst_waiting_ns = 0;
    watch->burst_messages = watch->burst_others = 0;
    if (watch->period && watch->iteration_bursts >= watch->period)
        end_iteration(watch);
    if (watch->period == 0 && watch->burst_count % FIND_EVERY == 0)
        find_period(watch);
}

/* Bursts of another size would not go with what is known, so all begins anew. */
static void cut_longer(struct dt_watch *watch)
{
    uint32_t messages = watch->cut_messages * 2;
    uint64_t busy_until_ns = watch->busy_until_ns, message_bytes = watch->message_bytes;
    bool is_piecewise = watch->is_piecewise;

    dt_watch_init(watch);
    watch->cut_messages = messages;
    watch->busy_until_ns = busy_until_ns;
    watch->message_bytes = message_bytes;
    watch->is_piecewise = is_piecewise;
    watch->period = is_piecewise ? 1 : 0;
}

static void cut(struct dt_watch *watch)
{
    bool is_short = watch->busy_until_ns - watch->burst_began_ns < DT_WATCH_CUT_NS;

    if (is_short && watch->cut_messages < DT_WATCH_CUT_MAX) {
        cut_longer(watch);
        return;
    }
    end_burst(watch, watch->cut_messages, true);
}

void dt_watch_idle(struct dt_watch *watch, uint64_t now_ns)
{
    if (watch->is_piecewise || watch->burst_bytes == 0 || now_ns <= watch->busy_until_ns + DT_WATCH_IDLE_NS)
        return;
    end_burst(watch, watch->burst_messages, false);
}

void dt_watch_message(struct dt_watch *watch, const struct dt_watched *message)
{
    uint64_t counted_from_ns = dt_max_u64(message->handed_ns, watch->busy_until_ns);

    dt_watch_idle(watch, message->handed_ns);
    if (watch->burst_messages == 0)
        watch->burst_began_ns = message->handed_ns;
    note_size(watch, message->bytes / message->messages, message->messages);
    /* Messages overlap: an interval is counted once. */
    if (message->done_ns > counted_from_ns + message->idle_ns)
        watch->burst_network_ns += message->done_ns - counted_from_ns - message->idle_ns;
    /* What is not under way waits: only the time in which nothing else moved is the peer's. */
    uint64_t waits_from_ns = dt_max_u64(message->wanted_ns, watch->busy_until_ns);
    if (message->handed_ns > waits_from_ns)
        watch->burst_waiting_ns += message->handed_ns - waits_from_ns;
    watch->burst_waiting_ns += message->waited_ns;
    watch->burst_bytes += message->bytes;
    watch->busy_until_ns = dt_max_u64(watch->busy_until_ns, message->done_ns);
    watch->burst_messages += message->messages;
    if (watch->burst_messages >= watch->cut_messages && watch->burst_bytes > 0)
        cut(watch);
}

uint64_t dt_watch_between_pauses(const struct dt_watch *watch)
{
    uint64_t count = dt_min_u64(watch->burst_count, DT_WATCH_BURSTS), pauses = 0;
    double sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        sum += watch->sizes[i];
        pauses += !watch->was_cut[i];
    }
    if (watch->is_piecewise || pauses * DT_WATCH_UNBROKEN < count)
        return 0;
    return count ? (uint64_t)(sum / (double)pauses) : watch->burst_bytes;
}
