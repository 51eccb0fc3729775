/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking at a point in time more exactly than the kernel's timers do. A sleeping thread wakes late, by an
 * amount that depends on the machine and on what it does; so one sleeps until the deadline less the lateness
 * that was seen before, and spins the rest, DT_DELAY_SPIN_NS_MAX at most. This is the arithmetic; whoever
 * owns the thread sleeps, spins and reads the clock. One thread; others may read the numbers atomically.
 */
#ifndef DETOUR_DELAY_TIMER_H
#define DETOUR_DELAY_TIMER_H

#include <stdint.h>

#include "base/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_SPIN_NS_MAX (200 * DT_NS_PER_US)

struct dt_delay_timer {
    uint64_t margin_ns; /* wake this much before a deadline */
    uint64_t waits;     /* deadlines that were waited for */
    uint64_t slept_ns;  /* of all waits */
    uint64_t spun_ns;
};

void dt_delay_timer_init(struct dt_delay_timer *timer);

/* When the sleep for this deadline must end; not after now_ns: do not sleep. */
uint64_t dt_delay_timer_sleep_until_ns(const struct dt_delay_timer *timer, uint64_t deadline_ns);

/*
 * A sleep that began at `began_ns` and should have ended at `until_ns` ended at `now_ns`. Not for sleeps that
 * something else than the timer ended.
 */
void dt_delay_timer_slept(struct dt_delay_timer *timer, uint64_t began_ns, uint64_t until_ns,
                          uint64_t now_ns);

/* The spin that followed took this long, and the wait is over. */
void dt_delay_timer_spun(struct dt_delay_timer *timer, uint64_t spun_ns);

#ifdef __cplusplus
}
#endif

#endif
