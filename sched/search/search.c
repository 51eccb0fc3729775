/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/search/search.h"

#include <string.h>

/* The default budget. */
enum { DEFAULT_BUDGET_US = 100000 };

uint64_t detour_node_budget(const struct detour_profile *profile, uint64_t budget_us)
{
    /*
     * Measured: a node costs a fixed part, as much again for each 120 operations of the problem, and for
     * those that the processor's caches do not hold four times that.
     */
    const uint64_t fixed_ops = 120, ops_per_us = 350, cached_ops = 4096;
    uint64_t ops = 0;

    if (profile && profile->stage_count > 0 && profile->microbatch_count > 0)
        ops = 3 * (uint64_t)profile->stage_count * (uint64_t)profile->microbatch_count;
    if (ops > cached_ops)
        ops += 3 * (ops - cached_ops);
    if (budget_us > UINT64_MAX / ops_per_us)
        return UINT64_MAX / (ops + fixed_ops);
    return budget_us * ops_per_us / (ops + fixed_ops) + 1;
}

/* Nothing that is computed in a search is later or longer than all there is to do, one after the other. */
static int key_shift(const struct dt_timeline *start)
{
    const struct dt_problem *p = start->p;
    int64_t longest_ns = 0, terms = (int64_t)p->device_count + 2 * (int64_t)p->stage_count;
    int shift = 0;

    for (int32_t i = 0; i < p->stage_count; i++)
        longest_ns += p->duration_ns[DETOUR_OP_F][i] + p->duration_ns[DETOUR_OP_B][i] +
                      p->duration_ns[DETOUR_OP_W][i] + p->duration_ns[DETOUR_OP_BW][i] + p->forward_ns[i] +
                      p->backward_ns[i] + p->forward_serial_ns[i] + p->backward_serial_ns[i];
    longest_ns *= p->microbatch_count;
    for (int32_t d = 0; d < p->device_count; d++)
        longest_ns = start->free_ns[d] > longest_ns ? start->free_ns[d] : longest_ns;
    longest_ns = start->now_ns > longest_ns ? start->now_ns : longest_ns;
    while (longest_ns >> shift > INT64_MAX / 4 / terms)
        shift++;
    return shift;
}

enum detour_status dt_search_begin(struct dt_call *call, struct dt_timeline *start, struct dt_search *search)
{
    const struct detour_options *options = call->options;

    *search = (struct dt_search){.call = call, .start = start, .best_ns = INT64_MAX};
    uint64_t budget = options->node_budget ? options->node_budget
                                           : detour_node_budget(start->p->profile, DEFAULT_BUDGET_US);
    search->node_limit = budget > UINT64_MAX - call->node_count ? UINT64_MAX : call->node_count + budget;
    search->key_shift = key_shift(start);
    enum detour_status status = dt_shop_create(call, start, &search->shop);
    if (!status)
        status = dt_bound_create(call, search->shop, &search->bound);
    if (status)
        return status;
    search->root = dt_shop_state_create(call, search->shop);
    if (!search->root || !dt_arena_new(call->arena, search->best, search->shop->op_count) ||
        !dt_arena_new(call->arena, search->least_ns, start->p->microbatch_count))
        return dt_fail_memory(call->error);
    search->lower_ns = dt_bound_ns(search->bound, search->root);
    return DETOUR_OK;
}

void dt_search_raise(struct dt_search *search, const int64_t *least_ns)
{
    dt_bound_raise(search->bound, least_ns);
    int64_t lower_ns = dt_bound_ns(search->bound, search->root);
    search->lower_ns = lower_ns > search->lower_ns ? lower_ns : search->lower_ns;
}

uint64_t dt_search_nodes_left(const struct dt_search *search)
{
    uint64_t spent = search->call->node_count;

    return search->call->stopped || spent >= search->node_limit ? 0 : search->node_limit - spent;
}

