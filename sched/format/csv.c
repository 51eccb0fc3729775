/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's pipelining CSV as a schedule, and back. */
#include <inttypes.h>
#include <string.h>

#include "base/util.h"
#include "sched/format/csv_fields.h"
#include "sched/schedule.h"

enum { SEEN_F = 1, SEEN_I = 2, SEEN_W = 4, SEEN_B = 8 };

/* A table that becomes a schedule. */
struct import {
    struct dt_csv_reader reader;
    const struct dt_problem *p;
    const struct dt_csv_table *table;
    uint8_t *seen;                /* [cell] */
    int32_t last_stage_next;      /* the microbatch whose F the last stage does next */
    struct detour_repair *repair; /* NULL: what deadlocks is refused */
    size_t op_count;
};

static bool is_compute(const struct dt_csv_action *action)
{
    return action->kind < DT_CSV_SEND_F;
}

static bool is_message(const struct dt_csv_action *action)
{
    return action->kind >= DT_CSV_SEND_F && action->kind <= DT_CSV_RECV_B;
}

static bool has_microbatch(const struct dt_csv_action *action)
{
    return action->kind < DT_CSV_UNSHARD;
}

static enum detour_status check_place(const struct import *in, const struct dt_csv_action *action)
{
    const struct dt_problem *p = in->p;

    if (action->stage >= p->stage_count)
        return dt_csv_fail(&in->reader, action, DETOUR_UNKNOWN_OP,
                           "names a stage that the profile does not have; "
                           "stages are 0 to %" PRId32,
                           p->stage_count - 1);
    if (has_microbatch(action) && action->microbatch >= p->microbatch_count)
        return dt_csv_fail(
            &in->reader, action, DETOUR_UNKNOWN_OP,
            "names a microbatch that the profile does not have; microbatches are 0 to %" PRId32,
            p->microbatch_count - 1);
    if (p->device[action->stage] != action->row)
        return dt_csv_fail(&in->reader, action, DETOUR_UNKNOWN_OP,
                           "stands in the row of device %" PRId32
                           ", but the profile places stage %d on device %" PRId32,
                           action->row, action->stage, p->device[action->stage]);
    return DETOUR_OK;
}

/* Per kind: actions that must precede a computation, and actions that exclude it. */
static const struct {
    uint8_t needs;
    uint8_t excludes;
    const char *needed;
} rules[] = {
    [DT_CSV_F] = {0, SEEN_F, ""},
    [DT_CSV_I] = {SEEN_F, SEEN_I | SEEN_B, "F"},
    [DT_CSV_W] = {SEEN_I, SEEN_W | SEEN_B, "I"},
    [DT_CSV_B] = {SEEN_F, SEEN_I | SEEN_W | SEEN_B, "F"},
};
static const uint8_t seen_bits[] = {
    [DT_CSV_F] = SEEN_F, [DT_CSV_I] = SEEN_I, [DT_CSV_W] = SEEN_W, [DT_CSV_B] = SEEN_B};

static enum detour_status check_compute(struct import *in, const struct dt_csv_action *action)
{
    uint8_t *seen = &in->seen[dt_op_index(in->p, DETOUR_OP_F, action->stage, action->microbatch)];

    if (*seen & rules[action->kind].excludes)
        return dt_csv_fail(&in->reader, action, DETOUR_DUPLICATE_OP,
                           "is there already, alone or as part of B; write every action once");
    if ((*seen & rules[action->kind].needs) != rules[action->kind].needs)
        return dt_csv_fail(&in->reader, action, DETOUR_DEPENDENCY, "precedes its %s",
                           rules[action->kind].needed);
    if (action->kind == DT_CSV_F && action->stage == in->p->stage_count - 1 &&
        action->microbatch != in->last_stage_next++)
        return dt_csv_fail(&in->reader, action, DETOUR_ORDER,
                           "is out of order: PyTorch numbers losses as they come, so the last stage must do "
                           "microbatches 0, 1, 2, ...");
    *seen |= seen_bits[action->kind];
    in->op_count++;
    return DETOUR_OK;
}

static enum detour_status check_complete(const struct import *in)
{
    const struct dt_problem *p = in->p;

    for (int32_t i = 0; i < p->stage_count; i++) {
        for (int32_t j = 0; j < p->microbatch_count; j++) {
            uint8_t seen = in->seen[dt_op_index(p, DETOUR_OP_F, i, j)];
            if (seen == (SEEN_F | SEEN_I | SEEN_W) || seen == (SEEN_F | SEEN_B))
                continue;
            const char *missing = !(seen & SEEN_F) ? "F" : !(seen & SEEN_I) ? "I (or B)" : "W";
            return dt_error_set(in->reader.error, DETOUR_MISSING_OP,
                                "%s: row %" PRId32 ": %s of stage %" PRId32 ", microbatch %" PRId32
                                " is missing; the profile has %" PRId32 " microbatches",
                                in->reader.name, p->device[i] + 1, missing, i, j, p->microbatch_count);
        }
    }
    return DETOUR_OK;
}

