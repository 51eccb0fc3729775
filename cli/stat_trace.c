/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat_trace.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 160

/* A connection whose verdict is slow or waiting: its slice has begun. */
struct slice {
    int32_t pid;
    uint64_t connection;
    char name[NAME_BYTES];
};

struct dt_stat_trace {
    FILE *out;
    struct detour_stat_snapshot *before; /* NULL: none yet */
    int64_t start_ns, last_ns;           /* of the first and of the last snapshot */
    bool is_empty;
    struct slice *slices;
    size_t slice_count;
};

struct dt_stat_trace *dt_stat_trace_begin(FILE *out)
{
    struct dt_stat_trace *trace = calloc(1, sizeof *trace);

    if (!trace)
        return NULL;
    trace->out = out;
    trace->is_empty = true;
    fputs("[", out);
    return trace;
}

/* ---- One event of the format. ---- */

static double us_of(const struct dt_stat_trace *trace, int64_t time_ns)
{
    return (double)(time_ns - trace->start_ns) / 1e3;
}

/* Takes the object over; NULL: out of memory. */
static bool put(struct dt_stat_trace *trace, json_t *event)
{
    if (!event)
        return false;
    fputs(trace->is_empty ? "\n" : ",\n", trace->out);
    trace->is_empty = false;
    json_dumpf(event, trace->out, JSON_COMPACT | JSON_REAL_PRECISION(15));
    json_decref(event);
    return true;
}

/* Jansson refuses what is not UTF-8, which a peer's name may be. */
static const char *ascii(const char *text, char copy[NAME_BYTES])
{
    snprintf(copy, NAME_BYTES, "%s", text);
    for (char *at = copy; *at; at++) {
        if (*at < ' ' || *at > '~')
            *at = '?';
    }
    return copy;
}

static bool put_name(struct dt_stat_trace *trace, const struct detour_stat_process *process)
{
    char name[NAME_BYTES], copy[NAME_BYTES], rank[32] = "";

    if (process->job_rank >= 0)
        snprintf(rank, sizeof rank, "rank %" PRId32 ", ", process->job_rank);
    snprintf(name, sizeof name, "%s%s, %s", rank, process->name, process->host);
    return put(trace, json_pack("{s:s, s:s, s:i, s:f, s:{s:s}}", "ph", "M", "name", "process_name", "pid",
                                (int)process->pid, "ts", 0.0, "args", "name", ascii(name, copy)));
}

/* ---- Counters. ---- */

static bool put_counter(struct dt_stat_trace *trace, int32_t pid, const char *name, const char *unit,
                        double value)
{
    char copy[NAME_BYTES];

    return put(trace, json_pack("{s:s, s:s, s:i, s:f, s:{s:f}}", "ph", "C", "name", ascii(name, copy), "pid",
                                (int)pid, "ts", us_of(trace, trace->last_ns), "args", unit, value));
}

static const char *rank_text(int32_t rank, char text[16])
{
    if (rank >= 0)
        snprintf(text, 16, "%" PRId32, rank);
    else
        snprintf(text, 16, "%s", rank == DETOUR_STAT_RANK_SEVERAL ? "many" : "?");
    return text;
}

/* "send 0 to 1, mlx5_0 (5a1c)": the end of the id keeps connections of the same ranks apart. */
static void connection_name(const struct detour_stat_connection *c, const char *suffix, char name[NAME_BYTES])
{
    char from[16], to[16];

    snprintf(name, NAME_BYTES, "%s %s to %s, %s (%04" PRIx64 ")%s", c->is_send ? "send" : "recv",
             rank_text(c->from_rank, from), rank_text(c->to_rank, to), *c->nic ? c->nic : "no NIC",
             c->id & 0xffff, suffix);
}

/* From two snapshots; `old` is NULL for a connection that is new. */
static bool put_traffic(struct dt_stat_trace *trace, int32_t pid, const struct detour_stat_connection *old,
                        const struct detour_stat_connection *c, double seconds)
{
    uint64_t bytes = c->bytes - (old ? old->bytes : 0), messages = c->messages - (old ? old->messages : 0);
    uint64_t service_ns = c->service_ns - (old ? old->service_ns : 0);
    char name[NAME_BYTES];
    bool is_put;

    connection_name(c, ": MB/s", name);
    is_put = put_counter(trace, pid, name, "MB/s", (double)bytes / 1e6 / seconds);
    if (is_put && c->is_send && messages) {
        connection_name(c, ": mean service time, us", name);
        is_put = put_counter(trace, pid, name, "us", (double)service_ns / 1e3 / (double)messages);
    }
    return is_put;
}

static const struct detour_stat_process *process_before(const struct dt_stat_trace *trace,
                                                        const struct detour_stat_process *process)
{
    for (size_t i = 0; trace->before && i < detour_stat_process_count(trace->before); i++) {
        const struct detour_stat_process *old = detour_stat_get_process(trace->before, i);

        if (old->pid == process->pid && old->start_ns == process->start_ns)
            return old;
    }
    return NULL;
}

static const struct detour_stat_connection *connection_before(const struct detour_stat_process *process,
                                                              const struct detour_stat_connection *c)
{
    for (size_t i = 0; process && i < process->connection_count; i++) {
        const struct detour_stat_connection *old = detour_stat_get_connection(process, i);

        if (old->id == c->id && old->is_send == c->is_send)
            return old;
    }
    return NULL;
}

/* ---- Events. ---- */

