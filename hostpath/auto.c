/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/auto.h"

#include <string.h>

#include "base/clock.h"
#include "base/util.h"

#define SLOW_RUN    3
#define FAST_RUN    16
#define SLOW_NS     (2 * DT_NS_PER_MS)
#define FAST_NS     (1 * DT_NS_PER_MS)
#define HOLD_NS     (500 * DT_NS_PER_MS)
#define HOLD_NS_MAX (60 * DT_NS_PER_S)

/* Assumed before anything has been learned. */
#define ASSUMED_NS          (3 * DT_NS_PER_MS)
#define ASSUMED_NS_PER_BYTE 2

static const struct dt_baseline_rule baseline_rule = {.known_messages = 1, .shift = 3};

void dt_auto_init(struct dt_auto *a)
{
    memset(a, 0, sizeof *a);
    dt_baseline_init(&a->baseline, &baseline_rule);
    a->hold_ns = HOLD_NS;
}

uint64_t dt_auto_healthy_ns(const struct dt_auto *a, uint64_t bytes)
{
    uint64_t healthy_ns = dt_baseline_ns(&a->baseline, bytes);

    if (healthy_ns == 0)
        healthy_ns = dt_baseline_above_ns(&a->baseline, bytes);
    return healthy_ns > 0 ? healthy_ns : ASSUMED_NS + bytes * ASSUMED_NS_PER_BYTE;
}

static void turn_on(struct dt_auto *a, uint64_t now_ns)
{
    bool is_soon = a->off_ns > 0 && now_ns - a->off_ns < 10 * a->hold_ns;

    a->hold_ns = is_soon ? dt_min_u64(2 * a->hold_ns, HOLD_NS_MAX) : HOLD_NS;
    a->is_on = true;
}

bool dt_auto_message(struct dt_auto *a, uint64_t bytes, uint64_t service_ns, uint64_t now_ns)
{
    uint64_t healthy_ns = dt_auto_healthy_ns(a, bytes);
    uint64_t more_ns = service_ns > healthy_ns ? service_ns - healthy_ns : 0;
    bool is_slow = more_ns >= healthy_ns / 2 && more_ns >= SLOW_NS;
    bool is_fast = more_ns <= healthy_ns / 4 || more_ns < FAST_NS;
    bool was_on = a->is_on;

    a->slow_run = is_slow ? a->slow_run + 1 : 0;
    a->fast_run = is_fast ? a->fast_run + 1 : 0;
    if (a->slow_run >= SLOW_RUN)
        a->slow_ns = now_ns;
    if (!is_slow)
        dt_baseline_learn(&a->baseline, bytes, service_ns);
    if (!a->is_on && a->slow_run >= SLOW_RUN) {
        turn_on(a, now_ns);
    } else if (a->is_on && a->fast_run >= FAST_RUN && now_ns - a->slow_ns >= a->hold_ns) {
        a->is_on = false;
        a->off_ns = now_ns;
    }
    return a->is_on != was_on;
}
