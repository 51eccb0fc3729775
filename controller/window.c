/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/window.h"

#include <stdlib.h>

#define ROOM_FIRST 64

static int entry_order(const void *left, const void *right)
{
    const struct dt_window_entry *a = left, *b = right;

    if (a->pid != b->pid)
        return a->pid < b->pid ? -1 : 1;
    return (a->connection > b->connection) - (a->connection < b->connection);
}

void dt_window_begin(struct dt_window *window)
{
    window->now_count = 0;
}

/* A process that was replaced by another with its number begins at lower counts. */
static uint64_t grown_by(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

static bool make_room(struct dt_window *window)
{
    size_t room = window->now_room ? 2 * window->now_room : ROOM_FIRST;
    struct dt_window_entry *entries;

    if (window->now_count < window->now_room)
        return true;
    entries = realloc(window->now, room * sizeof *entries);
    if (!entries)
        return false;
    window->now = entries;
    window->now_room = room;
    return true;
}

/* Keeps the entry; *before takes the one of the previous look, or NULL. */
static bool keep(struct dt_window *window, const struct dt_window_entry *entry,
                 const struct dt_window_entry **before)
{
    *before = window->before_count
                  ? bsearch(entry, window->before, window->before_count, sizeof *entry, entry_order)
                  : NULL;
    if (!make_room(window))
        return false;
    window->now[window->now_count++] = *entry;
    return true;
}

bool dt_window_take(struct dt_window *window, int32_t pid, const struct detour_stat_connection *connection,
                    struct dt_window_counts *grown)
{
    const struct dt_window_entry entry = {
        .connection = connection->id,
        .pid = pid,
        .counts = {connection->messages, connection->bytes, connection->service_ns}};

    const struct dt_window_entry *before;

    if (!keep(window, &entry, &before))
        return false;
    *grown = (struct dt_window_counts){0};
    if (before)
        *grown = (struct dt_window_counts){grown_by(entry.counts.messages, before->counts.messages),
                                           grown_by(entry.counts.bytes, before->counts.bytes),
                                           grown_by(entry.counts.service_ns, before->counts.service_ns)};
    return true;
}

/* The entry of a process is the one without a connection: the ids of connections are not 0. */
bool dt_window_take_process(struct dt_window *window, const struct detour_stat_process *process,
                            const struct dt_run_queue *run_queue, struct dt_window_process *grown)
{
    const struct dt_window_entry entry = {
        .pid = process->pid, .counts.messages = process->iterations, .run_queue = *run_queue};
    const struct dt_window_entry *before;

    if (!keep(window, &entry, &before))
        return false;
    *grown = (struct dt_window_process){0};
    if (before) {
        grown->iterations = grown_by(entry.counts.messages, before->counts.messages);
        grown->processor_share = dt_run_queue_share(&before->run_queue, run_queue);
    }
    return true;
}

void dt_window_end(struct dt_window *window, int64_t time_ns)
{
    if (window->now_count)
        qsort(window->now, window->now_count, sizeof *window->now, entry_order);
    free(window->before);
    window->before = window->now;
    window->before_count = window->now_count;
    window->now = NULL;
    window->now_count = window->now_room = 0;
    window->time_ns = time_ns;
}

int64_t dt_window_length_ns(const struct dt_window *window, int64_t time_ns)
{
    return window->time_ns && time_ns > window->time_ns ? time_ns - window->time_ns : 0;
}

void dt_window_free(struct dt_window *window)
{
    free(window->before);
    free(window->now);
    *window = (struct dt_window){0};
}
