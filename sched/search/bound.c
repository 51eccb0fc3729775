/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/search/bound.h"

#include <string.h>

enum { F = DETOUR_OP_F, B = DETOUR_OP_B, W = DETOUR_OP_W };

/*
 * Work of one device that has to be over before something else: `finish_ns` is a bound on when it can be, met
 * by work that starts at `start_ns` and runs without a gap.
 */
struct dt_bound_block {
    int64_t start_ns;
    int64_t finish_ns;
};

/* What is left of a chain in Jackson's schedule. */
struct dt_bound_chain {
    const int64_t *head_ns;
    const int64_t *tail_ns;
    int32_t left;
    int64_t duration_ns;
    int64_t rest_ns; /* of the first operation */
};

static inline int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline void block_add(struct dt_bound_block *block, int64_t head_ns, int64_t duration_ns)
{
    if (head_ns >= block->finish_ns) {
        *block = (struct dt_bound_block){head_ns, head_ns + duration_ns};
    } else if (head_ns >= block->start_ns) {
        block->finish_ns += duration_ns;
    } else {
        /* It may have run before the block began. */
        int64_t joined_ns = head_ns + duration_ns + block->finish_ns - block->start_ns;
        if (joined_ns > block->finish_ns)
            *block = (struct dt_bound_block){head_ns, joined_ns};
    }
}

/* ---- tails ------------------------------------------------------------------------------------------ */

/* Work of F's from microbatch `first` on, and so on; none beyond the last. */
static int64_t work_from(const struct dt_shop *shop, int64_t duration_ns, int64_t first)
{
    return first < shop->p->microbatch_count ? (shop->p->microbatch_count - first) * duration_ns : 0;
}

/* What the stage's device must do after an F or B of microbatch j, in other stages that it has. */
static int64_t other_stages_work_ns(const struct dt_shop *shop, int kind, int32_t stage, int32_t j)
{
    const struct dt_problem *p = shop->p;
    int32_t device = p->device[stage];
    int64_t work_ns = 0;

    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++) {
        int32_t i = p->device_stages[k];
        if (i == stage || (kind == B && i > stage))
            continue;
        work_ns += work_from(shop, shop->low_b_ns[i] + shop->low_w_ns[i], j);
        if (kind == F && i > stage)
            work_ns += work_from(shop, p->duration_ns[F][i], j);
    }
    return work_ns;
}

static int64_t tail_of(const struct dt_bound *bound, int kind, int32_t stage, int64_t j)
{
    return j < bound->shop->p->microbatch_count
               ? bound->tail_ns[kind][dt_shop_cell(bound->shop, stage, (int32_t)j)]
               : -1;
}

/* Adds the operation (if it exists) to a block of the mirrored problem. */
static void block_add_tail(const struct dt_bound *bound, struct dt_bound_block *block, int kind,
                           int32_t stage, int64_t j, int64_t duration_ns)
{
    int64_t tail_ns = tail_of(bound, kind, stage, j);

    if (tail_ns >= 0)
        block_add(block, tail_ns, duration_ns);
}

static int64_t after(int64_t tail_ns, int64_t duration_ns)
{
    return tail_ns < 0 ? 0 : tail_ns + duration_ns;
}

static void tails_of_stage_b(struct dt_bound *bound, int32_t i, int32_t j)
{
    const struct dt_shop *shop = bound->shop;
    const struct dt_problem *p = shop->p;
    int64_t f_ns = p->duration_ns[F][i], b_ns = shop->low_b_ns[i], w_ns = shop->low_w_ns[i];
    int64_t by_b = (int64_t)j + shop->limit_b[i], by_w = (int64_t)j + shop->limit_w[i];
    int64_t *tail_w = &bound->tail_ns[W][dt_shop_cell(shop, i, j)];
    int64_t *tail_b = &bound->tail_ns[B][dt_shop_cell(shop, i, j)];

    *tail_w =
        later(after(tail_of(bound, W, i, (int64_t)j + 1), w_ns), after(tail_of(bound, F, i, by_w), f_ns));
    block_add_tail(bound, &bound->block_b[i], F, i, by_b, f_ns);
    *tail_b = bound->block_b[i].finish_ns;
    *tail_b = later(*tail_b, *tail_w + w_ns);
    *tail_b = later(*tail_b, work_from(shop, b_ns, (int64_t)j + 1) + work_from(shop, w_ns, j) +
                                 work_from(shop, f_ns, by_b < by_w ? by_b : by_w) +
                                 other_stages_work_ns(shop, B, i, j));
    if (i > 0)
        *tail_b = later(*tail_b, p->backward_serial_ns[i - 1] + p->backward_ns[i - 1] +
                                     shop->low_b_ns[i - 1] + bound->tail_ns[B][dt_shop_cell(shop, i - 1, j)]);
    block_add(&bound->block_b[i], *tail_b, b_ns);
    block_add(&bound->block_f[i], *tail_b, b_ns);
    if (by_w < shop->p->microbatch_count) {
        block_add(&bound->block_b[i], *tail_w, w_ns);
        block_add(&bound->block_f[i], *tail_w, w_ns);
    }
}

