/* SPDX-License-Identifier: Apache-2.0 */
/* RNICs that leave the system while messages go, and return: driver reset, hot plug; for some runs. */
#ifndef DETOUR_TESTS_SIM_RETURNS_H
#define DETOUR_TESTS_SIM_RETURNS_H

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * For a sixteenth of the seeds of profile failover, besides their other faults. Drawn apart from the rest, so
 * that it changes nothing of other runs. Traffic goes on until after the return, and memory is registered
 * again meanwhile. No connection may fail because of it: all devices of a host may be away at once, but they
 * return.
 */
void dt_returns_draw(struct dt_scenario *scenario);

#ifdef __cplusplus
}
#endif

#endif
