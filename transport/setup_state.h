/* SPDX-License-Identifier: Apache-2.0 */
/* State of a set-up (setup.h) and the type of its steps. Private to transport/. */
#ifndef DETOUR_TRANSPORT_SETUP_STATE_H
#define DETOUR_TRANSPORT_SETUP_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/message/connection.h"
#include "transport/session/listener.h"
#include "transport/net_state.h"
#include "transport/reachability.h"
#include "transport/protocol/frames.h"

struct dt_setup;

struct dt_step {
    enum dt_status (*run)(struct dt_setup *setup, uint64_t now_ns);
    const char *waits_for; /* for the line after a timeout: "the listener's answer"; NULL: never waits */
};

struct dt_setup {
    struct dt_connection *connection;
    const struct dt_step *step; /* the current one; the table ends with a step without `run` */
    bool is_agreed;             /* it is in dt_steps_after_agreement, which follows the first table */
    uint64_t started_ns;
    uint64_t deadline_ns;
    char why[768];    /* of a failure */
    bool is_rejected; /* the peer sent REJECT */

    struct dt_terms terms;
    bool links_first; /* receiver: its list of paths has what its devices make of the sender's ECE options */
    struct dt_paths_offer peer_offer;
    bool has_peer_paths; /* peer_offer is the peer's */
    uint32_t path_mask; /* paths that are linked, and later: that are reached, at this end */
    /* Of setup_wait.c. */
    uint64_t
        refused_ns; /* until then a refused link is repeated although another path is linked; 0: none was */
    uint64_t repeat_ns; /* when refused link tasks are submitted again; 0: none waits */
    uint64_t late_ns;   /* when set-up goes on without the devices that have finished no task; 0: not known */
    uint32_t late_mask; /* paths of those devices */
    uint32_t finished;  /* tasks of those devices when late_ns was set */
    struct dt_reachability reach;

    struct dt_list node; /* in net->setups */
    bool is_running;     /* a thread is in dt_net_connect() or dt_net_accept() for it */

    /* connect only */
    uint64_t cookie; /* not 0 */
    struct dt_handle handle;
    struct dt_address listener; /* this process's own; family NONE: it cannot have one */
    uint64_t redial_ns;         /* not before */
    uint64_t redial_delay_ns;

    /* accept only */
    struct dt_listen *listen; /* whose set-up it is */
    struct dt_hello hello;
};

#endif
