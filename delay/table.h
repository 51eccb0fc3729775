/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules in force in a process, and the record of their delays. Any thread adds and removes rules at any
 * time; the senders' flows (flow.h) notice by a generation number.
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
/* After all flows were destroyed. */
void dt_delay_table_destroy(struct dt_delay_table *table);

/* The file of a rule, parsed by the caller; adding the rule transfers the ownership to the table. */
struct dt_delay_files {
    struct dt_delay_trace *trace;   /* of a trace rule, else NULL */
    struct dt_delay_replay *replay; /* of a replay rule, else NULL */
};

/*
 * Puts a rule in force; its window starts at now_ns. A hold replaces the one with the same scope. *number
 * identifies the rule; numbers start at 1 and are never reused. DT_FULL: there are DT_DELAY_RULES_MAX;
 * DT_NO_MEMORY. On both the caller keeps the files.
 */
enum dt_status dt_delay_table_add(struct dt_delay_table *table, const struct dt_delay_rule *rule,
                                  const struct dt_delay_files *files, uint64_t now_ns, uint32_t *number);

/* Removes a rule that is no hold: its delays of waiting messages end. DT_NOT_FOUND. */
enum dt_status dt_delay_table_remove(struct dt_delay_table *table, uint32_t number);

/* Removes all rules but the holds; returns their number. */
size_t dt_delay_table_clear(struct dt_delay_table *table);

/* Ends the hold with this scope, or all (NULL); returns the number of holds ended. */
size_t dt_delay_table_release(struct dt_delay_table *table, const struct dt_delay_scope *scope);

/* Removes the holds that end until now_ns; returns their number. *next_ns: the end of the next one, or
 * DT_NEVER_NS. Costs one load while there is none to remove. Any thread. */
size_t dt_delay_table_expire(struct dt_delay_table *table, uint64_t now_ns, uint64_t *next_ns);

struct dt_delay_info {
    uint32_t number;
    uint64_t since_ns; /* in force since */
    uint64_t messages; /* delayed or parked so far; of a device's fault: times it acted */
    uint64_t delay_ns; /* sum over the messages */
    struct dt_delay_rule rule;
};

/* Copies the rules in force, ascending by number. Returns their number. */
size_t dt_delay_table_list(struct dt_delay_table *table, struct dt_delay_info info[DT_DELAY_RULES_MAX]);

/* dt_delay_ring_read() of the record; DT_NEVER_NS also if no rule was ever added. */
uint64_t dt_delay_table_read(struct dt_delay_table *table, uint64_t number, struct dt_delay_entry *entry);

/* ------------------------------------------------------------------------------------------------------------
 * For flows
 */

/* A rule in force. Constant except for the fields marked atomic. */
struct dt_delay_active {
    struct dt_delay_rule rule;
    struct dt_delay_files files;
    uint32_t number;
    uint32_t references; /* [atomic] one of the table and one per flow */
    uint64_t since_ns;
    uint64_t messages;                      /* or actions of a fault [atomic] */
    uint64_t delay_ns;                      /* [atomic] */
    uint64_t busy_ns[DT_DELAY_DEVICES_MAX]; /* [atomic] per device: when its queue is empty again */
};

/* Counts the holds that have ended in any way; read it after dt_delay_table_acquire(). */
uint32_t dt_delay_table_ended_holds(const struct dt_delay_table *table);

/* Changes with every change of the rules. 0: no rule was ever added. */
const uint32_t *dt_delay_table_generation(const struct dt_delay_table *table);

/* The rules in force, each with a reference for the caller; returns their number and generation. */
size_t dt_delay_table_acquire(struct dt_delay_table *table,
                              struct dt_delay_active *active[DT_DELAY_RULES_MAX], uint32_t *generation);
void dt_delay_active_release(struct dt_delay_active *active);

/*
 * The rules that inject a fault into a device at now_ns, each with a reference for the caller, which counts
 * in `messages` how often they act. They include a trace after its crash, which is permanent. Returns their
 * number; *next_ns is when the set may change, DT_NEVER_NS: never. Only a query: the device's owner applies
 * the faults.
 */
size_t dt_delay_table_faults(struct dt_delay_table *table, const char *device, uint64_t now_ns,
                             struct dt_delay_active *faults[DT_DELAY_RULES_MAX], uint64_t *next_ns);

/* True if the time is inside the rule's window. */
static inline bool dt_delay_is_active(const struct dt_delay_active *active, uint64_t now_ns)
{
    uint64_t age_ns = now_ns - active->since_ns;

    return now_ns >= active->since_ns && age_ns >= active->rule.from_ns && age_ns < active->rule.to_ns;
}

/* The ring to write to; NULL: no rule was ever added. */
struct dt_delay_ring *dt_delay_table_ring(struct dt_delay_table *table);

#ifdef __cplusplus
}
#endif

#endif
