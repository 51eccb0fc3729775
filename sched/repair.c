/* SPDX-License-Identifier: Apache-2.0 */
/* Orders that deadlock, made ones that do not (AdaPtis, section 4.4). */
#include <string.h>

#include "base/check.h"
#include "sched/heap.h"
#include "sched/program.h"
#include "sched/schedule.h"

#define NONE SIZE_MAX

/*
 * Every device executes its operations in their order for as long as they have their inputs. Where all
 * devices wait, an operation that has its input is brought forward: there is one, since data depends on data
 * without a cycle. A place is an index into the schedule's operations.
 */
struct reordering {
    const struct dt_problem *p;
    const struct detour_schedule *from;
    struct detour_schedule *to;
    size_t *next;  /* [device]: place of its next operation that is not done */
    size_t *fill;  /* [device]: where its next operation goes */
    size_t *place; /* [op index]; NONE: not in the schedule */
    bool *done;    /* [place] */
    struct dt_heap
        ready;         /* places whose operation has its input, by their distance from the device's first */
    int32_t *runnable; /* devices whose next operation may have its input */
    int32_t runnable_count;
    bool *queued;
    int32_t moved;
};

static void queue(struct reordering *r, int32_t device)
{
    if (r->queued[device])
        return;
    r->queued[device] = true;
    r->runnable[r->runnable_count++] = device;
}

/* The operation has its input. */
static void produce(struct reordering *r, enum detour_op_kind kind, int32_t stage, int32_t microbatch)
{
    size_t place = r->place[dt_op_index(r->p, kind, stage, microbatch)];
    int32_t device = r->p->device[stage];

    if (place == NONE) /* the W of a BW */
        return;
    dt_heap_set(&r->ready, (int32_t)place, (int64_t)(place - r->from->first[device]));
    if (place == r->next[device])
        queue(r, device);
}

static void execute(struct reordering *r, size_t place)
{
    const struct detour_op *op = &r->from->ops[place];
    int32_t device = r->p->device[op->stage], last = r->p->stage_count - 1;

    dt_heap_remove(&r->ready, (int32_t)place);
    r->done[place] = true;
    r->to->ops[r->fill[device]++] = *op;
    while (r->next[device] < r->from->first[device + 1] && r->done[r->next[device]])
        r->next[device]++;
    queue(r, device);
    if (op->kind == DETOUR_OP_F && op->stage < last)
        produce(r, DETOUR_OP_F, op->stage + 1, op->microbatch);
    if (op->kind == DETOUR_OP_F && op->stage == last)
        produce(r, DETOUR_OP_B, op->stage, op->microbatch);
    if (dt_is_backward(op->kind) && op->stage > 0)
        produce(r, DETOUR_OP_B, op->stage - 1, op->microbatch);
    if (op->kind == DETOUR_OP_B)
        produce(r, DETOUR_OP_W, op->stage, op->microbatch);
}

/* All that the devices can do in their order. */
static void run_in_order(struct reordering *r)
{
    while (r->runnable_count) {
        int32_t device = r->runnable[--r->runnable_count];
        r->queued[device] = false;
        while (r->next[device] < r->from->first[device + 1] && r->ready.position[r->next[device]] >= 0)
            execute(r, r->next[device]);
    }
}

static bool allocate(struct detour_arena *arena, struct reordering *r)
{
    int32_t devices = r->p->device_count;

    return dt_arena_new(arena, r->next, devices) && dt_arena_new(arena, r->fill, devices) &&
           dt_arena_new(arena, r->place, dt_op_index_count(r->p)) &&
           dt_arena_new(arena, r->done, r->from->op_count) && dt_arena_new(arena, r->runnable, devices) &&
           dt_arena_new(arena, r->queued, devices) &&
           dt_heap_init(arena, (int32_t)r->from->op_count, &r->ready);
}

