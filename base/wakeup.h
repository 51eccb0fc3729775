/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakes one thread that waits for work: what was posted before or during its wait ends the wait at once, and
 * several posts are one. A futex, because a semaphore that waits by the monotonic clock (sem_clockwait) needs
 * glibc 2.30. Zero is the initial state; nothing has to be closed.
 */
#ifndef DETOUR_BASE_WAKEUP_H
#define DETOUR_BASE_WAKEUP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_wakeup {
    uint32_t state; /* [atomic] */
};

/* Any thread; a system call only while the other thread sleeps. */
void dt_wakeup_post(struct dt_wakeup *wakeup);

/* The one thread: returns after a post since the last return, or at until_ns of dt_clock_now_ns()
 * (DT_NEVER_NS: no end). */
void dt_wakeup_wait(struct dt_wakeup *wakeup, uint64_t until_ns);

#ifdef __cplusplus
}
#endif

#endif
