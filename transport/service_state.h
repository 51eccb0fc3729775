/* SPDX-License-Identifier: Apache-2.0 */
/* State of the device thread per connection that it serves (service.h). Private to transport/. */
#ifndef DETOUR_TRANSPORT_SERVICE_STATE_H
#define DETOUR_TRANSPORT_SERVICE_STATE_H

#include <stdbool.h>
#include <stdint.h>

/* How many frames of one peer one round reads: a peer may send without end. */
#define DT_FRAMES_PER_ROUND 64

/* Why the device thread claims a connection. */
enum dt_claim { DT_CLAIM_SWITCHOVER = 1, DT_CLAIM_TAKEOVER = 2 };

/* Guarded by nic->mutex. */
struct dt_service_connection {
    /* A glance (glance.h) needs no more than these. */
    uint32_t visits_seen;      /* owner.visits at the last round */
    uint32_t completions_seen; /* connection->completions at the last visit */
    uint64_t idle_since_ns;    /* no visit and no takeover since then */
    uint64_t round;            /* the last round that visited the connection or glanced at it */
    uint64_t busy_ns;     /* the last round in which the connection was in use; DT_NEVER_NS: it was roused */
    uint64_t deadline_ns; /* when the connection needs the next round */
    uint64_t visit_ns;    /* until then a glance is enough; 0: it never is */
    uint64_t watch_ns;    /* the same while a request is open */
    uint32_t claims;      /* enum dt_claim: pending from the claim until the connection is given back */
    uint32_t busy_index;  /* in turns.busy, if it does not rest */
    bool is_resting;      /* turns.h */
    bool is_glanced_at;   /* this round claims it for a takeover alone */

    bool is_peer_lost;          /* the session found the peer's process dead */
    uint64_t refused_ns;        /* probes of a peer that refuses were posted then; 0: none */
    uint32_t probed_mask;       /* paths with such a probe */
    uint64_t peer_lost_ns;      /* the last completion since the peer's death or close; 0: neither */
    uint64_t fence_deadline_ns; /* of a failing connection; 0: its fence was not started */
    bool is_closed;             /* NCCL has closed it; staged messages are still to be delivered */
    uint64_t linger_until_ns;   /* 0: the first round after the close has not come yet */
};

#endif
