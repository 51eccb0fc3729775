/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Number of forwards that each stage runs before its first backward (ADAPTRA section 4). The slack of link
 * i is warmup[i] - warmup[i + 1]; a slack of D absorbs a delay of (D - 1) times the mean of F and B.
 */
#ifndef DETOUR_SCHED_WARMUP_H
#define DETOUR_SCHED_WARMUP_H

#include "sched/problem.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Upper limits of the warm-ups: memory, microbatch_count, and the warm-up of the preceding stage, which
 * supplies the inputs. At least 1.
 */
void dt_warmup_limits(const struct dt_problem *p, int32_t *limits);

/*
 * Algorithm 1 (initial planning), for unknown delays: divides the slack that memory allows evenly over the
 * links, the remainder to the first links. `warmup` and `limits` have stage_count entries.
 */
void dt_warmup_even(const struct dt_problem *p, const int32_t *limits, int32_t *warmup);

/*
 * The slack that a link's delay d = forward + backward needs, before it is limited to N - 2S (at least 2):
 *
 *   OWN         1 + ceil(d / (F_i + B_i)): whole rounds of the stage in front of the link.
 *   EQUATION_1  max(2, ceil((F_i + B_i + d) / (F_{i+1} + B_{i+1}))): equation 1 and Algorithm 2, in whose
 * line 7 we read the B of stage i, as in the equation, and round up, since the slack must suffice.
 *
 * Equal for stages of equal times, on links with a delay.
 */
enum dt_warmup_need { DT_WARMUP_OWN, DT_WARMUP_EQUATION_1 };

/* Algorithm 2 (dynamic adaptation): the slack that the links' delays need, plus `extra` per link. */
void dt_warmup_for_delays(const struct dt_problem *p, const int32_t *limits, enum dt_warmup_need need,
                          int32_t extra, int32_t *warmup);

/* The caller's own numbers: DETOUR_INVALID unless within limits and not increasing from stage to stage. */
enum detour_status dt_warmup_check(struct dt_call *call, const struct dt_problem *p, const int32_t *limits,
                                   const int32_t *warmup);

#ifdef __cplusplus
}
#endif

#endif
