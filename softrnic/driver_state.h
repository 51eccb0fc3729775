/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's state, for driver.c and driver_fork.c alone. */
#ifndef DETOUR_SOFTRNIC_DRIVER_STATE_H
#define DETOUR_SOFTRNIC_DRIVER_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "softrnic/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_driver_state {
    pthread_mutex_t open_lock; /* options, open counts, life of the thread */
    struct dt_soft_options options;
    uint64_t instance; /* 0: not drawn yet */
    bool is_running;
    bool is_announced;
    pthread_t thread;

    pthread_mutex_t lock; /* the helper's: the devices' existence and all sources */
    uint32_t waiting;     /* atomic: threads that wait for the helper's lock */
    uint32_t stop;        /* atomic */
    uint32_t is_kicked;   /* atomic */
    int epoll_fd;
    int kick_fd;
    struct dt_source kick_source;
    struct dt_local_host *host;
    struct dt_soft_device *devices[DT_SOFT_DEVICES_MAX];
    struct dt_list replaced; /* struct dt_soft_device: dead, still open, and with a successor */
};

extern struct dt_driver_state dt_driver_state;

/* The helper thread gives its lock back between two rounds, and at once if a thread waits for it. */
void dt_driver_lock_helper(void);

/* From now on a child of this process begins with no device (softrnic.h). Once. */
void dt_driver_watch_forks(void);

#ifdef __cplusplus
}
#endif

#endif
