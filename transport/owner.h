/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One owner at a time. A connection belongs to NCCL's progress thread, unless Detour's thread has taken it;
 * only the owner touches its slots, queue pairs and completion queues, on all paths.
 *
 * NCCL's thread may sleep for as long as it likes, so Detour cannot ask for the connection: it takes it, and
 * must then be sure that NCCL is not inside. NCCL's side, which is the data path, is two plain stores and a
 * load per call and never waits:
 *
 *   NCCL's thread                               Detour's thread
 *   visits = odd          (1)                   holder: NCCL -> DETOUR  (exchange)
 *   holder == NCCL?       (2)  else go away     heavy fence
 *   ... inside ...                              visits odd?  give back, try again later
 *   visits = even, release                      ... inside ...
 *                                               holder = NCCL, release
 *
 * This is sound if (1) is visible before (2) is read, at the latest when Detour has passed its heavy fence.
 * Linux gives that fence to the side that is seldom used: membarrier(2) makes every running thread of the
 * process pass a full barrier. Where the kernel has no membarrier (dt_owner_setup says false), (1) is an
 * atomic exchange and (2) its partner, sequentially consistent both.
 *
 * `visits` also tells Detour whether NCCL called at all since it last looked.
 */
#ifndef DETOUR_TRANSPORT_OWNER_H
#define DETOUR_TRANSPORT_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomics.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_holder { DT_HOLDER_NCCL, DT_HOLDER_DETOUR };

struct dt_owner {
    uint32_t holder;  /* enum dt_holder; changed by Detour's thread alone */
    uint32_t visits;  /* odd: NCCL's thread is inside; changed by NCCL's thread alone */
    bool is_exchange; /* the kernel has no membarrier; constant */
};

/*
 * Registers the process for membarrier. True when that works; false: use owners with is_exchange. Repeating
 * it is harmless. Any thread.
 */
bool dt_owner_setup(void);

static inline void dt_owner_init(struct dt_owner *owner, bool has_membarrier)
{
    owner->holder = DT_HOLDER_NCCL;
    owner->visits = 0;
    owner->is_exchange = !has_membarrier;
}

/* NCCL's thread: may I? True: call dt_owner_leave() at the end. False: answer "not now". */
static inline bool dt_owner_enter(struct dt_owner *owner)
{
    uint32_t visits = owner->visits;

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
    dt_store_release(&owner->visits, owner->visits + 1);
}

/*
 * Detour's thread: takes the connection if NCCL is not inside, or is out again in a moment. False: it is; try
 * again later. One system call.
 */
bool dt_owner_take(struct dt_owner *owner);

/*
 * The same in three steps, so that many connections share the system call: claim each, dt_owner_fence() once,
 * then confirm each. NCCL's calls are turned away from the first step on. The fence is for owners without
 * is_exchange, harmless for others.
 */
void dt_owner_claim(struct dt_owner *owner);
void dt_owner_fence(bool has_membarrier);
bool dt_owner_confirm(struct dt_owner *owner); /* false: as above; NCCL has it back */

/* Detour's thread, after dt_owner_take() or dt_owner_confirm(). */
static inline void dt_owner_give_back(struct dt_owner *owner)
{
    dt_store_release(&owner->holder, DT_HOLDER_NCCL);
}

/* Detour's thread: a number that changes whenever NCCL calls. */
static inline uint32_t dt_owner_visits(const struct dt_owner *owner)
{
    return dt_load_relaxed(&owner->visits);
}

#ifdef __cplusplus
}
#endif

#endif
