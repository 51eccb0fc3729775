/* SPDX-License-Identifier: Apache-2.0 */
/* The counter page of this process. */
#include "obs/page.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "base/util.h"
#include "detour/version.h"
#include "obs/atomic_copy.h"

#define CACHE_LINE_BYTES 64

struct page_layout {
    struct dt_page_header header;
    _Alignas(CACHE_LINE_BYTES) struct dt_page_process process;
    /* Rows of different writers share no cache line. */
    _Alignas(CACHE_LINE_BYTES) struct dt_page_connection connections[DT_PAGE_CONNECTIONS];
    struct dt_event_ring events;
};

DT_STATIC_CHECK(sizeof(struct dt_page_connection) % CACHE_LINE_BYTES == 0, "rows are whole cache lines");
DT_STATIC_CHECK(sizeof(struct dt_page_process) % CACHE_LINE_BYTES == 0, "the same for the process");
DT_STATIC_CHECK(sizeof(struct dt_page_health) % 8 == 0, "what is written as one is whole words");
DT_STATIC_CHECK(offsetof(struct dt_page_connection, health) % 8 == 0, "and lies like them");
DT_STATIC_CHECK(offsetof(struct page_layout, events) % 8 == 0, "records are aligned");

struct dt_page {
    struct page_layout *layout;
    int file_fd;          /* locked while the process lives; -1: private memory */
    int dir_fd;           /* to remove the file */
    int pid;              /* in the file name (runtime_dir.h) */
    pid_t owner;          /* the process that may remove the file */
    pthread_mutex_t lock; /* protects claims and releases */
};

/* ------------------------------------------------------------------------------------------------------------
 * The file
 */

/*
 * Creates "PID.page.new", locked, with all memory allocated: a page missing later would kill the process with
 * SIGBUS. -1 with errno set.
 */
static int make_file(int dir_fd, const char *name)
{
    struct rlimit limit;
    int fd;
    int error;

    if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < sizeof(struct page_layout)) {
        errno = EFBIG; /* writing would raise SIGXFSZ */
        return -1;
    }
    unlinkat(dir_fd, name, 0); /* left by a dead process with the same number */
    fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -1;
    error = flock(fd, LOCK_EX | LOCK_NB) ? errno : posix_fallocate(fd, 0, sizeof(struct page_layout));
    if (!error)
        return fd;
    unlinkat(dir_fd, name, 0);
    close(fd);
    errno = error;
    return -1;
}

/* EEXIST instead of replacing a file; without that where the file system cannot tell. */
static int rename_to_free_name(int dir_fd, const char *new_name, const char *name)
{
    int result = renameat2(dir_fd, new_name, dir_fd, name, RENAME_NOREPLACE);

    return result && (errno == EINVAL || errno == ENOSYS) ? renameat(dir_fd, new_name, dir_fd, name) : result;
}

/*
 * Renames it to its final name once it is complete, so that a sweep never finds it unlocked. A process with
 * the same number may have got the name since it was found free.
 */
static bool rename_file(const struct dt_page *page, const struct dt_runtime_dir *dir, const char *new_name,
                        const char *name)
{
    struct stat own, found;

    dt_runtime_dir_remove_left_over(dir, page->pid);
    if (rename_to_free_name(page->dir_fd, new_name, name)) {
        if (errno == ENOENT) /* renamed by a process with the same number */
            errno = EEXIST;
        return false;
    }
    if (!fstat(page->file_fd, &own) && !fstatat(page->dir_fd, name, &found, AT_SYMLINK_NOFOLLOW) &&
        own.st_ino == found.st_ino)
        return true;
    errno = EEXIST; /* a process with the same number starts at the same time */
    return false;
}

/* False with errno set; EEXIST: another process has the number. */
static bool open_shared(struct dt_page *page, const struct dt_page_options *options)
{
    char name[32];
    char new_name[40];
    void *memory;

    if (dt_runtime_dir_is_taken(options->dir, DT_RUNTIME_PAGE, page->pid)) {
        errno = EEXIST;
        return false;
    }
    dt_runtime_file_name(DT_RUNTIME_PAGE, page->pid, name, sizeof name);
    snprintf(new_name, sizeof new_name, "%s.new", name);
    page->dir_fd = fcntl(options->dir->fd, F_DUPFD_CLOEXEC, 0);
    if (page->dir_fd < 0)
        return false;
    page->file_fd = make_file(page->dir_fd, new_name);
    if (page->file_fd < 0)
        goto close_dir;
    memory = mmap(NULL, sizeof(struct page_layout), PROT_READ | PROT_WRITE, MAP_SHARED, page->file_fd, 0);
    if (memory == MAP_FAILED)
        goto remove_file;
    if (!rename_file(page, options->dir, new_name, name))
        goto unmap;
    page->layout = (struct page_layout *)memory;
    return true;

unmap:
    munmap(memory, sizeof(struct page_layout));
remove_file:
    unlinkat(page->dir_fd, new_name, 0);
    close(page->file_fd);
    page->file_fd = -1;
close_dir:
    close(page->dir_fd);
    return false;
}

/* Under the first number that is free. */
static bool open_numbered(struct dt_page *page, const struct dt_page_options *options)
{
    for (page->pid = options->pid; page->pid <= DT_RUNTIME_NUMBER_MAX; page->pid += DT_RUNTIME_NUMBER_STEP) {
        if (open_shared(page, options))
            return true;
        if (errno != EEXIST)
            break;
    }
    page->pid = options->pid;
    return false;
}

