/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The report of `detour doctor`: one JSON document, printed as JSON or as text. Findings have a level; facts
 * (settings, devices) do not.
 *
 *   {"findings": [{"topic", "level", "text", "advice"}...], "settings": [...], "devices": [...], ...}
 *
 * Without memory, entries are dropped: the examination never fails. One thread.
 */
#ifndef DETOUR_DOCTOR_REPORT_H
#define DETOUR_DOCTOR_REPORT_H

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The level of a finding. X(name, text) */
#define DT_LEVELS(X)                                                \
    X(DT_LEVEL_OK, "ok")                                            \
    X(DT_LEVEL_WARNING, "warning") /* works, but costs something */ \
    X(DT_LEVEL_PROBLEM, "problem") /* Detour does not start or does not work */

enum dt_level {
#define DT_LEVEL_ENUM(name, text) name,
    DT_LEVELS(DT_LEVEL_ENUM)
#undef DT_LEVEL_ENUM
        DT_LEVEL_COUNT
};

struct dt_report {
    json_t *document; /* NULL: out of memory; all calls then have no effect */
    unsigned counts[DT_LEVEL_COUNT];
};

void dt_report_init(struct dt_report *report);
void dt_report_free(struct dt_report *report);

/* Adds a finding. `advice`: the remedy; NULL only with DT_LEVEL_OK. */
void dt_report_add_finding(struct dt_report *report, enum dt_level level, const char *topic,
                           const char *advice, const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Appends a fact to the list of this name and takes its reference; NULL has no effect. */
void dt_report_add_fact(struct dt_report *report, const char *list, json_t *fact);

#ifdef __cplusplus
}
#endif

#endif
