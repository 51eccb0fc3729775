/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a simulation, each line with its virtual time: for replaying a seed.
 * Silent unless asked for.
 */
#ifndef DETOUR_TESTS_SIM_TRACE_H
#define DETOUR_TESTS_SIM_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_trace_level {
    DT_TRACE_OFF,
    DT_TRACE_EVENTS, /* faults, calls that did something, Detour's own log */
    DT_TRACE_PACKETS /* and every packet */
};

/* Also where Detour's log goes: into the trace, or nowhere. */
void dt_trace_start(enum dt_trace_level level);

/* Times are shown since this one. */
void dt_trace_set_origin(uint64_t now_ns);

enum dt_trace_level dt_trace_level(void);

/* Detour's warnings since dt_trace_start() or the last call. */
uint32_t dt_trace_take_warnings(void);

/* From now on, counts the lines below. Costs the making of every line. */
void dt_trace_count(bool counts);

/* An end has given a path up. */
uint32_t dt_trace_switches(void);

/* A receiver has fenced a path whose sender had not answered STOP within DETOUR_FENCE_MS. */
uint32_t dt_trace_stops_unanswered(void);

void dt_trace_line(const char *format, ...) __attribute__((format(printf, 1, 2), cold));

#define dt_say(...)                              \
    do {                                         \
        if (dt_trace_level() >= DT_TRACE_EVENTS) \
            dt_trace_line(__VA_ARGS__);          \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
