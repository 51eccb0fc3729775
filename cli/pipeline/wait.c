/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/wait.h"

#include <time.h>

#include "base/clock.h"

static void sleep_until(uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / DT_NS_PER_S),
                                   .tv_nsec = (long)(until_ns % DT_NS_PER_S)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

void dt_pipeline_wait(struct dt_delay_timer *timer, uint64_t due_ns, uint64_t now_ns)
{
    uint64_t poll_ns = now_ns + DT_PIPELINE_POLL_US * DT_NS_PER_US;

    if (due_ns > poll_ns) {
        sleep_until(poll_ns);
        return;
    }
    uint64_t until_ns = dt_delay_timer_sleep_until_ns(timer, due_ns);
    if (until_ns > now_ns) {
        sleep_until(until_ns);
        dt_delay_timer_slept(timer, now_ns, until_ns, dt_clock_now_ns());
    }
    uint64_t began_ns = dt_clock_now_ns(), at_ns = began_ns;
    while (at_ns < due_ns)
        at_ns = dt_clock_now_ns();
    dt_delay_timer_spun(timer, at_ns - began_ns);
}
