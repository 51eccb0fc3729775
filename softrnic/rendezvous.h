/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connection set-up of the `local` wire: the sending process connects to the receiving process's abstract
 * Unix socket, whose name follows from the receiver's GID, and sends one HELLO with the ring's memory as a
 * file descriptor. The socket stays open: its end reports the peer's death, and a byte on it wakes the peer.
 *
 * Nothing has a name in a file system, so nothing is left behind, however a process ends. Both sides accept
 * peers of the same user only, and validate every message all the same.
 *
 * Functions return 0 or a descriptor, or a negative errno. None blocks.
 */
#ifndef DETOUR_SOFTRNIC_RENDEZVOUS_H
#define DETOUR_SOFTRNIC_RENDEZVOUS_H

#include <stdint.h>
#include <sys/types.h>

#include "softrnic/local_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The HELLO message; the memory's descriptor comes with it. */
struct dt_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; /* of this struct */
    uint8_t src_gid[16];
    uint8_t dst_gid[16];
    uint64_t shared_bytes;
    uint64_t probe_addr;  /* address of an integer in the sender's memory, ... */
    uint64_t probe_value; /* ... and its value */
};

/* Fresh, sealed memory for one ring: its descriptor, with the mapping in *shared. */
int dt_rendezvous_memory(struct dt_local_shared **shared);
void dt_rendezvous_unmap(struct dt_local_shared *shared);

/* A listening socket for this instance. -EADDRINUSE when another process has the name. */
int dt_rendezvous_listen(uint64_t instance);

/*
 * Connects to `instance` and sends *hello (magic, version and sizes are filled in here). Returns the
 * connected socket, with the peer's process in *pid (0: not visible from here). -ECONNREFUSED: no such
 * process; -EAGAIN: its backlog is full; -EPERM: it belongs to another user.
 */
int dt_rendezvous_call(uint64_t instance, struct dt_hello *hello, int memory_fd, pid_t *pid);

/* Accepts the next connection; -EAGAIN when there is none, -EPERM when it came from another user (it is
 * closed). */
int dt_rendezvous_accept(int listen_fd, pid_t *pid);

/*
 * Receives a peer's HELLO. 0 with *hello and its memory mapped in *shared; -EAGAIN: nothing yet; -EPROTO: not
 * a valid HELLO; -ECONNRESET: the peer closed the connection.
 */
int dt_rendezvous_receive(int fd, struct dt_hello *hello, struct dt_local_shared **shared);

/* A descriptor that becomes readable when the process ends; -1 where the kernel has no such descriptors. */
int dt_process_watch(pid_t pid);

/* Sends the byte that wakes the other end. */
void dt_rendezvous_wake(int fd);

/* Has the peer closed the socket or its process (watch_fd may be -1) ended? Asks the kernel. */
int dt_rendezvous_is_gone(int fd, int watch_fd);

#ifdef __cplusplus
}
#endif

#endif
