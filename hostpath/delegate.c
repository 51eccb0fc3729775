/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/delegate.h"

#include <errno.h>
#include <string.h>

#include "base/atomics.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/util.h"
#include "hostpath/numa.h"

void dt_delegates_push(struct dt_delegates *d, struct dt_copy_job *job)
{
    struct dt_delegate *to = &d->delegate[dt_fetch_add_relaxed(&d->next, 1) % d->count];
    struct dt_copy_job *head = dt_load_relaxed(&to->jobs);

    do {
        job->next = head;
    } while (!dt_compare_swap(&to->jobs, &head, job));
    if (d->has_threads)
        sem_post(&to->wake);
}

/* The jobs that wait, the oldest first. */
static struct dt_copy_job *take_all(struct dt_delegate *delegate)
{
    struct dt_copy_job *newest = dt_exchange_acq_rel(&delegate->jobs, NULL);
    struct dt_copy_job *oldest = NULL;

    while (newest) {
        struct dt_copy_job *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    return oldest;
}

bool dt_copy_job_help(struct dt_copy_job *job)
{
    uint64_t at = dt_fetch_add_relaxed(&job->claimed_bytes, DT_COPY_PIECE_BYTES);

    if (at >= job->bytes)
        return false;
    memcpy((uint8_t *)job->to + at, (const uint8_t *)job->from + at,
           dt_min_u64(job->bytes - at, DT_COPY_PIECE_BYTES));
    dt_fetch_sub_acq_rel(job->left, 1);
    return true;
}

static uint32_t run_all(struct dt_delegate *delegate)
{
    struct dt_copy_job *job = take_all(delegate);
    uint32_t count = 0;

    while (job) {
        struct dt_copy_job *next = job->next; /* the job is its owner's again once it is let go of */

        while (dt_copy_job_help(job))
            continue;
        dt_fetch_sub_acq_rel(job->held, 1);
        job = next;
        count++;
    }
    return count;
}

uint32_t dt_delegates_run(struct dt_delegates *d)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < d->count; i++)
        count += run_all(&d->delegate[i]);
    return count;
}

static void *thread_main(void *arg)
{
    struct dt_delegate *delegate = arg;

    dt_numa_run_on(delegate->numa_node);
    for (;;) {
        bool is_last = dt_load_acquire(&delegate->is_stopping);

        run_all(delegate);
        if (is_last)
            return NULL;
        while (sem_wait(&delegate->wake) != 0 && errno == EINTR)
            continue;
    }
}

static int start(struct dt_delegate *delegate)
{
    int error;

    if (sem_init(&delegate->wake, 0, 0) != 0)
        return errno;
    error = dt_thread_start(&delegate->thread, "detour-copy", thread_main, delegate);
    if (error)
        sem_destroy(&delegate->wake);
    return error;
}

enum dt_status dt_delegates_open(struct dt_delegates *d, uint32_t count, int numa_node, bool has_threads)
{
    memset(d, 0, sizeof *d);
    d->has_threads = has_threads;
    for (; d->count < count && d->count < DT_DELEGATES_MAX; d->count++) {
        int error;

        d->delegate[d->count].numa_node = numa_node;
        error = has_threads ? start(&d->delegate[d->count]) : 0;
        if (error) {
            dt_warn("cannot start a thread that copies for the host path: %s", strerror(error));
            dt_delegates_close(d);
            return DT_SYSTEM;
        }
    }
    return DT_OK;
}

void dt_delegates_close(struct dt_delegates *d)
{
    for (uint32_t i = 0; d->has_threads && i < d->count; i++) {
        struct dt_delegate *delegate = &d->delegate[i];

        dt_store_release(&delegate->is_stopping, 1u);
        sem_post(&delegate->wake);
        pthread_join(delegate->thread, NULL);
        sem_destroy(&delegate->wake);
    }
    dt_delegates_run(d);
    d->count = 0;
}
