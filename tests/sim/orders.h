/* SPDX-License-Identifier: Apache-2.0 */
/* An operator who takes RNICs out of use while other faults occur, and forgets some of them, for some runs.
 */
#ifndef DETOUR_TESTS_SIM_ORDERS_H
#define DETOUR_TESTS_SIM_ORDERS_H

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For a sixth of the seeds of profile failover, besides their other faults. Drawn apart from the rest. A
 * drained device can carry everything, so no connection may fail because of it. */
void dt_orders_draw(struct dt_scenario *scenario);

#ifdef __cplusplus
}
#endif

#endif
