/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that fork while devices are open. */
#include <unistd.h>

#include "softrnic/driver_state.h"

static struct dt_soft_device *replaced_of(struct dt_list *node)
{
    return dt_container_of(node, struct dt_soft_device, node);
}

/* Takes all locks, so that the child's copy is consistent. */
static void before_fork(void)
{
    pthread_mutex_lock(&dt_driver_state.open_lock);
    dt_driver_lock_helper();
    for (uint32_t i = 0; i < DT_SOFT_DEVICES_MAX; i++)
        if (dt_driver_state.devices[i])
            pthread_mutex_lock(&dt_driver_state.devices[i]->lock);
    dt_list_for_each(node, &dt_driver_state.replaced) pthread_mutex_lock(&replaced_of(node)->lock);
}

static void after_fork_in_parent(void)
{
    dt_list_for_each(node, &dt_driver_state.replaced) pthread_mutex_unlock(&replaced_of(node)->lock);
    for (uint32_t i = 0; i < DT_SOFT_DEVICES_MAX; i++)
        if (dt_driver_state.devices[i])
            pthread_mutex_unlock(&dt_driver_state.devices[i]->lock);
    pthread_mutex_unlock(&dt_driver_state.lock);
    pthread_mutex_unlock(&dt_driver_state.open_lock);
}

/*
 * The child has no helper thread and is a process of its own on the wire, so it starts anew. It frees nothing
 * of the parent's. It closes the inherited descriptors, because peers of the parent would otherwise miss the
 * parent's death.
 */
static void after_fork_in_child(void)
{
    for (uint32_t i = 0; i < DT_SOFT_DEVICES_MAX; i++) {
        if (dt_driver_state.devices[i]) {
            dt_local_wire_abandon(dt_driver_state.devices[i]->wire);
            pthread_mutex_init(&dt_driver_state.devices[i]->lock, NULL);
            dt_driver_state.devices[i] = NULL;
        }
    }
    dt_list_for_each(node, &dt_driver_state.replaced)
    {
        dt_local_wire_abandon(replaced_of(node)->wire);
        pthread_mutex_init(&replaced_of(node)->lock, NULL);
    }
    dt_list_init(&dt_driver_state.replaced);
    if (dt_driver_state.is_running) {
        dt_local_host_abandon(dt_driver_state.host);
        close(dt_driver_state.kick_fd);
        close(dt_driver_state.epoll_fd);
    }
    dt_driver_state.host = NULL;
    dt_driver_state.is_running = false;
    dt_driver_state.instance = 0;
    dt_driver_state.waiting = 0;
    pthread_mutex_init(&dt_driver_state.lock, NULL);
    pthread_mutex_init(&dt_driver_state.open_lock, NULL);
}

void dt_driver_watch_forks(void)
{
    /* Without memory for the handlers a child must not use devices of its own, which few do. */
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}
