/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From findings to decisions. A measure is something that can be done about a slow part of the job, and
 * undone: its state follows the findings with hysteresis, so that a burst changes nothing and a job is not
 * changed twice in a short time. The table in decide.c has every state and event.
 *
 *   measure     of                    because of            undone when
 *   replan      the job               slow links            the delays differ from those decided by more than
 *                                                           a fifth of the largest
 *   hostpath    one connection        its LINK or NIC       the finding has ended for `clear_ns`
 *   migrate     one connection, or    its LINK, or its NIC: `drained_ns` after it was decided, twice as long
 *               one RNIC of a host    if another RNIC of    each time: without traffic nothing measures it
 *                                     the host is measured
 *                                     and faster (SHIFT     a connection that is not faster there returns
 *                                     section 4.3)          after `clear_ns`, and stays for the same time
 *
 * A job that starts again does not follow decisions of its earlier processes: the re-plan in force is decided
 * again for it, at once, so also while nothing has measured its links.
 *
 * Nothing is done about a busy processor, or about a slow device (remedy.h does).
 *
 * Pure: no clock, no allocation after creation. Owner: one thread. A decision that it returns counts as
 * taken; its number, fencing number and point in time are the caller's to fill in.
 */
#ifndef DETOUR_CONTROLLER_DECIDE_H
#define DETOUR_CONTROLLER_DECIDE_H

#include <stdbool.h>

#include "controller/judge.h"
#include "controller/record.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DECIDE_MEASURES_MAX 256

struct dt_decide_options {
    bool replan, hostpath, migrate; /* the measures that may be used */
    uint64_t confirm_ns;            /* a finding lasts this long before something is done */
    uint64_t clear_ns;              /* and is over for this long before it is undone */
    uint64_t replan_gap_ns;         /* between two new schedules */
    uint64_t drained_ns;            /* see above */
    int64_t delay_min_ns;           /* smaller delays change no schedule */
};

struct dt_decide_options dt_decide_defaults(void);

/* A sending connection of the job as it was reported last. */
struct dt_known_link {
    int32_t from_rank, to_rank; /* in the job, or -1 */
    uint64_t connection;
    char host[DT_STORE_NAME_BYTES]; /* of the sender */
    char nic[DT_RECORD_NIC_BYTES];
    uint64_t service_ns; /* mean of a message */
    uint64_t message_bytes;
};

struct dt_situation {
    const struct dt_finding *findings;
    size_t finding_count;
    const struct dt_slow_link *slow;
    size_t slow_count;
    const struct dt_known_link *links;
    size_t link_count;
    uint32_t job_starts; /* dt_known_job_starts() */
};

struct dt_decider;

/* NULL when out of memory. */
struct dt_decider *dt_decide_create(const struct dt_decide_options *options);
void dt_decide_destroy(struct dt_decider *decide);

/* What is decided now: at most `room` decisions, the others at the next call. Returns their number. */
size_t dt_decide(struct dt_decider *decide, const struct dt_situation *situation, uint64_t now_ns,
                 struct dt_decision *decisions, size_t room);

/*
 * A decision of an earlier controller, in the order of their numbers: a new controller goes on from it
 * instead of deciding the same again. `is_seen`: this controller's judge had measured the job before the
 * slow part became slow. Otherwise the judge may take the slow part for healthy; a re-plan or a host path is
 * then undone only after the judge has found the part slow, and then healthy, or `drained_ns` after the
 * adoption; or for links whose messages take less than half of the delay for `clear_ns`.
 */
void dt_decide_adopt(struct dt_decider *decide, const struct dt_decision *decision, bool is_seen,
                     uint64_t now_ns);

/* An earlier controller has decided for a job with this number of starts (dt_known_resume_job()). */
void dt_decide_adopt_job(struct dt_decider *decide, uint32_t job_starts);

/* What is in force has been decided for the job as it has started the last time. */
bool dt_decide_is_for_job(const struct dt_decider *decide, uint32_t job_starts);

/* What is in force by the decisions up to now. */
struct dt_in_force {
    size_t links;       /* delays in the schedule of the last replan */
    size_t connections; /* that send through host memory */
    size_t migrations;  /* drained RNICs, and connections that have left one */
};

struct dt_in_force dt_decide_in_force(const struct dt_decider *decide);

#ifdef __cplusplus
}
#endif

#endif
