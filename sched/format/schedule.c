/* SPDX-License-Identifier: Apache-2.0 */
/* The native schedule format: reader. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "sched/format/csv_fields.h"
#include "sched/format/format.h"

static const char *const top_keys[] = {"version",        "algorithm",      "makespan_ms", "longest_span_ms",
                                       "lower_bound_ms", "proven_optimal", "links",       "stages",
                                       "report",         "adapt",          NULL};
static const char *const stage_keys[] = {"stage", "device", "peak_inflight", "warmup", "ops", NULL};
static const char *const op_keys[] = {"op", "mb", "start_ms", "end_ms", "offloaded", "slot", NULL};
static const char *const op_names[] = {"F", "B", "W", "BW", NULL}; /* by enum detour_op_kind */

/* An operation as the file has it. */
struct draft_op {
    struct detour_op op;
    int64_t slot; /* its place in the order of its device */
    size_t index; /* its place in the file */
};

struct draft {
    struct dt_call *call;
    const struct dt_problem *p;
    struct draft_op *ops; /* stage by stage */
    size_t op_count;
    size_t *stage_first; /* [stage + 1]: where its operations begin */
    uint8_t *seen;       /* [cell]: 1 << kind of what was there */
    bool timed;          /* the first operation decides, the others follow */
    bool slotted;
};

static bool out_of_memory(const struct dt_json_at *at)
{
    at->reader->status = dt_fail_memory(at->reader->error);
    return false;
}

static bool check_once(const struct dt_json_at *at, struct draft *draft, const struct detour_op *op)
{
    uint8_t *seen = &draft->seen[dt_op_index(draft->p, DETOUR_OP_F, op->stage, op->microbatch)];
    const uint8_t fused = 1 << DETOUR_OP_BW, split = 1 << DETOUR_OP_B | 1 << DETOUR_OP_W;
    uint8_t bit = (uint8_t)(1u << op->kind);
    uint8_t excludes = bit == fused ? fused | split : bit & split ? bit | fused : bit;

    if (*seen & excludes)
        return dt_json_fail(at, DETOUR_DUPLICATE_OP,
                            "is %s of microbatch %" PRId32 ", which is there already, alone or as part of BW",
                            op_names[op->kind], op->microbatch);
    *seen |= bit;
    return true;
}

/* start_ms and end_ms: both on every operation of the file, or on none. */
static bool read_times(const struct dt_json_at *at, struct draft *draft, struct detour_op *op)
{
    struct dt_json_at start = dt_json_optional(at, "start_ms");
    struct dt_json_at end = dt_json_optional(at, "end_ms");

    if (draft->op_count == 0)
        draft->timed = start.value || end.value;
    if (!draft->timed && !start.value && !end.value)
        return true;
    if (!draft->timed)
        return dt_json_fail(at, DETOUR_SYNTAX,
                            "has a time, but the operations before it have none; "
                            "give start_ms and end_ms to all or to none");
    if (!dt_json_member(at, "start_ms", &start) || !dt_json_member(at, "end_ms", &end) ||
        !dt_json_time(&start, DETOUR_SCHEDULE_TIME_MAX_NS, &op->start_ns) ||
        !dt_json_time(&end, DETOUR_SCHEDULE_TIME_MAX_NS, &op->finish_ns))
        return false;
    return op->finish_ns >= op->start_ns ||
           dt_json_fail(&end, DETOUR_TIMES, "is less than start_ms; an operation ends at or after its start");
}

static bool read_slot(const struct dt_json_at *at, struct draft *draft, struct draft_op *op)
{
    struct dt_json_at slot = dt_json_optional(at, "slot");

    if (draft->op_count == 0)
        draft->slotted = slot.value;
    op->index = draft->op_count;
    op->slot = (int64_t)draft->op_count;
    if (!draft->slotted)
        return !slot.value ||
               dt_json_fail(&slot, DETOUR_SYNTAX, "is there, but the operations before it have none");
    return dt_json_member(at, "slot", &slot) &&
           dt_json_int(&slot, "a place in the order of the device", 0,
                       (int64_t)dt_op_index_count(draft->p) - 1, &op->slot);
}

static bool read_offloaded(const struct dt_json_at *at, const struct draft *draft, struct detour_op *op)
{
    struct dt_json_at offloaded = dt_json_optional(at, "offloaded");
    bool is_offloaded = false;

    if (offloaded.value && !dt_json_bool(&offloaded, &is_offloaded))
        return false;
    if (is_offloaded && (op->kind != DETOUR_OP_F || !draft->p->profile->stages[op->stage].offload_ns))
        return dt_json_fail(
            &offloaded, DETOUR_UNKNOWN_OP,
            "is true; that is for F of stages whose memory.offload_ms in the profile is not 0");
    op->flags = is_offloaded ? DETOUR_OP_OFFLOADED : 0;
    return true;
}

