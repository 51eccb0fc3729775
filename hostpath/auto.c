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
#define LEARN_SHIFT 3 /* an eighth of the difference at a time */

/* Before anything is known: 3 ms and half a gigabyte a second. */
#define GUESS_NS          (3 * DT_NS_PER_MS)
#define GUESS_NS_PER_BYTE 2

void dt_auto_init(struct dt_auto *a)
{
    memset(a, 0, sizeof *a);
    a->hold_ns = HOLD_NS;
}

static unsigned class_of(uint64_t bytes)
{
    unsigned i = bytes <= 1 ? 0 : 63 - (unsigned)__builtin_clzll(bytes);

    return i < DT_AUTO_CLASSES ? i : DT_AUTO_CLASSES - 1;
}

/* From the next smaller class that is known, in proportion; else from the next larger one, as it is. */
uint64_t dt_auto_usual_ns(const struct dt_auto *a, uint64_t bytes)
{
    unsigned own = class_of(bytes);

    for (unsigned i = own + 1; i-- > 0;) {
        if (a->usual_ns[i])
            return a->usual_ns[i] << (own - i > 20 ? 20 : own - i);
    }
    for (unsigned i = own + 1; i < DT_AUTO_CLASSES; i++) {
        if (a->usual_ns[i])
            return a->usual_ns[i];
    }
    return GUESS_NS + bytes * GUESS_NS_PER_BYTE;
}

static void learn(struct dt_auto *a, uint64_t bytes, uint64_t service_ns)
{
    uint64_t *usual_ns = &a->usual_ns[class_of(bytes)];

    if (*usual_ns == 0)
        *usual_ns = dt_max_u64(service_ns, 1);
    else if (service_ns > *usual_ns)
        *usual_ns += (service_ns - *usual_ns) >> LEARN_SHIFT;
    else
        *usual_ns -= (*usual_ns - dt_max_u64(service_ns, 1)) >> LEARN_SHIFT;
}

static void turn_on(struct dt_auto *a, uint64_t now_ns)
{
    bool is_soon = a->off_ns > 0 && now_ns - a->off_ns < 10 * a->hold_ns;

    a->hold_ns = is_soon ? dt_min_u64(2 * a->hold_ns, HOLD_NS_MAX) : HOLD_NS;
    a->is_on = true;
}

bool dt_auto_message(struct dt_auto *a, uint64_t bytes, uint64_t service_ns, uint64_t now_ns)
{
    uint64_t usual_ns = dt_auto_usual_ns(a, bytes);
    uint64_t more_ns = service_ns > usual_ns ? service_ns - usual_ns : 0;
    bool is_slow = more_ns >= usual_ns / 2 && more_ns >= SLOW_NS;
    bool is_fast = more_ns <= usual_ns / 4 || more_ns < FAST_NS;
    bool was_on = a->is_on;

    a->slow_run = is_slow ? a->slow_run + 1 : 0;
    a->fast_run = is_fast ? a->fast_run + 1 : 0;
    if (a->slow_run >= SLOW_RUN)
        a->slow_ns = now_ns;
    if (!is_slow)
        learn(a, bytes, service_ns);
    if (!a->is_on && a->slow_run >= SLOW_RUN) {
        turn_on(a, now_ns);
    } else if (a->is_on && a->fast_run >= FAST_RUN && now_ns - a->slow_ns >= a->hold_ns) {
        a->is_on = false;
        a->off_ns = now_ns;
    }
    return a->is_on != was_on;
}
