/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many forwards each stage runs ahead of its first backward (ADAPTRA section 4). The slack of link i is
 * warmup[i] - warmup[i + 1]; a slack of D absorbs a delay of (D - 1) times the mean of F and B.
 */
#ifndef DETOUR_SCHED_WARMUP_H
#define DETOUR_SCHED_WARMUP_H

#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The most each stage may run ahead: memory, microbatch_count, and no more than the stage before it, because
 * a stage cannot keep ahead what it does not get. At least 1.
 */
void dt_warmup_limits(const struct dt_problem *p, int32_t *limits);

/*
 * Algorithm 1 (initial planning), nothing known about delays: the slack that memory allows, shared evenly
 * over the links, what is left over to the links in front. `warmup` and `limits` have stage_count entries.
 */
void dt_warmup_even(const struct dt_problem *p, const int32_t *limits, int32_t *warmup);

/*
 * Algorithm 2 (dynamic adaptation): just the slack that the delays of the links need, plus `extra` per link.
 */
void dt_warmup_for_delays(const struct dt_problem *p, const int32_t *limits, int32_t extra, int32_t *warmup);

/* The caller's own numbers: DETOUR_INVALID unless within limits and not increasing from stage to stage. */
enum detour_status dt_warmup_check(struct dt_call *call, const struct dt_problem *p, const int32_t *limits,
                                   const int32_t *warmup);

#ifdef __cplusplus
}
#endif

#endif
