/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/path/nic.h"

#include <unistd.h>

#include "base/atomics.h"
#include "base/check.h"

static void submit(struct dt_nic *nic, struct dt_task *task, bool is_urgent)
{
    if (dt_executor_submit(&nic->executor, task, is_urgent) != DT_OK)
        task->run(task);
}

void dt_nic_submit(struct dt_nic *nic, struct dt_task *task)
{
    submit(nic, task, false);
}

void dt_nic_submit_urgent(struct dt_nic *nic, struct dt_task *task)
{
    submit(nic, task, true);
}

void dt_nic_hold_failed(struct dt_nic *nic, struct dt_task *task)
{
    pthread_mutex_lock(&nic->executor.mutex);
    DT_CHECK(!task->is_held);
    task->is_held = true;
    dt_list_push_back(&nic->held, &task->node);
    pthread_mutex_unlock(&nic->executor.mutex);
}

/* The mutex orders this after dt_nic_release(), or before it: no task stays behind. */
void dt_nic_hold(struct dt_nic *nic, struct dt_task *task)
{
    dt_nic_hold_failed(nic, task);
    if (!dt_load_acquire(&nic->is_dead))
        dt_nic_release(nic);
}

/* A removal that is not reported yet will be, and the tasks wait for the return after it. */
void dt_nic_release_if_back(struct dt_nic *nic)
{
    if (!dt_load_acquire(&nic->is_dead) && !dt_device_is_removed(dt_nic_device(nic)))
        dt_nic_release(nic);
}

bool dt_nic_withdraw(struct dt_nic *nic, struct dt_task *task)
{
    bool is_held;

    pthread_mutex_lock(&nic->executor.mutex);
    is_held = task->is_held;
    if (is_held)
        dt_list_remove(&task->node);
    task->is_held = false;
    pthread_mutex_unlock(&nic->executor.mutex);
    return is_held;
}

static struct dt_task *pop_held(struct dt_nic *nic)
{
    struct dt_task *task = NULL;
    struct dt_list *node;

    pthread_mutex_lock(&nic->executor.mutex);
    node = dt_list_pop_front(&nic->held);
    if (node) {
        task = dt_container_of(node, struct dt_task, node);
        task->is_held = false;
    }
    pthread_mutex_unlock(&nic->executor.mutex);
    return task;
}

void dt_nic_release(struct dt_nic *nic)
{
    struct dt_task *task;

    while ((task = pop_held(nic)))
        dt_nic_submit(nic, task);
}

void dt_nic_interrupt(struct dt_nic *nic)
{
    uint64_t one = 1;

    if (!nic->is_started || dt_exchange_acq_rel(&nic->is_woken, 1u))
        return;
    DT_CHECK(nic->wake_fd >= 0); /* a started thread has its files */
    /* The counter cannot be full: it is written once between two reads. */
    (void)!write(nic->wake_fd, &one, sizeof one);
}

void dt_nic_wake(struct dt_nic *nic)
{
    dt_store_release(&nic->has_work, 1u);
    dt_nic_interrupt(nic);
}
