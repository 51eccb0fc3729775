/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a switch is said to have taken: one INFO line, and one event record in the counter page (obs/event.h),
 * for each epoch that was in use and failed, at each end. They are written once the last step is known, the
 * first completion over another path, or when nothing is left that could complete, or after a second; and not
 * while other connections of the device are still on their way, which would wait for it.
 */
#ifndef DETOUR_TRANSPORT_SWITCH_REPORT_H
#define DETOUR_TRANSPORT_SWITCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/wire_messages.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_path;

#define DT_WHY_BYTES 224

/* When each step was done; 0: not. */
struct dt_switch_steps {
    uint64_t detected_ns;
    uint64_t fenced_ns; /* this end's own proof */
    uint64_t
        agreed_ns; /* what the receiver has is known: RESUME came; receiver: the sender has heard of it */
    uint64_t
        resumed_ns; /* sender: every message of it is decided; receiver: parts that came over it forgotten */
    uint64_t again_ns; /* sender: all that did not arrive is posted again; receiver: offered again */
    uint64_t first_ns; /* the first completion since (receiver: message), over another path */
};

/* Who posted messages again (failover/rewind.h). */
enum dt_switch_engines { DT_SWITCH_BY_WQE = 1, DT_SWITCH_BY_REPOST = 2 };

/* What a switch did. */
struct dt_switch_settled {
    uint32_t held;    /* sender: messages that the receiver has */
    uint32_t again;   /* sender: messages that are posted again; receiver: receives that are offered again */
    uint32_t engines; /* sender: enum dt_switch_engines */
};

/* Of the last switch of a path; one per path. */
struct dt_switch_report {
    bool is_pending; /* it waits for its last step */
    uint32_t epoch;
    uint32_t completions; /* of the connection, when it was resumed */
    struct dt_switch_steps steps;
    const char *evidence; /* of the fence */
    const char *over;     /* device that it goes on over, or NULL: none is well now */
    struct dt_switch_settled settled;
    char peer_device[DT_NAME_BYTES]; /* what the path was */
    char why[DT_WHY_BYTES];
};

/* This path's switch is under way, and not for so long that it may be stuck. */
bool dt_switch_report_is_awaited(const struct dt_path *path, uint64_t now_ns);

/* When to look again; DT_NEVER_NS: nothing is pending. */
uint64_t dt_switch_report_deadline_ns(const struct dt_path *path, uint64_t now_ns);

/* Owner: a switch begins: what was pending is written, and nothing is done yet. */
void dt_switch_report_begin(struct dt_path *path, uint64_t now_ns);

/* Owner: the epoch is decided; the steps so far are in path->report. */
void dt_switch_report_resumed(struct dt_path *path, uint64_t now_ns, struct dt_switch_settled settled);

/*
 * Takes down what has happened since, and writes the report if it is due and *lines_left is not 0, which it
 * counts down. Detour's thread, without ownership.
 */
void dt_switch_report_progress(struct dt_path *path, uint64_t now_ns, uint32_t *lines_left);

/* Writes what is pending, as far as it is known: the connection ends. */
void dt_switch_report_end(struct dt_path *path);

#ifdef __cplusplus
}
#endif

#endif
