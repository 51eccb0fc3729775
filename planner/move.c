/* SPDX-License-Identifier: Apache-2.0 */
#include "planner/move.h"

#include <string.h>

#include "detour/optimize.h"

enum { CUTS = 1 << DT_MOVE_CUT | 1 << DT_MOVE_SHIFT };
enum { PLACES = 1 << DT_MOVE_PLACE | 1 << DT_MOVE_SWAP | 1 << DT_MOVE_TRADE };
enum { BOTH = 1 << DT_MOVE_SPLIT | 1 << DT_MOVE_MERGE };

unsigned dt_moves_allowed(const struct dt_space *space, int parts)
{
    const struct detour_partition *fixed = &space->model->fixed;
    unsigned allowed = 0;

    if (parts & DETOUR_TUNE_PARTITION && !fixed->first_layer)
        allowed |= CUTS;
    if (parts & DETOUR_TUNE_PLACEMENT && !fixed->device)
        allowed |= PLACES;
    if (allowed == (CUTS | PLACES) && !fixed->stage_count)
        allowed |= BOTH;
    return allowed;
}

/* Whether the device has another stage than this one. */
static bool has_other(const struct dt_pipeline *p, int32_t stage)
{
    for (int32_t i = 0; i < p->stage_count; i++)
        if (i != stage && p->device[i] == p->device[stage])
            return true;
    return false;
}

static bool apply_cut(struct dt_pipeline *p, int32_t stage, int32_t by)
{
    int32_t at = p->first_layer[stage] + by;

    if (at <= p->first_layer[stage - 1] || at >= p->first_layer[stage + 1])
        return false;
    p->first_layer[stage] = at;
    return true;
}

static bool apply_shift(struct dt_pipeline *p, int32_t from, int32_t to)
{
    int32_t by = from < to ? -1 : 1, low = from < to ? from : to, high = from < to ? to : from;

    if (from == to || p->first_layer[from + 1] - p->first_layer[from] < 2)
        return false;
    for (int32_t i = low + 1; i <= high; i++)
        p->first_layer[i] += by;
    return true;
}

static bool apply_split(const struct dt_space *space, struct dt_pipeline *p, int32_t stage, int32_t layer,
                        int32_t device)
{
    size_t later = (size_t)(p->stage_count - stage - 1);

    if (p->stage_count >= space->stages_max || layer <= p->first_layer[stage] ||
        layer >= p->first_layer[stage + 1] || device == p->device[stage])
        return false;
    memmove(&p->first_layer[stage + 2], &p->first_layer[stage + 1], (later + 1) * sizeof(*p->first_layer));
    memmove(&p->device[stage + 2], &p->device[stage + 1], later * sizeof(*p->device));
    p->first_layer[stage + 1] = layer;
    p->device[stage + 1] = device;
    p->stage_count++;
    return true;
}

static bool apply_merge(const struct dt_space *space, struct dt_pipeline *p, int32_t stage, int32_t device)
{
    int32_t gone = device == p->device[stage] ? stage + 1 : stage;
    size_t later = (size_t)(p->stage_count - stage - 2);

    if (p->stage_count <= space->model->device_count || (p->device[gone] != device && !has_other(p, gone)))
        return false;
    p->device[stage] = device;
    memmove(&p->first_layer[stage + 1], &p->first_layer[stage + 2], (later + 1) * sizeof(*p->first_layer));
    memmove(&p->device[stage + 1], &p->device[stage + 2], later * sizeof(*p->device));
    p->stage_count--;
    return true;
}

static bool apply_trade(struct dt_pipeline *p, int32_t a, int32_t b)
{
    for (int32_t i = 0; i < p->stage_count; i++) {
        if (p->device[i] == a)
            p->device[i] = b;
        else if (p->device[i] == b)
            p->device[i] = a;
    }
    return a != b;
}

bool dt_move_apply(const struct dt_space *space, struct dt_pipeline *p, const struct dt_move *move)
{
    switch (move->kind) {
    case DT_MOVE_CUT:
        return apply_cut(p, move->a, move->b);
    case DT_MOVE_SHIFT:
        return apply_shift(p, move->a, move->b);
    case DT_MOVE_PLACE:
        if (p->device[move->a] == move->b || !has_other(p, move->a))
            return false;
        p->device[move->a] = move->b;
        return true;
    case DT_MOVE_SWAP: {
        int32_t device = p->device[move->a];
        p->device[move->a] = p->device[move->b];
        p->device[move->b] = device;
        return p->device[move->a] != device;
    }
    case DT_MOVE_TRADE:
        return apply_trade(p, move->a, move->b);
    case DT_MOVE_SPLIT:
        return apply_split(space, p, move->a, move->b, move->c);
    default:
        return apply_merge(space, p, move->a, move->b);
    }
}