static enum detour_status check_table(struct import *in)
{
    const struct dt_csv_table *table = in->table;
    enum detour_status status = DETOUR_OK;

    if (table->row_count != in->p->device_count)
        return dt_error_set(in->reader.error, DETOUR_INVALID,
                            "%s: has %" PRId32 " rows; it must have %" PRId32
                            ", one for each device of the profile",
                            in->reader.name, table->row_count, in->p->device_count);
    for (size_t i = 0; !status && i < table->action_count; i++) {
        status = check_place(in, &table->actions[i]);
        if (!status && is_compute(&table->actions[i]))
            status = check_compute(in, &table->actions[i]);
    }
    return status ? status : check_complete(in);
}

static void fill_schedule(const struct import *in, struct detour_schedule *schedule)
{
    size_t count = 0;

    for (size_t i = 0; i < in->table->action_count; i++) {
        const struct dt_csv_action *action = &in->table->actions[i];
        if (!is_compute(action))
            continue;
        schedule->ops[count++] = (struct detour_op){
            .microbatch = action->microbatch, .stage = action->stage, .kind = action->kind};
        schedule->first[action->row + 1] = count;
    }
}

/* Computations and messages of the file, in its order. */
static bool fill_program(const struct import *in, struct detour_program *program)
{
    const struct dt_csv_table *table = in->table;

    *program = (struct detour_program){.device_count = table->row_count};
    if (!dt_arena_new(in->reader.arena, program->first, table->row_count + 1) ||
        !dt_arena_new(in->reader.arena, program->actions, table->action_count))
        return false;
    for (size_t i = 0; i < table->action_count; i++) {
        const struct dt_csv_action *action = &table->actions[i];
        if (is_message(action) || is_compute(action))
            program->actions[program->action_count++] = (struct detour_action){
                .microbatch = action->microbatch, .stage = action->stage, .kind = action->kind};
        program->first[action->row + 1] = program->action_count;
    }
    return true;
}

/*
 * The sends and receives that the file has, run on the strictest transport. Where deadlocks are to be
 * repaired, its messages are only read for the problem that they have: they are dropped in any case.
 */
static enum detour_status check_comms(const struct import *in, const struct detour_profile *profile)
{
    struct detour_error found = {0};
    struct detour_program program;

    if (!fill_program(in, &program))
        return dt_fail_memory(in->reader.error);
    enum detour_status status = detour_program_check(in->reader.arena, profile, &program, &found);
    if (status && in->repair && status != DETOUR_NO_MEMORY && status != DETOUR_UNKNOWN_OP) {
        memcpy(in->repair->problem, found.text, sizeof(found.text));
        return DETOUR_OK;
    }
    if (status)
        dt_error_set(in->reader.error, status, "%s: %s", in->reader.name, found.text);
    return status;
}

static enum detour_status import_table(struct import *in, const struct detour_profile *profile,
                                       struct detour_plan **plan)
{
    struct detour_plan *made;

    if (!dt_arena_new(in->reader.arena, made, 1) ||
        !dt_arena_new(in->reader.arena, in->seen, dt_cell_count(in->p)))
        return dt_fail_memory(in->reader.error);
    enum detour_status status = check_table(in);
    if (!status && in->table->has_comms)
        status = check_comms(in, profile);
    if (!status)
        status = detour_schedule_create(in->reader.arena, profile, in->op_count, &made->schedule,
                                        in->reader.error);
    if (status)
        return status;
    fill_schedule(in, made->schedule);
    made->algorithm = DETOUR_ALGORITHM_EXTERNAL;
    *plan = made;
    return DETOUR_OK;
}

enum detour_status dt_plan_from_csv(struct detour_arena *arena, const struct detour_profile *profile,
                                    const char *name, const char *text, size_t bytes,
                                    struct detour_repair *repair, struct detour_plan **plan,
                                    struct detour_error *error)
{
    struct dt_csv_reader reader = {.arena = arena, .error = error, .name = name};
    struct dt_csv_table table;
    struct dt_problem *p;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (!status)
        status = dt_csv_parse(&reader, text, bytes, &table);
    if (status)
        return status;
    struct import in = {.reader = reader, .p = p, .table = &table, .repair = repair};
    return import_table(&in, profile, plan);
}

enum detour_status detour_plan_from_csv(struct detour_arena *arena, const struct detour_profile *profile,
                                        const char *name, const char *text, size_t bytes,
                                        struct detour_plan **plan, struct detour_error *error)
{
    return dt_plan_from_csv(arena, profile, name, text, bytes, NULL, plan, error);
}