static void fill_header(const struct dt_page *page, const struct dt_page_options *options)
{
    struct page_layout *layout = page->layout;
    struct dt_page_header *header = &layout->header;

    header->version = DT_PAGE_VERSION;
    header->header_bytes = sizeof *header;
    header->page_bytes = sizeof *layout;
    header->pid = page->pid;
    header->start_realtime_ns = options->start_realtime_ns;
    header->start_ns = options->start_ns;
    snprintf(header->process_name, sizeof header->process_name, "%s", options->process_name);
    snprintf(header->detour_version, sizeof header->detour_version, "%s", DETOUR_VERSION_STRING);
    snprintf(header->host, sizeof header->host, "%s", options->host ? options->host : "");
    header->rank = options->rank;
    header->connection_offset = offsetof(struct page_layout, connections);
    header->connection_bytes = sizeof(struct dt_page_connection);
    header->connection_count = DT_PAGE_CONNECTIONS;
    header->event_offset = offsetof(struct page_layout, events);
    header->event_slots = DT_EVENT_SLOTS;
    header->process_offset = offsetof(struct page_layout, process);
    layout->process.row.state = DT_PAGE_ROW_USED;
    dt_store_release(&header->magic, DT_PAGE_MAGIC);
}

enum dt_status dt_page_open(const struct dt_page_options *options, struct dt_page **opened)
{
    struct dt_page *page = calloc(1, sizeof *page);

    if (!page)
        return DT_NO_MEMORY;
    page->pid = options->pid;
    page->owner = getpid();
    page->file_fd = -1;
    if (options->dir && !open_numbered(page, options))
        dt_info("no-counter-page", "no counter page in %s: %s; counters are not visible to `detour stat`",
                options->dir->path, strerror(errno));
    if (!page->layout) {
        page->layout = aligned_alloc(CACHE_LINE_BYTES, sizeof *page->layout);
        if (!page->layout) {
            free(page);
            return DT_NO_MEMORY;
        }
        memset(page->layout, 0, sizeof *page->layout);
    }
    pthread_mutex_init(&page->lock, NULL);
    fill_header(page, options);
    *opened = page;
    return DT_OK;
}

void dt_page_unlink(struct dt_page *page)
{
    char name[32];

    if (page->file_fd < 0 || page->owner != getpid())
        return;
    dt_runtime_file_name(DT_RUNTIME_PAGE, page->pid, name, sizeof name);
    unlinkat(page->dir_fd, name, 0);
}

void dt_page_close(struct dt_page *page)
{
    if (page->file_fd < 0) {
        free(page->layout);
    } else {
        dt_page_unlink(page);
        munmap(page->layout, sizeof *page->layout);
        close(page->file_fd);
        close(page->dir_fd);
    }
    pthread_mutex_destroy(&page->lock);
    free(page);
}

const struct dt_page_header *dt_page_get_header(const struct dt_page *page)
{
    return &page->layout->header;
}

struct dt_event_ring *dt_page_events(struct dt_page *page)
{
    return &page->layout->events;
}

/* ------------------------------------------------------------------------------------------------------------
 * Rows. Under page->lock; `changes` is odd for readers until the row is complete.
 */
static void begin_change(struct dt_page_row *row)
{
    dt_store_relaxed(&row->changes, row->changes + 1);
}

static void end_change(struct dt_page_row *row)
{
    dt_store_release(&row->changes, row->changes + 1);
}

/* Writes a row except its head. */
static void write_row(struct dt_page_row *row, const void *content, size_t bytes)
{
    begin_change(row);
    dt_atomic_copy_store(row + 1, (const char *)content + sizeof *row, bytes - sizeof *row);
    dt_store_release(&row->state, (uint32_t)DT_PAGE_ROW_USED);
    end_change(row);
}

struct dt_page_connection *dt_page_claim_connection(struct dt_page *page,
                                                    const struct dt_page_connection *content)
{
    struct dt_page_connection *connections = page->layout->connections;
    uint32_t row = 0;

    pthread_mutex_lock(&page->lock);
    while (row < DT_PAGE_CONNECTIONS - 1 && connections[row].row.state == DT_PAGE_ROW_USED)
        row++;
    if (connections[row].row.state != DT_PAGE_ROW_USED)
        write_row(&connections[row].row, content, sizeof *content);
    pthread_mutex_unlock(&page->lock);
    return &connections[row];
}

/* The last row may have several users, so it is never released. */
void dt_page_release_connection(struct dt_page *page, struct dt_page_connection *connection)
{
    if (dt_page_is_shared(page, connection))
        return;
    pthread_mutex_lock(&page->lock);
    begin_change(&connection->row);
    dt_store_release(&connection->row.state, (uint32_t)DT_PAGE_ROW_FREE);
    end_change(&connection->row);
    pthread_mutex_unlock(&page->lock);
}

void dt_page_set_health(struct dt_page_connection *connection, const struct dt_page_health *health)
{
    begin_change(&connection->row);
    dt_atomic_copy_store(&connection->health, health, sizeof *health);
    end_change(&connection->row);
}

void dt_page_set_pace(struct dt_page *page, const struct dt_page_pace *pace)
{
    struct dt_page_process *process = &page->layout->process;

    begin_change(&process->row);
    dt_atomic_copy_store(&process->pace, pace, sizeof *pace);
    end_change(&process->row);
}

bool dt_page_is_shared(const struct dt_page *page, const struct dt_page_connection *connection)
{
    return dt_page_connection_row(page, connection) == DT_PAGE_CONNECTIONS - 1;
}

uint32_t dt_page_connection_row(const struct dt_page *page, const struct dt_page_connection *connection)
{
    ptrdiff_t row = connection - page->layout->connections;

    DT_CHECK(row >= 0 && row < (ptrdiff_t)DT_PAGE_CONNECTIONS);
    return (uint32_t)row;
}
