/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/flow.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/util.h"

/*
 * A value with `every=` restarts at each multiple of this time, which bounds the cost of finding it after a
 * pause; or at each multiple of this number of intervals, so that few intervals are cut off.
 */
#define EPOCH_NS_MIN    (10 * DT_NS_PER_S)
#define EPOCH_INTERVALS 200
#define INTERVAL_NS_MIN DT_NS_PER_MS

/* The current value of an `every=` rule. */
struct cursor {
    bool is_set;
    uint64_t epoch;
    uint64_t end_ns; /* of the interval, as the rule's age */
    uint64_t value_ns;
    struct dt_prng prng;
};

struct applied {
    struct dt_delay_active *active;
    uint32_t path_mask; /* paths that its scope matches, apart from the size */
    struct cursor cursor;
};

/* A message that was submitted and not yet posted. */
struct held {
    bool is_held;
    bool is_parked;    /* by a hold */
    bool is_disturbed; /* a hold has ended since the message before it */
    uint32_t path;
    uint64_t sequence;
    uint64_t bytes;
    uint64_t submitted_ns;
    uint64_t added_ns[DT_DELAY_RULES_MAX]; /* contribution of each applied rule */
};

struct dt_delay_flow {
    struct dt_delay_table *table;
    const uint32_t *table_generation;
    uint32_t generation; /* of `applied` */
    uint32_t number;
    uint64_t id;
    uint32_t path_count;
    uint32_t device_index[DT_DELAY_PATHS_MAX];
    char device[DT_DELAY_PATHS_MAX][DT_DELAY_NAME_BYTES];
    char peer[DT_DELAY_NAME_BYTES];
    size_t count;
    struct applied applied[DT_DELAY_RULES_MAX];
    uint32_t held_count;
    uint32_t ended_holds;   /* of the table */
    bool has_hold_ended;    /* since the last submission, of whatever scope */
    uint32_t ignores_holds; /* [atomic] */
    uint32_t slots;
    struct held held[];
};

/* ------------------------------------------------------------------------------------------------------------
 * Creation
 */

/* The names appear in files with columns separated by commas, and the peer chose one of them. */
static void copy_name(char *to, const char *from)
{
    size_t used = 0;

    for (; *from && used + 1 < DT_DELAY_NAME_BYTES; from++)
        to[used++] = *from < ' ' || *from > '~' || strchr(",;\"", *from) ? '?' : *from;
    to[used] = '\0';
}

enum dt_status dt_delay_flow_create(struct dt_delay_table *table, const struct dt_delay_link *link,
                                    uint32_t slots, struct dt_delay_flow **out)
{
    struct dt_delay_flow *flow = calloc(1, sizeof *flow + slots * sizeof flow->held[0]);

    DT_CHECK(dt_is_power_of_two(slots) && link->path_count <= DT_DELAY_PATHS_MAX);
    if (!flow)
        return DT_NO_MEMORY;
    flow->table = table;
    flow->table_generation = dt_delay_table_generation(table);
    flow->ended_holds = dt_delay_table_ended_holds(table);
    flow->number = link->number;
    flow->id = link->id;
    flow->path_count = link->path_count;
    flow->slots = slots;
    copy_name(flow->peer, link->peer);
    for (uint32_t p = 0; p < link->path_count; p++) {
        copy_name(flow->device[p], link->device[p]);
        flow->device_index[p] = link->device_index[p] % DT_DELAY_DEVICES_MAX;
    }
    *out = flow;
    return DT_OK;
}

void dt_delay_flow_destroy(struct dt_delay_flow *flow)
{
    if (!flow)
        return;
    for (size_t i = 0; i < flow->count; i++)
        dt_delay_active_release(flow->applied[i].active);
    free(flow);
}

struct dt_delay_idle dt_delay_flow_idle(const struct dt_delay_flow *flow)
{
    bool is_idle = flow->count == 0 && flow->held_count == 0;

    /* Differs from the table's number: the data path asks every time. */
    return (struct dt_delay_idle){flow->table_generation, is_idle ? flow->generation : flow->generation - 1};
}

/* ------------------------------------------------------------------------------------------------------------
 * Following the table
 */
static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "host:pid" is that process and not one whose pid begins with the same digits; any other text is a prefix.
 */
