/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/store_memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/util.h"

struct record {
    struct dt_list node;
    char id[DT_STORE_ID_BYTES];
    size_t bytes;
    char text[]; /* with its end */
};

struct stream {
    char name[DT_STORE_NAME_BYTES];
    struct dt_list records; /* struct record, oldest first */
    size_t record_count;
    size_t bytes;
};

struct field {
    char name[DT_STORE_NAME_BYTES];
    char *value;
};

struct lease {
    char name[DT_STORE_NAME_BYTES];
    char holder[DT_STORE_NAME_BYTES];
    uint64_t until_ns; /* 0: released */
    uint64_t fence;
};

struct memory {
    struct dt_store store;
    uint64_t start, last_id;
    size_t stream_count, field_count, lease_count;
    struct stream streams[DT_STORE_MEMORY_NAMES_MAX];
    struct field fields[DT_STORE_MEMORY_NAMES_MAX];
    struct lease leases[DT_STORE_MEMORY_NAMES_MAX];
};

static struct memory *memory_of(struct dt_store *store)
{
    return dt_container_of(store, struct memory, store);
}

static enum dt_status fail(struct dt_store *store, enum dt_status status, const char *text)
{
    snprintf(store->reason, sizeof store->reason, "%s", text);
    return status;
}

static enum dt_status fail_name(struct dt_store *store)
{
    return fail(store, DT_INVALID, "a name: expected letters, digits, '-', '_', '.' and ':', at most 63");
}

/* ---- Streams. ---- */

static struct stream *find_stream(struct memory *memory, const char *name)
{
    for (size_t i = 0; i < memory->stream_count; i++) {
        if (!strcmp(memory->streams[i].name, name))
            return &memory->streams[i];
    }
    return NULL;
}

static struct stream *make_stream(struct memory *memory, const char *name)
{
    struct stream *stream = find_stream(memory, name);

    if (stream || memory->stream_count == DT_STORE_MEMORY_NAMES_MAX)
        return stream;
    stream = &memory->streams[memory->stream_count++];
    snprintf(stream->name, sizeof stream->name, "%s", name);
    dt_list_init(&stream->records);
    return stream;
}

static void drop_oldest(struct stream *stream)
{
    struct record *record = dt_container_of(dt_list_pop_front(&stream->records), struct record, node);

    DT_CHECK(stream->record_count > 0 && stream->bytes >= record->bytes);
    stream->record_count--;
    stream->bytes -= record->bytes;
    free(record);
}

static enum dt_status append(struct dt_store *store, const char *name, const char *text,
                             char id[DT_STORE_ID_BYTES])
{
    struct memory *memory = memory_of(store);
    size_t bytes = strnlen(text, DT_STORE_RECORD_BYTES);
    struct stream *stream;
    struct record *record;

    if (!dt_store_is_name(name))
        return fail_name(store);
    if (bytes == DT_STORE_RECORD_BYTES)
        return fail(store, DT_INVALID, "a record of more than 65535 bytes");
    if (!(stream = make_stream(memory, name)))
        return fail(store, DT_FULL, "too many streams");
    if (!(record = malloc(sizeof *record + bytes + 1)))
        return fail(store, DT_NO_MEMORY, "out of memory");
    record->bytes = bytes;
    memcpy(record->text, text, bytes + 1);
    snprintf(record->id, sizeof record->id, "%020" PRIu64, ++memory->last_id);
    dt_list_push_back(&stream->records, &record->node);
    stream->record_count++;
    stream->bytes += bytes;
    while (stream->record_count > DT_STORE_STREAM_RECORDS ||
           (stream->bytes > DT_STORE_MEMORY_STREAM_BYTES && stream->record_count > 1))
        drop_oldest(stream);
    if (id)
        memcpy(id, record->id, DT_STORE_ID_BYTES);
    return DT_OK;
}

static enum dt_status read_stream(struct dt_store *store, const char *name, const char *after,
                                  size_t count_max, dt_store_visit_func *visit, void *arg)
{
    struct stream *stream;

    if (!dt_store_is_name(name))
        return fail_name(store);
    if (!(stream = find_stream(memory_of(store), name)))
        return DT_OK;
    dt_list_for_each(node, &stream->records)
    {
        const struct record *record = dt_container_of(node, struct record, node);

        if (strcmp(record->id, after) <= 0)
            continue;
        if (!count_max-- || !visit(arg, record->id, record->text, record->bytes))
            break;
    }
    return DT_OK;
}

/* ---- Fields. ---- */

static struct field *find_field(struct memory *memory, const char *name)
{
    for (size_t i = 0; i < memory->field_count; i++) {
        if (!strcmp(memory->fields[i].name, name))
            return &memory->fields[i];
    }
    return NULL;
}

