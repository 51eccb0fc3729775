/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs' helpers for sysfs. A software RNIC has no files there. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "dropin/dropin.h"

/* No header of libibverbs declares them to programs, though programs use them. */
DT_EXPORT const char *ibv_get_sysfs_path(void);
DT_EXPORT int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t bytes);
DT_EXPORT int ibv_read_ibdev_sysfs_file(char *text, size_t bytes, void *device, const char *format, ...);

const char *ibv_get_sysfs_path(void)
{
    const char *path = getenv("SYSFS_PATH");

    return path && *path ? path : "/sys";
}

/* The first `bytes` of a file, ended by a zero, without the newline at its end. Their number, or -1. */
int ibv_read_sysfs_file(const char *folder, const char *file, char *text, size_t bytes)
{
    char path[4096];
    ssize_t got;
    int fd;

    if (bytes == 0 || snprintf(path, sizeof path, "%s/%s", folder, file) >= (int)sizeof path)
        return -1;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    got = read(fd, text, bytes);
    close(fd);
    if (got < 0)
        return -1;
    if ((got > 0 && text[got - 1] == '\n') || (size_t)got == bytes)
        got--;
    text[got] = '\0';
    return (int)got;
}

int ibv_read_ibdev_sysfs_file(char *text, size_t bytes, void *device, const char *format, ...)
{
    (void)text;
    (void)bytes;
    (void)device;
    (void)format;
    errno = ENOENT;
    return -1;
}
