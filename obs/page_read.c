/* SPDX-License-Identifier: Apache-2.0 */
/* The counter page of another process. The file's content is not trusted. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "obs/page.h"
#include "obs/atomic_copy.h"

#define PAGE_BYTES_MAX (64u << 20)
#define READ_TRIES     100

static bool table_fits(uint64_t page_bytes, uint64_t offset, uint64_t row_bytes, uint64_t count,
                       uint64_t row_bytes_min)
{
    return offset >= sizeof(struct dt_page_header) && offset % 8 == 0 && row_bytes >= row_bytes_min &&
           row_bytes % 8 == 0 && count <= 65536 && offset + row_bytes * count <= page_bytes;
}

static bool header_is_sound(const struct dt_page_header *header, uint64_t file_bytes)
{
    return header->magic == DT_PAGE_MAGIC && header->version == DT_PAGE_VERSION &&
           header->header_bytes >= sizeof *header && header->page_bytes <= file_bytes &&
           table_fits(header->page_bytes, header->connection_offset, header->connection_bytes,
                      header->connection_count, sizeof(struct dt_page_connection)) &&
           header->process_offset >= sizeof *header && header->process_offset % 8 == 0 &&
           header->process_offset + sizeof(struct dt_page_process) <= header->page_bytes &&
           header->event_slots == DT_EVENT_SLOTS && header->event_offset % 8 == 0 &&
           header->event_offset >= sizeof *header &&
           (uint64_t)header->event_offset + sizeof(struct dt_event_ring) <= header->page_bytes;
}

/* Copies one row; marks it free in the copy if it could not be read consistently. */
static void copy_row(struct dt_page_row *to, const struct dt_page_row *from, size_t bytes)
{
    to->state = DT_PAGE_ROW_FREE;
    to->changes = 0;
    for (int i = 0; i < READ_TRIES; i++) {
        uint32_t changes = dt_load_acquire(&from->changes);
        uint32_t state = dt_load_acquire(&from->state);

        if (state != DT_PAGE_ROW_USED)
            return;
        dt_atomic_copy_load(to + 1, from + 1, bytes - sizeof *to);
        if (changes % 2 == 0 && dt_load_relaxed(&from->changes) == changes) {
            to->state = state;
            return;
        }
        if (i >= READ_TRIES / 2)
            sched_yield(); /* the writer may wait for this processor */
    }
}

static void copy_table(char *to, const char *from, uint32_t offset, uint32_t bytes, uint32_t count)
{
    for (uint64_t row = 0; row < count; row++) {
        uint64_t at = offset + row * bytes;

        copy_row((struct dt_page_row *)(void *)(to + at),
                 (const struct dt_page_row *)(const void *)(from + at), bytes);
    }
}

/* Terminates texts inside their fields, whatever the writer stored. */
static void end_texts(char *page, const struct dt_page_header *header)
{
    for (uint64_t row = 0; row < header->connection_count; row++) {
        struct dt_page_connection *connection =
            (void *)(page + header->connection_offset + row * header->connection_bytes);

        connection->peer[sizeof connection->peer - 1] = '\0';
        for (uint32_t path = 0; path < DT_PAGE_PATHS; path++) {
            struct dt_page_path *names = &connection->path[path];

            names->own[sizeof names->own - 1] = '\0';
            names->peer[sizeof names->peer - 1] = '\0';
        }
    }
}

static void copy_events(struct dt_event_ring *to, const struct dt_event_ring *from)
{
    uint64_t written = dt_load_acquire(&from->written);
    uint64_t first = written > DT_EVENT_SLOTS ? written - DT_EVENT_SLOTS : 0;

    memset(to, 0, sizeof *to);
    to->written = written;
    for (uint64_t number = first; number < written; number++) {
        struct dt_event_record *record = &to->records[number % DT_EVENT_SLOTS];

        if (!dt_event_read(from, number, record))
            record->mark = 0;
    }
}

static void copy_page(char *to, const char *from, const struct dt_page_header *header)
{
    memcpy(to, header, sizeof *header);
    copy_table(to, from, header->process_offset, sizeof(struct dt_page_process), 1);
    copy_table(to, from, header->connection_offset, header->connection_bytes, header->connection_count);
    end_texts(to, header);
    copy_events((struct dt_event_ring *)(void *)(to + header->event_offset),
                (const struct dt_event_ring *)(const void *)(from + header->event_offset));
}

static enum dt_status copy_mapped(const char *mapped, uint64_t file_bytes, struct dt_page_copy *copy)
{
    struct dt_page_header header;
    char *bytes;

    header.magic = dt_load_acquire(&((const struct dt_page_header *)(const void *)mapped)->magic);
    if (header.magic != DT_PAGE_MAGIC)
        return DT_PROTOCOL;
    memcpy(&header, mapped, sizeof header);
    if (!header_is_sound(&header, file_bytes))
        return DT_PROTOCOL;
    header.process_name[sizeof header.process_name - 1] = '\0';
    header.detour_version[sizeof header.detour_version - 1] = '\0';
    header.host[sizeof header.host - 1] = '\0';
    bytes = calloc(1, header.page_bytes);
    if (!bytes)
        return DT_NO_MEMORY;
    copy_page(bytes, mapped, &header);
    copy->bytes = bytes;
    copy->header = (const struct dt_page_header *)(void *)bytes;
    return DT_OK;
}

static enum dt_status read_file(int fd, struct dt_page_copy *copy)
{
    struct stat status;
    uint64_t bytes;
    void *mapped;
    enum dt_status result;

    if (fstat(fd, &status))
        return DT_SYSTEM;
    bytes = (uint64_t)status.st_size;
    if (!S_ISREG(status.st_mode) || bytes < sizeof(struct dt_page_header) || bytes > PAGE_BYTES_MAX)
        return DT_PROTOCOL;
    mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        return DT_SYSTEM;
    result = copy_mapped((const char *)mapped, bytes, copy);
    munmap(mapped, bytes);
    return result;
}

enum dt_status dt_page_read(const struct dt_runtime_dir *dir, int pid, struct dt_page_copy *copy)
{
    char name[32];
    int fd;
    enum dt_status status;

    dt_runtime_file_name(DT_RUNTIME_PAGE, pid, name, sizeof name);
    fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT ? DT_NOT_FOUND : DT_SYSTEM;
    status = read_file(fd, copy);
    close(fd);
    return status;
}

void dt_page_copy_free(struct dt_page_copy *copy)
{
    free(copy->bytes);
}

static const void *used_row(const struct dt_page_copy *copy, uint32_t offset, uint32_t bytes, uint32_t count,
                            uint32_t row)
{
    const struct dt_page_row *found;

    if (row >= count)
        return NULL;
    found = (const struct dt_page_row *)(const void *)((const char *)copy->bytes + offset +
                                                       (uint64_t)row * bytes);
    return found->state == DT_PAGE_ROW_USED ? found : NULL;
}

const struct dt_page_connection *dt_page_copy_connection(const struct dt_page_copy *copy, uint32_t row)
{
    const struct dt_page_header *header = copy->header;

    return used_row(copy, header->connection_offset, header->connection_bytes, header->connection_count, row);
}

const struct dt_page_pace *dt_page_copy_pace(const struct dt_page_copy *copy)
{
    const struct dt_page_process *process =
        (const void *)((const char *)copy->bytes + copy->header->process_offset);

    return &process->pace;
}

const struct dt_event_ring *dt_page_copy_events(const struct dt_page_copy *copy)
{
    return (const struct dt_event_ring *)(const void *)((const char *)copy->bytes +
                                                        copy->header->event_offset);
}