static void reorder(struct reordering *r)
{
    const struct detour_schedule *from = r->from;

    for (size_t i = 0; i < dt_op_index_count(r->p); i++)
        r->place[i] = NONE;
    for (size_t i = 0; i < from->op_count; i++)
        r->place[dt_op_index(r->p, (enum detour_op_kind)from->ops[i].kind, from->ops[i].stage,
                             from->ops[i].microbatch)] = i;
    for (int32_t d = 0; d < r->p->device_count; d++)
        r->next[d] = r->fill[d] = from->first[d];
    for (int32_t j = 0; j < r->p->microbatch_count; j++)
        produce(r, DETOUR_OP_F, 0, j);
    run_in_order(r);
    for (int32_t place; (place = dt_heap_pop(&r->ready)) >= 0;) {
        execute(r, (size_t)place);
        r->moved++;
        run_in_order(r);
    }
    for (int32_t d = 0; d < r->p->device_count; d++)
        DT_CHECK(r->fill[d] == from->first[d + 1]);
}

/* `schedule` has been checked by dt_schedule_check_ops(). */
static enum detour_status make_order(struct dt_call *call, const struct dt_problem *p,
                                     const struct detour_schedule *schedule,
                                     struct detour_schedule **repaired, int32_t *moved)
{
    struct reordering r = {.p = p, .from = schedule};
    enum detour_status status = dt_schedule_copy(call, schedule, &r.to);
    struct dt_arena_mark mark = dt_arena_save(call->arena);

    if (status)
        return status;
    if (!allocate(call->arena, &r))
        return dt_fail_memory(call->error);
    reorder(&r);
    dt_arena_rewind(call->arena, mark);
    r.to->timed = r.to->timed && !r.moved;
    *repaired = r.to;
    *moved = r.moved;
    return DETOUR_OK;
}

enum detour_status detour_schedule_repair(struct detour_arena *arena, const struct detour_profile *profile,
                                          const struct detour_schedule *schedule,
                                          struct detour_schedule **repaired, int32_t *moved,
                                          struct detour_error *error)
{
    struct dt_problem *p;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    if (!arena || !repaired || !moved)
        return dt_fail(&call, DETOUR_INVALID, "arena, repaired or moved is NULL");
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = dt_schedule_check_ops(&call, p, schedule);
    return status ? status : make_order(&call, p, schedule, repaired, moved);
}

/* Activations that the program copies to the host: flags of their F's. */
static enum detour_status keep_copies(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_program *program, struct detour_schedule *schedule)
{
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    bool *is_copied;

    if (!dt_arena_new(call->arena, is_copied, dt_cell_count(p)))
        return dt_fail_memory(call->error);
    for (size_t i = 0; i < program->action_count; i++) {
        const struct detour_action *action = &program->actions[i];
        if (action->kind == DETOUR_ACTION_OFFLOAD)
            is_copied[dt_op_index(p, DETOUR_OP_F, action->stage, action->microbatch)] = true;
    }
    for (size_t i = 0; i < schedule->op_count; i++) {
        struct detour_op *op = &schedule->ops[i];
        if (op->kind == DETOUR_OP_F && is_copied[dt_op_index(p, DETOUR_OP_F, op->stage, op->microbatch)])
            op->flags |= DETOUR_OP_OFFLOADED;
    }
    dt_arena_rewind(call->arena, mark);
    return DETOUR_OK;
}

enum detour_status detour_program_repair(struct detour_arena *arena, const struct detour_profile *profile,
                                         const struct detour_program *program,
                                         struct detour_program **repaired, struct detour_repair *repair,
                                         struct detour_error *error)
{
    struct detour_schedule *schedule;
    struct detour_repair made = {.moved = 0};
    struct detour_error found = {.status = DETOUR_OK};
    struct dt_problem *p;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    if (!arena || !repaired || !repair)
        return dt_fail(&call, DETOUR_INVALID, "arena, repaired or repair is NULL");
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = dt_program_computations(&call, p, program, &schedule);
    if (!status)
        status = keep_copies(&call, p, program, schedule);
    if (!status && detour_program_check(arena, profile, program, &found) == DETOUR_NO_MEMORY)
        status = dt_fail_memory(error);
    if (found.status)
        memcpy(made.problem, found.text, sizeof(made.problem));
    if (!status)
        status = make_order(&call, p, schedule, &schedule, &made.moved);
    if (!status)
        status = detour_program_create(arena, profile, schedule, repaired, error);
    if (!status)
        *repair = made;
    return status;
}
