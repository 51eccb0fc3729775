/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/sampler.h"

#include <string.h>

#include "base/util.h"
#include "detect/period.h"

#define FIND_EVERY   32 /* bursts between two searches for an unknown period */
#define OTHERS_SHARE 16 /* 1/16 of the messages of a piece may have another size */

void dt_sampler_init(struct dt_sampler *sampler)
{
    memset(sampler, 0, sizeof *sampler);
    sampler->cut_messages = DT_SAMPLER_CUT_FIRST;
    dt_monitor_init(&sampler->network);
    dt_monitor_init(&sampler->waiting);
}

static void begin_iteration(struct dt_sampler *sampler)
{
    sampler->iteration_bursts = 0;
    sampler->iteration_bytes = sampler->iteration_network_ns = sampler->iteration_waiting_ns = 0;
}

/* Samples of different iterations are not comparable: start again. */
static void set_period(struct dt_sampler *sampler, uint32_t period, bool is_piecewise)
{
    sampler->period = period;
    sampler->is_piecewise = is_piecewise;
    dt_monitor_init(&sampler->network);
    dt_monitor_init(&sampler->waiting);
    begin_iteration(sampler);
}

void dt_sampler_set_period(struct dt_sampler *sampler, uint32_t period)
{
    if (period == 0 || period == sampler->period || period > DT_SAMPLER_PERIOD_MAX || sampler->is_piecewise)
        return;
    set_period(sampler, period, false);
}

static void find_period(struct dt_sampler *sampler)
{
    uint32_t count = (uint32_t)dt_min_u64(sampler->burst_count, DT_SAMPLER_BURSTS);
    double sizes[DT_SAMPLER_BURSTS];
    /* Traffic without pauses shows a single size sooner. */
    bool is_unbroken = sampler->was_cut[(sampler->burst_count - 1) % DT_SAMPLER_BURSTS];
    bool is_same = sampler->burst_count >= sampler->same_from_burst + (is_unbroken ? 1 : DT_SAMPLER_BURSTS);

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = sampler->sizes[(sampler->burst_count - count + i) % DT_SAMPLER_BURSTS];
    dt_sampler_set_period(sampler, dt_period_find(sizes, count));
    if (sampler->period == 0 && is_same)
        set_period(sampler, 1, true);
}

/* Times per byte of other sizes are not comparable either, but a few of them are tolerated. */
static void note_size(struct dt_sampler *sampler, uint64_t bytes, uint64_t messages)
{
    if (bytes == sampler->message_bytes)
        return;
    sampler->burst_others += messages;
    if (sampler->is_piecewise && sampler->burst_others < sampler->cut_messages / OTHERS_SHARE)
        return;
    sampler->message_bytes = bytes;
    sampler->same_from_burst = sampler->burst_count + 1; /* the current burst may contain other sizes */
    if (sampler->is_piecewise) {
        set_period(sampler, 0, false);
        sampler->burst_count = 0; /* the sizes were those of pieces */
        sampler->same_from_burst = 1;
    }
}

static void end_iteration(struct dt_sampler *sampler)
{
    if (sampler->iteration_bytes > 0) {
        dt_monitor_add(&sampler->network,
                       (double)sampler->iteration_network_ns / 1e9 / (double)sampler->iteration_bytes);
        /* One microsecond more: the logarithm of 0 is undefined. */
        dt_monitor_add(&sampler->waiting, (double)(sampler->iteration_waiting_ns + 1000) / 1e9);
    }
    begin_iteration(sampler);
}

/*
 * Counts a burst as one of `messages` messages: its size and waiting time are scaled to that number; its
 * network time is per byte.
 */
