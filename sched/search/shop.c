/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/search/shop.h"

#include <string.h>

#include "base/util.h"

enum { F = DETOUR_OP_F, B = DETOUR_OP_B, W = DETOUR_OP_W, BW = DETOUR_OP_BW };

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- the shop --------------------------------------------------------------------------------------- */

/* Microbatches that fit in a device's memory if each takes `bytes` of it. */
static int64_t fitting(const struct dt_problem *p, int32_t stage, int64_t bytes)
{
    int64_t capacity = p->capacity[p->device[stage]];

    return bytes == 0 || capacity == INT64_MAX ? INT32_MAX : capacity / bytes;
}

static int32_t smallest(int64_t a, int64_t b)
{
    int64_t value = a < b ? a : b;

    return value < INT32_MAX ? (int32_t)value : INT32_MAX;
}

static void fill_stage(struct dt_shop *shop, int32_t i)
{
    const struct dt_problem *p = shop->p;
    int32_t device = p->device[i], stage_count = p->device_first[device + 1] - p->device_first[device];
    int64_t b_ns = p->duration_ns[B][i], w_ns = p->duration_ns[W][i], bw_ns = p->duration_ns[BW][i];
    int64_t least_bytes = p->bytes_f[i] < p->bytes_w[i] ? p->bytes_f[i] : p->bytes_w[i];
    bool limited = p->capacity[device] != INT64_MAX;

    shop->limit_b[i] = smallest(p->max_inflight[i], fitting(p, i, p->bytes_f[i]));
    shop->limit_w[i] =
        smallest(p->release == DETOUR_RELEASE_B ? INT32_MAX : p->max_inflight[i], fitting(p, i, least_bytes));
    shop->fuses[i] = bw_ns < b_ns + w_ns || (limited && p->bytes_w[i] > p->bytes_f[i]);
    shop->low_b_ns[i] = b_ns < bw_ns ? b_ns : bw_ns;
    shop->low_w_ns[i] = w_ns < bw_ns - shop->low_b_ns[i] ? w_ns : bw_ns - shop->low_b_ns[i];
    /*
     * Only where F alone takes memory, and F's of one stage only, can an operation that could be earlier
     * always be moved before others without taking memory from them. And where B may be fused with W, it is
     * not known which of the two could be moved.
     */
    shop->guarded[device] |= limited && (p->bytes_w[i] > p->bytes_f[i] || stage_count > 1);
    shop->complete = shop->complete && !shop->guarded[device] && !shop->fuses[i];
    shop->moves_max = stage_count > shop->moves_max / 4 ? 4 * stage_count : shop->moves_max;
}

/* The arrays of a state lie behind it; fills in the pointers and returns the size of all. */
static size_t lay_out(const struct dt_problem *p, struct dt_shop_state *state)
{
    size_t stages = (size_t)p->stage_count, devices = (size_t)p->device_count, cells = dt_cell_count(p);
    int64_t **const times[] = {&state->free_ns,   &state->last_w_ns,  &state->held_bytes, &state->link_f_ns,
                               &state->link_b_ns, &state->input_f_ns, &state->input_b_ns};
    const size_t counts[] = {devices, devices, devices, stages, stages, cells, cells};
    int64_t *at = (int64_t *)(void *)(state + 1);

    for (size_t k = 0; k < DT_COUNT_OF(times); k++) {
        *times[k] = at;
        at += counts[k];
    }
    for (int kind = F; kind <= W; kind++) {
        state->done[kind] = (int32_t *)(void *)at;
        at += (stages + 1) / 2;
    }
    return (size_t)((unsigned char *)at - (unsigned char *)state);
}

static int64_t find_origin_ns(const struct dt_timeline *start)
{
    const struct dt_builder *done = &start->builder;
    int64_t first_ns = INT64_MAX;

    for (int32_t d = 0; d < start->p->device_count; d++)
        if (done->count[d] && done->ops[done->room_first[d]].start_ns < first_ns)
            first_ns = done->ops[done->room_first[d]].start_ns;
    return first_ns == INT64_MAX ? start->now_ns : first_ns;
}

/* Operations in `start` of a stage and kind; an operation that was fused into its B counts. */
static int32_t started(const struct dt_timeline *start, int kind, int32_t stage)
{
    const struct dt_problem *p = start->p;
    int32_t count = start->done[kind][stage];

    if (kind == W) /* done[W] is where the next W is looked for; fused ones may lie behind it */
        for (int32_t j = count; j < start->done[B][stage]; j++)
            count += start->fused[dt_op_index(p, DETOUR_OP_F, stage, j)];
    return count;
}

