/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The net's own state, and one device of it with its two threads: the control thread, for verbs that may
 * block (executor.h), and Detour's thread, which looks after the connections whose default device this is
 * (service.h). Private to transport/.
 */
#ifndef DETOUR_TRANSPORT_NIC_H
#define DETOUR_TRANSPORT_NIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/param.h"
#include "base/ticks.h"
#include "hostpath/delegate.h"
#include "hostpath/gpu_flush.h"
#include "obs/page.h"
#include "transport/backup.h"
#include "transport/executor.h"
#include "transport/health.h"
#include "transport/inject.h"
#include "transport/net.h"
#include "transport/staging.h"
#include "transport/wire_messages.h"
#include "verbs/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_listener;

struct dt_nic {
    struct dt_net *net;
    uint32_t index;
    struct dt_device_info info;
    char name[DT_NAME_BYTES];
    uint32_t rail;                       /* backup.h */
    struct dt_backup_list backups;       /* of net->nic: which may serve its connections, itself first */
    struct dt_backup_offer backup_offer; /* the same for the other end */
    struct dt_executor executor;
    struct dt_device *device;   /* opened by the first job, on the control thread [atomic pointer] */
    bool is_broken;             /* it could not be opened; control thread only */
    uint32_t is_unreached_said; /* a peer was not reached from here [atomic] */
    uint32_t is_away;           /* it is not to be used, by order (migrate.c) [atomic] */
    uint32_t is_dead; /* it said that it is (DEVICE_FATAL): it answers no call but destroy [atomic] */

    /* The connections whose default device this is. Whoever holds the mutex is "Detour's thread" for them. */
    pthread_mutex_t mutex;
    struct dt_list connections;
    struct dt_list lines;    /* struct dt_line, of connections that are closed, while they linger */
    uint64_t quiet_since_ns; /* no connection was busy since */
    uint64_t round_ns;       /* that the last round over them took */
    bool is_hurried;         /* a connection was in the middle of a switch in the last round */
    bool is_event_ready;     /* the device may have an event */
    bool is_listener_ready;  /* somebody may have come */

    struct dt_delegates delegates; /* that copy for the host path; opened under the mutex, for good */

    struct dt_inject_nic inject; /* [Detour's thread, but for what is atomic] */

    /* Detour's thread itself (device_thread.h). */
    pthread_t thread;
    bool is_started;
    bool is_joined;
    uint32_t is_stopping;   /* atomic */
    uint64_t stop_until_ns; /* for what is staged; 0: not asked yet [Detour's thread] */
    int epoll_fd;
    int wake_fd;
    uint32_t is_woken;       /* wake_fd was written since it was last read [atomic] */
    uint64_t hurry_until_ns; /* the other threads' and the peer's part of a switch is waited for awake
                                [Detour's thread] */
};

struct dt_net {
    struct dt_params params;
    struct dt_verbs *verbs;
    struct dt_network *network;
    struct dt_address address; /* without a port until somebody listens */
    void (*random)(void *arg, void *to, size_t bytes);
    void *random_arg;
    uint32_t chunk_bytes;
    bool has_threads;
    bool has_membarrier;
    char host[DT_NAME_BYTES];
    uint32_t pid;
    uint64_t tick_ns; /* time as Detour's threads last saw it [atomic] */
    struct dt_ticks ticks;
    uint64_t calibrated_ns; /* when they were last compared with the clock [atomic] */
    struct dt_page *page;   /* or NULL: nobody looks */
    struct dt_health_net health;

    struct dt_inject inject;
    struct dt_hostpath hostpath;
    struct dt_gpu_flusher flusher;
    size_t nic_count;
    struct dt_nic *nic;

    pthread_mutex_t mutex;        /* the rest */
    struct dt_listener *listener; /* made by the first listen() or connect(); kept to the end */
    struct dt_list setups;        /* connects under way, found by their cookie */
    uint64_t tidied_ns;           /* when strangers and abandoned connects were last looked at */
};

/* A random number that is not zero. */
static inline uint64_t dt_net_random(struct dt_net *net)
{
    uint64_t value = 0;

    while (value == 0)
        net->random(net->random_arg, &value, sizeof value);
    return value;
}

/*
 * Makes the net's listener, unless it is there. DT_SYSTEM (one WARN): it cannot be. The caller holds
 * net->mutex.
 */
enum dt_status dt_net_open_listener(struct dt_net *net);

/* Runs the job on the control thread; here and now if there can be no thread. */
void dt_nic_submit(struct dt_nic *nic, struct dt_job *job);

/* Starts Detour's thread if that was not done. DT_SYSTEM: one WARN. */
enum dt_status dt_nic_start(struct dt_nic *nic);

/*
 * Something happened that Detour's thread should look at now. Any thread; one system call, or none if it was
 * woken already and has not looked yet.
 */
void dt_nic_wake(struct dt_nic *nic);

/* Tells Detour's thread to end as soon as nothing is staged, or the time for that is over. */
void dt_nic_ask_to_stop(struct dt_nic *nic);

/* The same, and waits for it; others may still wake it, in vain. Harmless when repeated. */
void dt_nic_stop(struct dt_nic *nic);

/* The same, and nobody wakes it any more. */
void dt_nic_close(struct dt_nic *nic);

#ifdef __cplusplus
}
#endif

#endif
