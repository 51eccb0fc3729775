/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the job from observations: which process and rank is at each end of a connection (peers.h),
 * the offset of each host's clock, and the last report of each sending connection. Observations become
 * reports for the judge, with the ranks of the job.
 *
 * Pure, fixed size, about 6 MB. Whatever does not fit is forgotten and is known again from the next reports.
 */
#ifndef DETOUR_CONTROLLER_KNOWN_H
#define DETOUR_CONTROLLER_KNOWN_H

#include "controller/decide.h"
#include "controller/judge.h"
#include "controller/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_KNOWN_LINKS_MAX 16384 /* a power of two; half of it is used at most */
#define DT_KNOWN_RANKS_MAX 8192
#define DT_KNOWN_HOSTS_MAX 1024
#define DT_KNOWN_GONE_NS   1000000000
#define DT_KNOWN_PEER_NS   5000000000 /* that long the judge gets no report of a link whose peer has none */

struct dt_known;

/* NULL when out of memory. */
struct dt_known *dt_known_create(void);
void dt_known_destroy(struct dt_known *known);

/*
 * Takes an observation that arrived at `time_ns` and passes its reports on to the judge. `stage` is the one
 * of the process's rank, as in struct dt_rank_report. A peer that no agent has reported for DT_KNOWN_PEER_NS
 * has the host of its name, and the communicator's rank if that is the job's for this end, and no process has
 * been reported with it; otherwise no rank.
 */
void dt_known_take(struct dt_known *known, const struct dt_observation *observation, uint32_t stage,
                   int64_t time_ns, struct dt_judge *judge);

/*
 * How often the job has started: once for its first process of rank 0 that is reported, and once for each
 * later one that is reported after the one before has been silent for DT_KNOWN_GONE_NS. 0: not known yet.
 */
uint32_t dt_known_job_starts(const struct dt_known *known);

/* The process of rank 0 by which the job has started the last time, for dt_known_resume_job() of another
 * controller. "": not known yet. */
#define DT_KNOWN_JOB_BYTES 96
void dt_known_job(const struct dt_known *known, char job[DT_KNOWN_JOB_BYTES]);

/*
 * `job` is the process in the store, by which an earlier controller has identified the job. Returns the
 * number of starts with which the job began there; this controller counts one more if it has a report of a
 * later process. 0: `job` is no process.
 */
uint32_t dt_known_resume_job(struct dt_known *known, const char *job, int64_t time_ns);

/* All places of the table: DT_KNOWN_LINKS_MAX; the unused ones have connection 0. */
const struct dt_known_link *dt_known_links(const struct dt_known *known);

/* Hosts that have reported, as far as they are remembered. */
size_t dt_known_host_count(const struct dt_known *known);

/* Those of them that have reported in the last DT_JUDGE_STALE_NS. */
size_t dt_known_present_hosts(const struct dt_known *known, int64_t time_ns);

/*
 * The time of an iteration of the job: the median over its ranks of the last one that each has reported. A
 * rank counts for DT_JUDGE_STALE_NS, or three of its iterations if they are longer. 0: not known.
 */
uint64_t dt_known_iteration_ns(struct dt_known *known, int64_t time_ns);

#ifdef __cplusplus
}
#endif

#endif
