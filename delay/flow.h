/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Applies the rules to the messages of one sending connection. Each submitted message has a due time; from
 * then on it may be posted. Messages are posted in the order of submission, so a late one delays those behind
 * it.
 *
 * Combination of rules. A rule applies to a message if the submission is in its window and its scope matches;
 * the device is that of the path in use at submission.
 *   1. The queues, in ascending order of the rules' numbers. A serial or rate rule has one queue per device
 * of this process, shared by all connections. A message enters a queue when it leaves the previous one (the
 * first: at submission), waits for the messages before it, and takes its own time.
 *   2. The latencies (latency=, trace=, replay=), added up, from the time at which the last queue was left.
 * So due = submission + the contribution of each rule; removing a rule removes its contribution to waiting
 * messages.
 *   3. A hold (`detour hold`) moves the due time of every waiting message to the hold's end, at the earliest.
 * It applies to all messages that were not posted yet, and adds to no other delay.
 *
 * Only payload is delayed: all parts of a message and its size records, as a unit. CTS writes, flush reads
 * and the control channel are not.
 *
 * Randomness: the value drawn for a message depends only on the rule's seed (by default its number), the
 * number of the connection and the sequence number of the message. A value with `every=` is common to all
 * connections; it is drawn again after each interval, and whenever the rule's age is a multiple of ten
 * seconds or, if longer, of two hundred times the longest interval.
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

/* The properties that scopes match and the record contains. Copied. */
struct dt_delay_link {
    uint32_t number; /* of the connection, in the order of set-up */
    uint64_t id;
    const char *peer;
    uint32_t path_count;
    const char *device[DT_DELAY_PATHS_MAX];    /* of each path, at this end */
    uint32_t device_index[DT_DELAY_PATHS_MAX]; /* index among the process's devices */
};

struct dt_delay_flow;

/* `slots` (a power of two): the maximum number of waiting messages. DT_NO_MEMORY. */
enum dt_status dt_delay_flow_create(struct dt_delay_table *table, const struct dt_delay_link *link,
                                    uint32_t slots, struct dt_delay_flow **flow);
void dt_delay_flow_destroy(struct dt_delay_flow *flow);

/* The paths, one bit each, whose messages the scope matches, apart from the size. Any thread. */
uint32_t dt_delay_flow_paths(const struct dt_delay_flow *flow, const struct dt_delay_scope *scope);

/* No hold applies to the messages of this flow any more. Any thread. */
void dt_delay_flow_end_holds(struct dt_delay_flow *flow);

/*
 * The check of the data path: no rule is in force and no message waits. dt_delay_flow_idle() returns *idle;
 * call it again whenever dt_delay_is_idle() is false.
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

/* When the message may be posted; a time in the past, also for a message that was not submitted: at once. */
uint64_t dt_delay_due_ns(struct dt_delay_flow *flow, uint64_t sequence);

/*
 * The message was posted or abandoned: writes its line to the record, without holds, and removes it. True: a
 * hold kept it, for *held_ns of the time since its submission, or has ended since the message before it; so
 * its waiting time is not the network's.
 */
bool dt_delay_posted(struct dt_delay_flow *flow, uint64_t sequence, uint64_t now_ns, uint64_t *held_ns);

#ifdef __cplusplus
}
#endif

#endif
