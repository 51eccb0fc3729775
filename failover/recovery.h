/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When to try a failed path again, and when it has proven stable.
 *
 * Two pauses, both doubling up to a limit: between attempts that fail before the queue pairs answer, and, if
 * a path fails soon after it came into use, before the next attempt. A hint that the path may work again (its
 * port is active, the peer asks) ends the first pause, not the second. Attempts never stop.
 *
 * Probes prove a path: small ones until it has been stable for the set time, then one that carries a full
 * path MTU. Each must be answered within DT_RECOVERY_PROBE_WAIT_NS.
 *
 * Pure; the device thread.
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
/* A path that fails within this time after it came into use flaps. */
#define DT_RECOVERY_CALM_NS (10 * 1000000000ull)
/* The timeout of a probe. */
#define DT_RECOVERY_PROBE_WAIT_NS (1000000000ull)
#define DT_RECOVERY_PROBES        8 /* small probes, spread over the stable time */

enum dt_probe_kind { DT_PROBE_NONE, DT_PROBE_SMALL, DT_PROBE_FULL };

struct dt_recovery {
    uint64_t up_ns;         /* when the path came into use */
    uint64_t not_before_ns; /* no attempt before, since the path flaps */
    uint64_t next_ns;       /* the next attempt; DT_NEVER_NS: none is due */
    uint64_t flap_pause_ns;
    uint64_t try_pause_ns;
    /* while probing: */
    uint64_t stable_ns; /* when the path will have been stable for the set time */
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

/* The path may work again: the next attempt is due, unless the path flaps. */
void dt_recovery_hint(struct dt_recovery *recovery, uint64_t now_ns);

static inline bool dt_recovery_is_due(const struct dt_recovery *recovery, uint64_t now_ns)
{
    return now_ns >= recovery->next_ns;
}

/* Starts probing for `stable_ns`; 0: one probe is enough, since no other path is left. */
void dt_recovery_start_probing(struct dt_recovery *recovery, uint64_t stable_ns, uint64_t now_ns);

/* The probe to send now, which counts as sent; DT_PROBE_NONE: none is due. */
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

/* The path came into use. */
void dt_recovery_up(struct dt_recovery *recovery, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
