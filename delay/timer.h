/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking up more precisely than the kernel's timers. A sleeping thread wakes up late by an amount that
 * depends on the machine and its load. So the thread sleeps until the deadline minus the observed lateness
 * and spins for the rest, at most DT_DELAY_SPIN_NS_MAX. This is only the arithmetic; the owner of the thread
 * sleeps, spins and reads the clock. One thread; others may read the numbers atomically.
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
    uint64_t margin_ns; /* wake up this long before a deadline */
    uint64_t waits;     /* completed waits */
    uint64_t slept_ns;  /* sum over all waits */
    uint64_t spun_ns;
};

void dt_delay_timer_init(struct dt_delay_timer *timer);

/* When the sleep for this deadline must end; a time in the past: do not sleep. */
uint64_t dt_delay_timer_sleep_until_ns(const struct dt_delay_timer *timer, uint64_t deadline_ns);

/*
 * A sleep from `began_ns`, planned until `until_ns`, ended at `now_ns`. Not for sleeps that an event ended
 * early.
 */
void dt_delay_timer_slept(struct dt_delay_timer *timer, uint64_t began_ns, uint64_t until_ns,
                          uint64_t now_ns);

/* The spin after the sleep took this long; the wait is complete. */
void dt_delay_timer_spun(struct dt_delay_timer *timer, uint64_t spun_ns);

#ifdef __cplusplus
}
#endif

#endif
