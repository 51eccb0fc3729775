/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules in force in a process, and the record of what they did. Rules are added and removed by any thread
 * at any time; the senders' flows (flow.h) notice by a number that changes.
 */
#ifndef DETOUR_DELAY_TABLE_H
#define DETOUR_DELAY_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "delay/record.h"
#include "delay/rule.h"
#include "delay/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_RULES_MAX   16
#define DT_DELAY_DEVICES_MAX 32 /* queues of a serial rule; devices beyond share them */

struct dt_delay_table;

enum dt_status dt_delay_table_create(struct dt_delay_table **table);
/* After all flows. */
void dt_delay_table_destroy(struct dt_delay_table *table);

/* The file that a rule names, read by the caller; the table takes it over when it takes the rule. */
struct dt_delay_files {
    struct dt_delay_trace *trace;   /* of a trace rule, else NULL */
    struct dt_delay_replay *replay; /* of a replay rule, else NULL */
};

/*
 * Puts a rule in force; its window counts from now_ns. *number is its name from now on; numbers start at 1
 * and never come again. DT_FULL: there are DT_DELAY_RULES_MAX; DT_NO_MEMORY. Then the files stay the
 * caller's.
 */
enum dt_status dt_delay_table_add(struct dt_delay_table *table, const struct dt_delay_rule *rule,
                                  const struct dt_delay_files *files, uint64_t now_ns, uint32_t *number);

/* Messages that it holds are posted when the other rules let them. DT_NOT_FOUND. */
enum dt_status dt_delay_table_remove(struct dt_delay_table *table, uint32_t number);

/* All of them; returns how many there were. */
size_t dt_delay_table_clear(struct dt_delay_table *table);

struct dt_delay_info {
    uint32_t number;
    uint64_t since_ns; /* in force since */
    uint64_t messages; /* that it made later, so far; of a device's fault: how often it acted */
    uint64_t delay_ns; /* of them together */
    struct dt_delay_rule rule;
};

/* Copies what is in force, in the order of the numbers. Returns how many. */
size_t dt_delay_table_list(struct dt_delay_table *table, struct dt_delay_info info[DT_DELAY_RULES_MAX]);

/* dt_delay_ring_read() of the record; DT_NEVER_NS also when there was never a rule. */
uint64_t dt_delay_table_read(struct dt_delay_table *table, uint64_t number, struct dt_delay_entry *entry);

/* ------------------------------------------------------------------------------------------------------------
 * For flows.
 */

/* A rule in force. Constant, but for what is marked atomic. */
struct dt_delay_active {
    struct dt_delay_rule rule;
    struct dt_delay_files files;
    uint32_t number;
    uint32_t references; /* [atomic] the table's, and one per flow */
    uint64_t since_ns;
    uint64_t messages;                      /* or actions of a fault [atomic] */
    uint64_t delay_ns;                      /* [atomic] */
    uint64_t busy_ns[DT_DELAY_DEVICES_MAX]; /* [atomic] the queue of each device is busy until then */
};

/* Changes whenever the rules do. 0: there were never any. */
const uint32_t *dt_delay_table_generation(const struct dt_delay_table *table);

/* The rules in force, each with a reference for the caller; returns their number and generation. */
size_t dt_delay_table_acquire(struct dt_delay_table *table,
                              struct dt_delay_active *active[DT_DELAY_RULES_MAX], uint32_t *generation);
void dt_delay_active_release(struct dt_delay_active *active);

/*
 * The faults that the rules want a device to have at now_ns: their rules, each with a reference for the
 * caller, who counts in `messages` how often they act. A trace is among them when it has the device crash,
 * which is for good. Returns how many; *next_ns is when that may change, DT_NEVER_NS if no rule wants
 * anything later. This only says so: whoever has the device acts.
 */
size_t dt_delay_table_faults(struct dt_delay_table *table, const char *device, uint64_t now_ns,
                             struct dt_delay_active *faults[DT_DELAY_RULES_MAX], uint64_t *next_ns);

/* Is the time inside the rule's window? */
static inline bool dt_delay_is_active(const struct dt_delay_active *active, uint64_t now_ns)
{
    uint64_t age_ns = now_ns - active->since_ns;

    return now_ns >= active->since_ns && age_ns >= active->rule.from_ns && age_ns < active->rule.to_ns;
}

/* The ring to write to, or NULL: there was never a rule. */
struct dt_delay_ring *dt_delay_table_ring(struct dt_delay_table *table);

#ifdef __cplusplus
}
#endif

#endif
