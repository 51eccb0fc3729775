/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control network is gone for good, for some runs, about when a path fails: the same cable. One path is
 * spared by all faults, so the connection may not fail.
 */
#ifndef DETOUR_TESTS_SIM_GONE_H
#define DETOUR_TESTS_SIM_GONE_H

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For about an eighth of the seeds of profile failover, beside their faults. Drawn apart from the rest, so
 * that it changes nothing of other runs. After every other draw of faults. */
void dt_gone_draw(struct dt_scenario *scenario);

#ifdef __cplusplus
}
#endif

#endif
