/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/schedule.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *detour_op_name(enum detour_op_kind kind)
{
    static const char *const names[DT_KIND_COUNT] = {"F", "B", "W", "BW"};

    return (unsigned)kind < DT_KIND_COUNT ? names[kind] : "?";
}

const char *dt_op_text(char text[DT_OP_TEXT_BYTES], const struct detour_op *op)
{
    snprintf(text, DT_OP_TEXT_BYTES, "%s of microbatch %" PRId32 " on stage %d",
             detour_op_name((enum detour_op_kind)op->kind), op->microbatch, op->stage);
    return text;
}

static enum detour_status schedule_create(struct detour_arena *arena, const struct dt_problem *p,
                                          size_t op_count, struct detour_schedule **schedule,
                                          struct detour_error *error)
{
    struct detour_schedule *made;

    if (!dt_arena_new(arena, made, 1) || !dt_arena_new(arena, made->first, p->device_count + 1) ||
        !dt_arena_new(arena, made->ops, op_count))
        return dt_fail_memory(error);
    made->stage_count = p->stage_count;
    made->microbatch_count = p->microbatch_count;
    made->device_count = p->device_count;
    made->op_count = op_count;
    *schedule = made;
    return DETOUR_OK;
}

enum detour_status detour_schedule_create(struct detour_arena *arena, const struct detour_profile *profile,
                                          size_t op_count, struct detour_schedule **schedule,
                                          struct detour_error *error)
{
    struct dt_problem *p;
    struct dt_call call;

    if (!schedule)
        return dt_error_set(error, DETOUR_INVALID, "schedule is NULL");
    dt_call_init(&call, arena, error, NULL);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (status)
        return status;
    if (op_count > dt_op_index_count(p))
        return dt_error_set(error, DETOUR_INVALID, "%zu operations; the profile has %zu at most", op_count,
                            dt_op_index_count(p));
    return schedule_create(arena, p, op_count, schedule, error);
}

enum detour_status dt_schedule_copy(struct dt_call *call, const struct detour_schedule *from,
                                    struct detour_schedule **to)
{
    struct detour_schedule *made;

    if (!dt_arena_new(call->arena, made, 1))
        return dt_fail_memory(call->error);
    *made = *from;
    if (!dt_arena_new(call->arena, made->first, from->device_count + 1) ||
        !dt_arena_new(call->arena, made->ops, from->op_count))
        return dt_fail_memory(call->error);
    memcpy(made->first, from->first, (size_t)(from->device_count + 1) * sizeof(*made->first));
    memcpy(made->ops, from->ops, from->op_count * sizeof(*made->ops));
    *to = made;
    return DETOUR_OK;
}

enum detour_status dt_builder_init(struct dt_call *call, const struct dt_problem *p,
                                   struct dt_builder *builder)
{
    builder->problem = p;
    if (!dt_arena_new(call->arena, builder->room_first, p->device_count + 1) ||
        !dt_arena_new(call->arena, builder->count, p->device_count) ||
        !dt_arena_new(call->arena, builder->ops, dt_op_index_count(p)))
        return dt_fail_memory(call->error);
    for (int32_t d = 0; d <= p->device_count; d++)
        builder->room_first[d] = 3 * (size_t)p->device_first[d] * (size_t)p->microbatch_count;
    return DETOUR_OK;
}

void dt_builder_push(struct dt_builder *builder, enum detour_op_kind kind, int32_t stage, int32_t microbatch)
{
    int32_t device = builder->problem->device[stage];

    builder->ops[builder->room_first[device] + builder->count[device]++] =
        (struct detour_op){.microbatch = microbatch, .stage = (int16_t)stage, .kind = (uint8_t)kind};
}

enum detour_status dt_builder_finish(struct dt_call *call, const struct dt_builder *builder,
                                     struct detour_schedule **schedule)
{
    const struct dt_problem *p = builder->problem;
    size_t op_count = 0;

