/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/run_queue.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* One thread of an open task folder; false: it has ended. */
static bool read_thread(int folder, const char *thread, struct dt_run_queue *times)
{
    char path[300], text[128], *end;
    ssize_t bytes;
    int fd;

    snprintf(path, sizeof path, "%s/schedstat", thread);
    fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    times->run_ns = strtoull(text, &end, 10);
    times->wait_ns = strtoull(end, &end, 10);
    return *end == ' '; /* a third number follows */
}

bool dt_run_queue_read(int32_t pid, struct dt_run_queue *sums)
{
    char path[64];
    DIR *folder;
    const struct dirent *entry;
    int threads = 0;

    *sums = (struct dt_run_queue){0};
    snprintf(path, sizeof path, "/proc/%" PRId32 "/task", pid);
    folder = opendir(path);
    if (!folder)
        return false;
    while (threads < DT_RUN_QUEUE_THREADS_MAX && (entry = readdir(folder))) {
        struct dt_run_queue times;

        if (entry->d_name[0] == '.' || !read_thread(dirfd(folder), entry->d_name, &times))
            continue;
        sums->run_ns += times.run_ns;
        sums->wait_ns += times.wait_ns;
        threads++;
    }
    closedir(folder);
    return threads > 0;
}

double dt_run_queue_share(const struct dt_run_queue *before, const struct dt_run_queue *now)
{
    if (now->run_ns < before->run_ns || now->wait_ns < before->wait_ns)
        return 0;
    double run_ns = (double)(now->run_ns - before->run_ns),
           wait_ns = (double)(now->wait_ns - before->wait_ns);

    return run_ns + wait_ns > 0 ? wait_ns / (run_ns + wait_ns) : 0;
}
