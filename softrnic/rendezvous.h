/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How two processes of one host come to share a ring: the sending side calls the receiving one's abstract
 * Unix socket (which the receiver's GID names) and says one message, with the memory as a file descriptor.
 * The socket stays open: its end is the news of the other's death, and a byte on it wakes the other.
 *
 * Nothing of this has a name in a file system, so nothing is left behind, however a process ends. Only
 * processes of the same user are spoken with, whichever side they are on. What they say is checked all the
 * same.
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

/* The one message; memory comes with it. */
struct dt_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t bytes; /* of this struct */
    uint8_t src_gid[16];
    uint8_t dst_gid[16];
    uint64_t shared_bytes;
    uint64_t probe_addr;  /* a word in the sender's memory, ... */
    uint64_t probe_value; /* ... and what is to be found there */
};

/* Fresh, sealed memory for one ring: its descriptor, with the mapping in *shared. */
int dt_rendezvous_memory(struct dt_local_shared **shared);
void dt_rendezvous_unmap(struct dt_local_shared *shared);

/* A listening socket for this instance. -EADDRINUSE when another process has the name. */
int dt_rendezvous_listen(uint64_t instance);

/*
 * Calls `instance` and says *hello (magic, version and sizes are filled in here). Returns the connected
 * socket, with the other's process in *pid (0: not visible from here). -ECONNREFUSED: nobody there; -EAGAIN:
 * it has no time now; -EPERM: it belongs to another user.
 */
int dt_rendezvous_call(uint64_t instance, struct dt_hello *hello, int memory_fd, pid_t *pid);

/* The next caller's socket; -EAGAIN when there is none, -EPERM when it belongs to another user (it is
 * closed). */
int dt_rendezvous_accept(int listen_fd, pid_t *pid);

/*
 * Receives a peer's HELLO. 0 with *hello and its memory mapped in *shared; -EAGAIN: nothing yet; -EPROTO: not
 * a valid HELLO; -ECONNRESET: the peer closed the connection.
 */
int dt_rendezvous_receive(int fd, struct dt_hello *hello, struct dt_local_shared **shared);

/* A descriptor that becomes readable when the process ends; -1 where the kernel has none to give. */
int dt_process_watch(pid_t pid);

/* Sends the byte that wakes the other end. */
void dt_rendezvous_wake(int fd);

/* Has the other end, or its process (watch_fd may be -1), gone? Asks the kernel. */
int dt_rendezvous_is_gone(int fd, int watch_fd);

#ifdef __cplusplus
}
#endif

#endif
