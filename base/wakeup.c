/* SPDX-License-Identifier: Apache-2.0 */
#include "base/wakeup.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/atomics.h"
#include "base/clock.h"

enum { NOTHING, POSTED, ASLEEP };

void dt_wakeup_post(struct dt_wakeup *wakeup)
{
    if (dt_exchange_acq_rel(&wakeup->state, (uint32_t)POSTED) == ASLEEP)
        syscall(SYS_futex, &wakeup->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void dt_wakeup_wait(struct dt_wakeup *wakeup, uint64_t until_ns)
{
    struct timespec until = {.tv_sec = (time_t)(until_ns / DT_NS_PER_S),
                             .tv_nsec = (long)(until_ns % DT_NS_PER_S)};
    uint32_t seen = NOTHING;
    long error = 0;

    /* The absolute time of this operation is that of the monotonic clock, as dt_clock_now_ns(). */
    if (dt_compare_swap(&wakeup->state, &seen, (uint32_t)ASLEEP)) {
        while (dt_load_acquire(&wakeup->state) == ASLEEP && !(error && errno == ETIMEDOUT))
            error = syscall(SYS_futex, &wakeup->state, FUTEX_WAIT_BITSET_PRIVATE, ASLEEP,
                            until_ns == DT_NEVER_NS ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
    }
    dt_exchange_acq_rel(&wakeup->state, (uint32_t)NOTHING);
}