static void add_action(struct dt_text *text, bool first, int kind, int32_t stage, int32_t microbatch)
{
    dt_text_printf(text, "%s%" PRId32 "%s%" PRId32, first ? "" : ",", stage, dt_csv_names[kind], microbatch);
}

enum detour_status dt_write_csv(const struct dt_write *w, struct dt_text *text)
{
    const struct detour_schedule *s = w->schedule;
    enum detour_status status = dt_schedule_check_last_stage(w->call, w->p, s);

    for (int32_t d = 0; !status && d < s->device_count; d++) {
        for (size_t i = s->first[d]; i < s->first[d + 1]; i++)
            add_action(text, i == s->first[d], s->ops[i].kind, s->ops[i].stage, s->ops[i].microbatch);
        dt_text_add(text, "\n");
    }
    return status;
}

/* The versions whose compute_comms differ, as the N of 2.N. */
enum { TORCH_REDUCE_GRAD = 10, TORCH_WAITS = 15 };

/* Actions that the file adds to those of the program. */
struct comms {
    struct dt_text *text;
    bool waits;    /* the version wants them */
    int32_t *left; /* [stage]: backwards until its gradients are complete */
};

/*
 * Since 2.10 PyTorch reduces and scales a stage's gradients at REDUCE_GRAD: after the stage's last W or B.
 * Since 2.15 the file also contains the wait for that.
 */
static void add_reduce_grad(struct comms *comms, const struct detour_action *action)
{
    bool completes = action->kind == DETOUR_ACTION_W || action->kind == DETOUR_ACTION_BW;

    if (!completes || --comms->left[action->stage] > 0)
        return;
    dt_text_printf(comms->text, ",%d%s", action->stage, dt_csv_names[DT_CSV_REDUCE_GRAD]);
    if (comms->waits)
        dt_text_printf(comms->text, ",%d%s", action->stage, dt_csv_names[DT_CSV_WAIT_REDUCE_GRAD]);
}

/*
 * Since 2.15 every send has a wait, which must not come before its peer can receive: that of an activation
 * behind its own backward, for which the peer has long received it; that of a gradient at the end.
 */
static void add_send_waits(struct comms *comms, const struct detour_program *program, int32_t device)
{
    for (size_t i = program->first[device]; i < program->first[device + 1]; i++)
        if (program->actions[i].kind == DETOUR_ACTION_SEND_B)
            add_action(comms->text, false, DT_CSV_WAIT_SEND_B, program->actions[i].stage,
                       program->actions[i].microbatch);
}

static void add_device(const struct dt_write *w, struct comms *comms, const struct detour_program *program,
                       int32_t device)
{
    for (size_t i = program->first[device]; i < program->first[device + 1]; i++) {
        const struct detour_action *action = &program->actions[i];
        bool is_backward = action->kind == DETOUR_ACTION_B || action->kind == DETOUR_ACTION_BW;
        int32_t stage = action->stage;
        if (action->kind > DETOUR_ACTION_RECV_B) /* PyTorch waits by itself, and has no copies */
            continue;
        add_action(comms->text, i == program->first[device], action->kind, stage, action->microbatch);
        if (comms->waits && is_backward && stage + 1 < w->p->stage_count && w->p->device[stage + 1] != device)
            add_action(comms->text, false, DT_CSV_WAIT_SEND_F, stage, action->microbatch);
        add_reduce_grad(comms, action);
    }
    if (comms->waits)
        add_send_waits(comms, program, device);
    dt_text_add(comms->text, "\n");
}

enum detour_status dt_write_csv_comms(const struct dt_write *w, struct dt_text *text)
{
    int32_t torch_minor = w->options->torch_minor ? w->options->torch_minor : TORCH_WAITS;
    struct comms comms = {.text = text, .waits = torch_minor >= TORCH_WAITS};
    struct detour_program *program;

    if (torch_minor < TORCH_REDUCE_GRAD)
        return dt_fail(w->call, DETOUR_INVALID,
                       "torch_minor is %" PRId32 "; compute_comms is written for 2.%d and later", torch_minor,
                       TORCH_REDUCE_GRAD);
    if (!dt_arena_new(w->call->arena, comms.left, w->p->stage_count))
        return dt_fail_memory(w->call->error);
    enum detour_status status = dt_schedule_check_last_stage(w->call, w->p, w->schedule);
    if (!status)
        status = detour_program_create(w->call->arena, w->p->profile, w->schedule, &program, w->call->error);
    for (int32_t i = 0; !status && i < w->p->stage_count; i++)
        comms.left[i] = w->p->microbatch_count;
    for (int32_t d = 0; !status && d < program->device_count; d++)
        add_device(w, &comms, program, d);
    return status;
}
