/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a controller has adopted from an earlier one, while its own judge has not found the slow part slow. A
 * judge that has begun with a part slow takes that for its healthy time: that it finds nothing is no sign of
 * a recovery. So what was adopted stays until the judge has found the part slow, or for a stated time.
 */
#ifndef DETOUR_CONTROLLER_UNSEEN_H
#define DETOUR_CONTROLLER_UNSEEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zeros: it is the controller's own, or the part has been found slow. */
struct dt_unseen {
    uint64_t until_ns;
};

static inline struct dt_unseen dt_unseen_adopt(bool is_seen, uint64_t now_ns, uint64_t recheck_ns)
{
    return (struct dt_unseen){is_seen ? 0 : dt_deadline_ns(now_ns, recheck_ns)};
}

/* It stays, whatever the judge does not find. */
static inline bool dt_unseen_stays(struct dt_unseen unseen, uint64_t now_ns)
{
    return now_ns < unseen.until_ns;
}

/* Its time has ended before the part was found slow. */
static inline bool dt_unseen_is_over(struct dt_unseen unseen, uint64_t now_ns)
{
    return unseen.until_ns && now_ns >= unseen.until_ns;
}

#ifdef __cplusplus
}
#endif

#endif
