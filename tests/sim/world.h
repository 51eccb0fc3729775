/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a scenario in virtual time: the devices, the plugin on its hosts, the connections and their checks.
 * The scenario decides everything, so a failure is replayed by its seed.
 */
#ifndef DETOUR_TESTS_SIM_WORLD_H
#define DETOUR_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_world_report {
    char failure[400]; /* "" when all is well */
    uint64_t messages;
    uint64_t bytes;   /* landed, what was written again included */
    uint64_t packets; /* that left after all were connected, lost ones included */
    uint64_t virtual_ns;
    uint64_t ends_failed;     /* ends that ended with an error, which they were allowed to */
    uint64_t retransmissions; /* of all devices */
    uint64_t duplicates;
    uint64_t personality_actions; /* times that a device acted as the provider of its personality does */
    uint64_t personality_seeds;   /* main.c, of many runs: those with such an action */
};

/* False: report->failure describes the error. Changes the state in scenario->chaos. */
bool dt_world_run(struct dt_scenario *scenario, struct dt_world_report *report);

#ifdef __cplusplus
}
#endif

#endif