static int32_t below(struct dt_prng *prng, int32_t bound)
{
    return (int32_t)dt_prng_below(prng, (uint64_t)bound);
}

struct dt_move dt_move_draw(const struct dt_space *space, const struct dt_pipeline *p, unsigned allowed,
                            struct dt_prng *prng)
{
    int32_t stages = p->stage_count, devices = space->model->device_count;
    struct dt_move move = {0};

    do
        move.kind = (uint8_t)below(prng, DT_MOVE_KINDS);
    while (!(allowed & 1u << move.kind));
    move.a = below(prng, stages);
    move.b = below(prng, stages);
    switch (move.kind) {
    case DT_MOVE_CUT:
        move.a = stages > 1 ? 1 + below(prng, stages - 1) : 0;
        move.b = stages > 1 ? (below(prng, 2) ? 1 : -1) * (1 + below(prng, 3)) : 0;
        if (stages == 1)
            move = (struct dt_move){.kind = DT_MOVE_SHIFT};
        break;
    case DT_MOVE_PLACE:
        move.b = below(prng, devices);
        break;
    case DT_MOVE_TRADE:
        move.a = below(prng, devices);
        move.b = below(prng, devices);
        break;
    case DT_MOVE_SPLIT:
        move.b = p->first_layer[move.a] + below(prng, p->first_layer[move.a + 1] - p->first_layer[move.a]);
        move.c = below(prng, devices);
        break;
    case DT_MOVE_MERGE:
        move.a = stages > 1 ? below(prng, stages - 1) : 0;
        move.b = p->device[stages > 1 ? move.a + below(prng, 2) : 0];
        break;
    default:
        break;
    }
    return move;
}

/* A list under construction. */
struct list {
    const struct dt_pipeline *pipeline;
    struct dt_move *moves;
    size_t count;
    size_t room;
    unsigned allowed;
};

static void add(struct list *list, enum dt_move_kind kind, int32_t a, int32_t b, int32_t c)
{
    if (list->allowed & 1u << kind && list->count < list->room)
        list->moves[list->count++] = (struct dt_move){(uint8_t)kind, a, b, c};
}

/* Those that take a layer, or all of them, from stage i. */
static void add_of_stage(struct list *list, int32_t i, int32_t device_count)
{
    const struct dt_pipeline *p = list->pipeline;

    for (int32_t j = 0; j < p->stage_count; j++) {
        if (j != i)
            add(list, DT_MOVE_SHIFT, i, j, 0);
        if (p->device[j] != p->device[i])
            add(list, DT_MOVE_SWAP, i, j, 0);
    }
    for (int32_t d = 0; d < device_count; d++) {
        add(list, DT_MOVE_PLACE, i, d, 0);
        for (int32_t l = p->first_layer[i] + 1; l < p->first_layer[i + 1]; l++)
            add(list, DT_MOVE_SPLIT, i, l, d);
    }
}

size_t dt_moves_list(const struct dt_space *space, const struct dt_pipeline *p, unsigned allowed,
                     int32_t busiest, struct dt_move *moves, size_t room)
{
    struct list list = {.pipeline = p, .moves = moves, .room = room, .allowed = allowed};

    for (int32_t i = 1; i < p->stage_count; i++) {
        add(&list, DT_MOVE_CUT, i, -1, 0);
        add(&list, DT_MOVE_CUT, i, 1, 0);
    }
    for (int32_t i = 0; i + 1 < p->stage_count; i++) {
        add(&list, DT_MOVE_MERGE, i, p->device[i], 0);
        if (p->device[i + 1] != p->device[i])
            add(&list, DT_MOVE_MERGE, i, p->device[i + 1], 0);
    }
    for (int32_t d = 0; d < space->model->device_count; d++)
        if (busiest >= 0 && d != busiest)
            add(&list, DT_MOVE_TRADE, busiest, d, 0);
    for (int32_t i = 0; i < p->stage_count; i++)
        if (busiest < 0 || p->device[i] == busiest)
            add_of_stage(&list, i, space->model->device_count);
    return list.count;
}
