/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/packing.h"

#include <string.h>

#include "sched/arena.h"
#include "sched/call.h"

enum { STATES_MAX = 1 << 16, STEPS_MAX = 8000000 };

/* Classes while they are collected, the heaviest first. */
struct classes {
    struct dt_packing_sizes *size;
    int32_t *count;
    int32_t used;
};

/* Of all sizes but the work. */
static void take_least(struct dt_packing_sizes *to, const struct dt_packing_sizes *other)
{
    for (int i = DT_PACKING_WORK + 1; i < DT_PACKING_LIMITS; i++)
        to->of[i] = other->of[i] < to->of[i] ? other->of[i] : to->of[i];
}

static void merge_closest(struct classes *c)
{
    int32_t at = 0;
    double least = -1;

    for (int32_t k = 0; k + 1 < c->used; k++) {
        double loss =
            (double)(c->size[k].of[DT_PACKING_WORK] - c->size[k + 1].of[DT_PACKING_WORK]) * c->count[k];
        if (least < 0 || loss < least) {
            least = loss;
            at = k;
        }
    }
    c->count[at + 1] += c->count[at];
    take_least(&c->size[at + 1], &c->size[at]);
    memmove(&c->size[at], &c->size[at + 1], (size_t)(c->used - at - 1) * sizeof(*c->size));
    memmove(&c->count[at], &c->count[at + 1], (size_t)(c->used - at - 1) * sizeof(*c->count));
    c->used--;
}

static void swap_last(struct dt_packing *p, int32_t k)
{
    int32_t last = p->class_count - 1, count = p->count[k];
    struct dt_packing_sizes size = p->size[k];

    p->count[k] = p->count[last];
    p->size[k] = p->size[last];
    p->count[last] = count;
    p->size[last] = size;
}

static void take_over(const struct classes *c, struct dt_packing *p)
{
    int32_t most = 0;

    p->class_count = c->used;
    for (int32_t k = 0; k < c->used; k++) {
        p->size[k] = c->size[k];
        p->count[k] = c->count[k];
        most = c->count[k] > c->count[most] ? k : most;
    }
    if (c->used)
        swap_last(p, most);
    p->states = 1;
    for (int32_t k = 0; k + 1 < c->used && p->states <= STATES_MAX; k++)
        p->states *= (size_t)p->count[k] + 1;
}

enum detour_status dt_packing_create(struct detour_arena *arena, const struct dt_packing_sizes *layers,
                                     int32_t layer_count, struct dt_packing *packing,
                                     struct detour_error *error)
{
    struct classes c = {0};

    *packing = (struct dt_packing){.class_count = 0};
    if (!dt_arena_new(arena, c.size, layer_count) || !dt_arena_new(arena, c.count, layer_count))
        return dt_fail_memory(error);
    for (int32_t l = 0; l < layer_count && layers[l].of[DT_PACKING_WORK] > 0; l++) {
        if (!c.used || c.size[c.used - 1].of[DT_PACKING_WORK] != layers[l].of[DT_PACKING_WORK])
            c.size[c.used++] = layers[l];
        take_least(&c.size[c.used - 1], &layers[l]);
        c.count[c.used - 1]++;
    }
    while (c.used > DT_PACKING_CLASSES_MAX)
        merge_closest(&c);
    take_over(&c, packing);
    if (packing->states > STATES_MAX)
        return DETOUR_OK;
    if (!dt_arena_new(arena, packing->table, packing->states) ||
        !dt_arena_new(arena, packing->next, packing->states))
        return dt_fail_memory(error);
    return DETOUR_OK;
}

/* One bin's content but for the last class, as counts and as the difference of two states. */
struct content {
    int32_t count[DT_PACKING_CLASSES_MAX];
    size_t offset;
    struct dt_packing_sizes left; /* of the bin */
};

/* How many more layers of class k the bin has room for. */
static int64_t room_for(const struct dt_packing *p, int32_t k, const struct content *content)
{
    int64_t room = INT32_MAX;

    for (int i = 0; i < DT_PACKING_LIMITS; i++) {
        int64_t size = p->size[k].of[i];
        if (size && content->left.of[i] / size < room)
            room = content->left.of[i] / size;
    }
    return room;
}

static void put(const struct dt_packing *p, int32_t k, int32_t count, size_t stride, struct content *content)
{
    content->count[k] += count;
    content->offset += stride * (size_t)(int64_t)count; /* modulo 2^64 where count is negative */
    for (int i = 0; i < DT_PACKING_LIMITS; i++)
        content->left.of[i] -= p->size[k].of[i] * count;
}

/* The next content in the order of a counter; false after the last. */
static bool next_content(const struct dt_packing *p, struct content *content)
{
    size_t stride = 1;

    for (int32_t k = 0; k + 1 < p->class_count; k++) {
        if (content->count[k] < p->count[k] && room_for(p, k, content) > 0) {
            put(p, k, 1, stride, content);
            return true;
        }
        put(p, k, -content->count[k], stride, content);
        stride *= (size_t)p->count[k] + 1;
    }
    return false;
}

static bool is_within(const struct dt_packing *p, size_t state, const struct content *content)
{
    for (int32_t k = 0; k + 1 < p->class_count; k++) {
        size_t radix = (size_t)p->count[k] + 1;
        if ((int32_t)(state % radix) + content->count[k] > p->count[k])
            return false;
        state /= radix;
    }
    return true;
}

/* Adds a bin to the table; returns the steps that it took. */
static uint64_t add_bin(struct dt_packing *p, const struct dt_packing_sizes *bin)
{
    int32_t last = p->class_count - 1, *filled = p->next;
    struct content content = {.left = *bin};
    uint64_t steps = 0;

    memset(filled, 0xff, p->states * sizeof(*filled)); /* -1: not possible */
    do {
        int64_t more = room_for(p, last, &content);
        for (size_t s = 0; s + content.offset < p->states; s++, steps++) {
            if (p->table[s] < 0 || !is_within(p, s, &content))
                continue;
            int64_t packed = p->table[s] + more;
            packed = packed < p->count[last] ? packed : p->count[last];
            if (packed > filled[s + content.offset])
                filled[s + content.offset] = (int32_t)packed;
        }
    } while (steps < STEPS_MAX && next_content(p, &content));
    p->next = p->table;
    p->table = filled;
    return steps;
}

static bool has_room(const struct dt_packing_sizes *bin)
{
    bool has = true;

    for (int i = 0; i < DT_PACKING_LIMITS; i++)
        has = has && bin->of[i] >= 0;
    return has;
}

bool dt_packing_fits(struct dt_packing *p, const struct dt_packing_sizes *bins, int32_t bin_count)
{
    uint64_t steps = 0;

    if (!p->class_count || !p->table)
        return true;
    memset(p->table, 0xff, p->states * sizeof(*p->table));
    p->table[0] = 0;
    for (int32_t k = 0; k < bin_count; k++) {
        if (has_room(&bins[k]))
            steps += add_bin(p, &bins[k]);
        if (steps >= STEPS_MAX)
            return true;
    }
    return p->table[p->states - 1] >= p->count[p->class_count - 1];
}