static bool begins_with(const char *name, const char *text)
{
    size_t length = strlen(text), pid = length;

    if (strncmp(text, name, length) != 0)
        return false;
    while (pid > 0 && is_digit(text[pid - 1]))
        pid--;
    bool ends_in_pid = pid < length && pid > 0 && text[pid - 1] == ':';
    return !ends_in_pid || !is_digit(name[length]);
}

uint32_t dt_delay_flow_paths(const struct dt_delay_flow *flow, const struct dt_delay_scope *scope)
{
    uint32_t mask = 0;

    if ((scope->has_connection && scope->connection != flow->number) ||
        (scope->has_id && scope->id != flow->id) || !begins_with(flow->peer, scope->peer))
        return 0;
    for (uint32_t p = 0; p < flow->path_count; p++) {
        if (!scope->device[0] || strcmp(scope->device, flow->device[p]) == 0)
            mask |= 1u << p;
    }
    return mask;
}

/* The previous index of `active`; `count` if it is new. */
static size_t find(const struct applied *applied, size_t count, const struct dt_delay_active *active)
{
    size_t i = 0;

    while (i < count && applied[i].active != active)
        i++;
    return i;
}

static bool is_hold(const struct applied *applied)
{
    return applied->active->rule.effect == DT_DELAY_HOLD;
}

/* Waiting messages keep the contributions of the remaining rules. */
static void carry_over(struct dt_delay_flow *flow, const struct applied *old, size_t old_count)
{
    for (uint32_t s = 0; s < flow->slots; s++) {
        uint64_t before[DT_DELAY_RULES_MAX];

        if (!flow->held[s].is_held)
            continue;
        memcpy(before, flow->held[s].added_ns, sizeof before);
        for (size_t i = 0; i < flow->count; i++) {
            size_t was = find(old, old_count, flow->applied[i].active);

            flow->held[s].added_ns[i] = was < old_count ? before[was] : 0;
        }
    }
}

static __attribute__((noinline)) void follow(struct dt_delay_flow *flow)
{
    struct applied old[DT_DELAY_RULES_MAX];
    struct dt_delay_active *active[DT_DELAY_RULES_MAX];
    size_t old_count = flow->count;

    memcpy(old, flow->applied, sizeof old);
    flow->count = dt_delay_table_acquire(flow->table, active, &flow->generation);
    DT_CHECK(flow->count <= DT_DELAY_RULES_MAX);
    for (size_t i = 0; i < flow->count; i++) {
        size_t was = find(old, old_count, active[i]);

        flow->applied[i] =
            was < old_count
                ? old[was]
                : (struct applied){.active = active[i],
                                   .path_mask = dt_delay_flow_paths(flow, &active[i]->rule.scope)};
    }
    carry_over(flow, old, old_count);
    for (size_t i = 0; i < old_count; i++)
        dt_delay_active_release(old[i].active);
    if (flow->ended_holds != dt_delay_table_ended_holds(flow->table))
        flow->has_hold_ended = true;
    flow->ended_holds = dt_delay_table_ended_holds(flow->table);
}

static void follow_if_changed(struct dt_delay_flow *flow)
{
    if (dt_load_acquire(flow->table_generation) != flow->generation)
        follow(flow);
}

/* ------------------------------------------------------------------------------------------------------------
 * The contribution of one rule
 */
static uint64_t seed_of(const struct dt_delay_active *active)
{
    return active->rule.has_seed ? active->rule.seed : active->number;
}

static uint64_t epoch_ns(const struct dt_delay_value *every)
{
    uint64_t interval_ns = every->a;

    if (every->shape != DT_DELAY_PARETO) /* its second parameter is not a time */
        interval_ns = dt_max_u64(interval_ns, every->b);
    return dt_max_u64(EPOCH_NS_MIN, EPOCH_INTERVALS * interval_ns);
}

static void start_epoch(struct cursor *cursor, const struct dt_delay_active *active, uint64_t epoch)
{
    cursor->is_set = true;
    cursor->epoch = epoch;
    cursor->end_ns = epoch * epoch_ns(&active->rule.every);
    dt_prng_init_stream(&cursor->prng, seed_of(active), UINT64_MAX - epoch);
}

