/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/runtime_dir.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/util.h"

static const char *const suffixes[] = {[DT_RUNTIME_PAGE] = ".page", [DT_RUNTIME_SOCKET] = ".sock"};

void dt_runtime_file_name(enum dt_runtime_file kind, int pid, char *name, size_t bytes)
{
    snprintf(name, bytes, "%d%s", pid, suffixes[kind]);
}

/* ------------------------------------------------------------------------------------------------------------
 * The directory
 */
static const char *what_is_wrong(const struct stat *status)
{
    if (status->st_uid != geteuid())
        return "it belongs to another user";
    if (status->st_mode & 0077)
        return "other users can look into it (its mode should be 0700)";
    return NULL;
}

/* Opened first and checked afterwards, so that it cannot be replaced in between. */
static enum dt_status open_and_check(struct dt_runtime_dir *dir, char *reason, size_t reason_bytes)
{
    struct stat status;
    const char *wrong;

    dir->fd = open(dir->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (dir->fd < 0 || fstat(dir->fd, &status)) {
        enum dt_status result = errno == ENOENT ? DT_NOT_FOUND : DT_SYSTEM;

        snprintf(reason, reason_bytes, "runtime folder %s: %s", dir->path, strerror(errno));
        if (dir->fd >= 0)
            close(dir->fd);
        return result;
    }
    wrong = what_is_wrong(&status);
    if (!wrong)
        return DT_OK;
    snprintf(reason, reason_bytes, "runtime folder %s: %s", dir->path, wrong);
    close(dir->fd);
    return DT_SYSTEM;
}

enum dt_status dt_runtime_dir_open(const char *path, int create, struct dt_runtime_dir *dir, char *reason,
                                   size_t reason_bytes)
{
    int length;

    if (path && path[0])
        length = snprintf(dir->path, sizeof dir->path, "%s", path);
    else
        length = snprintf(dir->path, sizeof dir->path, "/dev/shm/detour-%u", (unsigned)geteuid());
    if (length >= (int)sizeof dir->path) {
        snprintf(reason, reason_bytes, "runtime folder: the path has %d characters, at most %zu fit", length,
                 sizeof dir->path - 1);
        return DT_SYSTEM;
    }
    if (create && mkdir(dir->path, 0700) && errno != EEXIST) {
        snprintf(reason, reason_bytes, "runtime folder %s: %s", dir->path, strerror(errno));
        return DT_SYSTEM;
    }
    return open_and_check(dir, reason, reason_bytes);
}

void dt_runtime_dir_close(struct dt_runtime_dir *dir)
{
    close(dir->fd);
}

/* ------------------------------------------------------------------------------------------------------------
 * Files
 */

/* The process number in "PID.page"; 0 if the name has another form. */
static int pid_of(const char *name, enum dt_runtime_file kind)
{
    char *end;
    unsigned long pid;

    if (!isdigit((unsigned char)name[0]))
        return 0;
    errno = 0;
    pid = strtoul(name, &end, 10);
    return !errno && pid <= 0x7fffffff && !strcmp(end, suffixes[kind]) ? (int)pid : 0;
}

static DIR *list_files(const struct dt_runtime_dir *dir)
{
    int fd = openat(dir->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream && fd >= 0)
        close(fd);
    return stream;
}

static int compare_ints(const void *a, const void *b)
{
    int left = *(const int *)a;
    int right = *(const int *)b;

    return (left > right) - (left < right);
}

size_t dt_runtime_dir_list(const struct dt_runtime_dir *dir, enum dt_runtime_file kind, int *pids,
                           size_t count_max)
{
    DIR *stream = list_files(dir);
    size_t count = 0;
    const struct dirent *entry;

    if (!stream)
        return 0;
    while (count < count_max && (entry = readdir(stream))) {
        int pid = pid_of(entry->d_name, kind);

        if (pid)
            pids[count++] = pid;
    }
    closedir(stream);
    qsort(pids, count, sizeof *pids, compare_ints);
    return count;
}

/* A live process holds a lock on its page. -1: there is no page, or it is in use; else it is open, and locked
 * by the caller. */
static int lock_left_over_page(const struct dt_runtime_dir *dir, const char *name)
{
    int fd = openat(dir->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB)) {
        close(fd);
        return -1;
    }
    return fd;
}

