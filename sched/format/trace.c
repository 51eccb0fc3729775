/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chrome's trace event format, which Perfetto reads: a process per device, its operations as slices of thread
 * 0, each direction of a link as asynchronous slices of the sender, arrows (flow events) from operation to
 * operation, and memory as a counter. The measured times of a run are processes of their own. Times are
 * microseconds.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sched/format/format.h"

enum { NS_PER_US = 1000, THREAD_COMPUTE = 0, NAME_BYTES = 64 };

/* A writer that separates events by commas. */
struct trace {
    const struct dt_write *w;
    struct dt_text *text;
    bool empty;
    int32_t process; /* of device 0, in the group that is being written */
    size_t id;       /* of the group's first message */
};

static json_t *us(int64_t time_ns)
{
    return time_ns % NS_PER_US ? json_real((double)time_ns / NS_PER_US) : json_integer(time_ns / NS_PER_US);
}

static void add_event(struct trace *trace, json_t *event)
{
    dt_text_add(trace->text, trace->empty ? "\n" : ",\n");
    dt_text_add_json(trace->text, event, 0, 0);
    trace->empty = false;
}

static json_t *event_json(const struct trace *trace, const char *phase, const char *name, int32_t device)
{
    json_t *event = json_object();

    dt_json_put(&event, "ph", json_string(phase));
    dt_json_put(&event, "name", json_string(name));
    dt_json_put(&event, "pid", json_integer(trace->process + device));
    dt_json_put(&event, "tid", json_integer(THREAD_COMPUTE));
    return event;
}

static void add_name(struct trace *trace, const char *what, int32_t device, const char *name)
{
    json_t *event = event_json(trace, "M", what, device);
    json_t *arguments = json_object();

    dt_json_put(&arguments, "name", json_string(name));
    dt_json_put(&event, "args", arguments);
    add_event(trace, event);
}

static void add_device(struct trace *trace, const struct detour_schedule *s, const char *suffix,
                       int32_t device)
{
    char name[NAME_BYTES];

    snprintf(name, sizeof(name), "device %" PRId32 "%s", device, suffix);
    add_name(trace, "process_name", device, name);
    add_name(trace, "thread_name", device, "compute");
    for (size_t i = s->first[device]; i < s->first[device + 1]; i++) {
        const struct detour_op *op = &s->ops[i];
        const char *kind = detour_op_name((enum detour_op_kind)op->kind);
        snprintf(name, sizeof(name), "%s%" PRId32, kind, op->microbatch);
        json_t *event = event_json(trace, "X", name, device);
        json_t *arguments = json_object();
        dt_json_put(&event, "cat", json_string(kind));
        dt_json_put(&event, "ts", us(op->start_ns));
        dt_json_put(&event, "dur", us(op->finish_ns - op->start_ns));
        dt_json_put(&arguments, "stage", json_integer(op->stage));
        dt_json_put(&arguments, "microbatch", json_integer(op->microbatch));
        dt_json_put(&event, "args", arguments);
        add_event(trace, event);
    }
}

/* One half of a message: its beginning or end as an asynchronous slice, or as an arrow. */
static void add_half(struct trace *trace, const char *phase, const char *category, const char *name,
                     size_t id, int32_t device, int64_t time_ns)
{
    json_t *event = event_json(trace, phase, name, device);

    dt_json_put(&event, "cat", json_string(category));
    dt_json_put(&event, "id", json_integer((json_int_t)(trace->id + id)));
    dt_json_put(&event, "ts", us(time_ns));
    if (phase[0] == 'f') /* the arrow ends at the slice around this time, not at the next one */
        dt_json_put(&event, "bp", json_string("e"));
    add_event(trace, event);
}

/* When the operations at both ends of each message start: [op index]. */
static enum detour_status find_starts(const struct dt_write *w, const struct detour_schedule *s,
                                      int64_t **start_ns)
{
    if (!dt_arena_new(w->call->arena, *start_ns, dt_op_index_count(w->p)))
        return dt_fail_memory(w->call->error);
    for (size_t i = 0; i < s->op_count; i++) {
        const struct detour_op *op = &s->ops[i];
        (*start_ns)[dt_op_index(w->p, (enum detour_op_kind)op->kind, op->stage, op->microbatch)] =
            op->start_ns;
    }
    return DETOUR_OK;
}

static enum detour_status add_messages(struct trace *trace, const struct detour_schedule *s,
                                       const struct dt_messages *messages)
{
    const struct dt_write *w = trace->w;
    int64_t *start_ns;
    char name[NAME_BYTES];

    enum detour_status status = find_starts(w, s, &start_ns);
    for (size_t i = 0; !status && i < messages->count; i++) {
        const struct detour_message *m = &messages->messages[i];
        enum detour_op_kind kind = dt_message_is_forward(m) ? DETOUR_OP_F : DETOUR_OP_B;
        int32_t from = w->p->device[m->from_stage], to = w->p->device[m->to_stage];
        snprintf(name, sizeof(name), "stage %" PRId32 " to %" PRId32 ": %s%" PRId32, m->from_stage,
                 m->to_stage, detour_op_name(kind), m->microbatch);
        add_half(trace, "b", "message", name, i, from, m->depart_ns);
        add_half(trace, "e", "message", name, i, from, m->arrive_ns);
        add_half(trace, "s", "dependency", name, i, from,
                 start_ns[dt_op_index(w->p, kind, m->from_stage, m->microbatch)]);
        add_half(trace, "f", "dependency", name, i, to,
                 start_ns[dt_op_index(w->p, kind, m->to_stage, m->microbatch)]);
    }
    return status;
}

static enum detour_status add_memory(struct trace *trace)
{
    const struct dt_write *w = trace->w;
    struct dt_usage usage;

    enum detour_status status = dt_usage_create(w->call, w->p, w->schedule, &usage);
    if (status)
        return status;
    for (int32_t d = 0; d < w->p->device_count; d++) {
        for (size_t i = usage.first[d]; i < usage.first[d + 1]; i++) {
            json_t *event =
                event_json(trace, "C", usage.in_bytes ? "activations" : "microbatches in flight", d);
            json_t *arguments = json_object();
            dt_json_put(&arguments, usage.in_bytes ? "bytes" : "count", json_integer(usage.steps[i].value));
            dt_json_put(&event, "ts", us(usage.steps[i].time_ns));
            dt_json_put(&event, "args", arguments);
            add_event(trace, event);
        }
    }
    return DETOUR_OK;
}

/* A schedule and its messages: a process per device. */
static enum detour_status add_group(struct trace *trace, const char *suffix, const struct detour_schedule *s,
                                    const struct dt_messages *messages)
{
    for (int32_t d = 0; d < trace->w->p->device_count; d++)
        add_device(trace, s, suffix, d);
    return add_messages(trace, s, messages);
}

enum detour_status dt_write_trace(const struct dt_write *w, struct dt_text *text)
{
    struct trace trace = {.w = w, .text = text, .empty = true};
    const struct detour_measured *measured = w->options->measured;
    struct dt_messages messages;

    enum detour_status status = dt_messages_create(w->call, w->p, w->schedule, &messages);
    if (status)
        return status;
    dt_text_add(text, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [");
    if (measured) {
        status = add_group(&trace, ", measured", measured->schedule,
                           &(struct dt_messages){measured->message_count, measured->messages});
        trace.process = w->p->device_count;
        trace.id = measured->message_count;
    }
    if (!status)
        status = add_group(&trace, measured ? ", predicted" : "", w->schedule, &messages);
    if (!status)
        status = add_memory(&trace);
    dt_text_add(text, "\n]}\n");
    return status;
}
