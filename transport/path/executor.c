/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/path/executor.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/thread.h"
#include "base/util.h"

enum dt_status dt_executor_init(struct dt_executor *executor, bool has_thread)
{
    memset(executor, 0, sizeof *executor);
    if (pthread_mutex_init(&executor->mutex, NULL) != 0)
        return DT_SYSTEM;
    if (pthread_cond_init(&executor->wake, NULL) != 0) {
        pthread_mutex_destroy(&executor->mutex);
        return DT_SYSTEM;
    }
    dt_list_init(&executor->urgent);
    dt_list_init(&executor->tasks);
    executor->has_thread = has_thread;
    return DT_OK;
}

/* Takes the next task and runs it outside the lock. False: there is none. Called with the lock. */
static bool run_one(struct dt_executor *executor)
{
    struct dt_task *task = dt_executor_pop(executor);

    if (!task)
        return false;
    pthread_mutex_unlock(&executor->mutex);
    task->run(task);
    dt_fetch_add_relaxed(&executor->finished, 1);
    pthread_mutex_lock(&executor->mutex);
    return true;
}

static void *thread_main(void *arg)
{
    struct dt_executor *executor = arg;

    pthread_mutex_lock(&executor->mutex);
    for (;;) {
        if (run_one(executor))
            continue;
        if (executor->is_stopping)
            break;
        pthread_cond_wait(&executor->wake, &executor->mutex);
    }
    pthread_mutex_unlock(&executor->mutex);
    return NULL;
}

static int start_thread(struct dt_executor *executor)
{
    int error = dt_thread_start(&executor->thread, "detour-control", thread_main, executor);

    if (error)
        dt_warn("control-thread", "cannot start a control thread: %s", strerror(error));
    return error;
}

enum dt_status dt_executor_submit(struct dt_executor *executor, struct dt_task *task, bool is_urgent)
{
    pthread_mutex_lock(&executor->mutex);
    if (executor->has_thread && !executor->is_started) {
        if (start_thread(executor) != 0) {
            pthread_mutex_unlock(&executor->mutex);
            return DT_SYSTEM;
        }
        executor->is_started = true;
    }
    DT_CHECK(!task->node.next || dt_list_is_empty(&task->node)); /* queued at most once at a time */
    dt_list_push_back(is_urgent ? &executor->urgent : &executor->tasks, &task->node);
    pthread_cond_signal(&executor->wake);
    pthread_mutex_unlock(&executor->mutex);
    return DT_OK;
}

unsigned dt_executor_run(struct dt_executor *executor)
{
    unsigned count = 0;

    pthread_mutex_lock(&executor->mutex);
    while (run_one(executor))
        count++;
    pthread_mutex_unlock(&executor->mutex);
    return count;
}

void dt_executor_stop(struct dt_executor *executor)
{
    pthread_mutex_lock(&executor->mutex);
    DT_CHECK(!executor->is_stopping); /* it stops once */
    executor->is_stopping = true;
    pthread_cond_signal(&executor->wake);
    pthread_mutex_unlock(&executor->mutex);
    if (executor->is_started)
        pthread_join(executor->thread, NULL);
    else
        dt_executor_run(executor);
    DT_CHECK(dt_executor_is_empty(executor));
    pthread_cond_destroy(&executor->wake);
    pthread_mutex_destroy(&executor->mutex);
}
