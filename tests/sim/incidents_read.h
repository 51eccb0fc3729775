/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists of incidents as JSON, as experiments/incidents/generate.py prints them: an array of traces, each with
 * its incidents, times in seconds.
 */
#ifndef DETOUR_TESTS_SIM_INCIDENTS_READ_H
#define DETOUR_TESTS_SIM_INCIDENTS_READ_H

#include <jansson.h>

#include "tests/sim/incidents.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_incidents_trace {
    int64_t seed; /* 0: it has none */
    int32_t count;
    struct dt_incident incidents[DT_INCIDENTS_MAX];
};

/* One trace of the array. False with one line in `text`. */
bool dt_incidents_read(const json_t *value, struct dt_incidents_trace *trace, char text[128]);

/* New values, for the caller to release; NULL: out of memory. */
json_t *dt_incidents_phase_json(const struct detour_cluster *cluster, const struct dt_incidents_phase *phase);
json_t *dt_incidents_result_json(const struct dt_incidents_result *result);

#ifdef __cplusplus
}
#endif

#endif