static bool put_slice(struct dt_stat_trace *trace, const char *phase, const struct slice *slice,
                      int64_t time_ns)
{
    char id[24];

    snprintf(id, sizeof id, "%016" PRIx64, slice->connection);
    return put(trace, json_pack("{s:s, s:s, s:s, s:s, s:i, s:f}", "ph", phase, "cat", "verdict", "id", id,
                                "name", slice->name, "pid", (int)slice->pid, "ts", us_of(trace, time_ns)));
}

static bool end_slice(struct dt_stat_trace *trace, int32_t pid, uint64_t connection, int64_t time_ns)
{
    bool is_put = true;

    for (size_t i = 0; i < trace->slice_count; i++) {
        if (trace->slices[i].pid == pid && trace->slices[i].connection == connection) {
            is_put = put_slice(trace, "e", &trace->slices[i], time_ns);
            trace->slices[i--] = trace->slices[--trace->slice_count];
        }
    }
    return is_put;
}

static bool begin_slice(struct dt_stat_trace *trace, int32_t pid, uint64_t connection, const char *text,
                        int64_t time_ns)
{
    struct slice *slices = realloc(trace->slices, (trace->slice_count + 1) * sizeof *slices);
    struct slice *slice;

    if (!slices)
        return false;
    trace->slices = slices;
    slice = &slices[trace->slice_count++];
    slice->pid = pid;
    slice->connection = connection;
    ascii(text, slice->name);
    return put_slice(trace, "b", slice, time_ns);
}

static bool is_open(int32_t verdict)
{
    return verdict == DETOUR_STAT_SLOW || verdict == DETOUR_STAT_WAITING;
}

/* A verdict ends the one before; a switchover has a length; the rest are instants of the process. */
static bool put_event(struct dt_stat_trace *trace, const struct detour_stat_process *process,
                      const struct detour_stat_event *event)
{
    char text[NAME_BYTES];

    ascii(event->text, text);
    if (event->verdict >= 0)
        return end_slice(trace, process->pid, event->connection, event->time_ns) &&
               (!is_open(event->verdict) ||
                begin_slice(trace, process->pid, event->connection, text, event->time_ns));
    if (!strcmp(event->kind, "path") && event->delay_ns)
        return put(trace, json_pack("{s:s, s:s, s:s, s:i, s:i, s:f, s:f}", "ph", "X", "cat", "path", "name",
                                    text, "pid", (int)process->pid, "tid", (int)process->pid, "ts",
                                    us_of(trace, event->time_ns), "dur", (double)event->delay_ns / 1e3));
    return put(trace, json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:f}", "ph", "i", "s", "p", "cat",
                                event->kind, "name", text, "pid", (int)process->pid, "tid", (int)process->pid,
                                "ts", us_of(trace, event->time_ns)));
}

/* The events after those of `old`, if they occurred since the first snapshot. */
static bool put_events(struct dt_stat_trace *trace, const struct detour_stat_process *old,
                       const struct detour_stat_process *process)
{
    uint64_t next =
        old && old->event_count ? detour_stat_get_event(old, old->event_count - 1)->number + 1 : 0;

    for (size_t i = 0; i < process->event_count; i++) {
        const struct detour_stat_event *event = detour_stat_get_event(process, i);

        if (event->number >= next && event->time_ns >= trace->start_ns && !put_event(trace, process, event))
            return false;
    }
    return true;
}

/* ---- Snapshots. ---- */

/* A verdict that held before the trace began is shown from its beginning on. */
static bool put_present_verdicts(struct dt_stat_trace *trace, const struct detour_stat_process *process)
{
    for (size_t i = 0; i < process->connection_count; i++) {
        const struct detour_stat_connection *c = detour_stat_get_connection(process, i);
        char text[NAME_BYTES];

        if (!c->is_send || !is_open(c->verdict))
            continue;
        snprintf(text, sizeof text, "to %s: %s %.2fx: %s", c->peer,
                 detour_stat_verdict_text((enum detour_stat_verdict)c->verdict), c->factor,
                 detour_stat_cause_text((enum detour_stat_cause)c->cause));
        if (!begin_slice(trace, process->pid, c->id, text, trace->start_ns))
            return false;
    }
    return true;
}

static bool put_process(struct dt_stat_trace *trace, const struct detour_stat_process *process,
                        double seconds)
{
    const struct detour_stat_process *old = process_before(trace, process);

    if (!old && !put_name(trace, process))
        return false;
    if (!trace->before && !put_present_verdicts(trace, process))
        return false;
    for (size_t i = 0; seconds > 0 && i < process->connection_count; i++) {
        const struct detour_stat_connection *c = detour_stat_get_connection(process, i);

        if (!put_traffic(trace, process->pid, connection_before(old, c), c, seconds))
            return false;
    }
    return put_events(trace, old, process);
}

bool dt_stat_trace_add(struct dt_stat_trace *trace, struct detour_stat_snapshot *snapshot)
{
    double seconds = trace->before ? (double)(detour_stat_time_ns(snapshot) - trace->last_ns) / 1e9 : 0;
    bool is_put = true;

    trace->last_ns = detour_stat_time_ns(snapshot);
    if (!trace->before)
        trace->start_ns = trace->last_ns;
    for (size_t i = 0; is_put && i < detour_stat_process_count(snapshot); i++)
        is_put = put_process(trace, detour_stat_get_process(snapshot, i), seconds);
    detour_stat_free(trace->before);
    trace->before = snapshot;
    return is_put;
}

void dt_stat_trace_end(struct dt_stat_trace *trace)
{
    for (size_t i = 0; i < trace->slice_count; i++)
        (void)put_slice(trace, "e", &trace->slices[i], trace->last_ns);
    fputs("\n]\n", trace->out);
    detour_stat_free(trace->before);
    free(trace->slices);
    free(trace);
}
