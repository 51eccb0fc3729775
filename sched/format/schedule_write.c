/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The native schedule format: writer. Works stage by stage, so that a large schedule is never in memory
 * twice.
 */
#include "sched/format/format.h"
#include "sched/memory.h"

/* The writer's tables of stages and operations. */
struct facts {
    size_t *first;   /* [stage + 1]: where its operations begin in `slots` */
    size_t *slots;   /* operation indices, stage by stage in the order of execution */
    int32_t *warmup; /* [stage] */
    struct dt_peaks peaks;
};

const char *dt_algorithm_label(enum detour_algorithm algorithm)
{
    return algorithm == DETOUR_ALGORITHM_EXTERNAL ? "external" : detour_algorithm_name(algorithm);
}

static void sort_by_stage(const struct dt_write *w, struct facts *facts)
{
    const struct detour_schedule *s = w->schedule;
    int32_t stages = w->p->stage_count;

    for (size_t i = 0; i < s->op_count; i++)
        facts->first[s->ops[i].stage + 1]++;
    for (int32_t i = 0; i < stages; i++)
        facts->first[i + 1] += facts->first[i];
    for (size_t i = 0; i < s->op_count; i++)
        facts->slots[facts->first[s->ops[i].stage]++] = i;
    for (int32_t i = stages; i > 0; i--) /* each has moved on to the next one's beginning */
        facts->first[i] = facts->first[i - 1];
    facts->first[0] = 0;
}

static void count_warmup(const struct dt_write *w, struct facts *facts)
{
    for (int32_t i = 0; i < w->p->stage_count; i++) {
        size_t at = facts->first[i];
        while (at < facts->first[i + 1] && !dt_is_backward(w->schedule->ops[facts->slots[at]].kind))
            facts->warmup[i] += w->schedule->ops[facts->slots[at++]].kind == DETOUR_OP_F;
    }
}

static enum detour_status find_facts(const struct dt_write *w, struct facts *facts)
{
    if (!dt_arena_new(w->call->arena, facts->first, w->p->stage_count + 1) ||
        !dt_arena_new(w->call->arena, facts->slots, w->schedule->op_count) ||
        !dt_arena_new(w->call->arena, facts->warmup, w->p->stage_count))
        return dt_fail_memory(w->call->error);
    sort_by_stage(w, facts);
    count_warmup(w, facts);
    return dt_memory_peaks(w->call, w->p, w->schedule, &facts->peaks);
}

/* Several stages on one device: their common order is written out as slots. */
static json_t *op_json(const struct dt_write *w, size_t index)
{
    const struct detour_op *op = &w->schedule->ops[index];
    int32_t device = w->p->device[op->stage];
    json_t *object = json_object();

    dt_json_put(&object, "op", json_string(detour_op_name((enum detour_op_kind)op->kind)));
    dt_json_put(&object, "mb", json_integer(op->microbatch));
    dt_json_put(&object, "start_ms", dt_json_ms(op->start_ns));
    dt_json_put(&object, "end_ms", dt_json_ms(op->finish_ns));
    if (op->flags & DETOUR_OP_OFFLOADED)
        dt_json_put(&object, "offloaded", json_true());
    if (!w->p->one_stage_per_device)
        dt_json_put(&object, "slot", json_integer((json_int_t)(index - w->schedule->first[device])));
    return object;
}

static json_t *stage_json(const struct dt_write *w, const struct facts *facts, int32_t stage)
{
    json_t *object = json_object();
    json_t *ops = json_array();

    for (size_t i = facts->first[stage]; i < facts->first[stage + 1]; i++)
        dt_json_append(&ops, op_json(w, facts->slots[i]));
    dt_json_put(&object, "stage", json_integer(stage));
    dt_json_put(&object, "device", json_integer(w->p->device[stage]));
    dt_json_put(&object, "peak_inflight", json_integer(facts->peaks.inflight[stage]));
    dt_json_put(&object, "warmup", json_integer(facts->warmup[stage]));
    dt_json_put(&object, "ops", ops);
    return object;
}