static bool read_op(const struct dt_json_at *at, struct draft *draft, int32_t stage)
{
    struct draft_op *made = &draft->ops[draft->op_count];
    struct dt_json_at kind_at, microbatch_at;
    int64_t microbatch;
    size_t kind;

    if (!dt_json_object(at, op_keys) || !dt_json_member(at, "op", &kind_at) ||
        !dt_json_choice(&kind_at, op_names, &kind) || !dt_json_member(at, "mb", &microbatch_at) ||
        !dt_json_int(&microbatch_at, "a microbatch of the profile", 0, draft->p->microbatch_count - 1,
                     &microbatch))
        return false;
    made->op =
        (struct detour_op){.microbatch = (int32_t)microbatch, .stage = (int16_t)stage, .kind = (uint8_t)kind};
    if (!check_once(at, draft, &made->op) || !read_times(at, draft, &made->op) ||
        !read_slot(at, draft, made) || !read_offloaded(at, draft, &made->op))
        return false;
    draft->op_count++;
    return true;
}

/* A redundant number: equal to the known value, or an error. */
static bool check_repeated(const struct dt_json_at *at, const char *key, const char *why, int64_t expected)
{
    struct dt_json_at member = dt_json_optional(at, key);
    int64_t value;

    if (!member.value)
        return true;
    if (!dt_json_int(&member, why, 0, DETOUR_STAGES_MAX - 1, &value))
        return false;
    return value == expected || dt_json_fail(&member, DETOUR_UNKNOWN_OP,
                                             "is %" PRId64 "; it must be %s, %" PRId64, value, why, expected);
}

static bool check_count(const struct dt_json_at *at, const char *key)
{
    struct dt_json_at member = dt_json_optional(at, key);
    int64_t count;

    return !member.value ||
           dt_json_int(&member, "a count of microbatches", 0, DETOUR_MICROBATCHES_MAX, &count);
}

/* Each F, and each B and W or BW. The numbers of what is missing come from the first gap. */
static bool check_complete(const struct dt_json_at *ops, const struct draft *draft, int32_t stage)
{
    const uint8_t split = 1 << DETOUR_OP_F | 1 << DETOUR_OP_B | 1 << DETOUR_OP_W;
    const uint8_t fused = 1 << DETOUR_OP_F | 1 << DETOUR_OP_BW;

    for (int32_t j = 0; j < draft->p->microbatch_count; j++) {
        uint8_t seen = draft->seen[dt_op_index(draft->p, DETOUR_OP_F, stage, j)];
        if (seen == split || seen == fused)
            continue;
        const char *missing = !(seen & 1 << DETOUR_OP_F)   ? "F"
                              : !(seen & 1 << DETOUR_OP_B) ? "B (or BW)"
                                                           : "W";
        return dt_json_fail(ops, DETOUR_MISSING_OP,
                            "has no %s of microbatch %" PRId32 "; the profile has %" PRId32 " microbatches",
                            missing, j, draft->p->microbatch_count);
    }
    return true;
}

static bool read_stage(const struct dt_json_at *at, struct draft *draft, int32_t stage)
{
    struct dt_json_at ops;
    size_t count;

    if (!dt_json_object(at, stage_keys) ||
        !check_repeated(at, "stage", "the stages' numbers in ascending order", stage) ||
        !check_repeated(at, "device", "the device where the profile places the stage",
                        draft->p->device[stage]) ||
        !check_count(at, "peak_inflight") || !check_count(at, "warmup") || !dt_json_member(at, "ops", &ops) ||
        !dt_json_array(&ops, 3 * (size_t)draft->p->microbatch_count, &count))
        return false;
    for (size_t i = 0; i < count; i++) {
        struct dt_json_at op = dt_json_element(&ops, i);
        size_t before = draft->op_count;
        if (!read_op(&op, draft, stage))
            return false;
        if (draft->timed && i > 0 && draft->ops[before].op.start_ns < draft->ops[before - 1].op.start_ns)
            return dt_json_fail(&op, DETOUR_TIMES,
                                "starts before the previous operation; list them in order");
    }
    draft->stage_first[stage + 1] = draft->op_count;
    return check_complete(&ops, draft, stage);
}

