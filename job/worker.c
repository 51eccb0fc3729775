/* SPDX-License-Identifier: Apache-2.0 */
#include "job/worker.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/check.h"
#include "base/exit.h"

static void *work(void *arg)
{
    struct dt_job_worker *worker = arg;

    pthread_mutex_lock(&worker->mutex);
    while (!worker->stop) {
        if (!worker->job) {
            pthread_cond_wait(&worker->wake, &worker->mutex);
            continue;
        }
        pthread_mutex_unlock(&worker->mutex);
        worker->job(worker->arg);
        pthread_mutex_lock(&worker->mutex);
        worker->job = NULL;
        DT_CHECK(eventfd_write(worker->done_fd, 1) == 0);
    }
    pthread_mutex_unlock(&worker->mutex);
    return NULL;
}

bool dt_job_worker_start(struct dt_job_worker *worker, const char *name, struct dt_job_error *error)
{
    memset(worker, 0, sizeof *worker);
    pthread_mutex_init(&worker->mutex, NULL);
    pthread_cond_init(&worker->wake, NULL);
    worker->done_fd = eventfd(0, EFD_CLOEXEC);
    if (worker->done_fd < 0 || pthread_create(&worker->thread, NULL, work, worker))
        return dt_job_fail(error, DT_EXIT_FAILED, "cannot start the %s thread: out of resources", name);
    pthread_setname_np(worker->thread, name);
    return true;
}

void dt_job_worker_give(struct dt_job_worker *worker, dt_job_func *job, void *arg)
{
    pthread_mutex_lock(&worker->mutex);
    DT_CHECK(!worker->job);
    worker->job = job;
    worker->arg = arg;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
}

bool dt_job_worker_wait(struct dt_job_worker *worker, int other_fd, int timeout_ms, bool *other_readable)
{
    struct pollfd fds[2] = {{worker->done_fd, POLLIN, 0}, {other_fd, POLLIN, 0}};
    eventfd_t count;

    poll(fds, 2, timeout_ms);
    *other_readable = fds[1].revents != 0;
    if (!(fds[0].revents & POLLIN))
        return false;
    DT_CHECK(eventfd_read(worker->done_fd, &count) == 0);
    return true;
}

void dt_job_worker_stop(struct dt_job_worker *worker)
{
    pthread_mutex_lock(&worker->mutex);
    worker->stop = true;
    pthread_cond_signal(&worker->wake);
    pthread_mutex_unlock(&worker->mutex);
    pthread_join(worker->thread, NULL);
    pthread_cond_destroy(&worker->wake);
    pthread_mutex_destroy(&worker->mutex);
    close(worker->done_fd);
}
