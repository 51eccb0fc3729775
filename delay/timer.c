/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/timer.h"

#include "base/atomics.h"
#include "base/check.h"

/* Until the first measurement. */
#define MARGIN_NS_FIRST (150 * DT_NS_PER_US)
/* Added to the observed lateness, so that an ordinary wake-up is not late. */
#define MARGIN_NS_EXTRA (10 * DT_NS_PER_US)

void dt_delay_timer_init(struct dt_delay_timer *timer)
{
    *timer = (struct dt_delay_timer){.margin_ns = MARGIN_NS_FIRST};
}

uint64_t dt_delay_timer_sleep_until_ns(const struct dt_delay_timer *timer, uint64_t deadline_ns)
{
    return deadline_ns > timer->margin_ns ? deadline_ns - timer->margin_ns : 0;
}

/*
 * The margin rises quickly with late wake-ups and decays slowly, so it settles slightly above nearly all
 * observations, which determines the last percent.
 */
void dt_delay_timer_slept(struct dt_delay_timer *timer, uint64_t began_ns, uint64_t until_ns, uint64_t now_ns)
{
    uint64_t late_ns = now_ns > until_ns ? now_ns - until_ns : 0;
    uint64_t wanted_ns = dt_earlier_ns(late_ns + MARGIN_NS_EXTRA, DT_DELAY_SPIN_NS_MAX);

    uint64_t margin_ns = timer->margin_ns;

    if (wanted_ns > margin_ns)
        margin_ns += (wanted_ns - margin_ns + 1) / 2;
    else
        margin_ns -= (margin_ns - wanted_ns) / 64;
    DT_CHECK(margin_ns <= DT_DELAY_SPIN_NS_MAX);
    dt_store_relaxed(&timer->margin_ns, margin_ns);
    dt_store_relaxed(&timer->slept_ns, timer->slept_ns + (now_ns > began_ns ? now_ns - began_ns : 0));
}

void dt_delay_timer_spun(struct dt_delay_timer *timer, uint64_t spun_ns)
{
    dt_store_relaxed(&timer->waits, timer->waits + 1);
    dt_store_relaxed(&timer->spun_ns, timer->spun_ns + spun_ns);
}
