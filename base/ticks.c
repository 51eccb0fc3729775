/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ticks.h"

#include "base/clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define TRIES 8 /* the clock is read between two readings of the counter; the closest pair counts */
#define ONE   (1ull << 32)

void dt_ticks_init_virtual(struct dt_ticks *ticks, uint64_t (*now_ns)(void *arg), void *now_arg)
{
    *ticks = (struct dt_ticks){.now_ns = now_ns, .now_arg = now_arg, .scale = ONE};
}

static uint64_t clock_now_ns(void *arg)
{
    (void)arg;
    return dt_clock_now_ns();
}

/* "Invariant TSC" (AMD64 Architecture Programmer's Manual, volume 3, E.4.8). Arm's counter always is. */
static bool is_counter_steady(void)
{
#if defined(__x86_64__)
    unsigned a, b, c, d;

    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && d & 1u << 8;
#else
    return DT_TICKS_COUNTER;
#endif
}

/* Counter and clock at the same time, as closely as possible. */
static void read_both(uint64_t *count, uint64_t *ns)
{
    uint64_t best = UINT64_MAX;

    *count = *ns = 0;
    for (int i = 0; i < TRIES; i++) {
        uint64_t before = dt_ticks_counter();
        uint64_t now_ns = dt_clock_now_ns();
        uint64_t after = dt_ticks_counter();

        if (after - before >= best)
            continue;
        best = after - before;
        *count = before + best / 2;
        *ns = now_ns;
    }
}

void dt_ticks_init(struct dt_ticks *ticks)
{
    dt_ticks_init_virtual(ticks, clock_now_ns, 0);
    if (!is_counter_steady())
        return;
    read_both(&ticks->base_ticks, &ticks->base_ns);
    ticks->now_ns = 0;
    ticks->scale = ONE / 2; /* until the first calibration: a processor of 2 GHz */
}

void dt_ticks_calibrate(struct dt_ticks *ticks)
{
    uint64_t count, ns;

    if (ticks->now_ns)
        return;
    read_both(&count, &ns);
    if (count <= ticks->base_ticks || ns <= ticks->base_ns)
        return;
    dt_store_relaxed(&ticks->scale, (uint64_t)(((unsigned __int128)(ns - ticks->base_ns) << 32) /
                                               (count - ticks->base_ticks)));
}
