/* SPDX-License-Identifier: Apache-2.0 */
/* The pipelines that are in use today, as candidates. */
#ifndef DETOUR_PLANNER_BASELINE_H
#define DETOUR_PLANNER_BASELINE_H

#include "planner/evaluate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills o->result->baselines. Rows that do not exist for the model, or do not fit, have a `problem`. */
enum detour_status dt_baselines_make(struct dt_optimizer *o);

#ifdef __cplusplus
}
#endif

#endif
