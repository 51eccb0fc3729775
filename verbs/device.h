/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One opened device: a context, a protection domain, its asynchronous events, and the cache of its memory
 * regions.
 *
 * Everything here may block in the kernel or the driver: call it from a control thread, never from NCCL's
 * progress thread. The exceptions are dt_device_next_event(), which never blocks, and the MR cache, which
 * NCCL uses on any thread. Any thread, unless a function says otherwise.
 */
#ifndef DETOUR_VERBS_DEVICE_H
#define DETOUR_VERBS_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_device;

/* Opens the device and port that *info (from dt_verbs_devices) names. Errors: one WARN, DT_NOT_FOUND or
 * DT_SYSTEM. */
enum dt_status dt_device_open(struct dt_verbs *verbs, const struct dt_device_info *info,
                              struct dt_device **device);

/*
 * Closes it. Regions that are still registered, which is a mistake of the caller's, are deregistered with one
 * WARN; their dt_mr pointers are dangling afterwards.
 */
void dt_device_close(struct dt_device *device);

/*
 * Looks at the port again, before queue pairs are made: LID, MTU, whether it needs a global header, and at
 * which index its GID is now (the same value first, else the best of the others). DT_AGAIN (silent): the port
 * has no link now; else (silent) it cannot be used. The control thread of the device.
 */
enum dt_status dt_device_refresh(struct dt_device *device);

/*
 * Was the device removed from the system since it was opened (also if another has its name now)? The kernel
 * takes a device out of sysfs when its driver gives it up, and by then it reaches no memory any more. False
 * if that cannot be seen. One system call; any thread.
 */
bool dt_device_is_removed(const struct dt_device *device);

/*
 * A device that was removed (dt_device_is_removed()) is back: opens it again, found by its node GUID, and
 * registers the memory of `old` with it. Every struct dt_mr stays valid and gets the new keys in place.
 *
 * `old` belongs to *device from then on. Its queue pairs and completion queues may still be destroyed, and it
 * answers for memory as *device does. Its context is closed by dt_device_close_old(), or with *device.
 *
 * DT_AGAIN (silent): it is not there, or is not removed. Else one WARN, and `old` is as before. May block;
 * the control thread of the device, while no other thread posts work on it.
 */
enum dt_status dt_device_reopen(struct dt_device *old, struct dt_device **device);

/*
 * Closes the contexts of before whose queue pairs and completion queues are all destroyed, and frees their
 * devices; the first device of all keeps answering for memory. Returns how many contexts of before are left.
 *
 * A removed device does not hang in that: Linux takes a device out of sysfs after it has ended the commands
 * under way and freed the objects of every context (ib_uverbs_remove_one() before device_del(), where the
 * driver has disassociate_ucontext, as mlx5 has). Afterwards each verb fails with EIO, which is why rdma-core
 * keeps the buffers of the queue pairs until the process ends, a few hundred KiB per path and removal. Its
 * RDMAV_ALLOW_DISASSOC_DESTROY frees them, but then no thread may wait for events while another one destroys,
 * as here. Read in the sources; not tried on hardware.
 *
 * The control thread of the device. Other threads may use the first device, for memory, and the newest.
 */
uint32_t dt_device_close_old(struct dt_device *device);

/* How often it was opened again before; keys of one generation are not known to another. */
uint32_t dt_device_generation(const struct dt_device *device);

/* ------------------------------------------------------------------------------------------------------------
 * Asynchronous events
 */
enum dt_event_type {
    DT_EVENT_PORT_ACTIVE,
    DT_EVENT_PORT_ERROR,
    DT_EVENT_GID_CHANGE, /* also LID and P_Key changes: addresses must be queried again */
    DT_EVENT_DEVICE_FATAL,
    DT_EVENT_CQ_ERROR, /* this CQ will not report anything more */
    DT_EVENT_QP_FATAL, /* this QP went to ERR without a completion */
    DT_EVENT_OTHER     /* nothing that needs an action */
};

