/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/table.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"

struct dt_delay_table {
    uint32_t generation;        /* [atomic] */
    struct dt_delay_ring *ring; /* [atomic pointer] created with the first rule */
    pthread_mutex_t mutex;      /* protects the other fields */
    uint64_t hold_end_ns;       /* of the hold that ends first; DT_NEVER_NS: none [atomic] */
    uint32_t ended_holds;       /* [atomic] */
    uint32_t next_number;
    size_t count;
    struct dt_delay_active *active[DT_DELAY_RULES_MAX];
};

enum dt_status dt_delay_table_create(struct dt_delay_table **table)
{
    struct dt_delay_table *created = calloc(1, sizeof *created);

    if (!created)
        return DT_NO_MEMORY;
    if (pthread_mutex_init(&created->mutex, NULL) != 0) {
        free(created);
        return DT_SYSTEM;
    }
    created->next_number = 1;
    created->hold_end_ns = DT_NEVER_NS;
    *table = created;
    return DT_OK;
}

void dt_delay_active_release(struct dt_delay_active *active)
{
    uint32_t before = dt_fetch_sub_acq_rel(&active->references, 1);

    DT_CHECK(before > 0);
    if (before > 1)
        return;
    dt_delay_trace_destroy(active->files.trace);
    dt_delay_replay_destroy(active->files.replay);
    free(active);
}

void dt_delay_table_destroy(struct dt_delay_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < table->count; i++)
        dt_delay_active_release(table->active[i]);
    dt_delay_ring_destroy(table->ring);
    pthread_mutex_destroy(&table->mutex);
    free(table);
}

/* ------------------------------------------------------------------------------------------------------------
 * Changes
 */

/* With the mutex held. 0 is reserved: no rule was ever added. */
static void changed(struct dt_delay_table *table)
{
    uint32_t next = table->generation + 1;

    dt_store_release(&table->generation, next ? next : 1);
}

/* With the mutex held. */
static enum dt_status make_ring(struct dt_delay_table *table)
{
    struct dt_delay_ring *ring;
    enum dt_status status = table->ring ? DT_OK : dt_delay_ring_create(&ring);

    if (status == DT_OK && !table->ring)
        dt_store_release(&table->ring, ring);
    return status;
}

/* Selects rules to remove. */
struct wanted {
    bool is_hold;                       /* holds, or all others */
    uint32_t number;                    /* 0: any */
    const struct dt_delay_scope *scope; /* NULL: any */
    uint64_t until_ns;                  /* holds that end until then; DT_NEVER_NS: any */
};

static uint64_t end_ns(const struct dt_delay_active *active)
{
    return dt_deadline_ns(active->since_ns, active->rule.to_ns);
}

static bool is_wanted(const struct wanted *wanted, const struct dt_delay_active *active)
{
    return wanted->is_hold == (active->rule.effect == DT_DELAY_HOLD) &&
           (wanted->number == 0 || wanted->number == active->number) &&
           (!wanted->scope || dt_delay_scope_is_equal(wanted->scope, &active->rule.scope)) &&
           (wanted->until_ns == DT_NEVER_NS || end_ns(active) <= wanted->until_ns);
}

/* With the mutex held. Returns the number of rules in `removed`, which the caller releases. */
static size_t take_out(struct dt_delay_table *table, const struct wanted *wanted,
                       struct dt_delay_active *removed[DT_DELAY_RULES_MAX])
{
    size_t kept = 0, count = 0;
    uint64_t hold_end_ns = DT_NEVER_NS;

    for (size_t i = 0; i < table->count; i++) {
        struct dt_delay_active *active = table->active[i];

        if (is_wanted(wanted, active)) {
            removed[count++] = active;
            continue;
        }
        table->active[kept++] = active;
        if (active->rule.effect == DT_DELAY_HOLD)
            hold_end_ns = dt_earlier_ns(hold_end_ns, end_ns(active));
    }
    table->count = kept;
    dt_store_relaxed(&table->hold_end_ns, hold_end_ns);
    if (wanted->is_hold)
        dt_fetch_add_relaxed(&table->ended_holds, (uint32_t)count);
    if (count > 0)
        changed(table);
    return count;
}