void dt_search_offer(struct dt_search *search, int64_t makespan_ns, const struct dt_shop_move *moves,
                     int32_t move_count)
{
    if (makespan_ns >= search->best_ns)
        return;
    search->best_ns = makespan_ns;
    search->best_count = move_count;
    memcpy(search->best, moves, (size_t)move_count * sizeof(*moves));
}

/* Whether the operation is its stage's next one of that kind, and its input is among what has been done. */
static bool is_next(const struct dt_shop_state *done, const struct dt_problem *p, const struct detour_op *op)
{
    int32_t i = op->stage, j = op->microbatch;

    switch (op->kind) {
    case DETOUR_OP_F:
        return j == done->done[DETOUR_OP_F][i] && (i == 0 || j < done->done[DETOUR_OP_F][i - 1]);
    case DETOUR_OP_W:
        return j < done->done[DETOUR_OP_B][i];
    default:
        return j == done->done[DETOUR_OP_B][i] && j < done->done[DETOUR_OP_F][i] &&
               (i + 1 == p->stage_count || j < done->done[DETOUR_OP_B][i + 1]);
    }
}

/* Lists the schedule's operations so that each comes behind those it waits for; returns how many. */
static int32_t list_moves(struct dt_search *search, const struct detour_schedule *schedule, size_t *next,
                          struct dt_shop_state *state, struct dt_shop_move *moves)
{
    const struct dt_problem *p = search->shop->p;
    int32_t count = 0, before;
    struct dt_shop_undo undo;

    do {
        before = count;
        for (int32_t d = 0; d < p->device_count; d++) {
            for (; next[d] < schedule->first[d + 1] && is_next(state, p, &schedule->ops[next[d]]);
                 next[d]++) {
                const struct detour_op *op = &schedule->ops[next[d]];
                moves[count] = (struct dt_shop_move){
                    .start_ns = op->start_ns, .stage = (int16_t)op->stage, .kind = (uint8_t)op->kind};
                dt_shop_place(search->shop, state, &moves[count++], &undo);
            }
        }
    } while (count > before);
    return count;
}

enum detour_status dt_search_offer_schedule(struct dt_search *search, const struct detour_schedule *schedule,
                                            const size_t *started, int64_t makespan_ns)
{
    struct dt_call *call = search->call;
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct dt_shop_state *state = dt_shop_state_create(call, search->shop);
    struct dt_shop_move *moves;
    size_t *next;

    if (!state || !dt_arena_new(call->arena, next, schedule->device_count) ||
        !dt_arena_new(call->arena, moves, search->shop->op_count))
        return dt_fail_memory(call->error);
    for (int32_t d = 0; d < schedule->device_count; d++)
        next[d] = schedule->first[d] + (started ? started[d] : 0);
    int32_t count = list_moves(search, schedule, next, state, moves);
    if (state->placed == search->shop->op_count)
        dt_search_offer(search, makespan_ns, moves, count);
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}

int64_t dt_search_key(const struct dt_search *search, const struct dt_shop_state *state,
                      enum dt_search_key key)
{
    const struct dt_bound *bound = search->bound;
    const struct dt_problem *p = search->shop->p;
    int64_t sum = 0;

    for (int32_t d = 0; d < p->device_count; d++)
        sum += bound->device_ns[d] >> search->key_shift;
    if (key == DT_KEY_DEVICES)
        return sum;
    for (int32_t i = 0; i < p->stage_count; i++) {
        for (int kind = DETOUR_OP_F; kind <= DETOUR_OP_B; kind++) {
            int32_t j = state->done[kind][i];
            size_t cell = dt_shop_cell(search->shop, i, j);
            if (j < p->microbatch_count)
                sum += (bound->head_ns[kind][cell] + bound->tail_ns[kind][cell]) >> search->key_shift;
        }
    }
    return sum;
}

enum detour_status dt_search_finish(struct dt_search *search, struct detour_schedule **schedule)
{
    for (int32_t k = 0; k < search->best_count; k++)
        dt_timeline_put(search->start, (enum detour_op_kind)search->best[k].kind, search->best[k].stage);
    return dt_timeline_finish(search->call, search->start, schedule);
}