/* The value at this age. Ages do not decrease within an epoch. */
static uint64_t held_value(struct cursor *cursor, const struct dt_delay_active *active, uint64_t age_ns)
{
    uint64_t epoch = age_ns / epoch_ns(&active->rule.every);

    if (!cursor->is_set || cursor->epoch != epoch)
        start_epoch(cursor, active, epoch);
    while (cursor->end_ns <= age_ns) {
        uint64_t interval_ns = dt_delay_draw(&active->rule.every, &cursor->prng);

        cursor->end_ns += dt_max_u64(interval_ns, INTERVAL_NS_MIN);
        cursor->value_ns = dt_delay_draw(&active->rule.value, &cursor->prng);
    }
    return cursor->value_ns;
}

static uint64_t own_value(const struct dt_delay_flow *flow, const struct dt_delay_active *active,
                          uint64_t sequence)
{
    struct dt_prng prng;

    if (active->rule.value.shape == DT_DELAY_CONSTANT)
        return active->rule.value.a;
    dt_prng_init_stream(&prng, seed_of(active), (uint64_t)flow->number << 44 ^ sequence);
    return dt_delay_draw(&active->rule.value, &prng);
}

static uint64_t value_for(const struct dt_delay_flow *flow, struct applied *applied, const struct held *held)
{
    const struct dt_delay_active *active = applied->active;

    return active->rule.has_every
               ? held_value(&applied->cursor, active, held->submitted_ns - active->since_ns)
               : own_value(flow, active, held->sequence);
}

/* The time of the message on the rule's link. */
static uint64_t service_ns(const struct dt_delay_flow *flow, struct applied *applied, const struct held *held)
{
    const struct dt_delay_rule *rule = &applied->active->rule;
    unsigned __int128 ns;

    if (rule->effect == DT_DELAY_RATE) {
        ns = (unsigned __int128)held->bytes * 8 * DT_NS_PER_S / rule->bits_per_s;
    } else {
        uint64_t chunks = rule->per_bytes ? (held->bytes + rule->per_bytes - 1) / rule->per_bytes : 1;

        ns = (unsigned __int128)value_for(flow, applied, held) * dt_max_u64(chunks, 1);
    }
    return ns < DT_DELAY_NS_MAX ? (uint64_t)ns : DT_DELAY_NS_MAX;
}

/* Enters the rule's queue at `enter_ns`; returns when the message leaves it. */
static uint64_t pass_queue(const struct dt_delay_flow *flow, struct applied *applied, const struct held *held,
                           uint64_t enter_ns)
{
    uint64_t *busy_ns = &applied->active->busy_ns[flow->device_index[held->path]];
    uint64_t service = service_ns(flow, applied, held);
    uint64_t busy = dt_load_acquire(busy_ns);
    uint64_t leave_ns;

    do {
        leave_ns = dt_max_u64(enter_ns, busy) + service;
    } while (!dt_compare_swap(busy_ns, &busy, leave_ns));
    return leave_ns;
}

static uint64_t latency_ns(const struct dt_delay_flow *flow, struct applied *applied, const struct held *held)
{
    const struct dt_delay_active *active = applied->active;
    uint64_t ns;

    switch (active->rule.effect) {
    case DT_DELAY_LATENCY:
        return value_for(flow, applied, held);
    case DT_DELAY_TRACE:
        ns = dt_delay_trace_at(active->files.trace,
                               held->submitted_ns - active->since_ns - active->rule.from_ns);
        return ns == DT_DELAY_CRASH ? 0 : ns;
    case DT_DELAY_REPLAY:
        return dt_delay_replay_at(active->files.replay, flow->number, held->sequence);
    default:
        return 0;
    }
}

static bool applies(const struct applied *applied, const struct held *held)
{
    const struct dt_delay_scope *scope = &applied->active->rule.scope;

    return applied->path_mask & 1u << held->path && held->bytes >= scope->bytes_min &&
           held->bytes <= scope->bytes_max && dt_delay_is_active(applied->active, held->submitted_ns);
}

static bool is_queue(const struct applied *applied)
{
    return applied->active->rule.effect == DT_DELAY_SERIAL || applied->active->rule.effect == DT_DELAY_RATE;
}

static void count(struct dt_delay_active *active, uint64_t added_ns)
{
    if (added_ns == 0)
        return;
    dt_fetch_add_relaxed(&active->messages, 1);
    dt_fetch_add_relaxed(&active->delay_ns, added_ns);
}

