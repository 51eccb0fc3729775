/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Remedies for a job as a whole, by the ladder of detour/mitigate.h: what the judge finds slow becomes an
 * event, the planner has the steps S1 to S4 for it, and the observed times of iterations add up what waiting
 * for each step costs. A decision has the whole arrangement of the job: microbatches of each replica, and the
 * rank at each position.
 *
 *   finding   in the event
 *   link      a slow link; by its factor, or by its delay if the job's file gives no bandwidth
 *   NIC       a slow network of its rank, if one rank uses it
 *   device    a slow rank
 *   other     nothing
 *
 * Steps are planned for the ranks where they are: S1 and S2 are other numbers of microbatches and move no
 * rank. So S1 takes back what S2, and S3 beside its exchange, have changed; the exchange stays, since it
 * costs a pause and an iteration of equal nodes is as short. Only an S3 that has not helped is undone, and S4
 * begins anew.
 *
 * After S3, a slow link may have no traffic, and nothing measures it: it counts as slow for `recheck_ns`,
 * twice as long each time it is found slow again. Links with traffic are slow as long as they are found so.
 *
 * A job that is started again begins without a remedy (dt_remedy_end()): observations do not show whether the
 * new processes go on from a checkpoint with the remedy or begin anew.
 *
 * An estimate may be wrong. A remedy under which no iteration of the first five is shorter than the last one
 * without it is taken back at once, and its step is not taken again before everything has recovered.
 *
 * Pure: no clock. Owner: one thread. Planning is bounded by a number of exchanges to try: up to half a second
 * of a processor for 1,024 ranks, whatever is slow. The controller checks its lease after it (control.h).
 */
#ifndef DETOUR_CONTROLLER_REMEDY_H
#define DETOUR_CONTROLLER_REMEDY_H

#include "controller/decide.h"
#include "controller/record.h"
#include "controller/validate.h"
#include "detour/mitigate.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_remedy;

/*
 * The cluster outlives the remedy; its nodes are ranks, each at one position. DT_INVALID: it is not such a
 * cluster, or has more than DT_RECORD_NODES_MAX positions, with the reason in one line. DT_NO_MEMORY.
 */
enum dt_status dt_remedy_create(const struct detour_cluster *cluster, uint64_t recheck_ns,
                                struct dt_remedy **remedy, char reason[DT_RECORD_REASON_BYTES]);
void dt_remedy_destroy(struct dt_remedy *remedy);

/*
 * The iterations of an observation: those of the rank with the smallest number count. The computing time of a
 * rank becomes that of equal microbatches, so that the judge finds neither S2 nor its end.
 *
 * Returns the stage at the rank's present position, for the judge. DT_JUDGE_UNKNOWN: the rank has no
 * position, or a stage has too few ranks for a comparison (DT_JUDGE_KIND_MIN); the computing time is then
 * that of the stage at the rank's first position, by the times of the cluster, so that the judge does not
 * find S3.
 */
uint32_t dt_remedy_observe(struct dt_remedy *remedy, struct dt_observation *observation);

/* Once in a round. True: *decision is to be taken; dt_remedy_done() has to follow. */
bool dt_remedy_decide(struct dt_remedy *remedy, const struct dt_situation *situation, uint64_t now_ns,
                      struct dt_decision *decision);

/*
 * The findings that the last decision is for and that no validation has confirmed; none for one that takes a
 * remedy back. Their number; `list` is the remedy's until the next round.
 */
size_t dt_remedy_suspects(const struct dt_remedy *remedy, const struct dt_suspect **list);

/*
 * A validation has confirmed a finding, or refuted it: then it counts for nothing until it ends, or for
 * `recheck_ns`. To be followed by dt_remedy_begin() or, if one was refuted, dt_remedy_done().
 */
void dt_remedy_validated(struct dt_remedy *remedy, uint64_t number, bool is_confirmed, uint64_t now_ns);

/* The decision is given out now, after a validation. */
void dt_remedy_begin(struct dt_remedy *remedy, uint64_t now_ns);

/* The validation of every link that the job uses at present (detour_validation_job()). */
enum detour_status dt_remedy_links(const struct dt_remedy *remedy, struct detour_arena *arena,
                                   const struct detour_validation **links, struct detour_error *error);

/* The decision has been carried out, or not. No effect without one. */
void dt_remedy_done(struct dt_remedy *remedy, uint64_t now_ns, bool success);

/* A decision that is not done for this long counts as failed: dt_remedy_decide() sees to it. */
#define DT_REMEDY_TIMEOUT_NS 30000000000ull

/* The step in force; S1: no remedy. */
enum detour_step dt_remedy_step(const struct dt_remedy *remedy);

/*
 * The job was started again. True: a remedy was in force for its processes before, or was being taken, and
 * has ended at once; *decision is for the job, which may have taken the remedy with its checkpoint, and
 * to later controllers. What is slow stays known, and each step has to be paid for by iterations of the new
 * processes.
 */
bool dt_remedy_end(struct dt_remedy *remedy, struct dt_decision *decision);

/*
 * A decision of an earlier controller: it is in force. One for another job is ignored. Without `is_seen`
 * (dt_decide_adopt()) nothing is decided until something is found slow, or for `recheck_ns`; or until the
 * messages of all links that the decision names have taken less than half of their delays for 5 s.
 */
void dt_remedy_adopt(struct dt_remedy *remedy, const struct dt_decision *decision, bool is_seen,
                     uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
