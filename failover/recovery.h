/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a failed path is tried again, and when it has shown that it is well.
 *
 * Two pauses, both doubling up to a limit and never endless: between attempts that do not get as far as
 * queue pairs that answer, and, after a path that was in use failed again soon, before the next attempt at
 * all. News that the path may be well (its port is back, the peer asks) cuts the first short, not the second.
 *
 * A path is proven by probes, small ones until it has been stable for long enough, then one that carries a
 * full path MTU. All of them have to be answered in time.
 */
#ifndef DETOUR_FAILOVER_RECOVERY_H
#define DETOUR_FAILOVER_RECOVERY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_RECOVERY_PAUSE_NS_FIRST (10 * 1000000ull)
#define DT_RECOVERY_PAUSE_NS_MAX   (10 * 1000000000ull)
/* A path that fails within this time of having come back flaps. */
#define DT_RECOVERY_CALM_NS (10 * 1000000000ull)
/* A probe that is not answered in this time has failed. */
#define DT_RECOVERY_PROBE_WAIT_NS (1000000000ull)
#define DT_RECOVERY_PROBES        8 /* small ones, spread over the stable time */

enum dt_probe_kind { DT_PROBE_NONE, DT_PROBE_SMALL, DT_PROBE_FULL };

struct dt_recovery {
    uint64_t up_ns;         /* it came into use */
    uint64_t not_before_ns; /* because it flaps */
    uint64_t next_ns;       /* of the next attempt; DT_NEVER_NS: none is wanted */
    uint64_t flap_pause_ns;
    uint64_t try_pause_ns;
    /* While it is proven: */
    uint64_t stable_ns; /* the time at which it will have been stable for long enough */
    uint64_t probe_period_ns;
    uint64_t probe_ns; /* of the next probe; while one is asked, when it was */
    bool is_asked;
    bool is_full; /* the probe that is asked is the last one */
    bool is_proven;
};

void dt_recovery_init(struct dt_recovery *recovery);

/* It failed, from use. An attempt is wanted. */
void dt_recovery_lost(struct dt_recovery *recovery, uint64_t now_ns);

/* An attempt came to nothing: no port, no device, a peer that has none, a probe that fails. The next one
 * waits longer. */
void dt_recovery_missed(struct dt_recovery *recovery, uint64_t now_ns);

/* It may be well again. */
void dt_recovery_hint(struct dt_recovery *recovery, uint64_t now_ns);

static inline bool dt_recovery_is_due(const struct dt_recovery *recovery, uint64_t now_ns)
{
    return now_ns >= recovery->next_ns;
}

/* Probing begins; it is to be stable for `stable_ns`, 0 where nothing else is left to use. */
void dt_recovery_prove(struct dt_recovery *recovery, uint64_t stable_ns, uint64_t now_ns);

/* The probe that is to be sent now; it then counts as sent. */
enum dt_probe_kind dt_recovery_probe(struct dt_recovery *recovery, uint64_t now_ns);

/* The probe was answered. */
void dt_recovery_answered(struct dt_recovery *recovery, uint64_t now_ns);

static inline bool dt_recovery_is_proven(const struct dt_recovery *recovery)
{
    return recovery->is_proven;
}

/* A probe was not answered in time. */
bool dt_recovery_is_silent(const struct dt_recovery *recovery, uint64_t now_ns);

/* When something changes by time alone while it is proven. */
uint64_t dt_recovery_prove_deadline_ns(const struct dt_recovery *recovery);

/* It came into use. */
void dt_recovery_up(struct dt_recovery *recovery, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