    for (int32_t d = 0; d < p->device_count; d++)
        op_count += builder->count[d];
    enum detour_status status = schedule_create(call->arena, p, op_count, schedule, call->error);
    if (status)
        return status;
    struct detour_schedule *made = *schedule;
    for (int32_t d = 0; d < p->device_count; d++) {
        memcpy(made->ops + made->first[d], builder->ops + builder->room_first[d],
               builder->count[d] * sizeof(*made->ops));
        made->first[d + 1] = made->first[d] + builder->count[d];
    }
    return DETOUR_OK;
}

/* The operations of a cell that have been seen, as bits of 1 << kind. */
enum { SEEN_F = 1, SEEN_B = 2, SEEN_W = 4, SEEN_BW = 8 };

/* Per kind: operations that must precede it, and operations that exclude it. */
static const struct {
    uint8_t needs;
    uint8_t excludes;
} kind_rules[DT_KIND_COUNT] = {
    [DETOUR_OP_F] = {0, SEEN_F},
    [DETOUR_OP_B] = {SEEN_F, SEEN_B | SEEN_BW},
    [DETOUR_OP_W] = {SEEN_B, SEEN_W | SEEN_BW},
    [DETOUR_OP_BW] = {SEEN_F, SEEN_B | SEEN_W | SEEN_BW},
};

static enum detour_status check_shape(struct dt_call *call, const struct dt_problem *p,
                                      const struct detour_schedule *s)
{
    if (!s || !s->first || !s->ops)
        return dt_fail(call, DETOUR_INVALID, "schedule is NULL or has no operations");
    if (s->stage_count != p->stage_count || s->microbatch_count != p->microbatch_count ||
        s->device_count != p->device_count)
        return dt_fail(call, DETOUR_INVALID,
                       "schedule is for %" PRId32 " stages, %" PRId32 " microbatches and %" PRId32
                       " devices; the profile has %" PRId32 ", %" PRId32 " and %" PRId32,
                       s->stage_count, s->microbatch_count, s->device_count, p->stage_count,
                       p->microbatch_count, p->device_count);
    for (int32_t d = 0; d < p->device_count; d++)
        if (s->first[d] > s->first[d + 1])
            return dt_fail(call, DETOUR_INVALID,
                           "first[%" PRId32 "] of the schedule is beyond first[%" PRId32 "]", d, d + 1);
    if (s->first[0] != 0 || s->first[p->device_count] != s->op_count)
        return dt_fail(call, DETOUR_INVALID, "first[] of the schedule must run from 0 to op_count (%zu)",
                       s->op_count);
    return DETOUR_OK;
}

/* Checks one operation; `early` remembers the first one that precedes an operation that it needs. */
static enum detour_status check_op(struct dt_call *call, const struct dt_problem *p,
                                   const struct detour_schedule *s, int32_t device, size_t index,
                                   uint8_t *seen, size_t *early)
{
    const struct detour_op *op = &s->ops[index];
    char text[DT_OP_TEXT_BYTES];
    size_t place = index - s->first[device];

    if (op->kind >= DT_KIND_COUNT || op->stage < 0 || op->stage >= p->stage_count || op->microbatch < 0 ||
        op->microbatch >= p->microbatch_count || (op->flags & ~DETOUR_OP_OFFLOADED))
        return dt_fail(call, DETOUR_UNKNOWN_OP,
                       "device %" PRId32 ", position %zu: %s does not exist; stages are 0 to %" PRId32
                       ", microbatches 0 to %" PRId32,
                       device, place, dt_op_text(text, op), p->stage_count - 1, p->microbatch_count - 1);
    if (p->device[op->stage] != device)
        return dt_fail(call, DETOUR_UNKNOWN_OP,
                       "device %" PRId32 ", position %zu: %s belongs to device %" PRId32, device, place,
                       dt_op_text(text, op), p->device[op->stage]);
    if (op->flags && (op->kind != DETOUR_OP_F || !p->profile->stages[op->stage].offload_ns))
        return dt_fail(call, DETOUR_UNKNOWN_OP,
                       "device %" PRId32 ", position %zu: %s is marked as offloaded; only F of a stage with "
                       "offload_ns can be",
                       device, place, dt_op_text(text, op));
    uint8_t *bits = &seen[dt_op_index(p, DETOUR_OP_F, op->stage, op->microbatch)];
    if (*bits & kind_rules[op->kind].excludes)
        return dt_fail(call, DETOUR_DUPLICATE_OP,
                       "device %" PRId32 ", position %zu: %s is there already (alone or as part of BW)",
                       device, place, dt_op_text(text, op));
    if ((*bits & kind_rules[op->kind].needs) != kind_rules[op->kind].needs && *early == SIZE_MAX)
        *early = index;
    *bits |= (uint8_t)(1u << op->kind);
    return DETOUR_OK;
}

