/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes software RNICs run in a process: the clock, a lock for each RNIC, and one helper thread.
 *
 * Whoever posts or polls steps the RNIC itself, so that two ends that poll need no thread and no system call.
 * The helper thread serves timers and arrivals of RNICs that nobody polls; it sleeps in the kernel until a
 * deadline, a peer's wake-up, or a kick from this process. Of an RNIC that is being polled it only looks,
 * every DT_DRIVER_WATCH_NS, whether that is still so; peers then do not wake it, unless what they sent is not
 * taken: who polls for its completion or posts a request, and then watches memory, is not polling any more.
 *
 * Every step of an engine, with the copies it makes, runs under its RNIC's lock, and is bounded. So whoever
 * has taken the lock and changed something (a queue pair to ERR, a region deregistered) knows when the lock
 * is free again that no copy under the old rules runs.
 *
 * Locks, outermost first: the driver's open lock, the helper's lock, an RNIC's lock, then the leaf locks
 * (local_host.h's, and the front's event queues). Functions here take what they need.
 */
#ifndef DETOUR_SOFTRNIC_DRIVER_H
#define DETOUR_SOFTRNIC_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "softrnic/engine.h"
#include "softrnic/fault.h"
#include "softrnic/softrnic.h"
#include "softrnic/wire_local.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DRIVER_WATCH_NS    1000000ull
#define DT_DRIVER_PATIENCE_NS 5000ull  /* who polls for longer in vain gives way to other threads */
#define DT_DRIVER_YIELD_NS    5000ull /* at most this often, for any number of polled queues */
#define DT_DRIVER_NUDGE_NS                                                          \
    20000ull /* and at this interval looks for peers that sleep with unread packets \
              */

/* One RNIC of this process, from its first open to its last close. */
struct dt_soft_device {
    uint32_t index;
    char name[16];
    uint32_t open_count;  /* under the driver's open lock */
    pthread_mutex_t lock; /* the RNIC's: all below, and the engine, wire and faults themselves */
    struct dt_rnic *rnic;
    struct dt_local_wire *wire;
    struct dt_faults *faults;
    uint64_t polled_ns;   /* atomic: when somebody last polled */
    uint64_t arrived_ns;  /* when a poll last found something */
    uint64_t yielded_ns;  /* when a poll last gave way [atomic] */
    uint64_t nudged_ns;   /* when a poll last looked for sleeping peers */
    uint64_t verbs_ns;    /* atomic: what each verb on a queue pair costs */
    uint64_t expected_ns; /* when the helper thread will look at the latest; 0: often enough */
    bool peers_wake_us;
    struct dt_list contexts; /* the front's; under `lock` */
};

/* Called with the RNIC's lock held. */
struct dt_driver_callbacks {
    void (*event)(void *device, const struct dt_rnic_event *event);
    void (*notify)(void *device, struct dt_rnic_cq *cq);
};

/* See dt_soft_configure(). */
int dt_driver_configure(const struct dt_soft_options *options);
uint32_t dt_driver_device_count(void);
uint64_t dt_driver_rate_bytes_per_s(void);

/* This process's number on the `local` wire; the same for its whole life. */
uint64_t dt_driver_instance(void);

/* Opens device `index`, or adds one to its users. 0 or an errno. */
int dt_driver_open(uint32_t index, const struct dt_driver_callbacks *callbacks,
                   struct dt_soft_device **device);
void dt_driver_close(struct dt_soft_device *device);

/*
 * Finds an open device by name and takes its lock; NULL when there is none. To be given back with
 * dt_driver_unlock, after which the device may be gone.
 */
struct dt_soft_device *dt_driver_find(const char *name, uint64_t *now_ns);

/* Takes the RNIC's lock; returns the time. */
uint64_t dt_driver_lock(struct dt_soft_device *device);

/* Gives it back, after having told the helper thread about a deadline that it does not know. */
void dt_driver_unlock(struct dt_soft_device *device);

/* A verb on a queue pair of the device begins: what a real one spends in the kernel and the firmware. */
void dt_driver_charge(struct dt_soft_device *device);

/* The send queue's doorbell. */
void dt_driver_ring(struct dt_soft_device *device, struct dt_rnic_qp *qp);

/*
 * Steps the RNIC for somebody who polls; does nothing while somebody else is at it. With will_go_on the
 * helper thread relies on it being called again within DT_DRIVER_WATCH_NS.
 */
void dt_driver_poll(struct dt_soft_device *device, bool will_go_on);

/* The caller will sleep now, until a completion channel wakes it: the helper thread takes over at once. */
void dt_driver_leave(struct dt_soft_device *device);

/*
 * The sender's copy, or the kernel's, which has to look up every page: which is faster differs between
 * machines. Measured by the first call of a process's life, well under a millisecond; the driver's open lock
 * is held. (driver_copy.c)
 */
bool dt_driver_copies_are_faster(void);

#ifdef __cplusplus
}
#endif

#endif