enum detour_status dt_shop_create(struct dt_call *call, const struct dt_timeline *start,
                                  struct dt_shop **shop)
{
    const struct dt_problem *p = start->p;
    struct detour_arena *arena = call->arena;
    struct dt_shop_state probe;
    struct dt_shop *s;

    if (!dt_arena_new(arena, s, 1) || !dt_arena_new(arena, s->limit_b, p->stage_count) ||
        !dt_arena_new(arena, s->limit_w, p->stage_count) || !dt_arena_new(arena, s->fuses, p->stage_count) ||
        !dt_arena_new(arena, s->low_b_ns, p->stage_count) ||
        !dt_arena_new(arena, s->low_w_ns, p->stage_count) ||
        !dt_arena_new(arena, s->guarded, p->device_count))
        return dt_fail_memory(call->error);
    s->p = p;
    s->start = start;
    s->origin_ns = find_origin_ns(start);
    s->complete = true;
    s->op_count = (int32_t)dt_op_index_count(p);
    for (int32_t i = 0; i < p->stage_count; i++) {
        fill_stage(s, i);
        for (int kind = F; kind <= W; kind++)
            s->op_count -= started(start, kind, i);
    }
    s->state_bytes = lay_out(p, &probe);
    *shop = s;
    return DETOUR_OK;
}

/* ---- states ----------------------------------------------------------------------------------------- */

struct dt_shop_state *dt_shop_state_create(struct dt_call *call, const struct dt_shop *shop)
{
    struct dt_shop_state *state = dt_arena_alloc(call->arena, 1, shop->state_bytes);
    const struct dt_timeline *start = shop->start;
    const struct dt_problem *p = shop->p;

    if (!state)
        return NULL;
    lay_out(p, state);
    for (int32_t d = 0; d < p->device_count; d++) {
        state->free_ns[d] = later(start->free_ns[d], start->now_ns);
        state->last_w_ns[d] = -1;
        state->held_bytes[d] = start->memory.bytes[d];
    }
    for (int32_t i = 0; i < p->stage_count; i++) {
        for (int kind = F; kind <= W; kind++)
            state->done[kind][i] = started(start, kind, i);
        state->link_f_ns[i] = start->forward_busy_ns[i];
        state->link_b_ns[i] = start->backward_busy_ns[i];
    }
    memcpy(state->input_f_ns, &start->input_ns[dt_op_index(p, DETOUR_OP_F, 0, 0)],
           dt_cell_count(p) * sizeof(int64_t));
    memcpy(state->input_b_ns, &start->input_ns[dt_op_index(p, DETOUR_OP_B, 0, 0)],
           dt_cell_count(p) * sizeof(int64_t));
    return state;
}

void dt_shop_copy(const struct dt_shop *shop, struct dt_shop_state *to, const struct dt_shop_state *from)
{
    memcpy(to + 1, from + 1, shop->state_bytes - sizeof(*to));
    to->placed = from->placed;
}

int64_t dt_shop_makespan_ns(const struct dt_shop *shop, const struct dt_shop_state *state)
{
    int64_t last_ns = 0;

    for (int32_t d = 0; d < shop->p->device_count; d++)
        last_ns = later(last_ns, state->free_ns[d]);
    return last_ns - shop->origin_ns;
}

/* ---- memory ------------------------------------------------------------------------------------------- */

/* Operations of a stage placed, one move included. */
static int32_t placed(const struct dt_shop_state *state, int kind, int32_t stage, int move_kind,
                      int32_t move_stage)
{
    return state->done[kind][stage] + (kind == move_kind && stage == move_stage);
}

/*
 * Whether a guarded device could, after the operation, finish all it has begun, one microbatch after the
 * other, the oldest first: F on all its stages, then B and W stage by stage. If not, memory might come to be
 * full of microbatches of which none can go on.
 */
