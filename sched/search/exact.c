/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Branch and bound, depth first: the most promising move first, without states whose bound reaches the target
 * and states that another one makes superfluous. A search that ends by itself has proved that nothing below
 * the target is left.
 *
 * Proofs are easier for low targets, so targets rise from the lower bound: each that is exhausted raises it.
 */
#include "sched/search/memo.h"
#include "sched/search/algorithms.h"

/* A move that is still to be tried from a state. */
struct child {
    struct dt_shop_move move;
    int64_t bound_ns;
    int64_t key_ns;
};

/* A state on the way from the root to the present one. */
struct frame {
    struct child *children; /* ascending */
    int32_t room;
    int32_t count;
    int32_t next;
    struct dt_shop_undo undo; /* of the child that is being looked at */
};

struct branch {
    struct dt_search *search;
    const struct dt_shop *shop;
    struct dt_shop_state *state;
    struct frame *frames; /* [depth] */
    struct dt_shop_move *moves;
    struct dt_shop_move *way; /* [depth]: moves made */
    int32_t depth;
    int64_t target_ns;
    uint64_t node_limit; /* of call->node_count */
    bool cut;            /* the limit was reached, or there is no memory to go on */
    struct dt_memo memo;
};

static bool allocate(struct branch *branch, uint64_t nodes)
{
    struct dt_call *call = branch->search->call;
    const struct dt_shop *shop = branch->shop;
    /* Every step down costs a node. */
    uint64_t depths = nodes < (uint64_t)shop->op_count ? nodes + 1 : (uint64_t)shop->op_count + 1;

    branch->state = dt_shop_state_create(call, shop);
    return branch->state && dt_arena_new(call->arena, branch->frames, depths) &&
           dt_arena_new(call->arena, branch->way, depths) &&
           dt_arena_new(call->arena, branch->moves, shop->moves_max) &&
           !dt_memo_init(call, shop, nodes < SIZE_MAX ? (size_t)nodes : SIZE_MAX, &branch->memo);
}

/* Makes room for the children of a state; false when out of memory. */
static bool reserve(struct branch *branch, struct frame *frame, int32_t count)
{
    if (frame->room >= count)
        return true;
    if (!dt_arena_new(branch->search->call->arena, frame->children, count))
        return false;
    frame->room = count;
    return true;
}

static void insert(struct frame *frame, const struct child *child)
{
    int32_t at = frame->count++;

    for (; at > 0; at--) {
        const struct child *before = &frame->children[at - 1];
        if (before->bound_ns < child->bound_ns ||
            (before->bound_ns == child->bound_ns && before->key_ns <= child->key_ns))
            break;
        frame->children[at] = *before;
    }
    frame->children[at] = *child;
}

/* Lists the children of the present state that are worth trying. */
static void expand(struct branch *branch)
{
    struct frame *frame = &branch->frames[branch->depth];
    struct dt_search *search = branch->search;
    int32_t move_count = dt_shop_moves(branch->shop, branch->state, branch->moves);

    frame->count = frame->next = 0;
    branch->cut = branch->cut || !reserve(branch, frame, move_count);
    for (int32_t k = 0; !branch->cut && k < move_count; k++) {
        struct child child = {.move = branch->moves[k]};
        struct dt_shop_undo undo;
        if (child.move.wasteful)
            continue;
        if (search->call->node_count >= branch->node_limit || search->call->stopped) {
            branch->cut = true;
            break;
        }
        dt_shop_place(branch->shop, branch->state, &child.move, &undo);
        child.bound_ns = dt_bound_ns(search->bound, branch->state);
        child.key_ns = dt_search_key(search, branch->state, DT_KEY_DEVICES);
        dt_call_node(search->call);
        if (child.bound_ns < branch->target_ns &&
            !dt_memo_dominates(&branch->memo, search->bound, branch->state)) {
            dt_memo_add(&branch->memo, branch->state);
            insert(frame, &child);
        }
        dt_shop_take_back(branch->shop, branch->state, &child.move, &undo);
    }
}

/* Undoes the move that led to the present state. */
static void go_up(struct branch *branch)
{
    if (--branch->depth >= 0)
        dt_shop_take_back(branch->shop, branch->state, &branch->way[branch->depth],
                          &branch->frames[branch->depth].undo);
}

/* Goes to the next child of the present state, or up if there is none. */
static void step(struct branch *branch)
{
    struct frame *frame = &branch->frames[branch->depth];
    const struct child *child = &frame->children[frame->next];

    if (frame->next == frame->count || child->bound_ns >= branch->target_ns) {
        go_up(branch);
        return;
    }
    frame->next++;
    dt_shop_place(branch->shop, branch->state, &child->move, &frame->undo);
    branch->way[branch->depth++] = child->move;
    if (branch->state->placed == branch->shop->op_count) {
        int64_t makespan_ns = dt_shop_makespan_ns(branch->shop, branch->state);
        dt_search_offer(branch->search, makespan_ns, branch->way, branch->depth);
        branch->target_ns = makespan_ns < branch->target_ns ? makespan_ns : branch->target_ns;
        go_up(branch);
        return;
    }
    expand(branch);
}

enum detour_status dt_branch(struct dt_search *search, int64_t target_ns, uint64_t node_limit,
                             bool *exhausted)
{
    struct dt_call *call = search->call;
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    struct branch branch = {
        .search = search, .shop = search->shop, .target_ns = target_ns, .node_limit = node_limit};
    uint64_t nodes = node_limit > call->node_count ? node_limit - call->node_count : 0;

    *exhausted = false;
    if (!allocate(&branch, nodes))
        return dt_fail_memory(call->error);
    expand(&branch);
    while (branch.depth >= 0 && !branch.cut)
        step(&branch);
    *exhausted = !branch.cut && search->shop->complete;
    if (*exhausted && branch.target_ns > search->lower_ns)
        search->lower_ns = branch.target_ns;
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}

enum detour_status dt_branch_raising(struct dt_search *search, uint64_t node_limit)
{
    enum { PARTS = 64 };
    int64_t parts = PARTS / 8; /* of the gap between the bounds, to the next target */
    enum detour_status status = DETOUR_OK;

    while (!status && parts && !dt_search_is_closed(search)) {
        uint64_t spent = search->call->node_count, left = dt_search_nodes_left(search);
        int64_t gap_ns = search->best_ns - search->lower_ns;
        int64_t target_ns = search->lower_ns + 1 + (gap_ns - 1) / PARTS * parts;
        int64_t best_ns = search->best_ns;
        bool exhausted = false;
        if (parts == PARTS)
            target_ns = search->best_ns;
        if (node_limit <= spent || !left)
            break;
        left = node_limit - spent < left ? node_limit - spent : left;
        status = dt_branch(search, target_ns, spent + left / 4 + 1, &exhausted);
        if (exhausted)
            parts = parts < PARTS ? parts * 2 : parts;
        else if (search->best_ns == best_ns)
            parts /= 2;
    }
    return status;
}
