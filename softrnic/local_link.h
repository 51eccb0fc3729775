/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the `local` wire: the two ends of a link, for wire_local.c, local_link.c and local_host.c.
 *
 * A link's socket and its process watch are one source of the helper thread. That thread only notes what it
 * saw in an atomic field; whoever holds the RNIC's lock next acts on it.
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

/* The memory of a link, and, within one process, the news about its ends. */
struct dt_local_memory {
    uint32_t refs;          /* atomic; 2 when both ends are in this process */
    uint32_t producer_gone; /* atomic */
    uint32_t consumer_gone; /* atomic */
    struct dt_local_shared *shared;
};

/* A connection to another process, seen by the helper thread. All -1 and 0 within one process. */
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
    struct dt_local_memory *memory; /* NULL: nobody is there */
    struct dt_local_ring ring;
    struct dt_local_socket socket;
    uint64_t retry_ns;  /* when to call again */
    uint64_t probe;     /* what the receiver reads to learn whether it can */
    bool is_blocked;    /* the engine waits for room */
    uint32_t seen_head; /* as dt_local_wire_nudge found the ring last time */
    uint32_t seen_tail;
    bool is_nudged; /* and the peer was woken for that */
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

/* What wire.h calls struct dt_received. */
struct dt_local_received {
    struct dt_inbound *inbound;
    struct dt_local_payload payload;
};

/* NULL when memory is short; an absent peer is no error. */
struct dt_wire_link *dt_link_create(struct dt_local_wire *wire, const uint8_t gid[16]);
void dt_link_destroy(struct dt_wire_link *link);

/* Is nobody listening at the other end? */
static inline bool dt_link_is_gone(const struct dt_wire_link *link)
{
    return !link->memory || dt_load_relaxed(&link->memory->consumer_gone) ||
           dt_load_relaxed(&link->socket.hung_up);
}

/* For a link that is gone: calls again, if the time for it has come. */
void dt_link_reopen(struct dt_wire_link *link, uint64_t now_ns);

/* Releases the memory and the descriptors of a link that is gone; it can be reopened. */
void dt_link_release(struct dt_wire_link *link);

/* The other end broke the ring: ends the connection. The link is gone soon after. */
void dt_link_hang_up(struct dt_wire_link *link);

/* Wakes the process at the other end. */
void dt_link_wake(struct dt_wire_link *link);

void dt_inbound_destroy(struct dt_inbound *inbound);

static inline bool dt_inbound_is_gone(const struct dt_inbound *inbound)
{
    return dt_load_acquire(&inbound->memory->producer_gone) || dt_load_acquire(&inbound->socket.hung_up);
}

/* Reads payload out of the sender's memory; 0 or an errno. */
int dt_inbound_fetch(struct dt_inbound *inbound, const struct dt_local_payload *payload, uint64_t offset,
                     void *dst, uint64_t bytes);

/* Records were taken: wakes the sender if it waits for that. */
void dt_inbound_made_room(struct dt_inbound *inbound);

/* In a child of the process that owns the socket: closes its descriptors, so that peers do not take the
 * child's copies for a living process. */
void dt_local_socket_abandon(struct dt_local_socket *sock);

#ifdef __cplusplus
}
#endif

#endif
