/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `local` wire: RNICs of processes on one host, through shared memory (local_ring.h). It fills wire.h's
 * table for the engine; its driver receives, sleeps and wakes through the functions here.
 *
 * A link is one direction. Who sends makes it: the memory, and the call to the receiver's process
 * (rendezvous.h). A receiver that is not there, or goes away, loses what is sent to it; the link tries again
 * from time to time. A sender that goes away leaves what it sent: that is still received, but for payload
 * that lay in its own memory.
 *
 * All functions need the RNIC's lock. Faults (fault.h) apply to what is transmitted.
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

#define DT_LOCAL_RETRY_NS 10000000ull /* between two calls of a process that is not there */

/*
 * The end of device number `device` (below DT_LOCAL_WIRES_MAX, one wire for each). `faults` may be NULL and
 * outlives the wire. NULL when memory is short.
 */
struct dt_local_wire *dt_local_wire_create(struct dt_local_host *host, uint32_t device,
                                           struct dt_faults *faults);

/* Only on the thread that runs the sources, or when it does not run. */
void dt_local_wire_destroy(struct dt_local_wire *wire);

/* In a child of the process that owns it: closes its descriptors and frees nothing. */
void dt_local_wire_abandon(struct dt_local_wire *wire);

struct dt_wire *dt_local_wire_base(struct dt_local_wire *wire);
void dt_local_wire_gid(const struct dt_local_wire *wire, uint8_t gid[16]);

typedef void dt_local_deliver_func(void *arg, const struct dt_packet *packet, struct dt_received *received,
                                   uint64_t now_ns);

/*
 * Delivers what has arrived, up to about one large segment's time; true if there was anything. Call the
 * engine's progress afterwards.
 */
bool dt_local_wire_receive(struct dt_local_wire *wire, dt_local_deliver_func *deliver, void *arg,
                           uint64_t now_ns);

/* Transmits what faults have held back and is due. */
void dt_local_wire_progress(struct dt_local_wire *wire, uint64_t now_ns);
uint64_t dt_local_wire_deadline_ns(const struct dt_local_wire *wire);

/*
 * Asks all peers to wake this process's helper thread when they transmit, or make room that is waited for.
 * False, when there is something to do at once. Undone by dt_local_wire_awake.
 */
bool dt_local_wire_sleep(struct dt_local_wire *wire);
void dt_local_wire_awake(struct dt_local_wire *wire);

/* Is there something that nobody has received? */
bool dt_local_wire_has_unread(const struct dt_local_wire *wire);

/*
 * For an end that polls in vain, every so often: wakes each peer's helper thread, once, when that peer has
 * taken nothing of what waits for it since the last call.
 */
void dt_local_wire_nudge(struct dt_local_wire *wire);

/*
 * Frees senders that have gone, and what the links to receivers that have gone still hold. Only on the thread
 * that runs the sources, while none of them is running.
 */
void dt_local_wire_reap(struct dt_local_wire *wire);

/* Creates the inbound end for a peer that sent HELLO; takes ownership of `fd` and `shared`. host->lock is
 * held. */
void dt_local_wire_accept(struct dt_local_wire *wire, const struct dt_hello *hello, int fd, pid_t pid,
                          struct dt_local_shared *shared);

struct dt_local_counters {
    uint64_t lost_absent; /* packets to nobody */
    uint64_t lost_room;   /* packets that a fault released when there was no room */
    uint64_t fetches;     /* payloads read out of the sender's memory */
    uint64_t fetch_errors;
    uint64_t broken_links; /* senders dropped because their ring was nonsense */
};
void dt_local_wire_query_counters(const struct dt_local_wire *wire, struct dt_local_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
