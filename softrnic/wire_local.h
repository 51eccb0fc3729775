/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `local` wire: RNICs of processes on one host, through shared memory (local_ring.h). It implements
 * wire.h for the engine; the driver receives, sleeps and wakes through the functions here.
 *
 * A link is one direction. The sender creates it: the memory, and the connection to the receiver's process
 * (rendezvous.h). Packets to a receiver that is absent or has ended are lost; the link tries to reconnect at
 * intervals. The packets of a sender that has ended are still received, except payload that lay in its own
 * memory.
 *
 * All functions need the RNIC's lock. Faults (fault.h) apply to transmitted packets.
 */
#ifndef DETOUR_SOFTRNIC_WIRE_LOCAL_H
#define DETOUR_SOFTRNIC_WIRE_LOCAL_H

#include <stdbool.h>
#include <stdint.h>

#include "softrnic/fault.h"
#include "softrnic/local_host.h"
#include "softrnic/rendezvous.h"
#include "softrnic/wire.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_LOCAL_RETRY_NS 10000000ull /* between two attempts to connect to an absent process */

/*
 * The end of device number `device` (below DT_LOCAL_WIRES_MAX, one wire for each). `faults` may be NULL and
 * outlives the wire. NULL when memory is short.
 */
struct dt_local_wire *dt_local_wire_create(struct dt_local_host *host, uint32_t device,
                                           struct dt_faults *faults);

/* Only on the thread that runs the sources, or when it does not run. */
void dt_local_wire_destroy(struct dt_local_wire *wire);

/*
 * The device has died, and another one takes its number: senders to it find that one from now on. Links to
 * others stay until the wire is destroyed. On the same thread, with the RNIC's lock.
 */
void dt_local_wire_unplug(struct dt_local_wire *wire);

/* In a child of the process that owns it: closes its descriptors and frees nothing. */
void dt_local_wire_abandon(struct dt_local_wire *wire);

struct dt_wire *dt_local_wire_base(struct dt_local_wire *wire);
void dt_local_wire_gid(const struct dt_local_wire *wire, uint8_t gid[16]);

typedef void dt_local_deliver_func(void *arg, const struct dt_packet *packet, struct dt_received *received,
                                   uint64_t now_ns);

/*
 * Delivers arrived packets, at most for about the time of one large segment; true if there were any. Call the
 * engine's progress afterwards.
 */
bool dt_local_wire_receive(struct dt_local_wire *wire, dt_local_deliver_func *deliver, void *arg,
                           uint64_t now_ns);

/* Transmits packets that faults have held back and that are due. */
void dt_local_wire_progress(struct dt_local_wire *wire, uint64_t now_ns);
uint64_t dt_local_wire_deadline_ns(const struct dt_local_wire *wire);

/*
 * Asks all peers to wake this process's helper thread when they transmit or make the room that a link waits
 * for. False when there is work to do at once. dt_local_wire_awake undoes it.
 */
bool dt_local_wire_sleep(struct dt_local_wire *wire);
void dt_local_wire_awake(struct dt_local_wire *wire);

/* Is there an unread packet or a new inbound end? */
bool dt_local_wire_has_unread(const struct dt_local_wire *wire);

/*
 * For an end that polls in vain, at intervals: wakes each peer's helper thread, once, when that peer has
 * unread packets and has read none since the last call.
 */
void dt_local_wire_nudge(struct dt_local_wire *wire);

/*
 * Frees the inbound ends of senders that have ended, and the resources of links to receivers that have ended.
 * Only on the thread that runs the sources, while none of them is running.
 */
void dt_local_wire_reap(struct dt_local_wire *wire);

/* Creates the inbound end for a peer that sent HELLO; takes ownership of `fd` and `shared`. host->lock is
 * held. */
void dt_local_wire_accept(struct dt_local_wire *wire, const struct dt_hello *hello, int fd, pid_t pid,
                          struct dt_local_shared *shared);

struct dt_local_counters {
    uint64_t lost_absent; /* packets without a receiver */
    uint64_t lost_room;   /* packets that a fault released while there was no room */
    uint64_t fetches;     /* payloads read from the sender's memory */
    uint64_t fetch_errors;
    uint64_t broken_links; /* senders dropped because their ring was invalid */
};
void dt_local_wire_query_counters(const struct dt_local_wire *wire, struct dt_local_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
