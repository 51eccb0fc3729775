/* SPDX-License-Identifier: Apache-2.0 */
/* What a scenario's faults leave to a connection, and so whether its calls may fail. */
#ifndef DETOUR_TESTS_SIM_MERCY_H
#define DETOUR_TESTS_SIM_MERCY_H

#include "base/limits.h"
#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* May calls on this connection fail? */
enum dt_flow_mercy dt_mercy_for(const struct dt_scenario *scenario, const struct dt_flow_options *flow);

/* Can a sender fail to see that its messages have arrived, unless the receiver tells it so? */
bool dt_mercy_may_miss_acks(const struct dt_scenario *scenario);

/* Can the control network or the sender's process keep a receiver's STOP without its answer? */
bool dt_mercy_may_miss_stop(const struct dt_scenario *scenario);

/* The devices of a flow's paths, by their numbers in the network: of the sender, of the receiver. Returns how
 * many paths there are. */
uint32_t dt_mercy_paths(const struct dt_scenario *scenario, const struct dt_flow_options *flow,
                        uint32_t device[DT_PATHS_MAX][DT_FLOW_SIDES]);

/* Can every connection be set up while nothing passes through this device? */
bool dt_mercy_can_do_without(const struct dt_scenario *scenario, uint32_t device);

#ifdef __cplusplus
}
#endif

#endif
