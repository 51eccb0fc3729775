/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection has one owner at a time: NCCL's progress thread, or the device thread after it has taken the
 * connection. Only the owner accesses its slots, queue pairs and completion queues, on all paths.
 *
 * NCCL's thread may not call for an unlimited time, so the device thread cannot request the connection: it
 * takes it and then verifies that no call of NCCL is in progress. NCCL's side, which is the data path, is two
 * plain stores and a load per call and never waits:
 *
 *   NCCL's thread                               device thread
 *   visits = odd          (1)                   holder: NCCL -> DETOUR  (exchange)
 *   holder == NCCL?       (2)  else leave       heavy fence
 *   ... inside ...                              visits odd?  give back, try again later
 *   visits = even, release                      ... inside ...
 *                                               holder = NCCL, release
 *
 * This is correct if (1) is visible before (2) is read, at the latest after the device thread's heavy fence.
 * Linux offers such a fence for the side that runs rarely: membarrier(2) makes every running thread of the
 * process execute a full barrier. Without membarrier (dt_owner_setup() returned false), (1) is an atomic
 * exchange and (2) a load, both sequentially consistent.
 *
 * `visits` also shows the device thread whether NCCL has called since it last read the number.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_OWNER_H
#define DETOUR_TRANSPORT_MESSAGE_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"
#include "base/check.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_holder { DT_HOLDER_NCCL, DT_HOLDER_DETOUR };

struct dt_owner {
    uint32_t holder;  /* enum dt_holder; written by the device thread only */
    uint32_t visits;  /* odd: a call of NCCL is in progress; written by NCCL's thread only */
    bool is_exchange; /* the kernel has no membarrier; constant */
};

/*
 * Registers the process for membarrier. False: not available, use owners with is_exchange. Repeated calls are
 * harmless. Any thread.
 */
bool dt_owner_setup(void);

static inline void dt_owner_init(struct dt_owner *owner, bool has_membarrier)
{
    owner->holder = DT_HOLDER_NCCL;
    owner->visits = 0;
    owner->is_exchange = !has_membarrier;
}

/* NCCL's thread, at the beginning of a call. True: call dt_owner_leave() at the end. False: the connection is
 * taken; NCCL has to call again. */
static inline bool dt_owner_enter(struct dt_owner *owner)
{
    uint32_t visits = owner->visits;

    DT_CHECK_HOT(!(visits & 1)); /* calls do not nest */
    if (__builtin_expect(owner->is_exchange, 0)) {
        __atomic_exchange_n(&owner->visits, visits + 1, __ATOMIC_SEQ_CST);
        if (dt_load_seq_cst(&owner->holder) == DT_HOLDER_NCCL)
            return true;
    } else {
        dt_store_relaxed(&owner->visits, visits + 1);
        __asm__ volatile("" ::: "memory"); /* the compiler keeps the order; membarrier orders the processor */
        if (__builtin_expect(dt_load_acquire(&owner->holder) == DT_HOLDER_NCCL, 1))
            return true;
    }
    dt_store_release(&owner->visits, visits + 2);
    return false;
}

static inline void dt_owner_leave(struct dt_owner *owner)
{
    DT_CHECK_HOT(owner->visits & 1);
    dt_store_release(&owner->visits, owner->visits + 1);
}

/*
 * Device thread: takes the connection unless a call of NCCL is in progress and does not end within some tens
 * of microseconds. False: it did not end; try again later. One system call.
 */
bool dt_owner_take(struct dt_owner *owner);

/*
 * dt_owner_take() in three steps, so that many connections share the system call: claim each, call
 * dt_owner_fence() once, then confirm each. NCCL's calls are refused from the claim on. The fence is required
 * for owners without is_exchange and harmless for others.
 */
void dt_owner_claim(struct dt_owner *owner);
void dt_owner_fence(bool has_membarrier);
bool dt_owner_confirm(struct dt_owner *owner); /* false: a call is in progress; the claim is given back */

/* Device thread, after dt_owner_take() or dt_owner_confirm() has returned true. */
static inline void dt_owner_give_back(struct dt_owner *owner)
{
    DT_CHECK(owner->holder == DT_HOLDER_DETOUR);
    dt_store_release(&owner->holder, DT_HOLDER_NCCL);
}

/* Device thread: a number that changes with each call of NCCL. */
static inline uint32_t dt_owner_visits(const struct dt_owner *owner)
{
    return dt_load_relaxed(&owner->visits);
}

#ifdef __cplusplus
}
#endif

#endif