static bool stays_safe(const struct dt_shop *shop, const struct dt_shop_state *state, int kind, int32_t stage)
{
    const struct dt_problem *p = shop->p;
    int32_t device = p->device[stage], oldest = p->microbatch_count, newest = 0;
    const int32_t first = p->device_first[device], end = p->device_first[device + 1];
    int64_t spare = p->capacity[device] - state->held_bytes[device] - dt_memory_taken(p, kind, stage) +
                    dt_memory_freed(p, kind, stage);

    for (int32_t k = first; k < end; k++) {
        int32_t begun = placed(state, F, p->device_stages[k], kind, stage);
        oldest = smallest(oldest, state->done[W][p->device_stages[k]]);
        newest = begun > newest ? begun : newest;
    }
    for (int32_t j = oldest; j < newest; j++) {
        for (int32_t k = first; k < end; k++) {
            int32_t i = p->device_stages[k];
            if (j >= placed(state, F, i, kind, stage))
                spare -= p->bytes_f[i];
            else if (j >= state->done[W][i] && j < placed(state, B, i, kind, stage))
                spare += p->bytes_w[i];
        }
        if (spare < 0)
            return false;
        for (int32_t k = end - 1; k >= first; k--) {
            int32_t i = p->device_stages[k];
            if (j < placed(state, B, i, kind, stage))
                continue;
            if (spare < dt_memory_taken(p, B, i))
                return false;
            spare += p->bytes_f[i];
        }
    }
    return true;
}

/* Whether there is memory for the operation now. */
static bool fits(const struct dt_shop *shop, const struct dt_shop_state *state, int kind, int32_t stage)
{
    const struct dt_problem *p = shop->p;
    int32_t device = p->device[stage], begun = state->done[F][stage];

    if (kind == F && (begun - state->done[B][stage] >= shop->limit_b[stage] ||
                      begun - state->done[W][stage] >= shop->limit_w[stage]))
        return false;
    if (p->capacity[device] == INT64_MAX)
        return true;
    return dt_memory_taken(p, kind, stage) <= p->capacity[device] - state->held_bytes[device] &&
           (!shop->guarded[device] || kind == W || kind == BW || stays_safe(shop, state, kind, stage));
}

/* ---- moves ------------------------------------------------------------------------------------------ */

/* When the input of the stage's next operation of a kind is there; DT_FOREVER if that is not known yet. */
static int64_t input_ns(const struct dt_shop *shop, const struct dt_shop_state *state, int kind, int32_t i)
{
    const int32_t *f = state->done[F], *b = state->done[B];

    switch (kind) {
    case F:
        if (f[i] == shop->p->microbatch_count || (i > 0 && f[i] == f[i - 1]))
            return DT_FOREVER;
        return state->input_f_ns[dt_shop_cell(shop, i, f[i])];
    case W:
        return state->done[W][i] < b[i] ? 0 : DT_FOREVER;
    default:
        if (b[i] == f[i] || (i + 1 < shop->p->stage_count && b[i] == b[i + 1]) ||
            (kind == BW && !shop->fuses[i]))
            return DT_FOREVER;
        return state->input_b_ns[dt_shop_cell(shop, i, b[i])];
    }
}

/* The device on which an operation could finish first, or -1 if there is none; that finish in *finish_ns. */
static int32_t first_device(const struct dt_shop *shop, const struct dt_shop_state *state, int64_t *finish_ns)
{
    const struct dt_problem *p = shop->p;
    int32_t first = -1;

    *finish_ns = DT_FOREVER;
    for (int32_t i = 0; i < p->stage_count; i++) {
        int64_t free_ns = state->free_ns[p->device[i]];
        for (int kind = F; kind <= BW; kind++) {
            int64_t at_ns = later(input_ns(shop, state, kind, i), free_ns) + p->duration_ns[kind][i];
            if (at_ns < *finish_ns && fits(shop, state, kind, i)) {
                *finish_ns = at_ns;
                first = p->device[i];
            }
        }
    }
    return first;
}

/* Whether the operation could have been where the W just before it is. */
static bool could_precede(const struct dt_shop *shop, const struct dt_shop_state *state, int kind,
                          int32_t stage, int64_t there_ns)
{
    int32_t device = shop->p->device[stage];

    if (kind == W || state->last_w_ns[device] < there_ns || shop->p->capacity[device] != INT64_MAX)
        return false;
    /* That W may have made room for the F. */
    return kind != F || state->done[F][stage] - state->done[W][stage] + 1 < shop->limit_w[stage];
}

int32_t dt_shop_moves(const struct dt_shop *shop, const struct dt_shop_state *state,
                      struct dt_shop_move *moves)
{
    const struct dt_problem *p = shop->p;
    int64_t finish_ns;
    int32_t device = first_device(shop, state, &finish_ns), count = 0;

