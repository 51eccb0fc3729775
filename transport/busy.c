/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/busy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool read_number(const char *text, char **end, uint64_t *number)
{
    errno = 0;
    *number = strtoull(text, end, 10);
    return *end != text && errno == 0;
}

bool dt_busy_read_schedstat(void *arg, int32_t tid, struct dt_processor_times *times)
{
    char text[128], *end;
    ssize_t bytes;
    int fd;

    (void)arg;
    snprintf(text, sizeof text, "/proc/self/task/%" PRId32 "/schedstat", tid);
    fd = open(text, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    return read_number(text, &end, &times->run_ns) && read_number(end, &end, &times->wait_ns);
}

/* Its entry, or the one that was not asked for for the longest time; NULL: all were, a short time ago. */
static struct dt_busy_thread *find(struct dt_busy *busy, int32_t tid, uint64_t now_ns)
{
    struct dt_busy_thread *oldest = &busy->threads[0];

    for (uint32_t i = 0; i < DT_BUSY_THREADS; i++) {
        struct dt_busy_thread *thread = &busy->threads[i];

        if (thread->tid == tid)
            return thread;
        if (thread->asked_ns < oldest->asked_ns)
            oldest = thread;
    }
    if (oldest->tid != 0 && now_ns < oldest->asked_ns + DT_BUSY_FORGET_NS)
        return NULL;
    memset(oldest, 0, sizeof *oldest);
    oldest->tid = tid;
    return oldest;
}

const struct dt_processor_thread *dt_busy_sums(struct dt_busy *busy, int32_t tid, uint64_t now_ns)
{
    struct dt_processor_times times;
    struct dt_busy_thread *thread;

    if (!busy->read || tid <= 0)
        return NULL;
    thread = find(busy, tid, now_ns);
    if (!thread)
        return NULL;
    thread->asked_ns = now_ns;
    if (thread->read_ns == 0 || now_ns >= thread->read_ns + DT_BUSY_EVERY_NS) {
        thread->read_ns = now_ns;
        if (busy->read(busy->read_arg, tid, &times))
            dt_processor_thread_add(&thread->sums, &times, now_ns);
        else
            memset(&thread->sums, 0, sizeof thread->sums); /* it has ended */
    }
    return &thread->sums;
}