static void tails_of_stage_f(struct dt_bound *bound, int32_t i, int32_t j)
{
    const struct dt_shop *shop = bound->shop;
    const struct dt_problem *p = shop->p;
    int64_t f_ns = p->duration_ns[F][i], b_ns = shop->low_b_ns[i], w_ns = shop->low_w_ns[i];
    int64_t *tail_f = &bound->tail_ns[F][dt_shop_cell(shop, i, j)];

    *tail_f = later(bound->block_f[i].finish_ns, work_from(shop, f_ns, (int64_t)j + 1) +
                                                     work_from(shop, b_ns + w_ns, j) +
                                                     other_stages_work_ns(shop, F, i, j));
    if (i + 1 < shop->p->stage_count)
        *tail_f = later(*tail_f, p->forward_serial_ns[i] + p->forward_ns[i] + p->duration_ns[F][i + 1] +
                                     bound->tail_ns[F][dt_shop_cell(shop, i + 1, j)]);
    else
        *tail_f = later(*tail_f, b_ns + bound->tail_ns[B][dt_shop_cell(shop, i, j)]);
    if (i == 0 && j > 0 && bound->least_ns)
        *tail_f = later(*tail_f, bound->least_ns[p->microbatch_count - j] - f_ns);
    block_add(&bound->block_f[i], *tail_f, f_ns);
}

static void fill_tails(struct dt_bound *bound)
{
    const struct dt_shop *shop = bound->shop;

    memset(bound->block_f, 0, (size_t)shop->p->stage_count * sizeof(*bound->block_f));
    memset(bound->block_b, 0, (size_t)shop->p->stage_count * sizeof(*bound->block_b));
    for (int32_t j = shop->p->microbatch_count - 1; j >= 0; j--) {
        for (int32_t i = 0; i < shop->p->stage_count; i++)
            tails_of_stage_b(bound, i, j);
        for (int32_t i = shop->p->stage_count - 1; i >= 0; i--)
            tails_of_stage_f(bound, i, j);
    }
}

/* ---- heads ------------------------------------------------------------------------------------------ */

static inline void head_of_f(struct dt_bound *bound, const struct dt_shop_state *state, int32_t i, int32_t j)
{
    const struct dt_shop *shop = bound->shop;
    const struct dt_problem *p = shop->p;
    size_t n = dt_shop_cell(shop, i, j);
    int32_t by_b = j - shop->limit_b[i], by_w = j - shop->limit_w[i];
    int64_t f_ns = p->duration_ns[F][i], head_ns;

    if (by_b >= state->done[B][i])
        block_add(&bound->block_f[i], bound->head_ns[B][dt_shop_cell(shop, i, by_b)], shop->low_b_ns[i]);
    if (by_w >= state->done[W][i]) {
        block_add(&bound->block_f[i], bound->head_ns[W][dt_shop_cell(shop, i, by_w)], shop->low_w_ns[i]);
        block_add(&bound->block_b[i], bound->head_ns[W][dt_shop_cell(shop, i, by_w)], shop->low_w_ns[i]);
    }
    head_ns = bound->block_f[i].finish_ns;
    if (i > 0)
        head_ns = later(head_ns, j < state->done[F][i - 1]
                                     ? state->input_f_ns[n]
                                     : bound->head_ns[F][n - (size_t)shop->p->microbatch_count] +
                                           p->duration_ns[F][i - 1] + p->forward_serial_ns[i - 1] +
                                           p->forward_ns[i - 1]);
    bound->head_ns[F][n] = head_ns;
    block_add(&bound->block_f[i], head_ns, f_ns);
    block_add(&bound->block_b[i], head_ns, f_ns);
}

static inline void head_of_b(struct dt_bound *bound, const struct dt_shop_state *state, int32_t i, int32_t j)
{
    const struct dt_shop *shop = bound->shop;
    const struct dt_problem *p = shop->p;
    size_t n = dt_shop_cell(shop, i, j);
    int64_t head_ns = bound->block_b[i].finish_ns;

    if (i + 1 < shop->p->stage_count)
        head_ns =
            later(head_ns, j < state->done[B][i + 1]
                               ? state->input_b_ns[n]
                               : bound->head_ns[B][n + (size_t)shop->p->microbatch_count] +
                                     shop->low_b_ns[i + 1] + p->backward_serial_ns[i] + p->backward_ns[i]);
    bound->head_ns[B][n] = head_ns;
    block_add(&bound->block_b[i], head_ns, shop->low_b_ns[i]);
}

static inline void head_of_w(struct dt_bound *bound, const struct dt_shop_state *state, int32_t i, int32_t j)
{
    const struct dt_shop *shop = bound->shop;
    size_t n = dt_shop_cell(shop, i, j);
    int64_t head_ns = state->free_ns[shop->p->device[i]];

    if (j >= state->done[B][i])
        head_ns = bound->head_ns[B][n] + shop->low_b_ns[i];
    if (j > state->done[W][i])
        head_ns = later(head_ns, bound->head_ns[W][n - 1] + shop->low_w_ns[i]);
    bound->head_ns[W][n] = head_ns;
}

