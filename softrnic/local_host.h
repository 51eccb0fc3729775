/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This process on the `local` wire: its instance number, the socket that other processes connect to, and its
 * RNICs. RNICs of one process find each other here directly, without sockets.
 *
 * Threads. dt_local_host_create, _destroy and _progress: the driver's, one at a time. The rest: any, under
 * the lock of the calling RNIC.
 */
#ifndef DETOUR_SOFTRNIC_LOCAL_HOST_H
#define DETOUR_SOFTRNIC_LOCAL_HOST_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "softrnic/local_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_local_wire;

#define DT_LOCAL_WIRES_MAX 16
#define DT_LOCAL_PENDING_NS                                                         \
    1000000000ull /* a pending peer that sends no HELLO within this time is dropped \
                   */
#define DT_LOCAL_PENDING_MAX 64
#define DT_LOCAL_LISTEN_NS   20000000ull /* pause when accept fails: no descriptor left */

/*
 * An event source in the helper thread's epoll set. ready() runs on that thread, without any RNIC's lock; it
 * must leave the descriptor in a state that does not fire again at once. It may free any source: the thread
 * takes one event at a time.
 */
struct dt_source {
    void (*ready)(struct dt_source *source, uint32_t events, uint64_t now_ns);
};

struct dt_local_host_options {
    uint64_t instance;       /* random; unique to this process */
    int epoll_fd;            /* the helper's; outlives the host */
    bool no_process_vm;      /* never read another process's memory, nor allow that of this one */
    bool prefers_copy;       /* copies through shared memory are faster here than the kernel's */
    void (*kick)(void *arg); /* wakes the helper thread; any thread */
    void *kick_arg;
};

struct dt_local_host {
    struct dt_local_host_options options;
    uint64_t instance;
    pid_t pid;
    int listen_fd;
    struct dt_source listener;
    uint64_t listen_again_ns; /* listening is paused until then; DT_NEVER_NS: it is not paused */
    bool warned_full;
    struct dt_list pending; /* peers that have connected and not sent HELLO yet, oldest first */
    uint32_t pending_count;
    pthread_mutex_t lock; /* innermost: protects `wires` and each wire's `new_inbounds` */
    struct dt_local_wire *wires[DT_LOCAL_WIRES_MAX];
};

/* 0 or an errno. */
int dt_local_host_create(const struct dt_local_host_options *options, struct dt_local_host **host);

/* Every wire has been destroyed. */
void dt_local_host_destroy(struct dt_local_host *host);

/* In a child of the process that owns it: closes its descriptors and frees nothing. */
void dt_local_host_abandon(struct dt_local_host *host);

/* Drops pending peers whose time is over; listens again after a pause. */
void dt_local_host_progress(struct dt_local_host *host, uint64_t now_ns);

/* When to call dt_local_host_progress next; DT_NEVER_NS: not needed. */
uint64_t dt_local_host_deadline_ns(const struct dt_local_host *host);

/* Adds a descriptor to the helper's epoll set, or removes it. 0 or an errno. */
int dt_local_host_watch(struct dt_local_host *host, int fd, uint32_t events, struct dt_source *source);
void dt_local_host_unwatch(struct dt_local_host *host, int fd);

#ifdef __cplusplus
}
#endif

#endif