static bool read_stages(const struct dt_json_at *root, struct draft *draft)
{
    struct dt_json_at stages;
    int32_t count = draft->p->stage_count;

    if (!dt_json_member(root, "stages", &stages) ||
        !dt_json_array_of(&stages, (size_t)count, "one for each stage of the profile"))
        return false;
    if (!dt_arena_new(draft->call->arena, draft->ops, dt_op_index_count(draft->p)) ||
        !dt_arena_new(draft->call->arena, draft->stage_first, count + 1) ||
        !dt_arena_new(draft->call->arena, draft->seen, dt_cell_count(draft->p)))
        return out_of_memory(root);
    for (int32_t i = 0; i < count; i++) {
        struct dt_json_at stage = dt_json_element(&stages, (size_t)i);
        if (!read_stage(&stage, draft, i))
            return false;
    }
    if (!draft->timed && !draft->slotted && !draft->p->one_stage_per_device)
        return dt_json_fail(&stages, DETOUR_SYNTAX,
                            "leaves the order of stages on one device open; give every "
                            "operation start_ms and end_ms, or slot");
    return true;
}

static int compare(int64_t a, int64_t b)
{
    return a < b ? -1 : a > b;
}

/* Slots decide where there are any, else times; a stage's own order holds for equal ones. */
static int compare_ops(const void *a, const void *b)
{
    const struct draft_op *x = a, *y = b;
    int order = compare(x->slot, y->slot);

    if (!order)
        order = compare(x->op.start_ns, y->op.start_ns);
    if (!order)
        order = compare(x->op.finish_ns, y->op.finish_ns);
    return order ? order : compare((int64_t)x->index, (int64_t)y->index);
}

static bool check_slots(const struct dt_json_at *root, const struct draft *draft, const struct draft_op *ops,
                        size_t count)
{
    for (size_t i = 0; draft->slotted && i < count; i++) {
        int32_t device = draft->p->device[ops[i].op.stage];

        if (ops[i].slot != (int64_t)i)
            return dt_json_fail(root, DETOUR_ORDER,
                                "has slot %" PRId64 " on device %" PRId32
                                " where %zu is due; the slots of a device "
                                "are 0, 1, 2, ..., each once",
                                ops[i].slot, device, i);
        if (draft->timed && i > 0 && ops[i].op.start_ns < ops[i - 1].op.start_ns)
            return dt_json_fail(
                root, DETOUR_TIMES,
                "has an operation in slot %zu of device %" PRId32
                " that starts before the one in slot %zu; slots and times must have one order",
                i, device, i - 1);
    }
    return true;
}

/* One device's operations out of the draft, in order. */
static bool fill_device(const struct dt_json_at *root, const struct draft *draft, int32_t device,
                        struct draft_op *scratch, struct detour_schedule *schedule)
{
    const struct dt_problem *p = draft->p;
    size_t count = 0;
    /* Alone on its device a stage's order in the file is the device's. */
    bool several = p->device_first[device + 1] - p->device_first[device] > 1;

    for (int32_t k = p->device_first[device]; k < p->device_first[device + 1]; k++) {
        int32_t stage = p->device_stages[k];
        for (size_t i = draft->stage_first[stage]; i < draft->stage_first[stage + 1]; i++)
            scratch[count++] = draft->ops[i];
    }
    for (size_t i = 0; i < count && !draft->slotted; i++)
        scratch[i].slot = several ? 0 : (int64_t)i;
    qsort(scratch, count, sizeof(*scratch), compare_ops);
    if (!check_slots(root, draft, scratch, count))
        return false;
    for (size_t i = 0; i < count; i++)
        schedule->ops[schedule->first[device] + i] = scratch[i].op;
    schedule->first[device + 1] = schedule->first[device] + count;
    return true;
}

static bool fill_schedule(const struct dt_json_at *root, const struct draft *draft,
                          struct detour_schedule **schedule)
{
    struct draft_op *scratch;
    struct detour_schedule *made;

    root->reader->status = detour_schedule_create(draft->call->arena, draft->p->profile, draft->op_count,
                                                  &made, root->reader->error);
    if (root->reader->status)
        return false;
    if (!dt_arena_new(draft->call->arena, scratch, draft->op_count))
        return out_of_memory(root);
    for (int32_t d = 0; d < draft->p->device_count; d++)
        if (!fill_device(root, draft, d, scratch, made))
            return false;
    made->timed = draft->timed;
    *schedule = made;
    return true;
}

static bool read_algorithm(const struct dt_json_at *root, struct detour_plan *plan)
{
    enum detour_algorithm algorithms[DETOUR_ALGORITHM_COUNT + 1];
    const char *names[DETOUR_ALGORITHM_COUNT + 2] = {0};
    struct dt_json_at at = dt_json_optional(root, "algorithm");
    size_t count = 0, index;

    for (int i = 0; i <= DETOUR_ALGORITHM_COUNT; i++) {
        const char *name = dt_algorithm_label((enum detour_algorithm)i);
        if (!name)
            continue;
        algorithms[count] = (enum detour_algorithm)i;
        names[count++] = name;
    }
    plan->algorithm = DETOUR_ALGORITHM_EXTERNAL;
    if (!at.value)
        return true;
    if (!dt_json_choice(&at, names, &index))
        return false;
    plan->algorithm = algorithms[index];
    return true;
}