    if (device < 0)
        return 0;
    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++) {
        int32_t i = p->device_stages[k];
        for (int kind = F; kind <= BW; kind++) {
            int64_t there_ns = input_ns(shop, state, kind, i);
            int64_t start_ns = later(there_ns, state->free_ns[device]);
            /* One that takes no time may start at the very finish. */
            if (start_ns >= finish_ns && start_ns + p->duration_ns[kind][i] > finish_ns)
                continue;
            if (fits(shop, state, kind, i))
                moves[count++] = (struct dt_shop_move){
                    .start_ns = start_ns,
                    .stage = (int16_t)i,
                    .kind = (uint8_t)kind,
                    .wasteful = could_precede(shop, state, kind, i, there_ns),
                };
        }
    }
    return count;
}

/* ---- placing ---------------------------------------------------------------------------------------- */

/* What an F, B or BW occupies when it has finished: the state of its link; NULL if it sends nothing. */
static int64_t *link_of(const struct dt_shop *shop, struct dt_shop_state *state, int kind, int32_t stage)
{
    if (kind == F)
        return stage + 1 < shop->p->stage_count ? &state->link_f_ns[stage] : NULL;
    return kind != W && stage > 0 ? &state->link_b_ns[stage] : NULL;
}

static int64_t arrival_ns(int64_t *link_ns, int64_t finish_ns, int64_t serial_ns, int64_t latency_ns)
{
    *link_ns = later(*link_ns, finish_ns) + serial_ns;
    return *link_ns + latency_ns;
}

static void deliver(const struct dt_shop *shop, struct dt_shop_state *state, int kind, int32_t stage,
                    int64_t finish_ns)
{
    const struct dt_problem *p = shop->p;
    int64_t *link_ns = link_of(shop, state, kind, stage);

    if (kind == F && !link_ns)
        state->input_b_ns[dt_shop_cell(shop, stage, state->done[F][stage])] = finish_ns;
    else if (kind == F)
        state->input_f_ns[dt_shop_cell(shop, stage + 1, state->done[F][stage])] =
            arrival_ns(link_ns, finish_ns, p->forward_serial_ns[stage], p->forward_ns[stage]);
    else if (link_ns)
        state->input_b_ns[dt_shop_cell(shop, stage - 1, state->done[B][stage])] =
            arrival_ns(link_ns, finish_ns, p->backward_serial_ns[stage - 1], p->backward_ns[stage - 1]);
}

void dt_shop_place(const struct dt_shop *shop, struct dt_shop_state *state, const struct dt_shop_move *move,
                   struct dt_shop_undo *undo)
{
    const struct dt_problem *p = shop->p;
    int32_t stage = move->stage, device = p->device[stage], kind = move->kind;
    const int64_t *link_ns = link_of(shop, state, kind, stage);
    int64_t finish_ns = move->start_ns + p->duration_ns[kind][stage];

    *undo = (struct dt_shop_undo){state->free_ns[device], state->last_w_ns[device], link_ns ? *link_ns : 0};
    deliver(shop, state, kind, stage, finish_ns);
    state->free_ns[device] = finish_ns;
    /*
     * An operation of duration 0 delays no other, and an operation that could precede it need not have been
     * among the moves.
     */
    state->last_w_ns[device] = kind == W && finish_ns > move->start_ns ? move->start_ns : -1;
    state->held_bytes[device] += dt_memory_taken(p, kind, stage) - dt_memory_freed(p, kind, stage);
    state->placed += kind == BW ? 2 : 1;
    state->done[kind == BW ? B : kind][stage]++;
    if (kind == BW)
        state->done[W][stage]++;
}

void dt_shop_take_back(const struct dt_shop *shop, struct dt_shop_state *state,
                       const struct dt_shop_move *move, const struct dt_shop_undo *undo)
{
    const struct dt_problem *p = shop->p;
    int32_t stage = move->stage, device = p->device[stage], kind = move->kind;
    int64_t *link_ns = link_of(shop, state, kind, stage);

    if (link_ns)
        *link_ns = undo->link_ns;
    state->free_ns[device] = undo->free_ns;
    state->last_w_ns[device] = undo->last_w_ns;
    state->held_bytes[device] -= dt_memory_taken(p, kind, stage) - dt_memory_freed(p, kind, stage);
    state->placed -= kind == BW ? 2 : 1;
    state->done[kind == BW ? B : kind][stage]--;
    if (kind == BW)
        state->done[W][stage]--;
}
