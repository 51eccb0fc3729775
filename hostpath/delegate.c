/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/delegate.h"

#include <errno.h>
#include <string.h>

#include "base/ascending.h"
#include "base/atomics.h"
#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/util.h"
#include "hostpath/numa.h"

/* from_bytes of a copier without a piece. */
#define NOTHING UINT64_MAX

static void push(struct dt_delegates *d, struct dt_copy_job *job)
{
    struct dt_delegate *to = &d->delegate[dt_fetch_add_relaxed(&d->next, 1) % d->count];
    struct dt_copy_job *head = dt_load_relaxed(&to->jobs);

    do {
        job->next = head;
    } while (!dt_compare_swap(&to->jobs, &head, job));
    if (d->has_threads)
        sem_post(&to->wake);
}

void dt_delegates_push(struct dt_delegates *d, struct dt_host_copy *copy)
{
    uint32_t count = copy->job_count;

    DT_CHECK(count >= 1 && count <= DT_COPY_JOBS_MAX && d->count > 0 && copy->piece_bytes > 0);
    dt_store_relaxed(&copy->claimed_bytes, 0);
    dt_store_relaxed(&copy->helped_bytes, NOTHING);
    for (uint32_t i = 0; i < count; i++) {
        copy->job[i].copy = copy;
        dt_store_relaxed(&copy->job[i].from_bytes, NOTHING);
    }
    for (uint32_t i = 0; i < count; i++)
        push(d, &copy->job[i]);
}

/* Removes all queued jobs; the oldest first. */
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

static void copy_bytes(const struct dt_host_copy *copy, uint64_t at, uint64_t bytes)
{
    uint8_t *to = (uint8_t *)copy->to + at;
    const uint8_t *from = (const uint8_t *)copy->from + at;

    if (copy->is_polled)
        dt_copy_ascending(to, from, bytes);
    else
        memcpy(to, from, bytes);
}

/* Copies the next piece; *from_bytes is the caller's own. False: all pieces are claimed. */
static bool copy_piece(struct dt_host_copy *copy, uint64_t *from_bytes)
{
    uint64_t at;

    dt_store_release(from_bytes, dt_load_relaxed(&copy->claimed_bytes));
    at = dt_fetch_add_acq_rel(&copy->claimed_bytes, copy->piece_bytes);
    if (at < copy->bytes) {
        copy_bytes(copy, at, dt_min_u64(copy->bytes - at, copy->piece_bytes));
        DT_CHECK(dt_fetch_sub_acq_rel(copy->left, 1) > 0);
        return true;
    }
    dt_store_release(from_bytes, NOTHING);
    return false;
}

bool dt_host_copy_help(struct dt_host_copy *copy)
{
    bool was_any = copy_piece(copy, &copy->helped_bytes);

    dt_store_release(&copy->helped_bytes, NOTHING);
    return was_any;
}

uint64_t dt_host_copy_done_bytes(const struct dt_host_copy *copy)
{
    uint64_t done = dt_min_u64(dt_load_acquire(&copy->claimed_bytes), copy->bytes);

    done = dt_min_u64(done, dt_load_acquire(&copy->helped_bytes));
    for (uint32_t i = 0; i < copy->job_count; i++)
        done = dt_min_u64(done, dt_load_acquire(&copy->job[i].from_bytes));
    return done;
}

static uint32_t run_all(struct dt_delegate *delegate)
{
    struct dt_copy_job *job = take_all(delegate);
    uint32_t count = 0;

    while (job) {
        struct dt_copy_job *next = job->next; /* *held releases the job to its owner */

        while (copy_piece(job->copy, &job->from_bytes))
            continue;
        DT_CHECK(dt_load_relaxed(&job->from_bytes) == NOTHING);
        DT_CHECK(dt_fetch_sub_acq_rel(job->copy->held, 1) > 0);
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
            dt_warn("copy-thread", "cannot start a copy thread of the host path: %s", strerror(error));
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
    for (uint32_t i = 0; i < d->count; i++)
        DT_CHECK(!dt_load_relaxed(&d->delegate[i].jobs));
    d->count = 0;
}
