/* SPDX-License-Identifier: Apache-2.0 */
/*
 * List scheduling without idling: whenever a device is free it starts the best operation that is ready. The
 * order of preference is F, B, W during warm-up and B, F, W afterwards; among equals the oldest microbatch,
 * then the later stage. Algorithms 3 and 4 of ADAPTRA with exact events in place of time steps.
 */
#ifndef DETOUR_SCHED_DISPATCH_H
#define DETOUR_SCHED_DISPATCH_H

#include "sched/timeline.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_dispatch_rule {
    const int32_t *warmup; /* [stage]: F's that go before B */
    bool hold;             /* after its warm-up a stage starts no F until its first B */
    bool fuse;             /* BW in place of B and W */
    int32_t open_max;      /* most microbatches between F and B of stage 0; 0: no limit */
};

/* Continues from the state of the timeline until no operation can start. Cost: O(S N log S). */
enum detour_status dt_dispatch(struct dt_call *call, struct dt_timeline *tl,
                               const struct dt_dispatch_rule *rule);

#ifdef __cplusplus
}
#endif

#endif