static void apply(struct dt_delay_flow *flow, struct held *held)
{
    uint64_t at_ns = held->submitted_ns;

    for (size_t i = 0; i < flow->count; i++) {
        struct applied *applied = &flow->applied[i];

        held->added_ns[i] = 0;
        if (!applies(applied, held))
            continue;
        if (is_queue(applied)) {
            uint64_t leave_ns = pass_queue(flow, applied, held, at_ns);

            held->added_ns[i] = leave_ns - at_ns;
            at_ns = leave_ns;
        } else {
            held->added_ns[i] = latency_ns(flow, applied, held);
        }
        count(applied->active, held->added_ns[i]);
    }
}

/* ------------------------------------------------------------------------------------------------------------
 * Messages
 */
static struct held *held_of(struct dt_delay_flow *flow, uint64_t sequence)
{
    struct held *held = &flow->held[sequence & (flow->slots - 1)];

    return held->is_held && held->sequence == sequence ? held : NULL;
}

/* Without holds. */
static uint64_t injected_due_ns(const struct dt_delay_flow *flow, const struct held *held)
{
    uint64_t due = held->submitted_ns;

    for (size_t i = 0; i < flow->count; i++)
        due += held->added_ns[i];
    return due;
}

void dt_delay_flow_end_holds(struct dt_delay_flow *flow)
{
    dt_store_relaxed(&flow->ignores_holds, 1u);
}

/* Parks the message if a hold ends after this time; returns when it may be posted. */
static uint64_t park(struct dt_delay_flow *flow, struct held *held, uint64_t due_ns)
{
    if (dt_load_relaxed(&flow->ignores_holds))
        return due_ns;
    for (size_t i = 0; i < flow->count; i++) {
        struct dt_delay_active *active = flow->applied[i].active;
        uint64_t end_ns = dt_deadline_ns(active->since_ns, active->rule.to_ns);

        if (!is_hold(&flow->applied[i]) || !(flow->applied[i].path_mask & 1u << held->path) ||
            end_ns <= due_ns)
            continue;
        if (!held->is_parked)
            dt_fetch_add_relaxed(&active->messages, 1);
        held->is_parked = true;
        due_ns = end_ns;
    }
    return due_ns;
}

void dt_delay_submit(struct dt_delay_flow *flow, uint64_t sequence, uint64_t bytes, uint32_t path,
                     uint64_t now_ns)
{
    struct held *held = &flow->held[sequence & (flow->slots - 1)];

    follow_if_changed(flow);
    flow->held_count += !held->is_held;
    held->is_held = true;
    held->sequence = sequence;
    held->bytes = bytes;
    held->path = path < flow->path_count ? path : 0;
    held->submitted_ns = now_ns;
    held->is_parked = false;
    held->is_disturbed = flow->has_hold_ended;
    flow->has_hold_ended = false;
    DT_CHECK(flow->held_count <= flow->slots);
    apply(flow, held);
}

uint64_t dt_delay_due_ns(struct dt_delay_flow *flow, uint64_t sequence)
{
    struct held *held;

    follow_if_changed(flow);
    held = held_of(flow, sequence);
    return held ? park(flow, held, injected_due_ns(flow, held)) : 0;
}

static void record(struct dt_delay_flow *flow, const struct held *held, uint64_t now_ns)
{
    struct dt_delay_ring *ring = dt_delay_table_ring(flow->table);
    uint64_t due = injected_due_ns(flow, held);
    struct dt_delay_entry entry = {
        .time_ns = held->submitted_ns,
        .id = flow->id,
        .message = held->sequence,
        .bytes = held->bytes,
        .delay_ns = due - held->submitted_ns,
        .late_ns = now_ns > due && !held->is_parked ? now_ns - due : 0,
        .connection = flow->number,
    };

    if (!ring || entry.delay_ns == 0)
        return;
    memcpy(entry.device, flow->device[held->path], sizeof entry.device);
    memcpy(entry.peer, flow->peer, sizeof entry.peer);
    dt_delay_ring_write(ring, &entry);
}

bool dt_delay_posted(struct dt_delay_flow *flow, uint64_t sequence, uint64_t now_ns, uint64_t *held_ns)
{
    struct held *held = held_of(flow, sequence);

    *held_ns = 0;
    if (!held)
        return false;
    record(flow, held, now_ns);
    if (held->is_parked && now_ns > injected_due_ns(flow, held))
        *held_ns = now_ns - injected_due_ns(flow, held);
    DT_CHECK(flow->held_count > 0);
    held->is_held = false;
    flow->held_count--;
    return held->is_parked || held->is_disturbed;
}
