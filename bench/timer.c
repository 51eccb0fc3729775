/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How late a thread is that waits for a point in time: a plain absolute sleep, the same without the kernel's
 * timer slack, and Detour's timer (delay/timer.h), in turn, so that a busy moment of the machine hits all.
 *
 *   bench-timer [COUNT [DELAY_MS]]   COUNT waits of each kind (default 300), each DELAY_MS long (default 30)
 *
 * Prints one line each: lateness in microseconds at p50, p99 and at most, and the share of a processor that
 * was spun away. The first tenth of the waits is not counted: the timer calibrates itself.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/param.h"
#include "delay/timer.h"

#define SLACK_NS_DEFAULT 50000ul
#define COUNT_MAX        1000000u

enum kind { PLAIN, NO_SLACK, DETOUR, KINDS };
static const char *const kind_name[KINDS] = {"sleep", "sleep, no timer slack", "Detour's timer"};

static void sleep_until(uint64_t until_ns)
{
    struct timespec until = {(time_t)(until_ns / DT_NS_PER_S), (long)(until_ns % DT_NS_PER_S)};

    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static void wait_with_timer(struct dt_delay_timer *timer, uint64_t deadline_ns)
{
    uint64_t until_ns = dt_delay_timer_sleep_until_ns(timer, deadline_ns);
    uint64_t began_ns = dt_clock_now_ns();
    uint64_t woke_ns;

    sleep_until(until_ns);
    woke_ns = dt_clock_now_ns();
    dt_delay_timer_slept(timer, began_ns, until_ns, woke_ns);
    while (dt_clock_now_ns() < deadline_ns)
        dt_cpu_relax();
    dt_delay_timer_spun(timer, dt_clock_now_ns() - woke_ns);
}

/* Nanoseconds late. */
static uint64_t wait_once(enum kind kind, struct dt_delay_timer *timer, uint64_t delay_ns)
{
    uint64_t deadline_ns = dt_clock_now_ns() + delay_ns;

    prctl(PR_SET_TIMERSLACK, kind == PLAIN ? SLACK_NS_DEFAULT : 1ul);
    if (kind == DETOUR)
        wait_with_timer(timer, deadline_ns);
    else
        sleep_until(deadline_ns);
    return dt_clock_now_ns() - deadline_ns;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void print(enum kind kind, uint64_t *late_ns, uint64_t count, const struct dt_delay_timer *timer)
{
    uint64_t all_ns = timer->slept_ns + timer->spun_ns;

    qsort(late_ns, count, sizeof *late_ns, compare);
    printf("%-22s p50 %8.1f us  p99 %8.1f us  max %8.1f us  spun %.2f %%\n", kind_name[kind],
           (double)late_ns[count / 2] / 1e3, (double)late_ns[count * 99 / 100] / 1e3,
           (double)late_ns[count - 1] / 1e3,
           kind == DETOUR && all_ns ? 100.0 * (double)timer->spun_ns / (double)all_ns : 0.0);
}

static bool parse(const char *text, uint64_t max, uint64_t *value)
{
    if (dt_parse_number(text, false, value) == DT_OK && *value > 0 && *value <= max)
        return true;
    fprintf(stderr, "bench-timer: %s: expected a number from 1 to %llu\n", text, (unsigned long long)max);
    return false;
}

int main(int argc, char **argv)
{
    struct dt_delay_timer timer;
    uint64_t *late_ns[KINDS];
    uint64_t count = 300, delay_ms = 30, skipped;

    if ((argc > 1 && !parse(argv[1], COUNT_MAX, &count)) || (argc > 2 && !parse(argv[2], 10000, &delay_ms)))
        return 2;
    skipped = count / 10;
    dt_delay_timer_init(&timer);
    for (int kind = 0; kind < KINDS; kind++) {
        late_ns[kind] = calloc(count, sizeof *late_ns[kind]);
        if (!late_ns[kind])
            return 1;
    }
    for (uint64_t i = 0; i < count; i++) {
        for (int kind = 0; kind < KINDS; kind++)
            late_ns[kind][i] = wait_once((enum kind)kind, &timer, delay_ms * DT_NS_PER_MS);
    }
    for (int kind = 0; kind < KINDS; kind++) {
        print((enum kind)kind, late_ns[kind] + skipped, count - skipped, &timer);
        free(late_ns[kind]);
    }
    return 0;
}
