/* SPDX-License-Identifier: Apache-2.0 */
#include "failover/recovery.h"

#include <string.h>

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

static void want(struct dt_recovery *recovery, uint64_t now_ns, uint64_t pause_ns)
{
    recovery->next_ns = dt_max_u64(dt_deadline_ns(now_ns, pause_ns), recovery->not_before_ns);
}

void dt_recovery_lost(struct dt_recovery *recovery, uint64_t now_ns)
{
    bool was_calm = recovery->up_ns == 0 || now_ns - recovery->up_ns >= DT_RECOVERY_CALM_NS;

    recovery->flap_pause_ns = was_calm ? 0 : longer(recovery->flap_pause_ns);
    recovery->not_before_ns = dt_deadline_ns(now_ns, recovery->flap_pause_ns);
    recovery->try_pause_ns = was_calm ? DT_RECOVERY_PAUSE_NS_FIRST : longer(recovery->try_pause_ns);
    want(recovery, now_ns, recovery->try_pause_ns);
}

void dt_recovery_missed(struct dt_recovery *recovery, uint64_t now_ns)
{
    recovery->try_pause_ns = longer(recovery->try_pause_ns);
    want(recovery, now_ns, recovery->try_pause_ns);
}

void dt_recovery_hint(struct dt_recovery *recovery, uint64_t now_ns)
{
    if (recovery->next_ns == DT_NEVER_NS)
        return;
    recovery->try_pause_ns = 0;
    want(recovery, now_ns, 0);
}

void dt_recovery_prove(struct dt_recovery *recovery, uint64_t stable_ns, uint64_t now_ns)
{
    recovery->stable_ns = dt_deadline_ns(now_ns, stable_ns);
    recovery->probe_period_ns = stable_ns / DT_RECOVERY_PROBES;
    recovery->probe_ns = now_ns;
    recovery->is_asked = recovery->is_full = recovery->is_proven = false;
}

enum dt_probe_kind dt_recovery_probe(struct dt_recovery *recovery, uint64_t now_ns)
{
    if (recovery->is_asked || recovery->is_proven || now_ns < recovery->probe_ns)
        return DT_PROBE_NONE;
    recovery->is_asked = true;
    recovery->is_full = now_ns >= recovery->stable_ns;
    recovery->probe_ns = now_ns;
    return recovery->is_full ? DT_PROBE_FULL : DT_PROBE_SMALL;
}

void dt_recovery_answered(struct dt_recovery *recovery, uint64_t now_ns)
{
    if (!recovery->is_asked)
        return;
    recovery->is_asked = false;
    recovery->is_proven = recovery->is_full;
    recovery->probe_ns =
        dt_earlier_ns(dt_deadline_ns(recovery->probe_ns, recovery->probe_period_ns), recovery->stable_ns);
    recovery->probe_ns = dt_max_u64(recovery->probe_ns, now_ns);
}

bool dt_recovery_is_silent(const struct dt_recovery *recovery, uint64_t now_ns)
{
    return recovery->is_asked && now_ns - recovery->probe_ns >= DT_RECOVERY_PROBE_WAIT_NS;
}

uint64_t dt_recovery_prove_deadline_ns(const struct dt_recovery *recovery)
{
    return recovery->is_asked ? dt_deadline_ns(recovery->probe_ns, DT_RECOVERY_PROBE_WAIT_NS)
                              : recovery->probe_ns;
}

void dt_recovery_up(struct dt_recovery *recovery, uint64_t now_ns)
{
    recovery->up_ns = now_ns;
    recovery->next_ns = DT_NEVER_NS;
}