static enum detour_status check_complete(struct dt_call *call, const struct dt_problem *p,
                                         const uint8_t *seen)
{
    for (int32_t i = 0; i < p->stage_count; i++) {
        for (int32_t j = 0; j < p->microbatch_count; j++) {
            uint8_t bits = seen[dt_op_index(p, DETOUR_OP_F, i, j)];
            if (bits == (SEEN_F | SEEN_B | SEEN_W) || bits == (SEEN_F | SEEN_BW))
                continue;
            const char *what = !(bits & SEEN_F) ? "F" : !(bits & (SEEN_B | SEEN_BW)) ? "B (or BW)" : "W";
            return dt_fail(call, DETOUR_MISSING_OP,
                           "%s of microbatch %" PRId32 " on stage %" PRId32 " is missing on device %" PRId32,
                           what, j, i, p->device[i]);
        }
    }
    return DETOUR_OK;
}

static enum detour_status check_ops(struct dt_call *call, const struct dt_problem *p,
                                    const struct detour_schedule *s, uint8_t *seen)
{
    size_t early = SIZE_MAX;
    int32_t early_device = 0;
    enum detour_status status = DETOUR_OK;

    for (int32_t d = 0; d < p->device_count; d++) {
        for (size_t index = s->first[d]; index < s->first[d + 1]; index++) {
            status = check_op(call, p, s, d, index, seen, &early);
            if (status)
                return status;
            if (early == index)
                early_device = d;
        }
    }
    status = check_complete(call, p, seen);
    if (!status && early != SIZE_MAX) {
        char text[DT_OP_TEXT_BYTES];
        const struct detour_op *op = &s->ops[early];
        status = dt_fail(call, DETOUR_DEPENDENCY, "device %" PRId32 ", position %zu: %s precedes its %s",
                         early_device, early - s->first[early_device], dt_op_text(text, op),
                         op->kind == DETOUR_OP_W ? "B" : "F");
    }
    return status;
}

enum detour_status dt_schedule_check_ops(struct dt_call *call, const struct dt_problem *p,
                                         const struct detour_schedule *schedule)
{
    enum detour_status status = check_shape(call, p, schedule);
    struct dt_arena_mark mark = dt_arena_save(call->arena);
    uint8_t *seen;

    if (status)
        return status;
    if (!dt_arena_new(call->arena, seen, dt_cell_count(p)))
        return dt_fail_memory(call->error);
    status = check_ops(call, p, schedule, seen);
    dt_arena_rewind(call->arena, mark);
    return status;
}

enum detour_status dt_schedule_check_last_stage(struct dt_call *call, const struct dt_problem *p,
                                                const struct detour_schedule *s)
{
    int32_t last = p->stage_count - 1, device = p->device[last], expected = 0;
    char text[DT_OP_TEXT_BYTES];

    for (size_t i = s->first[device]; i < s->first[device + 1]; i++) {
        const struct detour_op *op = &s->ops[i];
        if (op->kind != DETOUR_OP_F || op->stage != last)
            continue;
        if (op->microbatch != expected)
            return dt_fail(call, DETOUR_ORDER,
                           "device %" PRId32 ", position %zu: %s comes where microbatch %" PRId32
                           " should; the last stage must run forward in the order of the microbatches",
                           device, i - s->first[device], dt_op_text(text, op), expected);
        expected++;
    }
    return DETOUR_OK;
}
