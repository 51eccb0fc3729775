/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat_events.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct item {
    const struct detour_stat_process *process;
    const struct detour_stat_event *event;
};

/* ---- New events, in the order of time. ---- */
static int by_time(const void *a, const void *b)
{
    const struct item *x = a, *y = b;

    if (x->event->time_ns != y->event->time_ns)
        return x->event->time_ns < y->event->time_ns ? -1 : 1;
    if (x->process->pid != y->process->pid)
        return x->process->pid < y->process->pid ? -1 : 1;
    return (x->event->number > y->event->number) - (x->event->number < y->event->number);
}

/* The number of the first event of this process that was not printed. */
static uint64_t seen_of(const struct dt_stat_seen *seen, const struct detour_stat_process *process)
{
    for (size_t i = 0; i < seen->count; i++) {
        if (seen->process[i].pid == process->pid && seen->process[i].start_ns == process->start_ns)
            return seen->process[i].next;
    }
    return 0;
}

/* Replaces *seen by the processes of this snapshot: those that are gone do not come back. */
static bool remember(struct dt_stat_seen *seen, const struct detour_stat_snapshot *snapshot)
{
    size_t count = detour_stat_process_count(snapshot);
    struct dt_stat_seen now = {.process = calloc(count + 1, sizeof *now.process)};

    if (!now.process)
        return false;
    for (; now.count < count; now.count++) {
        const struct detour_stat_process *process = detour_stat_get_process(snapshot, now.count);
        uint64_t next = seen_of(seen, process);

        if (process->event_count)
            next = detour_stat_get_event(process, process->event_count - 1)->number + 1;
        now.process[now.count] =
            (struct dt_stat_seen_process){.pid = process->pid, .start_ns = process->start_ns, .next = next};
    }
    dt_stat_seen_free(seen);
    *seen = now;
    return true;
}

void dt_stat_seen_free(struct dt_stat_seen *seen)
{
    free(seen->process);
    *seen = (struct dt_stat_seen){0};
}

/* They are missing in the output: a reader must know. */
static void note_lost(const struct detour_stat_process *process, uint64_t next)
{
    uint64_t first = process->event_count ? detour_stat_get_event(process, 0)->number : 0;

    if (next > 0 && first > next)
        fprintf(stderr,
                "detour stat: process %" PRId32 ": %" PRIu64
                " events were overwritten before they were read\n",
                process->pid, first - next);
}

/* *count items that were not printed, or NULL: out of memory. */
static struct item *collect(const struct detour_stat_snapshot *snapshot, const struct dt_stat_seen *seen,
                            size_t *count)
{
    size_t total = 0;
    struct item *items;

    for (size_t i = 0; i < detour_stat_process_count(snapshot); i++)
        total += detour_stat_get_process(snapshot, i)->event_count;
    *count = 0;
    items = calloc(total + 1, sizeof *items);
    for (size_t i = 0; items && i < detour_stat_process_count(snapshot); i++) {
        const struct detour_stat_process *process = detour_stat_get_process(snapshot, i);
        uint64_t next = seen_of(seen, process);

        note_lost(process, next);
        for (size_t j = 0; j < process->event_count; j++) {
            const struct detour_stat_event *event = detour_stat_get_event(process, j);

            if (event->number >= next)
                items[(*count)++] = (struct item){process, event};
        }
    }
    if (items)
        qsort(items, *count, sizeof *items, by_time);
    return items;
}

/* ---- One JSON object. ---- */
static void set_text(json_t *object, const char *name, const char *text)
{
    if (*text) /* not UTF-8: a peer's name is not trusted; the field is absent */
        json_object_set_new(object, name, json_string(text));
}

/* A point in time to less than a microsecond: 64-bit nanoseconds have more digits than a double. */
static double seconds_of(int64_t ns)
{
    return (double)(ns / 1000000000) + (double)(ns % 1000000000) / 1e9;
}

static void set_rank(json_t *object, const char *name, int32_t rank)
{
    if (rank >= 0)
        json_object_set_new(object, name, json_integer(rank));
}

