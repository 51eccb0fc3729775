/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules applied to the messages of one sending connection. A message is handed over, is due some time later,
 * and may be posted from then on; messages are posted in the order in which they were handed over, so a late
 * one makes those behind it wait.
 *
 * How several rules add up. A rule counts for a message if it is in its window at the hand-over and its scope
 * matches: the device is that of the path in use at the hand-over.
 *   1. The queues, in the order of the rules' numbers. A serial or rate rule has one queue per device of this
 *      process, shared by all connections: a message enters it when it leaves the one before it (the first:
 * at the hand-over), waits for the messages ahead, and takes its own time.
 *   2. The latencies (latency=, trace=, replay=), added to each other and to when the last queue was left.
 * So due = hand-over + what each rule adds; when a rule is removed, what it added to waiting messages goes.
 *
 * Only payload is delayed: all parts of a message, with its size records, as one. Clear-to-send, flush reads
 * and the control channel are not.
 *
 * Randomness: what is drawn for a message depends on the rule's seed (its number, if it has none), the number
 * of the connection and the sequence number of the message, and on nothing else. A value with `every=` is the
 * same for all connections; it is drawn anew after each interval, and when the rule's age is a multiple of
 * ten seconds or, if that is longer, of two hundred times the longest time in `every=`.
 *
 * One thread at a time: the connection's owner.
 */
#ifndef DETOUR_DELAY_FLOW_H
#define DETOUR_DELAY_FLOW_H

#include "base/atomics.h"
#include "delay/table.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_PATHS_MAX 8

/* What scopes are matched with, and what the record says. Copied. */
struct dt_delay_link {
    uint32_t number; /* of the connection, in the order of set-up */
    uint64_t id;
    const char *peer;
    uint32_t path_count;
    const char *device[DT_DELAY_PATHS_MAX];    /* of each path, at this end */
    uint32_t device_index[DT_DELAY_PATHS_MAX]; /* which of the process's devices that is */
};

struct dt_delay_flow;

/* `slots` (a power of two): how many messages can wait at most. DT_NO_MEMORY. */
enum dt_status dt_delay_flow_create(struct dt_delay_table *table, const struct dt_delay_link *link,
                                    uint32_t slots, struct dt_delay_flow **flow);
void dt_delay_flow_destroy(struct dt_delay_flow *flow);

/*
 * No rule is in force, and no message waits: what the data path asks. `idle` is dt_delay_flow_idle()'s
 * answer, to be asked again whenever this says no.
 */
struct dt_delay_idle {
    const uint32_t *generation; /* the table's */
    uint32_t seen;
};
static inline bool dt_delay_is_idle(const struct dt_delay_idle *idle)
{
    return dt_load_relaxed(idle->generation) == idle->seen;
}
struct dt_delay_idle dt_delay_flow_idle(const struct dt_delay_flow *flow);

/* A message is ready to be posted on this path. Once per message. */
void dt_delay_submit(struct dt_delay_flow *flow, uint64_t sequence, uint64_t bytes, uint32_t path,
                     uint64_t now_ns);

/* When it may be posted; not later than now: at once, also if it was never handed over. */
uint64_t dt_delay_due_ns(struct dt_delay_flow *flow, uint64_t sequence);

/* It was posted, or is given up: the record gets its line, and it is forgotten. */
void dt_delay_posted(struct dt_delay_flow *flow, uint64_t sequence, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
