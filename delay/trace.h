/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace: the latency of one link as steps over time. Parsed from a text, or built point by point by the
 * parser of another format (JSON: `[{"time":0.5,"link":"a","latency":0.03},...]`).
 *
 * Text form, one entry per line, `#` starts a comment:
 *
 *   TIME,LINK,LATENCY       from TIME on LINK has this latency. Numbers without a unit are seconds. A first
 *                           line `time,link,latency` is skipped.
 *   START;LINKS;LATENCIES   the form of ADAPTRA's public injector: from iteration START on the links of the
 *                           comma-separated list have these latencies in seconds (one for all, or one each),
 *                           and all other links have none.
 *
 * The latency `inf` is a crash of the NIC; in the second form with an empty list: of every link.
 */
#ifndef DETOUR_DELAY_TRACE_H
#define DETOUR_DELAY_TRACE_H

#include <stddef.h>
#include <stdint.h>

#include "delay/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_TRACE_POINTS_MAX (1u << 20)
#define DT_DELAY_CRASH            DT_NEVER_NS /* as a latency */

struct dt_delay_trace;

/*
 * An empty trace of the link; "": of the only link that the entries name. DT_NO_MEMORY.
 */
enum dt_status dt_delay_trace_create(const char *link, struct dt_delay_trace **trace);
void dt_delay_trace_destroy(struct dt_delay_trace *trace);

/*
 * From time_ns on the link (NULL: every link) has this latency; points of other links are dropped. Times must
 * not decrease. DT_INVALID: a time decreased, the latency is above DT_DELAY_NS_MAX, or a second link is named
 * and none was chosen; DT_FULL; DT_NO_MEMORY. `reason` is set to the reason.
 */
enum dt_status dt_delay_trace_add(struct dt_delay_trace *trace, uint64_t time_ns, const char *link,
                                  uint64_t latency_ns, const char **reason);

/* Parses a text into the trace. iteration_ns: the length of an iteration; 0: START is in seconds. */
enum dt_status dt_delay_trace_parse(struct dt_delay_trace *trace, const char *text, size_t bytes,
                                    uint64_t iteration_ns, struct dt_delay_error *error);

size_t dt_delay_trace_count(const struct dt_delay_trace *trace);

/* The latency at a time since the start of the trace, or DT_DELAY_CRASH; 0 before the first point. */
uint64_t dt_delay_trace_at(const struct dt_delay_trace *trace, uint64_t time_ns);

/* When the NIC crashes, or DT_NEVER_NS. */
uint64_t dt_delay_trace_crash_ns(const struct dt_delay_trace *trace);

#ifdef __cplusplus
}
#endif

#endif
