/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/checkpoint_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/digest.h"

#define VERSION 1

static const char magic[8] = "DETOURCK";

struct header {
    char magic[sizeof magic];
    uint32_t version;
    struct dt_checkpoint_id id;
    uint32_t reserved;
    uint64_t count;
    uint64_t digest; /* of the elements */
};

__attribute__((format(printf, 2, 3))) static bool fail(char reason[DT_CHECKPOINT_REASON_BYTES],
                                                       const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reason, DT_CHECKPOINT_REASON_BYTES, format, args);
    va_end(args);
    return false;
}

static void name_file(char path[PATH_MAX], const char *directory, uint32_t rank, uint32_t iterations)
{
    snprintf(path, PATH_MAX, "%s/checkpoint-%" PRIu32 ".%" PRIu32, directory, rank, iterations);
}

static struct header header_of(const struct dt_checkpoint_id *id,
                               const struct dt_pipeline_parameters *parameters)
{
    struct header header = {.version = VERSION, .id = *id, .count = parameters->count};

    memcpy(header.magic, magic, sizeof magic);
    header.digest = dt_digest_add(DT_DIGEST_EMPTY, parameters->elements,
                                  parameters->count * sizeof *parameters->elements);
    return header;
}

static bool write_all(int fd, const void *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        ssize_t written = write(fd, (const char *)data + at, bytes - at);

        if (written < 0 && errno != EINTR)
            return false;
        at += written > 0 ? (uint64_t)written : 0;
    }
    return true;
}

static bool read_all(int fd, void *data, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        ssize_t got = read(fd, (char *)data + at, bytes - at);

        if (got == 0)
            errno = 0;
        if (got == 0 || (got < 0 && errno != EINTR))
            return false;
        at += got > 0 ? (uint64_t)got : 0;
    }
    return true;
}

/* The rename is on the disk, too. */
static bool write_directory(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool is_good = fd >= 0 && fsync(fd) == 0;

    if (fd >= 0)
        close(fd);
    return is_good;
}

bool dt_checkpoint_write(const char *directory, const struct dt_checkpoint_id *id,
                         const struct dt_pipeline_parameters *parameters,
                         char reason[DT_CHECKPOINT_REASON_BYTES])
{
    const struct header header = header_of(id, parameters);
    char path[PATH_MAX], temporary[PATH_MAX];
    bool is_good;
    int fd;

    name_file(path, directory, id->rank, id->iterations);
    snprintf(temporary, sizeof temporary, "%s/checkpoint-%" PRIu32 ".new", directory, id->rank);
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    is_good = fd >= 0 && write_all(fd, &header, sizeof header) &&
              write_all(fd, parameters->elements, parameters->count * sizeof *parameters->elements) &&
              fsync(fd) == 0;
    if (!is_good)
        fail(reason, "%.100s: could not be written: %s", temporary, strerror(errno));
    if (fd >= 0 && close(fd) && is_good)
        is_good = fail(reason, "%.100s: could not be written: %s", temporary, strerror(errno));
    if (is_good && (rename(temporary, path) || !write_directory(directory))) {
        is_good = fail(reason, "%.100s: could not be written: %s", path, strerror(errno));
        unlink(path);
    }
    if (!is_good && fd >= 0)
        unlink(temporary);
    return is_good;
}

/* What is wrong with a header whose file has `bytes`; NULL: nothing. */
static const char *find_wrong(const struct header *header, const struct header *expected, uint64_t bytes)
{
    if (memcmp(header->magic, magic, sizeof magic) != 0)
        return "it is no checkpoint of detour pipeline";
    if (header->version != VERSION || header->reserved)
        return "it is of another version";
    if (memcmp(&header->id, &expected->id, sizeof header->id) != 0)
        return "it is of another rank, device, iteration or number of microbatches";
    if (header->count != expected->count)
        return "it has another number of parameters";
    if (bytes != sizeof *header + header->count * sizeof(uint64_t))
        return "its length is wrong";
    return NULL;
}

static bool read_open(int fd, const char *path, const struct dt_checkpoint_id *id,
                      struct dt_pipeline_parameters *parameters, char reason[DT_CHECKPOINT_REASON_BYTES])
{
    struct header header, expected = {.id = *id, .count = parameters->count};
    struct stat found;

    if (fstat(fd, &found) || !read_all(fd, &header, sizeof header))
        return fail(reason, "%.100s: could not be read: %s", path,
                    errno ? strerror(errno) : "it is no checkpoint of detour pipeline");
    const char *wrong = find_wrong(&header, &expected, (uint64_t)found.st_size);
    if (wrong)
        return fail(reason, "%.100s: %s", path, wrong);
    if (!read_all(fd, parameters->elements, parameters->count * sizeof *parameters->elements))
        return fail(reason, "%.100s: could not be read: %s", path,
                    errno ? strerror(errno) : "its length is wrong");
    return header_of(id, parameters).digest == header.digest || fail(reason, "%.100s: it is damaged", path);
}

bool dt_checkpoint_read(const char *directory, const struct dt_checkpoint_id *id,
                        struct dt_pipeline_parameters *parameters, char reason[DT_CHECKPOINT_REASON_BYTES])
{
    char path[PATH_MAX];
    bool is_good;
    int fd;

    name_file(path, directory, id->rank, id->iterations);
    fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return fail(reason, "%.100s: could not be read: %s", path, strerror(errno));
    is_good = read_open(fd, path, id, parameters, reason);
    close(fd);
    return is_good;
}

/* "checkpoint-RANK.ITERATIONS", exactly as it is written. */
static bool parse_name(const char *name, uint32_t rank, uint32_t *iterations)
{
    char expected[64];
    const char *dot = strchr(name, '.');

    if (!dot)
        return false;
    *iterations = (uint32_t)strtoul(dot + 1, NULL, 10);
    snprintf(expected, sizeof expected, "checkpoint-%" PRIu32 ".%" PRIu32, rank, *iterations);
    return !strcmp(name, expected);
}

/* In descending order; the smallest one makes room. */
static int insert(uint32_t list[DT_CHECKPOINT_LIST_MAX], int count, uint32_t iterations)
{
    int at = count;

    while (at > 0 && list[at - 1] < iterations)
        at--;
    if (at == DT_CHECKPOINT_LIST_MAX)
        return count;
    count += count < DT_CHECKPOINT_LIST_MAX;
    for (int i = count - 1; i > at; i--)
        list[i] = list[i - 1];
    list[at] = iterations;
    return count;
}

int dt_checkpoint_list(const char *directory, uint32_t rank, uint32_t list[DT_CHECKPOINT_LIST_MAX],
                       char reason[DT_CHECKPOINT_REASON_BYTES])
{
    DIR *folder = opendir(directory);
    const struct dirent *entry;
    uint32_t iterations;
    int count = 0;

    if (!folder) {
        fail(reason, "%.100s: %s", directory, strerror(errno));
        return -1;
    }
    while ((entry = readdir(folder))) {
        if (parse_name(entry->d_name, rank, &iterations))
            count = insert(list, count, iterations);
    }
    closedir(folder);
    return count;
}

void dt_checkpoint_remove(const char *directory, uint32_t rank, uint32_t iterations)
{
    char path[PATH_MAX];

    name_file(path, directory, rank, iterations);
    unlink(path);
}

bool dt_checkpoint_take_request(const char *directory)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/" DT_CHECKPOINT_REQUEST, directory);
    return unlink(path) == 0;
}
