/* SPDX-License-Identifier: Apache-2.0 */
/* What causes a slow link or rank (judge.h, "What causes it"). Pure. */
#ifndef DETOUR_CONTROLLER_JUDGE_CAUSE_H
#define DETOUR_CONTROLLER_JUDGE_CAUSE_H

#include "controller/judge_state.h"

struct dt_judge_cause {
    bool is_known; /* false: wait for the next reports */
    enum dt_finding_kind kind;
    uint32_t at;         /* PROCESSOR: a host; NIC: a NIC; LINK, DEVICE: DT_JUDGE_NONE */
    uint32_t refuted[2]; /* hosts whose processors are not the cause, whatever their load; or DT_JUDGE_NONE */
};

/* Before the causes of a round: sums up the ranks of each host. */
void dt_judge_cause_begin(struct dt_judge *judge);

/* Of a slow link. */
struct dt_judge_cause dt_judge_cause_of_link(const struct dt_judge *judge, const struct dt_judge_link *link);

/* Of a slow rank. */
struct dt_judge_cause dt_judge_cause_of_rank(const struct dt_judge *judge, const struct dt_judge_rank *rank);

#endif
