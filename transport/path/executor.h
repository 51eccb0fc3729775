/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control thread of a device: runs tasks one after the other, urgent ones first, each kind in the order
 * of its submission. Verbs that may block (create, modify, destroy, register) are such tasks; the submitter
 * polls for the result. Fences are urgent: a failed path waits for its fence, and a communicator that is
 * set up meanwhile queues hundreds of creations. A task that runs is not interrupted.
 *
 * The thread starts with the first task. An executor without a thread runs its tasks when dt_executor_run()
 * is called, for simulations.
 */
#ifndef DETOUR_TRANSPORT_PATH_EXECUTOR_H
#define DETOUR_TRANSPORT_PATH_EXECUTOR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/list.h"
#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Embedded in the object that it works on, which stays until the task is done. `run` may free it. */
struct dt_task {
    void (*run)(struct dt_task *task);
    struct dt_list node;
    bool is_held; /* dt_nic_hold() [the executor's mutex] */
};

struct dt_executor {
    pthread_mutex_t mutex;
    pthread_cond_t wake; /* a task was submitted, or stop */
    struct dt_list urgent;
    struct dt_list tasks; /* the others */
    pthread_t thread;
    bool has_thread; /* may start one */
    bool is_started;
    bool is_stopping;
    uint32_t finished; /* tasks that have run, modulo 2^32 [atomic] */
};

/* DT_SYSTEM: the system cannot make the lock. */
enum dt_status dt_executor_init(struct dt_executor *executor, bool has_thread);

/*
 * Any thread. DT_SYSTEM (one WARN) when the thread cannot be started: the task was not queued then.
 */
enum dt_status dt_executor_submit(struct dt_executor *executor, struct dt_task *task, bool is_urgent);

/* For implementations of this interface, with their lock: takes the next task; NULL: there is none. */
static inline struct dt_task *dt_executor_pop(struct dt_executor *executor)
{
    struct dt_list *node = dt_list_pop_front(&executor->urgent);

    if (!node)
        node = dt_list_pop_front(&executor->tasks);
    return node ? dt_container_of(node, struct dt_task, node) : NULL;
}

static inline bool dt_executor_is_empty(const struct dt_executor *executor)
{
    return dt_list_is_empty(&executor->urgent) && dt_list_is_empty(&executor->tasks);
}

/* Without a thread: runs the queued tasks and those that they submit. Returns how many ran. */
unsigned dt_executor_run(struct dt_executor *executor);

/* Runs the queued tasks, then ends the thread. No task may be submitted any more. */
void dt_executor_stop(struct dt_executor *executor);

#ifdef __cplusplus
}
#endif

#endif