static void set_connection(json_t *object, const struct detour_stat_event *event)
{
    char id[24];

    snprintf(id, sizeof id, "%016" PRIx64, event->connection);
    set_text(object, "connection", id);
    set_text(object, "direction", event->is_send ? "send" : "recv");
    set_rank(object, "from", event->from_rank);
    set_rank(object, "to", event->to_rank);
    set_text(object, "peer", event->peer);
    set_text(object, "peer_nic", event->peer_nic);
    set_text(object, "next_nic", event->next_nic);
    if (event->path >= 0)
        json_object_set_new(object, "path", json_integer(event->path));
}

/* A verdict, and the cause that a change of paths has as well. */
static void set_verdict(json_t *object, const struct detour_stat_event *event)
{
    if (event->verdict >= 0)
        set_text(object, "verdict", detour_stat_verdict_text((enum detour_stat_verdict)event->verdict));
    if (event->cause != DETOUR_STAT_CAUSE_NONE)
        set_text(object, "cause", detour_stat_cause_text((enum detour_stat_cause)event->cause));
    if (event->verdict < 0)
        return;
    if (event->factor > 0)
        json_object_set_new(object, "factor", json_real(event->factor));
    if (event->since_ns)
        json_object_set_new(object, "since_s", json_real(seconds_of(event->since_ns)));
}

static void set_step(json_t *object, int64_t number)
{
    char step[24];

    snprintf(step, sizeof step, "S%" PRId64, number);
    set_text(object, "step", step);
}

static json_t *event_json(const struct item *item)
{
    const struct detour_stat_event *event = item->event;
    json_t *object =
        json_pack("{s:f, s:s, s:i, s:I}", "time_s", seconds_of(event->time_ns), "kind", event->kind, "pid",
                  (int)item->process->pid, "number", (json_int_t)event->number);

    if (!object)
        return NULL;
    set_text(object, "process", item->process->name);
    set_text(object, "host", item->process->host);
    set_rank(object, "rank", event->rank);
    set_rank(object, "peer_rank", event->peer_rank);
    set_text(object, "nic", event->nic);
    if (event->connection)
        set_connection(object, event);
    set_verdict(object, event);
    if (!strcmp(event->kind, "remedy"))
        set_step(object, event->value);
    if (event->delay_ns)
        json_object_set_new(object, "delay_ms", json_real((double)event->delay_ns / 1e6));
    set_text(object, "text", event->text);
    return object;
}

static bool print_json(const struct item *item)
{
    json_t *object = event_json(item);

    if (!object)
        return false;
    json_dumpf(object, stdout, JSON_COMPACT | JSON_REAL_PRECISION(16));
    putchar('\n');
    json_decref(object);
    return true;
}

/* ---- One line of the table. ---- */
static void print_line(const struct item *item)
{
    const struct detour_stat_event *event = item->event;
    time_t seconds = (time_t)(event->time_ns / 1000000000);
    char text[32] = "?", rank[16] = "-";
    struct tm parts;

    if (localtime_r(&seconds, &parts))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
    if (event->rank >= 0)
        snprintf(rank, sizeof rank, "%" PRId32, event->rank);
    printf("%s.%03d  %-8" PRId32 " %-16.16s %4s %-10s %s\n", text, (int)(event->time_ns / 1000000 % 1000),
           item->process->pid, item->process->name, rank, event->kind, event->text);
}

bool dt_stat_print_events(const struct detour_stat_snapshot *snapshot, bool is_json,
                          struct dt_stat_seen *seen)
{
    size_t count;
    struct item *items = collect(snapshot, seen, &count);
    bool is_printed = items && remember(seen, snapshot);

    for (size_t i = 0; is_printed && i < count; i++) {
        if (is_json)
            is_printed = print_json(&items[i]);
        else
            print_line(&items[i]);
    }
    free(items);
    return is_printed;
}

void dt_stat_print_events_head(void)
{
    printf("%-24s %-8s %-16s %4s %-10s %s\n", "TIME", "PID", "PROCESS", "RANK", "KIND", "EVENT");
}
