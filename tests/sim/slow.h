/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is slow is not dead: scenarios in which no path may be given up, or no call may fail. The seed decides
 * which one it is (seed modulo 3) and draws the rest. Settings are the defaults, since the promise is about
 * them.
 *
 *   0  a link so slow that each message takes 8.6 s, as 1 GiB at 1 Gb/s does
 *   1  serial delays of 60 ms per 4 KiB, for a minute
 *   2  hosts with one device each: one has no link for 20 s
 */
#ifndef DETOUR_TESTS_SIM_SLOW_H
#define DETOUR_TESTS_SIM_SLOW_H

#include "base/prng.h"
#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

void dt_slow_draw(struct dt_scenario *scenario, struct dt_prng *prng);

#ifdef __cplusplus
}
#endif

#endif
