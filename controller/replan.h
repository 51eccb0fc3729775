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
    bool is_unseen[DT_RECORD_LINKS_MAX]; /* [link]: adopted, and not found slow since */
    uint64_t unseen_until_ns;
    bool is_recheck; /* the time above has ended for a link */
};

/* True: *decision is a new schedule, or the one in force for a job that has started again. */
bool dt_replan_decide(struct dt_replan *replan, const struct dt_decide_options *options,
                      const struct dt_situation *situation, uint64_t now_ns, struct dt_decision *decision);

/* A re-plan of an earlier controller. `unseen_until_ns`: the recheck of dt_decide_adopt(); 0: its judge has
 * seen the job before, so there is none. */
void dt_replan_adopt(struct dt_replan *replan, const struct dt_decision *decision, uint64_t now_ns,
                     uint64_t unseen_until_ns);

#ifdef __cplusplus
}
#endif

#endif
