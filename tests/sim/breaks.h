/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queue pairs that the device moves to the error state by itself, without an event, while their completions
 * pile up, since NCCL does not call or since the device writes the completions of receives later than those
 * of sends. Then receives are posted to a queue pair in the error state, and completions come after the
 * terminal one: the conditions of the personalities `rxe` and `bnxt`.
 */
#ifndef DETOUR_TESTS_SIM_BREAKS_H
#define DETOUR_TESTS_SIM_BREAKS_H

#include "tests/sim/scenario.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For an eighth of the seeds of profile failover that draw no overlap, instead of their other faults and
 * traffic. Drawn apart from the rest, so that it changes nothing of other runs. After every other draw,
 * before what follows from them.
 */
void dt_breaks_draw(struct dt_scenario *scenario);

#ifdef __cplusplus
}
#endif

#endif