static json_t *head_json(const struct dt_write *w)
{
    const struct detour_plan *plan = w->plan;
    json_t *object = json_object();

    dt_json_put(&object, "version", json_integer(1));
    dt_json_put(&object, "algorithm", json_string(dt_algorithm_label(plan->algorithm)));
    dt_json_put(&object, "makespan_ms", dt_json_ms(plan->makespan_ns));
    dt_json_put(&object, "longest_span_ms", dt_json_ms(plan->longest_span_ns));
    dt_json_put(&object, "lower_bound_ms", dt_json_ms(plan->lower_bound_ns));
    dt_json_put(&object, "proven_optimal", json_boolean(plan->proven_optimal));
    dt_json_put(&object, "links", dt_json_links(w->p->profile));
    return object;
}

static json_t *slack_json(int64_t slack_ns)
{
    return slack_ns >= DETOUR_TIME_MAX_NS ? json_null() : dt_json_ms(slack_ns);
}

static json_t *device_report_json(const struct detour_device_report *device, int32_t number)
{
    json_t *object = json_object();

    dt_json_put(&object, "device", json_integer(number));
    dt_json_put(&object, "first_start_ms", dt_json_ms(device->first_start_ns));
    dt_json_put(&object, "last_end_ms", dt_json_ms(device->last_finish_ns));
    dt_json_put(&object, "busy_ms", dt_json_ms(device->busy_ns));
    dt_json_put(&object, "idle_ms", dt_json_ms(device->idle_ns));
    dt_json_put(&object, "peak_bytes", json_integer(device->peak_bytes));
    return object;
}

static json_t *link_report_json(const struct detour_link_report *link, int32_t number)
{
    json_t *object = json_object();

    dt_json_put(&object, "link", json_integer(number));
    dt_json_put(&object, "forward_local_slack_ms", slack_json(link->forward_local_slack_ns));
    dt_json_put(&object, "forward_total_slack_ms", slack_json(link->forward_total_slack_ns));
    dt_json_put(&object, "backward_local_slack_ms", slack_json(link->backward_local_slack_ns));
    dt_json_put(&object, "backward_total_slack_ms", slack_json(link->backward_total_slack_ns));
    return object;
}

static json_t *report_json(const struct dt_write *w, const struct detour_report *report)
{
    json_t *object = json_object(), *devices = json_array(), *links = json_array();

    for (int32_t d = 0; d < w->p->device_count; d++)
        dt_json_append(&devices, device_report_json(&report->devices[d], d));
    for (int32_t i = 0; i + 1 < w->p->stage_count; i++)
        dt_json_append(&links, link_report_json(&report->links[i], i));
    dt_json_put(&object, "longest_span_device", json_integer(report->longest_span_device));
    dt_json_put(&object, "bubble_ratio_makespan", json_real(report->bubble_ratio_makespan));
    dt_json_put(&object, "bubble_ratio_span", json_real(report->bubble_ratio_span));
    dt_json_put(&object, "devices", devices);
    dt_json_put(&object, "links", links);
    return object;
}

/* A member more, spread over lines `levels` deep; takes over `value`. */
static void add_member(struct dt_text *text, const char *name, json_t *value, int levels)
{
    json_t *member = json_object();

    dt_json_put(&member, name, value);
    dt_text_add_json_members(text, member, levels, 1);
}

/* Written by hand are only the outer brackets. */
enum detour_status dt_write_json(const struct dt_write *w, struct dt_text *text)
{
    struct facts facts = {0};

    enum detour_status status = find_facts(w, &facts);
    if (status)
        return status;
    dt_text_add(text, "{\n");
    dt_text_add_json_members(text, head_json(w), 1, 1);
    if (w->options->adapt)
        add_member(text, "adapt", dt_json_adapt(w, w->options->adapt), 1);
    if (w->options->report)
        add_member(text, "report", report_json(w, w->options->report), 2);
    dt_text_add(text, " \"stages\": [\n");
    for (int32_t i = 0; i < w->p->stage_count; i++) {
        dt_text_add(text, "  ");
        dt_text_add_json(text, stage_json(w, &facts, i), 2, 2);
        dt_text_add(text, i + 1 < w->p->stage_count ? ",\n" : "\n");
    }
    dt_text_add(text, " ]\n}\n");
    return DETOUR_OK;
}