static size_t remove_all(struct dt_delay_table *table, const struct wanted *wanted)
{
    struct dt_delay_active *removed[DT_DELAY_RULES_MAX];
    size_t count;

    pthread_mutex_lock(&table->mutex);
    count = take_out(table, wanted, removed);
    pthread_mutex_unlock(&table->mutex);
    for (size_t i = 0; i < count; i++)
        dt_delay_active_release(removed[i]);
    return count;
}

/* With the mutex held, and room. */
static void put(struct dt_delay_table *table, struct dt_delay_active *active)
{
    DT_CHECK(table->count < DT_DELAY_RULES_MAX);
    DT_CHECK(table->count == 0 || table->active[table->count - 1]->number < table->next_number);
    active->number = table->next_number++;
    table->active[table->count++] = active;
    if (active->rule.effect == DT_DELAY_HOLD)
        dt_store_relaxed(&table->hold_end_ns,
                         dt_earlier_ns(dt_load_relaxed(&table->hold_end_ns), end_ns(active)));
    changed(table);
}

enum dt_status dt_delay_table_add(struct dt_delay_table *table, const struct dt_delay_rule *rule,
                                  const struct dt_delay_files *files, uint64_t now_ns, uint32_t *number)
{
    const struct wanted same = {.is_hold = true, .scope = &rule->scope, .until_ns = DT_NEVER_NS};
    struct dt_delay_active *replaced[DT_DELAY_RULES_MAX];
    struct dt_delay_active *active = calloc(1, sizeof *active);
    enum dt_status status;
    size_t count = 0;

    if (!active)
        return DT_NO_MEMORY;
    active->rule = *rule;
    active->references = 1;
    active->since_ns = now_ns;
    pthread_mutex_lock(&table->mutex);
    status = make_ring(table);
    if (status == DT_OK && rule->effect == DT_DELAY_HOLD)
        count = take_out(table, &same, replaced);
    if (status == DT_OK && table->count == DT_DELAY_RULES_MAX)
        status = DT_FULL;
    if (status == DT_OK) {
        active->files = *files;
        put(table, active);
        *number = active->number;
    }
    pthread_mutex_unlock(&table->mutex);
    for (size_t i = 0; i < count; i++)
        dt_delay_active_release(replaced[i]);
    if (status != DT_OK)
        free(active);
    return status;
}

enum dt_status dt_delay_table_remove(struct dt_delay_table *table, uint32_t number)
{
    const struct wanted wanted = {.number = number, .until_ns = DT_NEVER_NS};

    return number > 0 && remove_all(table, &wanted) ? DT_OK : DT_NOT_FOUND;
}

size_t dt_delay_table_clear(struct dt_delay_table *table)
{
    return remove_all(table, &(struct wanted){.until_ns = DT_NEVER_NS});
}

size_t dt_delay_table_release(struct dt_delay_table *table, const struct dt_delay_scope *scope)
{
    return remove_all(table, &(struct wanted){.is_hold = true, .scope = scope, .until_ns = DT_NEVER_NS});
}

size_t dt_delay_table_expire(struct dt_delay_table *table, uint64_t now_ns, uint64_t *next_ns)
{
    size_t count = 0;

    if (dt_load_relaxed(&table->hold_end_ns) <= now_ns)
        count = remove_all(table, &(struct wanted){.is_hold = true, .until_ns = now_ns});
    *next_ns = dt_load_relaxed(&table->hold_end_ns);
    return count;
}

size_t dt_delay_table_list(struct dt_delay_table *table, struct dt_delay_info info[DT_DELAY_RULES_MAX])
{
    size_t count;

    pthread_mutex_lock(&table->mutex);
    count = table->count;
    for (size_t i = 0; i < count; i++) {
        const struct dt_delay_active *active = table->active[i];

        info[i] = (struct dt_delay_info){
            .number = active->number,
            .since_ns = active->since_ns,
            .messages = dt_load_relaxed(&active->messages),
            .delay_ns = dt_load_relaxed(&active->delay_ns),
            .rule = active->rule,
        };
    }
    pthread_mutex_unlock(&table->mutex);
    return count;
}

/* ------------------------------------------------------------------------------------------------------------
 * Faults of devices
 */

