/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/recovery.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"

static uint64_t longer(uint64_t pause_ns)
{
    return pause_ns == 0 ? DT_RECOVERY_PAUSE_NS_FIRST : dt_min_u64(2 * pause_ns, DT_RECOVERY_PAUSE_NS_MAX);
}

void dt_recovery_init(struct dt_recovery *recovery)
{
    memset(recovery, 0, sizeof *recovery);
    recovery->next_ns = DT_NEVER_NS;
}

static void schedule(struct dt_recovery *recovery, uint64_t now_ns, uint64_t pause_ns)
{
    recovery->next_ns = dt_max_u64(dt_deadline_ns(now_ns, pause_ns), recovery->not_before_ns);
}

void dt_recovery_path_failed(struct dt_recovery *recovery, uint64_t now_ns)
{
    bool was_calm = recovery->up_ns == 0 || now_ns - recovery->up_ns >= DT_RECOVERY_CALM_NS;

    recovery->flap_pause_ns = was_calm ? 0 : longer(recovery->flap_pause_ns);
    recovery->not_before_ns = dt_deadline_ns(now_ns, recovery->flap_pause_ns);
    recovery->try_pause_ns = was_calm ? DT_RECOVERY_PAUSE_NS_FIRST : longer(recovery->try_pause_ns);
    schedule(recovery, now_ns, recovery->try_pause_ns);
}

void dt_recovery_attempt_failed(struct dt_recovery *recovery, uint64_t now_ns)
{
    recovery->try_pause_ns = longer(recovery->try_pause_ns);
    schedule(recovery, now_ns, recovery->try_pause_ns);
}

void dt_recovery_hint(struct dt_recovery *recovery, uint64_t now_ns)
{
    if (recovery->next_ns == DT_NEVER_NS)
        return;
    recovery->try_pause_ns = 0;
    schedule(recovery, now_ns, 0);
}

void dt_recovery_start_probing(struct dt_recovery *recovery, uint64_t stable_ns, uint64_t now_ns)
{
    recovery->stable_ns = dt_deadline_ns(now_ns, stable_ns);
    recovery->probe_period_ns = stable_ns / DT_RECOVERY_PROBES;
    recovery->probe_ns = now_ns;
    recovery->is_pending = recovery->is_full = recovery->is_stable = false;
}

enum dt_probe_kind dt_recovery_probe(struct dt_recovery *recovery, uint64_t now_ns)
{
    if (recovery->is_pending || recovery->is_stable || now_ns < recovery->probe_ns)
        return DT_PROBE_NONE;
    recovery->is_pending = true;
    recovery->is_full = now_ns >= recovery->stable_ns;
    recovery->probe_ns = now_ns;
    return recovery->is_full ? DT_PROBE_FULL : DT_PROBE_SMALL;
}

void dt_recovery_probe_answered(struct dt_recovery *recovery, uint64_t now_ns)
{
    if (!recovery->is_pending)
        return;
    DT_CHECK(!recovery->is_stable);
    recovery->is_pending = false;
    recovery->is_stable = recovery->is_full;
    recovery->probe_ns =
        dt_earlier_ns(dt_deadline_ns(recovery->probe_ns, recovery->probe_period_ns), recovery->stable_ns);
    recovery->probe_ns = dt_max_u64(recovery->probe_ns, now_ns);
}

bool dt_recovery_probe_timed_out(const struct dt_recovery *recovery, uint64_t now_ns)
{
    return recovery->is_pending && now_ns - recovery->probe_ns >= DT_RECOVERY_PROBE_WAIT_NS;
}

uint64_t dt_recovery_probe_deadline_ns(const struct dt_recovery *recovery)
{
    return recovery->is_pending ? dt_deadline_ns(recovery->probe_ns, DT_RECOVERY_PROBE_WAIT_NS)
                                : recovery->probe_ns;
}

void dt_recovery_up(struct dt_recovery *recovery, uint64_t now_ns)
{
    recovery->up_ns = now_ns;
    recovery->next_ns = DT_NEVER_NS;
}