static void fill_heads(struct dt_bound *bound, const struct dt_shop_state *state)
{
    const struct dt_shop *shop = bound->shop;
    int32_t first = shop->p->microbatch_count;

    for (int32_t i = 0; i < shop->p->stage_count; i++) {
        int64_t free_ns = state->free_ns[shop->p->device[i]];
        bound->block_f[i] = bound->block_b[i] = (struct dt_bound_block){free_ns, free_ns};
        first = state->done[W][i] < first ? state->done[W][i] : first;
    }
    for (int32_t j = first; j < shop->p->microbatch_count; j++) {
        for (int32_t i = 0; i < shop->p->stage_count; i++)
            if (j >= state->done[F][i])
                head_of_f(bound, state, i, j);
        for (int32_t i = shop->p->stage_count - 1; i >= 0; i--) {
            if (j >= state->done[B][i])
                head_of_b(bound, state, i, j);
            if (j >= state->done[W][i])
                head_of_w(bound, state, i, j);
        }
    }
}

/* ---- Jackson's preemptive schedule -------------------------------------------------------------------- */

static int64_t jackson_ns(struct dt_bound_chain *chains, int32_t count, int64_t now_ns)
{
    int64_t bound_ns = 0;

    for (;;) {
        int64_t next_ns = DT_FOREVER, longest_ns = -1;
        struct dt_bound_chain *best = NULL;
        for (int32_t k = 0; k < count; k++) {
            if (!chains[k].left)
                continue;
            if (*chains[k].head_ns > now_ns) {
                next_ns = *chains[k].head_ns < next_ns ? *chains[k].head_ns : next_ns;
            } else if (*chains[k].tail_ns > longest_ns) {
                longest_ns = *chains[k].tail_ns;
                best = &chains[k];
            }
        }
        if (!best) {
            if (next_ns == DT_FOREVER)
                return bound_ns;
            now_ns = next_ns;
            continue;
        }
        if (best->rest_ns > next_ns - now_ns) {
            best->rest_ns -= next_ns - now_ns;
            now_ns = next_ns;
            continue;
        }
        now_ns += best->rest_ns;
        bound_ns = later(bound_ns, now_ns + longest_ns);
        best->head_ns++;
        best->tail_ns++;
        best->left--;
        best->rest_ns = best->duration_ns;
    }
}

static int64_t device_bound_ns(struct dt_bound *bound, const struct dt_shop_state *state, int32_t device)
{
    const struct dt_shop *shop = bound->shop;
    const struct dt_problem *p = shop->p;
    int32_t count = 0;

    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++) {
        int32_t i = p->device_stages[k];
        const int64_t duration_ns[3] = {p->duration_ns[F][i], shop->low_b_ns[i], shop->low_w_ns[i]};
        for (int kind = F; kind <= W; kind++) {
            int32_t done = state->done[kind][i];
            if (done < shop->p->microbatch_count)
                bound->chains[count++] = (struct dt_bound_chain){
                    &bound->head_ns[kind][dt_shop_cell(shop, i, done)],
                    &bound->tail_ns[kind][dt_shop_cell(shop, i, done)], shop->p->microbatch_count - done,
                    duration_ns[kind], duration_ns[kind]};
        }
    }
    return later(state->free_ns[device], jackson_ns(bound->chains, count, state->free_ns[device]));
}

int64_t dt_bound_ns(struct dt_bound *bound, const struct dt_shop_state *state)
{
    int64_t bound_ns = 0;

    fill_heads(bound, state);
    for (int32_t d = 0; d < bound->shop->p->device_count; d++) {
        bound->device_ns[d] = device_bound_ns(bound, state, d);
        bound_ns = later(bound_ns, bound->device_ns[d]);
    }
    return bound_ns - bound->shop->origin_ns;
}

void dt_bound_raise(struct dt_bound *bound, const int64_t *least_ns)
{
    bound->least_ns = least_ns;
    fill_tails(bound);
}

enum detour_status dt_bound_create(struct dt_call *call, const struct dt_shop *shop, struct dt_bound **bound)
{
    size_t cells = dt_cell_count(shop->p);
    struct dt_bound *b;

    if (!dt_arena_new(call->arena, b, 1) || !dt_arena_new(call->arena, b->device_ns, shop->p->device_count) ||
        !dt_arena_new(call->arena, b->block_f, shop->p->stage_count) ||
        !dt_arena_new(call->arena, b->block_b, shop->p->stage_count) ||
        !dt_arena_new(call->arena, b->chains, 3 * (size_t)shop->p->stage_count))
        return dt_fail_memory(call->error);
    for (int kind = F; kind <= W; kind++)
        if (!dt_arena_new(call->arena, b->tail_ns[kind], cells) ||
            !dt_arena_new(call->arena, b->head_ns[kind], cells))
            return dt_fail_memory(call->error);
    b->shop = shop;
    fill_tails(b);
    *bound = b;
    return DETOUR_OK;
}
