/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The net's own state: the devices of the process with their device threads, the listener, and set-ups under
 * way. Private to transport/; the modules below know struct dt_environment and struct dt_nic alone
 * (path/nic.h).
 */
#ifndef DETOUR_TRANSPORT_NET_STATE_H
#define DETOUR_TRANSPORT_NET_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "failover/backup.h"
#include "hostpath/staged/stage.h"
#include "transport/health.h"
#include "transport/inject.h"
#include "transport/message/gate.h"
#include "transport/protocol/address.h"
#include "transport/path/nic.h"
#include "transport/reopen_state.h"
#include "transport/session/pair.h"
#include "transport/session/session.h"
#include "transport/turns.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device thread of one device (device_thread.h), and the connections whose default device it is. */
struct dt_nic_service {
    struct dt_nic *nic;
    struct dt_poller poller;             /* of its connections' sessions */
    struct dt_backup_list backups;       /* of net->nic: may serve its connections, itself first */
    struct dt_backup_offer backup_offer; /* the same for the other end */

    /* Under nic->mutex. */
    struct dt_list connections;
    struct dt_turns turns;   /* the same, by who is visited next */
    struct dt_list sessions; /* struct dt_session, of connections that are closed, while they linger */
    uint64_t quiet_since_ns; /* no connection has been busy since then */
    bool is_event_ready;     /* the device may have an event */

    struct dt_inject_nic inject; /* [device thread, but for what is atomic] */
    struct dt_reopen reopen;     /* [device thread, but for what is atomic] */

    pthread_t thread;
    int32_t tid; /* of the device thread; 0: it does not run [atomic] */
    bool is_joined;
    uint32_t is_stopping;   /* atomic */
    uint64_t stop_until_ns; /* the time that staged messages still have; 0: not asked to stop yet */
    int epoll_fd;
};

struct dt_net {
    struct dt_environment environment;
    struct dt_address address; /* without a port until listening */
    uint64_t calibrated_ns;    /* when the stamps were last compared with the clock [atomic] */
    struct dt_health_net health;
    struct dt_inject inject;
    struct dt_hostpath hostpath;
    size_t nic_count;
    struct dt_nic *nic;
    struct dt_nic_service *service; /* of each nic */

    struct dt_pairs *pairs; /* the control channels of all connections, by process */

    pthread_mutex_t mutex; /* guards the members below */
    /* Its listener is made by the first listen() or connect(), and kept until the net is destroyed. */
    struct dt_session_host session_host;
    struct dt_list setups; /* connects under way, found by their cookie */
    uint64_t abandoned_ns; /* when attempts were last checked for their time limit */
    uint64_t tidied_ns;    /* when pending peers and abandoned connects were last removed */
};

#ifdef __cplusplus
}
#endif

#endif
