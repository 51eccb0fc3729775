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
    uint64_t probe_ns; /* when to send the next probe, or when the pending one was sent */
    bool is_pending;   /* a probe is in flight */
    bool is_full;      /* the pending probe is the last one, of a full path MTU */
    bool is_stable;    /* the last probe was answered */
};

void dt_recovery_init(struct dt_recovery *recovery);

/* The path failed while it was in use: schedules an attempt. */
void dt_recovery_path_failed(struct dt_recovery *recovery, uint64_t now_ns);

/* An attempt failed: no port, no device, none at the peer, or a failed probe. Doubles the pause. */
void dt_recovery_attempt_failed(struct dt_recovery *recovery, uint64_t now_ns);

/* It may be well again. */
void dt_recovery_hint(struct dt_recovery *recovery, uint64_t now_ns);

static inline bool dt_recovery_is_due(const struct dt_recovery *recovery, uint64_t now_ns)
{
    return now_ns >= recovery->next_ns;
}

/* Starts probing for `stable_ns`; 0: one probe is enough, since no other path is left. */
void dt_recovery_start_probing(struct dt_recovery *recovery, uint64_t stable_ns, uint64_t now_ns);

/* The probe that is to be sent now; it then counts as sent. */
enum dt_probe_kind dt_recovery_probe(struct dt_recovery *recovery, uint64_t now_ns);

/* The pending probe was answered. Ignored if none is pending. */
void dt_recovery_probe_answered(struct dt_recovery *recovery, uint64_t now_ns);

static inline bool dt_recovery_is_stable(const struct dt_recovery *recovery)
{
    return recovery->is_stable;
}

/* The pending probe exceeded its timeout. */
bool dt_recovery_probe_timed_out(const struct dt_recovery *recovery, uint64_t now_ns);

/* While probing: when the next probe or its timeout is due. */
uint64_t dt_recovery_probe_deadline_ns(const struct dt_recovery *recovery);

/* It came into use. */
void dt_recovery_up(struct dt_recovery *recovery, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