static bool read_head(const struct dt_json_at *root, struct detour_plan *plan)
{
    struct dt_json_at proven = dt_json_optional(root, "proven_optimal");
    const int64_t max_ns = DETOUR_SCHEDULE_TIME_MAX_NS;

    return dt_json_object(root, top_keys) && dt_json_version(root) && read_algorithm(root, plan) &&
           dt_json_time_optional(root, "makespan_ms", max_ns, &plan->makespan_ns) &&
           dt_json_time_optional(root, "longest_span_ms", max_ns, &plan->longest_span_ns) &&
           dt_json_time_optional(root, "lower_bound_ms", max_ns, &plan->lower_bound_ns) &&
           (!proven.value || dt_json_bool(&proven, &plan->proven_optimal));
}

/* The profile with the links that the file records. */
static bool read_planned(const struct dt_json_at *root, const struct draft *draft,
                         struct detour_profile **planned)
{
    struct dt_json_at at = dt_json_optional(root, "links");
    size_t count = (size_t)draft->p->stage_count - 1;
    struct detour_profile *made;
    struct detour_link *links;

    *planned = NULL;
    if (!at.value)
        return true;
    if (!dt_arena_new(draft->call->arena, made, 1) || !dt_arena_new(draft->call->arena, links, count))
        return out_of_memory(root);
    if (!dt_json_read_links(&at, count, links))
        return false;
    *made = *draft->p->profile;
    made->links = links;
    *planned = made;
    return true;
}

enum detour_status detour_plan_from_json(struct detour_arena *arena, const struct detour_profile *profile,
                                         const char *name, const char *text, size_t bytes,
                                         struct detour_plan **plan, struct detour_profile **planned,
                                         struct detour_error *error)
{
    struct dt_json_reader reader = {.name = name, .error = error};
    struct detour_profile *recorded;
    struct detour_plan *made;
    struct dt_problem *p;
    struct dt_json_at root;
    struct dt_call call;

    dt_call_init(&call, arena, error, NULL);
    enum detour_status status = dt_problem_create(&call, profile, &p);
    if (status)
        return status;
    if (!dt_arena_new(arena, made, 1))
        return dt_fail_memory(error);
    if (!dt_json_parse(&reader, text, bytes, &root))
        return reader.status;
    struct draft draft = {.call = &call, .p = p};
    bool ok = read_head(&root, made) && read_planned(&root, &draft, &recorded) &&
              read_stages(&root, &draft) && fill_schedule(&root, &draft, &made->schedule);
    json_decref((json_t *)root.value);
    if (!ok)
        return reader.status;
    *plan = made;
    if (planned)
        *planned = recorded;
    return DETOUR_OK;
}

static bool is_json(const char *text, size_t bytes)
{
    size_t i = 0;

    while (i < bytes && strchr(" \t\r\n", text[i]) && text[i])
        i++;
    return i < bytes && text[i] == '{';
}

enum detour_status detour_plan_read(struct detour_arena *arena, const struct detour_profile *profile,
                                    const char *name, const char *text, size_t bytes,
                                    struct detour_plan **plan, struct detour_profile **planned,
                                    struct detour_error *error)
{
    if (is_json(text, bytes))
        return detour_plan_from_json(arena, profile, name, text, bytes, plan, planned, error);
    enum detour_status status = detour_plan_from_csv(arena, profile, name, text, bytes, plan, error);
    if (!status && planned)
        *planned = NULL;
    return status;
}

enum detour_status detour_plan_read_repaired(struct detour_arena *arena, const struct detour_profile *profile,
                                             const char *name, const char *text, size_t bytes,
                                             struct detour_plan **plan, struct detour_repair *repair,
                                             struct detour_error *error)
{
    struct detour_repair made = {.moved = 0};
    struct detour_error found = {.status = DETOUR_OK};
    struct detour_report *report;
    struct detour_plan *read;

    enum detour_status status =
        is_json(text, bytes) ? detour_plan_from_json(arena, profile, name, text, bytes, &read, NULL, error)
                             : dt_plan_from_csv(arena, profile, name, text, bytes, &made, &read, error);
    if (!status && !made.problem[0] && detour_simulate(arena, profile, read->schedule, &report, &found))
        memcpy(made.problem, found.text, sizeof(made.problem));
    if (!status)
        status = detour_schedule_repair(arena, profile, read->schedule, &read->schedule, &made.moved, error);
    if (status)
        return status;
    *repair = made;
    *plan = read;
    return DETOUR_OK;
}
