/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of a switchover: one INFO line, and one event record in the counter page (obs/event.h), for each
 * epoch that was in use and failed, at each end. A report is written once its last step is known (the first
 * completion over another path), when no request is open that could complete, or after a second; and not
 * while other connections of the device are switching, which would wait for the logger.
 */
#ifndef DETOUR_FAILOVER_SWITCHOVER_REPORT_H
#define DETOUR_FAILOVER_SWITCHOVER_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/protocol/frames.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_path;

#define DT_WHY_BYTES 224

/* When each step was done; 0: not yet. */
struct dt_switchover_steps {
    uint64_t detected_ns;
    uint64_t fenced_ns;  /* this end's own proof */
    uint64_t agreed_ns;  /* sender: RESUME arrived; receiver: the sender has acknowledged the fence */
    uint64_t resumed_ns; /* sender: every message of it is decided; receiver: its parts are discarded */
    uint64_t again_ns;   /* sender: all that did not arrive is posted again; receiver: published again */
    uint64_t first_ns;   /* the first completion since (receiver: message), over another path */
};

/* The engines that posted messages again (failover/replay.h). */
enum dt_switchover_engines { DT_SWITCHOVER_BY_WQE = 1, DT_SWITCHOVER_BY_REPOST = 2 };

/* The outcome of a switchover. */
struct dt_switchover_settled {
    uint32_t held;  /* sender: messages that the receiver has */
    uint32_t again; /* sender: messages that are posted again; receiver: receives that are published again */
    uint32_t engines; /* sender: enum dt_switchover_engines */
};

/* Of the last switchover of a path. */
struct dt_switchover_report {
    bool is_pending; /* waits for its last step */
    uint32_t epoch;
    uint32_t completions; /* of the connection, when it was resumed */
    struct dt_switchover_steps steps;
    const char *evidence; /* of the fence */
    const char *over;     /* the device that carries the messages now, or NULL: none is UP */
    struct dt_switchover_settled settled;
    char peer_device[DT_NAME_BYTES]; /* of the path, then */
    char why[DT_WHY_BYTES];
    uint32_t cause; /* enum detour_stat_cause */
};

/* Whether this path's switchover is under way and did not begin long ago. */
bool dt_switchover_report_is_awaited(const struct dt_path *path, uint64_t now_ns);

/* When to call dt_switchover_report_progress() again; DT_NEVER_NS: nothing is pending. */
uint64_t dt_switchover_report_deadline_ns(const struct dt_path *path, uint64_t now_ns);

/* Owner: a switchover begins; a pending report of the path is written. */
void dt_switchover_report_begin(struct dt_path *path, uint64_t now_ns);

/* Owner: an event of its own, since the switchover may wait for the proof for long. The caller logs it. */
void dt_switchover_report_unproven(const struct dt_path *path, uint64_t now_ns, const char *reason);

/* Owner: the epoch is settled, or its parts are discarded. */
void dt_switchover_report_resumed(struct dt_path *path, uint64_t now_ns,
                                  struct dt_switchover_settled settled);

/*
 * Records the steps that were done since, and writes the report if it is due and *lines_left is not 0, which
 * it counts down. Device thread, without ownership.
 */
void dt_switchover_report_progress(struct dt_path *path, uint64_t now_ns, uint32_t *lines_left);

/* Writes a pending report with the steps that are known: the connection ends. */
void dt_switchover_report_end(struct dt_path *path);

#ifdef __cplusplus
}
#endif

#endif
