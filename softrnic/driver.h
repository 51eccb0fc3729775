/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the software RNICs of a process: the clock, one lock per RNIC, and one helper thread.
 *
 * A thread that posts or polls steps the RNIC itself, so that two ends that poll need no other thread and no
 * system call. The helper thread serves timers and arrivals of RNICs that are not polled; it sleeps in the
 * kernel until a deadline, a peer's wake-up, or a kick from this process. For a polled RNIC it only checks,
 * every DT_DRIVER_WATCH_NS, that polling continues; peers then do not wake it, unless their packets stay
 * unread: an application that polls for a completion or posts a request, and then watches memory, has stopped
 * polling.
 *
 * Every step of an engine, with its copies, runs under its RNIC's lock and is bounded. A thread that changes
 * something under the lock (a queue pair to ERR, a region deregistered) is therefore certain that no copy
 * under the old rules is running once it holds the lock.
 *
 * Locks, outermost first: the driver's open lock, the helper's lock, an RNIC's lock, then the leaf locks
 * (local_host.h's, and the front's event queues). The functions here take the locks that they need.
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
#define DT_DRIVER_PATIENCE_NS 5000ull /* a thread that polls in vain for longer yields the CPU */
#define DT_DRIVER_YIELD_NS    5000ull /* at most this often, for any number of polled queues */
#define DT_DRIVER_NUDGE_NS                                                          \
    20000ull /* and at this interval looks for peers that sleep with unread packets \
              */

/* One RNIC of this process, from its first open to its last close. */
struct dt_soft_device {
    uint32_t index;
    char name[16];
    uint32_t open_count;  /* under the driver's open lock */
    pthread_mutex_t lock; /* the RNIC's lock: the members below, the engine, the wire and the faults */
    struct dt_rnic *rnic;
    struct dt_local_wire *wire;
    struct dt_faults *faults;
    uint64_t polled_ns;   /* time of the last poll [atomic] */
    uint64_t arrived_ns;  /* time of the last poll that found a packet */
    uint64_t yielded_ns;  /* time of the last yield [atomic] */
    uint64_t nudged_ns;   /* time of the last search for sleeping peers */
    uint64_t verbs_ns;    /* duration of each verb on a queue pair [atomic] */
    uint64_t expected_ns; /* latest time of the helper thread's next step; 0: soon enough */
    bool peers_wake_us;
    bool is_back;            /* it died, and the next open makes a new one in its place */
    struct dt_list contexts; /* the front's; under `lock` */
    struct dt_list node;     /* in the driver's `replaced`, once that has happened; under the helper's lock */
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

/* Not while it is dead and its successor has not been plugged in: then the device list does not have it. */
bool dt_driver_is_present(uint32_t index);

/* This process's instance number on the `local` wire; constant for its lifetime. */
uint64_t dt_driver_instance(void);

/*
 * Opens device `index`, or takes one more reference to it, or, if it has died and was plugged in again, makes
 * a new one with the same name, GUID and GID; users of the old one keep that. 0 or an errno.
 */
int dt_driver_open(uint32_t index, const struct dt_driver_callbacks *callbacks,
                   struct dt_soft_device **device);
void dt_driver_close(struct dt_soft_device *device);

/*
 * Finds an open device by name and takes its lock; NULL when there is none. Release it with dt_driver_unlock,
 * after which the device may have been closed.
 */
struct dt_soft_device *dt_driver_find(const char *name, uint64_t *now_ns);

/* Takes the RNIC's lock; returns the time. */
uint64_t dt_driver_lock(struct dt_soft_device *device);

/* Releases the lock; wakes the helper thread if it does not know the next deadline. */
void dt_driver_unlock(struct dt_soft_device *device);

/* Spends the configured duration of a verb on a queue pair, as a real device does in the kernel and the
 * firmware. */
void dt_driver_charge(struct dt_soft_device *device);

/* The send queue's doorbell. */
void dt_driver_ring(struct dt_soft_device *device, struct dt_rnic_qp *qp);

/*
 * Steps the RNIC on behalf of a polling thread; does nothing while another thread steps it. With will_go_on
 * the helper thread relies on another call within DT_DRIVER_WATCH_NS.
 */
void dt_driver_poll(struct dt_soft_device *device, bool will_go_on);

/* The caller is about to sleep on a completion channel: the helper thread takes over at once. */
void dt_driver_leave(struct dt_soft_device *device);

/*
 * Is a segment faster with two copies through shared memory than with one by the kernel, which looks up every
 * page? The answer differs between machines. Measured by the first call in a process, in well under a
 * millisecond; the driver's open lock is held. (driver_copy.c)
 */
bool dt_driver_copies_are_faster(void);

#ifdef __cplusplus
}
#endif

#endif