static bool page_is_left_over(const struct dt_runtime_dir *dir, const char *name)
{
    int fd = lock_left_over_page(dir, name);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* While the page is locked, no other process takes it for left over, removes it, and puts its own there. */
static void remove_left_over_page(const struct dt_runtime_dir *dir, const char *name)
{
    int fd = lock_left_over_page(dir, name);
    struct stat locked, found;

    if (fd < 0)
        return;
    if (!fstat(fd, &locked) && !fstatat(dir->fd, name, &found, AT_SYMLINK_NOFOLLOW) &&
        locked.st_dev == found.st_dev && locked.st_ino == found.st_ino)
        unlinkat(dir->fd, name, 0);
    close(fd);
}

void dt_runtime_dir_remove_left_over(const struct dt_runtime_dir *dir, int pid)
{
    char name[32];

    dt_runtime_file_name(DT_RUNTIME_PAGE, pid, name, sizeof name);
    remove_left_over_page(dir, name);
}

enum listener { LISTENER_UNKNOWN, LISTENER_NONE, LISTENER_SELF, LISTENER_OTHER };

/* Which process listens on the socket. */
static enum listener listener_of(const struct dt_runtime_dir *dir, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    enum listener listener = LISTENER_UNKNOWN;
    struct ucred peer = {0};
    socklen_t bytes = sizeof peer;
    int fd;

    if (snprintf(address.sun_path, sizeof address.sun_path, "%s/%s", dir->path, name) >=
        (int)sizeof address.sun_path)
        return LISTENER_UNKNOWN;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return LISTENER_UNKNOWN;
    if (connect(fd, (struct sockaddr *)&address, sizeof address))
        listener = errno == ECONNREFUSED || errno == ENOENT ? LISTENER_NONE : LISTENER_UNKNOWN;
    else if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes))
        listener = peer.pid == getpid() ? LISTENER_SELF : LISTENER_OTHER; /* 0: of another PID namespace */
    close(fd);
    return listener;
}

bool dt_runtime_dir_is_taken(const struct dt_runtime_dir *dir, enum dt_runtime_file kind, int pid)
{
    char name[32];

    dt_runtime_file_name(kind, pid, name, sizeof name);
    if (kind == DT_RUNTIME_SOCKET)
        return listener_of(dir, name) == LISTENER_OTHER;
    return !faccessat(dir->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) && !page_is_left_over(dir, name);
}

int dt_runtime_own_number(void)
{
    DIR *stream = opendir("/proc/self/fd");
    int number = getpid();
    const struct dirent *entry;

    while (stream && (entry = readdir(stream))) {
        char path[DT_RUNTIME_PATH_BYTES + 32] = "";
        ssize_t bytes = readlinkat(dirfd(stream), entry->d_name, path, sizeof path - 1);
        const char *slash = bytes > 0 ? strrchr(path, '/') : NULL;
        int found = slash ? pid_of(slash + 1, DT_RUNTIME_PAGE) : 0;

        if (found && found % DT_RUNTIME_NUMBER_STEP == getpid() % DT_RUNTIME_NUMBER_STEP)
            number = found;
    }
    if (stream)
        closedir(stream);
    return number;
}

void dt_runtime_dir_sweep(const struct dt_runtime_dir *dir)
{
    DIR *stream = list_files(dir);
    const struct dirent *entry;

    if (!stream)
        return;
    while ((entry = readdir(stream))) {
        const char *name = entry->d_name;

        if (pid_of(name, DT_RUNTIME_PAGE))
            remove_left_over_page(dir, name);
        else if (pid_of(name, DT_RUNTIME_SOCKET) && listener_of(dir, name) == LISTENER_NONE)
            unlinkat(dir->fd, name, 0);
    }
    closedir(stream);
}

static bool write_all(int fd, const char *text, size_t bytes)
{
    while (bytes) {
        ssize_t written = write(fd, text, bytes);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return false;
        text += written;
        bytes -= (size_t)written;
    }
    return true;
}

bool dt_runtime_dir_write(const struct dt_runtime_dir *dir, const char *name, const char *text)
{
    int fd = openat(dir->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool is_written;
    int error;

    if (fd < 0)
        return false;
    is_written = write_all(fd, text, strlen(text));
    error = errno;
    if (close(fd) == 0 && is_written)
        return true;
    error = is_written ? errno : error;
    unlinkat(dir->fd, name, 0);
    errno = error;
    return false;
}