static void end_burst(struct dt_sampler *sampler, uint64_t messages, bool is_cut)
{
    double share = (double)messages / (double)sampler->burst_messages;

    sampler->was_cut[sampler->burst_count % DT_SAMPLER_BURSTS] = is_cut;
    sampler->sizes[sampler->burst_count++ % DT_SAMPLER_BURSTS] = (double)sampler->burst_bytes * share;
    sampler->iteration_bursts++;
    sampler->iteration_bytes += sampler->burst_bytes;
    sampler->iteration_network_ns += sampler->burst_network_ns;
    sampler->iteration_waiting_ns += (uint64_t)((double)sampler->burst_waiting_ns * share);
    sampler->burst_bytes = sampler->burst_network_ns = sampler->burst_waiting_ns = 0;
    sampler->burst_messages = sampler->burst_others = 0;
    if (sampler->period && sampler->iteration_bursts >= sampler->period)
        end_iteration(sampler);
    if (sampler->period == 0 && sampler->burst_count % FIND_EVERY == 0)
        find_period(sampler);
}

/* Bursts of another size are not comparable with the samples so far: start again. */
static void cut_longer(struct dt_sampler *sampler)
{
    uint32_t messages = sampler->cut_messages * 2;
    uint64_t busy_until_ns = sampler->busy_until_ns, message_bytes = sampler->message_bytes;
    bool is_piecewise = sampler->is_piecewise;

    dt_sampler_init(sampler);
    sampler->cut_messages = messages;
    sampler->busy_until_ns = busy_until_ns;
    sampler->message_bytes = message_bytes;
    sampler->is_piecewise = is_piecewise;
    sampler->period = is_piecewise ? 1 : 0;
}

static void cut(struct dt_sampler *sampler)
{
    bool is_short = sampler->busy_until_ns - sampler->burst_began_ns < DT_SAMPLER_CUT_NS;

    if (is_short && sampler->cut_messages < DT_SAMPLER_CUT_MAX) {
        cut_longer(sampler);
        return;
    }
    end_burst(sampler, sampler->cut_messages, true);
}

void dt_sampler_idle(struct dt_sampler *sampler, uint64_t now_ns)
{
    if (sampler->is_piecewise || sampler->burst_bytes == 0 ||
        now_ns <= sampler->busy_until_ns + DT_SAMPLER_IDLE_NS)
        return;
    end_burst(sampler, sampler->burst_messages, false);
}

void dt_sampler_add(struct dt_sampler *sampler, const struct dt_sampler_message *message)
{
    uint64_t counted_from_ns = dt_max_u64(message->submitted_ns, sampler->busy_until_ns);

    dt_sampler_idle(sampler, message->submitted_ns);
    if (sampler->burst_messages == 0)
        sampler->burst_began_ns = message->submitted_ns;
    note_size(sampler, message->bytes / message->messages, message->messages);
    /* Messages overlap: each interval is counted once. */
    if (message->done_ns > counted_from_ns + message->idle_ns)
        sampler->burst_network_ns += message->done_ns - counted_from_ns - message->idle_ns;
    /* Only the time in which no other message was in flight counts as waiting for the peer. */
    uint64_t waits_from_ns = dt_max_u64(message->requested_ns, sampler->busy_until_ns);
    if (message->submitted_ns > waits_from_ns)
        sampler->burst_waiting_ns += message->submitted_ns - waits_from_ns;
    sampler->burst_waiting_ns += message->waited_ns;
    sampler->burst_bytes += message->bytes;
    sampler->busy_until_ns = dt_max_u64(sampler->busy_until_ns, message->done_ns);
    sampler->burst_messages += message->messages;
    if (sampler->burst_messages >= sampler->cut_messages && sampler->burst_bytes > 0)
        cut(sampler);
}

uint64_t dt_sampler_between_pauses(const struct dt_sampler *sampler)
{
    uint64_t count = dt_min_u64(sampler->burst_count, DT_SAMPLER_BURSTS), pauses = 0;
    double sum = 0;

    for (uint64_t i = 0; i < count; i++) {
        sum += sampler->sizes[i];
        pauses += !sampler->was_cut[i];
    }
    if (sampler->is_piecewise || pauses * DT_SAMPLER_UNBROKEN < count)
        return 0;
    return count ? (uint64_t)(sum / (double)pauses) : sampler->burst_bytes;
}
