/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every case of a fixed script (DT_PROFILE_SCRIPT): each packet and each acknowledgement lost in turn, each
 * kind of failure of the path in use at each packet, and each pair of packets for a cut of that path and then
 * of its backup.
 */
#ifndef DETOUR_TESTS_SIM_EXHAUSTIVE_H
#define DETOUR_TESTS_SIM_EXHAUSTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Called after each case, with its name: KIND:PACKET or KIND:PACKET:PACKET. False ends the search. */
typedef bool dt_exhaustive_func(void *arg, const char *name, bool is_good,
                                const struct dt_world_report *report);

/* Runs all. `stride` > 1 leaves out cases, evenly: of the pairs only every stride-th second packet. */
void dt_exhaustive_run(uint64_t stride, dt_exhaustive_func *done, void *arg);

/* Runs the case of this name. False: it is not one. */
bool dt_exhaustive_run_case(const char *name, dt_exhaustive_func *done, void *arg);

#ifdef __cplusplus
}
#endif

#endif
