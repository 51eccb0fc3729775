/* SPDX-License-Identifier: Apache-2.0 */
/* The present level and the noise of a kind of links or ranks, to which its members are compared. Pure. */
#ifndef DETOUR_CONTROLLER_JUDGE_KIND_H
#define DETOUR_CONTROLLER_JUDGE_KIND_H

#include "controller/judge_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Reorders the values; `count` is not 0. Of an even number the upper one of the two in the middle. */
double dt_judge_median(double *values, uint32_t count);

/* Measures the kind with this position anew if a member has a new report, which is not in its series yet. */
void dt_judge_kind_measure(struct dt_judge *judge, uint32_t at);

#ifdef __cplusplus
}
#endif

#endif
