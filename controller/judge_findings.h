/* SPDX-License-Identifier: Apache-2.0 */
/* The findings of a judge: which are new, go on, or have ended. Pure. */
#ifndef DETOUR_CONTROLLER_JUDGE_FINDINGS_H
#define DETOUR_CONTROLLER_JUDGE_FINDINGS_H

#include "controller/judge_cause.h"

/* Before a round: forgets those that had ended; the others have nothing slow yet. */
void dt_judge_findings_begin(struct dt_judge *judge);

/* Something is slow for this cause. Without room for another finding it stays without one. */
void dt_judge_findings_add_link(struct dt_judge *judge, struct dt_judge_link *link,
                                const struct dt_judge_cause *cause);
void dt_judge_findings_add_rank(struct dt_judge *judge, struct dt_judge_rank *rank,
                                const struct dt_judge_cause *cause);

/* After a round: those for which nothing is slow any more end. */
void dt_judge_findings_finish(struct dt_judge *judge);

#endif