/* Whether a flapping link is down at an age inside its window. *until_ns: the age at which that changes. */
static bool is_flap_down(const struct dt_delay_rule *rule, uint64_t age_ns, uint64_t *until_ns)
{
    uint64_t phase_ns = (age_ns - rule->from_ns) % (rule->down_ns + rule->up_ns);
    bool is_down = phase_ns < rule->down_ns;
    uint64_t phase_end_ns = is_down ? rule->down_ns : rule->down_ns + rule->up_ns;

    *until_ns = dt_earlier_ns(rule->to_ns, age_ns - phase_ns + phase_end_ns);
    return is_down;
}

/* The crash of a trace, as an age: never outside the window. */
static uint64_t crash_ns(const struct dt_delay_active *active)
{
    uint64_t at_ns = active->files.trace ? dt_delay_trace_crash_ns(active->files.trace) : DT_NEVER_NS;

    at_ns = dt_deadline_ns(active->rule.from_ns, at_ns);
    return at_ns < active->rule.to_ns ? at_ns : DT_NEVER_NS;
}

/* Whether the rule is a fault at this age. *until_ns: the age at which that may change. */
static bool is_fault(const struct dt_delay_active *active, uint64_t age_ns, uint64_t *until_ns)
{
    const struct dt_delay_rule *rule = &active->rule;
    bool is_crash = rule->effect == DT_DELAY_TRACE;
    uint64_t begin_ns = is_crash ? crash_ns(active) : rule->from_ns;
    uint64_t end_ns = is_crash ? DT_NEVER_NS : rule->to_ns;

    *until_ns = DT_NEVER_NS;
    if ((!is_crash && !dt_delay_is_device_effect(rule->effect)) || age_ns >= end_ns)
        return false;
    *until_ns = age_ns < begin_ns ? begin_ns : end_ns;
    if (age_ns < begin_ns)
        return false;
    return rule->effect != DT_DELAY_FLAP || is_flap_down(rule, age_ns, until_ns);
}

size_t dt_delay_table_faults(struct dt_delay_table *table, const char *device, uint64_t now_ns,
                             struct dt_delay_active *faults[DT_DELAY_RULES_MAX], uint64_t *next_ns)
{
    size_t count = 0;

    *next_ns = DT_NEVER_NS;
    if (dt_load_relaxed(&table->generation) == 0)
        return 0;
    pthread_mutex_lock(&table->mutex);
    for (size_t i = 0; i < table->count; i++) {
        struct dt_delay_active *active = table->active[i];
        uint64_t until_ns;

        if (active->rule.scope.device[0] && strcmp(active->rule.scope.device, device) != 0)
            continue;
        if (is_fault(active, now_ns > active->since_ns ? now_ns - active->since_ns : 0, &until_ns)) {
            dt_fetch_add_acq_rel(&active->references, 1);
            faults[count++] = active;
        }
        *next_ns = dt_earlier_ns(*next_ns, dt_deadline_ns(active->since_ns, until_ns));
    }
    pthread_mutex_unlock(&table->mutex);
    return count;
}

/* ------------------------------------------------------------------------------------------------------------
 * The record
 */
uint64_t dt_delay_table_read(struct dt_delay_table *table, uint64_t number, struct dt_delay_entry *entry)
{
    struct dt_delay_ring *ring = dt_load_acquire(&table->ring);

    return ring ? dt_delay_ring_read(ring, number, entry) : DT_NEVER_NS;
}

struct dt_delay_ring *dt_delay_table_ring(struct dt_delay_table *table)
{
    return dt_load_acquire(&table->ring);
}

/* ------------------------------------------------------------------------------------------------------------
 * For flows
 */
const uint32_t *dt_delay_table_generation(const struct dt_delay_table *table)
{
    return &table->generation;
}

size_t dt_delay_table_acquire(struct dt_delay_table *table,
                              struct dt_delay_active *active[DT_DELAY_RULES_MAX], uint32_t *generation)
{
    size_t count;

    pthread_mutex_lock(&table->mutex);
    count = table->count;
    for (size_t i = 0; i < count; i++) {
        active[i] = table->active[i];
        dt_fetch_add_acq_rel(&active[i]->references, 1);
    }
    *generation = table->generation;
    pthread_mutex_unlock(&table->mutex);
    return count;
}

uint32_t dt_delay_table_ended_holds(const struct dt_delay_table *table)
{
    return dt_load_relaxed(&table->ended_holds);
}
