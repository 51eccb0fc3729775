/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registrations that must not delay their caller: of memory on the device of a backup path, whose driver may
 * hang. Each is a task of that device's control thread (transport/path/executor.h). The caller waits for a
 * limited time. A registration that is late goes on, and adds its region to the memory when it is done,
 * unless the memory was deregistered in the meantime: then the task gives the region back.
 *
 * A device with late tasks (dt_nic.late_tasks) is not waited for at all. One that is dead is not asked at
 * all: the registration is held until the device is back, however long, and again if the device is gone
 * once more before the registration runs. Nothing here is used on the data path, which reads
 * dt_memory.path_mask.
 *
 * Threads: dt_registration_start(), _wait() and _abandon() on NCCL's service thread; the task on the control
 * thread of its device.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_REGISTRATION_H
#define DETOUR_TRANSPORT_MESSAGE_REGISTRATION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "transport/message/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_nic;

/* X(state, text) */
#define DT_REGISTRATION_STATES(X)                                      \
    X(BUSY, "the caller waits for it")                                 \
    X(DONE, "it ended in time; the caller takes the result")           \
    X(LATE, "the caller has left; the region is added to the memory")  \
    X(ABANDONED, "the memory was deregistered; the region is dropped") \
    X(ENDED, "late, and the region was added or refused")

enum dt_registration_state {
#define DT_REGISTRATION_ENUM(state, text) DT_REGISTRATION_##state,
    DT_REGISTRATION_STATES(DT_REGISTRATION_ENUM)
#undef DT_REGISTRATION_ENUM
};

struct dt_registration;

/*
 * Submits the registration of `memory` on the device of path `p`. The descriptor of a dma-buf is duplicated.
 * NULL: out of memory or descriptors, and nothing was submitted. The result belongs to the caller until
 * dt_registration_wait().
 */
struct dt_registration *dt_registration_start(struct dt_nic *nic, const struct dt_memory_source *from,
                                              struct dt_memory *memory, uint32_t p);

/*
 * Waits `timeout_ns` at most, on a condition variable. True: it ended; *status is the device's answer, *mr
 * the region, and the registration is freed. False: it is late. It belongs to the memory from now on, which
 * names it in `late` and in `late_mask` and must be given to dt_registration_abandon() before it is freed.
 */
bool dt_registration_wait(struct dt_registration *registration, uint64_t timeout_ns, enum dt_status *status,
                          struct dt_mr **mr);

/*
 * Registers `memory` once the dead device of path `p` is back (dt_nic_hold()): late from the beginning, and
 * in `late` and `late_mask` of the memory. False: as NULL of dt_registration_start().
 */
bool dt_registration_hold(struct dt_nic *nic, const struct dt_memory_source *from, struct dt_memory *memory,
                          uint32_t p);

/* The memory is deregistered. When this returns, the task no longer refers to the memory. */
void dt_registration_abandon(struct dt_registration *registration);

/*
 * Deregisters a region on the device's control thread, and waits for it `timeout_ns` at most. The driver
 * may hold the region longer than that; no request refers to it any more. Out of memory: on this thread.
 */
void dt_deregistration_run(struct dt_nic *nic, struct dt_mr *mr, uint64_t timeout_ns);

#ifdef __cplusplus
}
#endif

#endif