struct dt_device_event {
    enum dt_event_type type;
    uint32_t port; /* PORT_* and GID_CHANGE */
    uint32_t qpn;  /* QP_FATAL */
    const void
        *user; /* CQ_ERROR, QP_FATAL: the `user` of that CQ or QP, for comparison only; it may be dangling */
    char name[48]; /* the library's name of the event */
};

/* Readable when an event waits. Do not read it, do not close it. */
int dt_device_event_fd(const struct dt_device *device);

/*
 * The next event, copied and acknowledged before this returns (an unacknowledged event blocks the destruction
 * of its QP or CQ for ever). DT_AGAIN when there is none. DT_SYSTEM, once and with one WARN, when the
 * device's events can no longer be read, as after its removal: treat it as fatal; there are none from then
 * on, and the descriptor above is not readable for them. One thread at a time.
 */
enum dt_status dt_device_next_event(struct dt_device *device, struct dt_device_event *event);

/* "PORT_ERROR" and so on; never NULL. */
const char *dt_event_type_text(enum dt_event_type type);

/* ------------------------------------------------------------------------------------------------------------
 * Memory regions. NCCL registers the same pool again and again, so a region is kept per protection domain and
 * shared: a registration is answered by any existing region that covers it with at least the same access.
 * Regions are rounded outwards to whole pages.
 */
enum dt_mr_access {
    DT_MR_LOCAL_WRITE = 1, /* needed to be the target of a receive or of a read */
    DT_MR_REMOTE_WRITE = 2,
    DT_MR_REMOTE_READ = 4,
    DT_MR_RELAXED_ORDERING = 8 /* a hint: ignored by devices that do not know it; for bulk data only */
};

/* Shared by all registrations that it covers; read only. */
struct dt_mr {
    uint64_t addr; /* first byte, page aligned */
    uint64_t bytes;
    uint32_t lkey; /* both change when the device is opened again [atomic] */
    uint32_t rkey;
};

/*
 * Registers [addr, addr + bytes) or takes one more reference to a region that covers it. DT_INVALID (one
 * WARN) when the range is empty or wraps around, DT_NOT_FOUND (one INFO, the first time) when the device was
 * removed and is not opened again, DT_SYSTEM (one WARN naming range and errno) when the device refuses.
 * Thread-safe.
 */
enum dt_status dt_mr_register(struct dt_device *device, void *addr, uint64_t bytes, uint32_t access,
                              struct dt_mr **mr);

/*
 * Registers `memory`, ordinary and whole pages, in the place of [addr, addr + bytes): work requests name it
 * by those addresses. Both begin at the same place of a page. DT_UNSUPPORTED (silent) when the library cannot
 * do it.
 */
enum dt_status dt_mr_register_for(struct dt_device *device, void *memory, void *addr, uint64_t bytes,
                                  uint32_t access, struct dt_mr **mr);

/*
 * The same for memory exported as a dma-buf: `fd` and the offset of its first byte in the file, `addr` the
 * address by which work requests name it. The caller may close `fd` on return. DT_UNSUPPORTED (silent) when
 * library or device cannot do it.
 */
enum dt_status dt_mr_register_dmabuf(struct dt_device *device, void *addr, uint64_t bytes, uint64_t offset,
                                     int fd, uint32_t access, struct dt_mr **mr);

/*
 * Gives one reference back. When it was the last, the device has forgotten the region when this returns: no
 * byte of it is read or written by the device any more. The caller's own work requests on it must have
 * completed, or their QPs have been failed (dt_qp_fail), before. DT_SYSTEM (one WARN) if the device refuses;
 * the reference is released all the same. Thread-safe.
 */
enum dt_status dt_mr_deregister(struct dt_device *device, struct dt_mr *mr);

#ifdef __cplusplus
}
#endif

#endif
