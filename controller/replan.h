/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The measure of decide.h that is about the whole job: a schedule for the delays of its slow links, and its
 * state.
 *
 * Pure. Owner: one thread.
 */
#ifndef DETOUR_CONTROLLER_REPLAN_H
#define DETOUR_CONTROLLER_REPLAN_H

#include "controller/decide.h"
#include "controller/unseen.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All zeros: nothing was decided yet. */
struct dt_replan {
    bool is_rising; /* the delays differ from those decided, since then */
    uint64_t since_ns;
    bool has_replanned;
    uint64_t replanned_ns;
    uint32_t job_starts; /* at the last call */
    bool is_owed;        /* the decided links, to a job that has started again */
    size_t link_count;   /* decided */
    struct dt_decided_link links[DT_RECORD_LINKS_MAX];
    struct dt_unseen unseen[DT_RECORD_LINKS_MAX]; /* [link] */
    bool is_recheck;                              /* the recheck time of a link is over */
};

/* True: *decision is a new schedule, or the one in force for a job that has started again. */
bool dt_replan_decide(struct dt_replan *replan, const struct dt_decide_options *options,
                      const struct dt_situation *situation, uint64_t now_ns, struct dt_decision *decision);

/* A re-plan of an earlier controller. */
void dt_replan_adopt(struct dt_replan *replan, const struct dt_decision *decision, struct dt_unseen unseen,
                     uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
