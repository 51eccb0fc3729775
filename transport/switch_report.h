/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a switch is said to have taken: one INFO line, and one event record in the counter page (obs/event.h),
 * for each epoch that was in use and failed, at each end. They are written once the last step is known, the
 * first completion over another path, or when nothing is left that could complete, or after a second.
 */
#ifndef DETOUR_TRANSPORT_SWITCH_REPORT_H
#define DETOUR_TRANSPORT_SWITCH_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_path;

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

/* Of the last switch of a path; one per path. */
struct dt_switch_report {
    bool is_pending; /* it waits for its last step */
    uint32_t epoch;
    uint32_t completions; /* of the connection, when it was resumed */
    struct dt_switch_steps steps;
    const char *evidence; /* of the fence */
    char what[640];       /* the line up to the steps */
};

/* Nothing is left to wait for, or what was awaited has come. Detour's thread, without ownership. */
bool dt_switch_report_is_due(const struct dt_path *path, uint64_t now_ns);

/* When to look again; DT_NEVER_NS: nothing is pending. */
uint64_t dt_switch_report_deadline_ns(const struct dt_path *path, uint64_t now_ns);

/* Owner: a switch begins: what was pending is written, and nothing is done yet. */
void dt_switch_report_begin(struct dt_path *path, uint64_t now_ns);

/* Owner: the epoch is decided; the steps so far are in path->report. Then the beginning of the line. */
void dt_switch_report_resumed(struct dt_path *path, uint64_t now_ns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Owner: takes down what has happened since, and writes the report if it is due. */
void dt_switch_report_progress(struct dt_path *path, uint64_t now_ns);

/* Writes what is pending, as far as it is known: the connection ends. */
void dt_switch_report_end(struct dt_path *path);

#ifdef __cplusplus
}
#endif

#endif
