/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The swarm of faults: which kinds of trouble a run has at all is drawn first, so that runs differ in
 * character and not only in detail.
 */
#ifndef DETOUR_TESTS_SIM_SWARM_H
#define DETOUR_TESTS_SIM_SWARM_H

#include "base/prng.h"
#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Faults that begin while there is traffic, span_ns long, into scenario->chaos. */
void dt_swarm_draw(struct dt_scenario *scenario, struct dt_prng *prng, uint64_t span_ns);

/* One fault of this kind, anywhere; start_ns is left to the caller. */
void dt_swarm_draw_fault(struct dt_scenario *scenario, struct dt_prng *prng, enum dt_chaos_kind kind,
                         struct dt_chaos *fault);

/* A device is gone afterwards, or of no use, for good. */
bool dt_swarm_is_death(const struct dt_chaos *fault);

#ifdef __cplusplus
}
#endif

#endif
