/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the `local` wire: the two ends of a link, for wire_local.c, local_link.c and local_host.c.
 *
 * A link's socket and its process watch are event sources of the helper thread. That thread only records what
 * it saw in an atomic field; the next holder of the RNIC's lock acts on it.
 */
#ifndef DETOUR_SOFTRNIC_LOCAL_LINK_H
#define DETOUR_SOFTRNIC_LOCAL_LINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/atomics.h"
#include "base/list.h"
#include "softrnic/local_ring.h"
#include "softrnic/wire_local.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_local_wire {
    struct dt_wire base;
    struct dt_local_host *host;
    uint32_t device;
    uint8_t gid[16];
    struct dt_faults *faults;    /* or NULL */
    struct dt_list links;        /* to others */
    struct dt_list inbounds;     /* from others */
    struct dt_list new_inbounds; /* inbounds to be added to `inbounds`; under host->lock */
    struct dt_list closed;       /* inbounds to be freed */
    uint32_t has_new_inbounds;   /* atomic */
    uint8_t *piece;              /* DT_FETCH_PIECE_BYTES, between a fetch and its landing */
    struct dt_local_counters counters;
};

/* The memory of a link, and, within one process, whether its ends are closed. */
struct dt_local_memory {
    uint32_t refs;          /* atomic; 2 when both ends are in this process */
    uint32_t producer_gone; /* atomic */
    uint32_t consumer_gone; /* atomic */
    struct dt_local_shared *shared;
};

/* A connection to another process, watched by the helper thread. All -1 and 0 within one process. */
struct dt_local_socket {
    struct dt_source source;
    struct dt_local_host *host;
    int fd;
    int watch_fd;     /* of the process */
    uint32_t hung_up; /* atomic */
};

/* The sending end. */
struct dt_wire_link {
    struct dt_list node; /* on wire->links */
    struct dt_local_wire *wire;
    uint8_t gid[16];
    struct dt_local_memory *memory; /* NULL: there is no peer */
    struct dt_local_ring ring;
    struct dt_local_socket socket;
    uint64_t retry_ns;  /* time of the next attempt to connect */
    uint64_t probe;     /* the receiver reads it to find out whether it can read this process's memory */
    bool is_blocked;    /* the engine waits for room */
    uint32_t seen_head; /* the ring as the last dt_local_wire_nudge found it */
    uint32_t seen_tail;
    bool is_nudged; /* the peer has been woken since */
};

/* The receiving end. */
struct dt_inbound {
    struct dt_list node; /* on one of the wire's lists */
    struct dt_local_wire *wire;
    struct dt_local_memory *memory;
    struct dt_local_ring ring;
    struct dt_local_socket socket;
    pid_t pid; /* of the sender */
};

/* struct dt_received of wire.h. */
struct dt_local_received {
    struct dt_inbound *inbound;
    struct dt_local_payload payload;
};

/* NULL when memory is short; an absent peer is no error. */
struct dt_wire_link *dt_link_create(struct dt_local_wire *wire, const uint8_t gid[16]);
void dt_link_destroy(struct dt_wire_link *link);

/* Has the receiver closed its end, or was there never one? */
static inline bool dt_link_is_gone(const struct dt_wire_link *link)
{
    return !link->memory || dt_load_relaxed(&link->memory->consumer_gone) ||
           dt_load_relaxed(&link->socket.hung_up);
}

/* For a link that is gone: connects again if the retry time has come. */
void dt_link_reopen(struct dt_wire_link *link, uint64_t now_ns);

/* Releases the memory and the descriptors of a link that is gone; it can be reopened. */
void dt_link_release(struct dt_wire_link *link);

/* Ends the connection after the other end broke the ring. The link is gone soon after. */
void dt_link_hang_up(struct dt_wire_link *link);

/* Wakes the process at the other end. */
void dt_link_wake(struct dt_wire_link *link);

void dt_inbound_destroy(struct dt_inbound *inbound);

static inline bool dt_inbound_is_gone(const struct dt_inbound *inbound)
{
    return dt_load_acquire(&inbound->memory->producer_gone) || dt_load_acquire(&inbound->socket.hung_up);
}

/* Reads payload from the sender's memory; 0 or an errno. */
int dt_inbound_fetch(struct dt_inbound *inbound, const struct dt_local_payload *payload, uint64_t offset,
                     void *dst, uint64_t bytes);

/* After records were consumed: wakes the sender if it waits for room. */
void dt_inbound_made_room(struct dt_inbound *inbound);

/* In a child of the process that owns the socket: closes its descriptors, so that peers do not take the
 * child's copies for a living process. */
void dt_local_socket_abandon(struct dt_local_socket *sock);

#ifdef __cplusplus
}
#endif

#endif
