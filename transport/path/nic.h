/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One RNIC port of this process: its device, the control thread that runs verbs which may block (executor.h),
 * and the means to wake its device thread. The device thread itself, with the connections whose default
 * device this is, belongs to transport/ (net_state.h).
 */
#ifndef DETOUR_TRANSPORT_PATH_NIC_H
#define DETOUR_TRANSPORT_PATH_NIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "hostpath/delegate.h"
#include "transport/path/environment.h"
#include "transport/path/executor.h"
#include "verbs/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_net;
struct dt_nic_service;

struct dt_nic {
    struct dt_environment *environment;
    struct dt_net *net;
    struct dt_nic_service *service; /* its device thread's state */
    uint32_t index;
    uint32_t rail; /* failover/backup.h */
    struct dt_device_info info;
    char name[DT_NAME_BYTES];
    struct dt_executor executor;
    struct dt_device *device;       /* opened by the first task, on the control thread; replaced by the device
                                       thread when it was opened again (reopen.h) [atomic pointer] */
    struct dt_device *first;        /* of all its generations; stays until the end [atomic pointer] */
    bool is_broken;                 /* the device could not be opened [control thread] */
    uint32_t is_drained;            /* administratively out of use [atomic] */
    uint32_t is_dead;               /* reported DEVICE_FATAL: answers no call but destroy; until `device` is
                                       another [atomic] */
    struct dt_list held;            /* tasks until the device is back [executor.mutex] */
    uint32_t late_tasks;            /* tasks under way that a set-up did not wait for [atomic] */
    uint32_t links_refused;         /* link tasks that ended so that they may be repeated [atomic] */
    uint32_t is_unreached_reported; /* a WARN about an unreachable peer was logged [atomic] */

    /* Guards the connections of the device thread. The thread that holds it is the device thread for them. */
    pthread_mutex_t mutex;

    struct dt_delegates delegates; /* copy threads of the host path; opened under the mutex, for good */

    /* Waking the device thread. */
    bool is_started;
    int wake_fd;
    uint32_t is_woken;            /* wake_fd was written since it was last read [atomic] */
    uint64_t awake_ns;            /* the thread sleeps until then [atomic] */
    uint32_t has_work;            /* dt_nic_wake() was called since the last round began [atomic] */
    uint32_t has_news;            /* a held message is due before awake_ns [atomic] */
    struct dt_connection *roused; /* by NCCL's calls (transport/turns.h) [atomic] */

    /* How busy the device thread is [device thread]. */
    bool is_hurried;         /* a connection was in a switchover in the last round */
    uint64_t round_ns;       /* duration of the last round over its connections */
    uint64_t hurry_until_ns; /* the thread polls instead of sleeping until then: a switchover is under way */
};

/*
 * Any thread, for registering and deregistering memory alone: all generations of a device share its memory
 * regions, and this one is not freed while a reader still has it. NULL: not opened yet.
 */
static inline struct dt_device *dt_nic_memory(const struct dt_nic *nic)
{
    return dt_load_acquire(&nic->first);
}

/*
 * The newest. NULL: not opened yet. The control thread and the device thread: the one before is freed when
 * nothing is left on it (dt_device_close_old()).
 */
static inline struct dt_device *dt_nic_device(const struct dt_nic *nic)
{
    return dt_load_acquire(&nic->device);
}

/* Runs the task on the control thread; on the caller's thread if the control thread cannot be started. */
void dt_nic_submit(struct dt_nic *nic, struct dt_task *task);
/* The same, before all queued tasks that are not urgent. */
void dt_nic_submit_urgent(struct dt_nic *nic, struct dt_task *task);

/*
 * For a device that is dead: submits the task once the device is back, and at once if it is back already. Any
 * thread.
 */
void dt_nic_hold(struct dt_nic *nic, struct dt_task *task);
/*
 * The same for a task that has failed because the device is gone, whether that was reported or not; on the
 * control thread, followed by dt_nic_release_if_back().
 */
void dt_nic_hold_failed(struct dt_nic *nic, struct dt_task *task);
/* Submits all held tasks if the device was opened again meanwhile. The control thread. */
void dt_nic_release_if_back(struct dt_nic *nic);
/* Takes a held task back. False: it was submitted, or never held. Any thread. */
bool dt_nic_withdraw(struct dt_nic *nic, struct dt_task *task);
/* Submits all held tasks. The device thread, once is_dead is 0 again. */
void dt_nic_release(struct dt_nic *nic);

/*
 * Has the device thread do a round now that visits all connections: for news of one of them, which may rest.
 * Any thread; one system call, or none if a wake-up is already pending.
 */
void dt_nic_wake(struct dt_nic *nic);
/*
 * The same for news that any round finds: a new connection, a closed session, a held message that is due.
 * Thousands of connections that are set up or closed one by one would otherwise visit each other.
 */
void dt_nic_interrupt(struct dt_nic *nic);

#ifdef __cplusplus
}
#endif

#endif
