/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/record.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "delay/scan.h"

int dt_delay_entry_print(const struct dt_delay_entry *entry, char *to, size_t bytes)
{
    return snprintf(to, bytes,
                    "%" PRIu64 ",%" PRIu32 ",%016" PRIx64 ",%s,%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64
                    ",%" PRIu64,
                    entry->time_ns, entry->connection, entry->id, entry->device, entry->peer, entry->message,
                    entry->bytes, entry->delay_ns, entry->late_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * The ring
 */
struct dt_delay_ring {
    pthread_mutex_t mutex;
    uint64_t written;
    struct dt_delay_entry entry[DT_DELAY_RING_ENTRIES];
};

enum dt_status dt_delay_ring_create(struct dt_delay_ring **ring)
{
    struct dt_delay_ring *created = calloc(1, sizeof *created);

    if (!created)
        return DT_NO_MEMORY;
    if (pthread_mutex_init(&created->mutex, NULL) != 0) {
        free(created);
        return DT_SYSTEM;
    }
    *ring = created;
    return DT_OK;
}

void dt_delay_ring_destroy(struct dt_delay_ring *ring)
{
    if (!ring)
        return;
    pthread_mutex_destroy(&ring->mutex);
    free(ring);
}

void dt_delay_ring_write(struct dt_delay_ring *ring, const struct dt_delay_entry *entry)
{
    pthread_mutex_lock(&ring->mutex);
    ring->entry[ring->written++ % DT_DELAY_RING_ENTRIES] = *entry;
    pthread_mutex_unlock(&ring->mutex);
}

uint64_t dt_delay_ring_read(struct dt_delay_ring *ring, uint64_t number, struct dt_delay_entry *entry)
{
    uint64_t found = DT_NEVER_NS;

    pthread_mutex_lock(&ring->mutex);
    if (ring->written > DT_DELAY_RING_ENTRIES && number < ring->written - DT_DELAY_RING_ENTRIES)
        number = ring->written - DT_DELAY_RING_ENTRIES;
    if (number < ring->written) {
        *entry = ring->entry[number % DT_DELAY_RING_ENTRIES];
        found = number;
    }
    pthread_mutex_unlock(&ring->mutex);
    return found;
}

/* ------------------------------------------------------------------------------------------------------------
 * The table
 */
struct row {
    uint32_t connection;
    uint64_t message;
    uint64_t delay_ns;
};

struct dt_delay_replay {
    size_t count;
    size_t capacity;
    struct row *row; /* in ascending order */
};

static int compare(const void *a, const void *b)
{
    const struct row *x = a;
    const struct row *y = b;

    if (x->connection != y->connection)
        return x->connection < y->connection ? -1 : 1;
    return x->message < y->message ? -1 : x->message > y->message;
}

static bool append(struct dt_delay_replay *replay, const struct row *row)
{
    if (replay->count == replay->capacity) {
        size_t capacity = replay->capacity ? replay->capacity * 2 : 256;
        struct row *grown = realloc(replay->row, capacity * sizeof *grown);

        if (!grown)
            return false;
        replay->row = grown;
        replay->capacity = capacity;
    }
    replay->row[replay->count++] = *row;
    return true;
}

static bool take_comma(struct dt_scan *scan)
{
    return dt_scan_take(scan, ',') || dt_scan_expected(scan, "','");
}

static bool read_column(struct dt_scan *scan, uint64_t max, uint64_t *value)
{
    return dt_scan_number(scan, max, "a whole number", value) && take_comma(scan);
}

static bool skip_column(struct dt_scan *scan)
{
    while (!dt_scan_is_end(scan) && dt_scan_peek(scan) != ',' && dt_scan_peek(scan) != '\n')
        scan->at++;
    return take_comma(scan);
}

static bool read_row(struct dt_scan *scan, uint64_t *process, struct row *row)
{
    uint64_t ignored, connection;

    if (!read_column(scan, UINT32_MAX, process) || !read_column(scan, UINT64_MAX, &ignored) ||
        !read_column(scan, UINT64_MAX, &ignored) || !read_column(scan, UINT32_MAX, &connection))
        return false;
    for (int i = 0; i < 3; i++) {
        if (!skip_column(scan))
            return false;
    }
    if (!read_column(scan, UINT64_MAX, &row->message) || !read_column(scan, UINT64_MAX, &ignored) ||
        !read_column(scan, DT_DELAY_NS_MAX, &row->delay_ns))
        return false;
    row->connection = (uint32_t)connection;
    dt_scan_skip_line(scan); /* late_ns belongs to the recorded run */
    return true;
}

static bool read_header(struct dt_scan *scan)
{
    static const char header[] = DT_DELAY_RECORD_HEADER;

    if (scan->bytes < sizeof header - 1 || memcmp(scan->text, header, sizeof header - 1) != 0)
        return dt_scan_fail(scan, 0, "this is no record: its first line is not `%s`", header);
    dt_scan_skip_line(scan);
    return true;
}

static enum dt_status read_rows(struct dt_scan *scan, uint32_t process, struct dt_delay_replay *replay)
{
    if (!read_header(scan))
        return DT_INVALID;
    while (dt_scan_take(scan, '\n') && !dt_scan_is_end(scan)) {
        uint64_t whose;
        struct row row;

        if (!read_row(scan, &whose, &row))
            return DT_INVALID;
        if (whose == process && !append(replay, &row))
            return DT_NO_MEMORY;
    }
    return DT_OK;
}

enum dt_status dt_delay_replay_parse(const char *text, size_t bytes, uint32_t process,
                                     struct dt_delay_replay **replay, struct dt_delay_error *error)
{
    struct dt_delay_replay *created = calloc(1, sizeof *created);
    struct dt_scan scan = {text, bytes, 0, error};
    enum dt_status status;

    if (!created)
        return DT_NO_MEMORY;
    status = read_rows(&scan, process, created);
    if (status != DT_OK) {
        dt_delay_replay_destroy(created);
        return status;
    }
    if (created->count > 0)
        qsort(created->row, created->count, sizeof *created->row, compare);
    *replay = created;
    return DT_OK;
}

void dt_delay_replay_destroy(struct dt_delay_replay *replay)
{
    if (replay)
        free(replay->row);
    free(replay);
}

uint64_t dt_delay_replay_at(const struct dt_delay_replay *replay, uint32_t connection, uint64_t message)
{
    struct row key = {connection, message, 0};
    const struct row *row =
        replay->count > 0 ? bsearch(&key, replay->row, replay->count, sizeof *replay->row, compare) : NULL;

    return row ? row->delay_ns : 0;
}