static enum dt_status set(struct dt_store *store, const char *name, const char *value)
{
    struct memory *memory = memory_of(store);
    struct field *field = find_field(memory, name);
    char *copy;

    if (!dt_store_is_name(name))
        return fail_name(store);
    if (strnlen(value, DT_STORE_RECORD_BYTES) == DT_STORE_RECORD_BYTES)
        return fail(store, DT_INVALID, "a value of more than 65535 bytes");
    if (!field && memory->field_count == DT_STORE_MEMORY_NAMES_MAX)
        return fail(store, DT_FULL, "too many fields");
    if (!(copy = strdup(value)))
        return fail(store, DT_NO_MEMORY, "out of memory");
    if (!field) {
        field = &memory->fields[memory->field_count++];
        snprintf(field->name, sizeof field->name, "%s", name);
    }
    free(field->value);
    field->value = copy;
    return DT_OK;
}

static enum dt_status get(struct dt_store *store, const char *name, char *value, size_t bytes)
{
    const struct field *field = find_field(memory_of(store), name);

    if (!field)
        return DT_NOT_FOUND;
    if (strlen(field->value) >= bytes)
        return fail(store, DT_INVALID, "the value is longer than expected");
    memcpy(value, field->value, strlen(field->value) + 1);
    return DT_OK;
}

/* ---- Leases. ---- */

static struct lease *find_lease(struct memory *memory, const char *name)
{
    for (size_t i = 0; i < memory->lease_count; i++) {
        if (!strcmp(memory->leases[i].name, name))
            return &memory->leases[i];
    }
    return NULL;
}

static struct lease *make_lease(struct memory *memory, const char *name)
{
    struct lease *lease = find_lease(memory, name);

    if (lease || memory->lease_count == DT_STORE_MEMORY_NAMES_MAX)
        return lease;
    lease = &memory->leases[memory->lease_count++];
    lease->fence = memory->start;
    snprintf(lease->name, sizeof lease->name, "%s", name);
    return lease;
}

static enum dt_status lease_acquire(struct dt_store *store, const char *name, const char *holder,
                                    uint32_t ttl_ms, uint64_t now_ns, uint64_t *fence)
{
    struct lease *lease;

    if (!dt_store_is_name(name) || !dt_store_is_name(holder))
        return fail_name(store);
    if (!(lease = make_lease(memory_of(store), name)))
        return fail(store, DT_FULL, "too many leases");
    if (now_ns >= lease->until_ns) { /* free: whoever takes it gets a new number */
        lease->fence++;
        snprintf(lease->holder, sizeof lease->holder, "%s", holder);
    } else if (strcmp(lease->holder, holder) != 0) {
        return DT_AGAIN;
    }
    lease->until_ns = dt_deadline_ns(now_ns, ttl_ms * DT_NS_PER_MS);
    *fence = lease->fence;
    return DT_OK;
}

static bool is_held(const struct lease *lease, const char *holder, uint64_t fence)
{
    return lease && lease->until_ns && lease->fence == fence && !strcmp(lease->holder, holder);
}

static enum dt_status lease_renew(struct dt_store *store, const char *name, const char *holder,
                                  uint64_t fence, uint32_t ttl_ms, uint64_t now_ns)
{
    struct lease *lease = find_lease(memory_of(store), name);

    if (!is_held(lease, holder, fence) || now_ns >= lease->until_ns)
        return DT_AGAIN;
    lease->until_ns = dt_deadline_ns(now_ns, ttl_ms * DT_NS_PER_MS);
    return DT_OK;
}

static enum dt_status lease_release(struct dt_store *store, const char *name, const char *holder,
                                    uint64_t fence)
{
    struct lease *lease = find_lease(memory_of(store), name);

    if (is_held(lease, holder, fence))
        lease->until_ns = 0;
    return DT_OK;
}

/* ---- Life. ---- */

static void close_store(struct dt_store *store)
{
    struct memory *memory = memory_of(store);

    for (size_t i = 0; i < memory->stream_count; i++) {
        while (memory->streams[i].record_count)
            drop_oldest(&memory->streams[i]);
    }
    for (size_t i = 0; i < memory->field_count; i++)
        free(memory->fields[i].value);
    free(memory);
}

static const struct dt_store_ops ops = {
    .append = append,
    .read = read_stream,
    .set = set,
    .get = get,
    .lease_acquire = lease_acquire,
    .lease_renew = lease_renew,
    .lease_release = lease_release,
    .close = close_store,
};

struct dt_store *dt_store_memory_create(uint64_t start)
{
    struct memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return NULL;
    memory->store.ops = &ops;
    memory->start = memory->last_id = start;
    return &memory->store;
}
