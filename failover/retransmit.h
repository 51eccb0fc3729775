/* SPDX-License-Identifier: Apache-2.0 */
/* A retransmission timer with exponential backoff: 5 ms, doubling up to 200 ms, until the answer arrives. */
#ifndef DETOUR_FAILOVER_RETRANSMIT_H
#define DETOUR_FAILOVER_RETRANSMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RETRANSMIT_NS_FIRST (5 * DT_NS_PER_MS)
#define DT_RETRANSMIT_NS_MAX   (200 * DT_NS_PER_MS)

struct dt_retransmit {
    uint64_t next_ns; /* DT_NEVER_NS: stopped */
    uint64_t delay_ns;
};

static inline void dt_retransmit_stop(struct dt_retransmit *repeat)
{
    repeat->next_ns = DT_NEVER_NS;
}

/* The message is sent now for the first time. */
static inline void dt_retransmit_start(struct dt_retransmit *repeat, uint64_t now_ns)
{
    repeat->delay_ns = DT_RETRANSMIT_NS_FIRST;
    repeat->next_ns = dt_deadline_ns(now_ns, repeat->delay_ns);
}

/* The message may be lost (its channel was): due at once, with the backoff reset. No effect when stopped. */
static inline void dt_retransmit_now(struct dt_retransmit *repeat, uint64_t now_ns)
{
    if (repeat->next_ns == DT_NEVER_NS)
        return;
    repeat->delay_ns = DT_RETRANSMIT_NS_FIRST;
    repeat->next_ns = now_ns;
}

/* True: send the message again now; the next time is set. */
static inline bool dt_retransmit_due(struct dt_retransmit *repeat, uint64_t now_ns)
{
    if (repeat->next_ns == DT_NEVER_NS || now_ns < repeat->next_ns)
        return false;
    repeat->delay_ns = dt_earlier_ns(2 * repeat->delay_ns, DT_RETRANSMIT_NS_MAX);
    repeat->next_ns = dt_deadline_ns(now_ns, repeat->delay_ns);
    return true;
}

#ifdef __cplusplus
}
#endif

#endif
