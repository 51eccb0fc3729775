/* SPDX-License-Identifier: Apache-2.0 */
/* When to say something again that has not been answered: later and later, up to a limit, for ever. */
#ifndef DETOUR_FAILOVER_REPEAT_H
#define DETOUR_FAILOVER_REPEAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_REPEAT_NS_FIRST (5 * DT_NS_PER_MS)
#define DT_REPEAT_NS_MAX   (200 * DT_NS_PER_MS)

struct dt_repeat {
    uint64_t next_ns; /* DT_NEVER_NS: nothing is repeated */
    uint64_t delay_ns;
};

static inline void dt_repeat_stop(struct dt_repeat *repeat)
{
    repeat->next_ns = DT_NEVER_NS;
}

/* It is being said now for the first time. */
static inline void dt_repeat_start(struct dt_repeat *repeat, uint64_t now_ns)
{
    repeat->delay_ns = DT_REPEAT_NS_FIRST;
    repeat->next_ns = dt_deadline_ns(now_ns, repeat->delay_ns);
}

/* What was said may be lost: once more, now, and soon again. Nothing that is not repeated. */
static inline void dt_repeat_now(struct dt_repeat *repeat, uint64_t now_ns)
{
    if (repeat->next_ns == DT_NEVER_NS)
        return;
    repeat->delay_ns = DT_REPEAT_NS_FIRST;
    repeat->next_ns = now_ns;
}

/* True: say it again now; the next time is set. */
static inline bool dt_repeat_due(struct dt_repeat *repeat, uint64_t now_ns)
{
    if (repeat->next_ns == DT_NEVER_NS || now_ns < repeat->next_ns)
        return false;
    repeat->delay_ns = dt_earlier_ns(2 * repeat->delay_ns, DT_REPEAT_NS_MAX);
    repeat->next_ns = dt_deadline_ns(now_ns, repeat->delay_ns);
    return true;
}

#ifdef __cplusplus
}
#endif

#endif
