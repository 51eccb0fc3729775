/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controller of a job: reads the observations of all hosts, judges them (judge.h), decides (decide.h),
 * and appends its findings and decisions to the store for agents. One controller decides at a time: the
 * holder of the lease. Others read and judge as well, so that one of them can take over at once; they append
 * nothing.
 *
 * The controller also decides what a command requests (struct dt_request): once, since the decision names the
 * request, and only while the request is recent.
 *
 *   long planning   the lease is checked, and renewed where due, between planning and appending
 *   store cut off   the controller stops deciding when its lease may have ended; decisions that it could not
 *                   append are appended later under the same number, or dropped with the lease
 *   controller dies nothing changes in the job; another continues from the decisions in the stream, and
 *                   keeps measures whose recovery its judge cannot measure (dt_decide_adopt())
 *   store emptied   numbers go on from those that agents report, so that no decision is taken for an old one
 *
 * Owner: one thread. Time is an argument: `now_ns` is monotonic (base/clock.h), `time_ns` is since 1970.
 */
#ifndef DETOUR_CONTROLLER_CONTROL_H
#define DETOUR_CONTROLLER_CONTROL_H

#include "controller/counts.h"
#include "controller/decide.h"
#include "controller/record.h"
#include "controller/remedy.h"
#include "controller/store.h"
#include "controller/validate.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_CONTROL_LEASE_MS   3000
#define DT_CONTROL_REQUEST_NS 10000000000 /* a request that is older is refused */
#define DT_CONTROL_SEEN_NS    10000000000 /* of judging before a decision: dt_decide_adopt() */

struct dt_control;

/* For the operator. Each may be NULL. */
struct dt_control_funcs {
    /* One line. `is_error`: it needs attention. */
    void (*note)(void *arg, bool is_error, const char *text);
    /* A finding is new or has ended. */
    void (*finding)(void *arg, const struct dt_finding_record *finding);
    /* Appended, or with dry_run only made. */
    void (*decision)(void *arg, const struct dt_decision *decision);
    /* An agent has executed a decision, or failed. */
    void (*acknowledged)(void *arg, const struct dt_acknowledgement *acknowledgement);
};

struct dt_control_options {
    struct dt_store *store; /* outlives the controller */
    const char *holder;     /* of the lease: dt_store_is_name(), unique among all controllers */
    uint32_t lease_ms;
    bool dry_run; /* takes no lease and appends nothing */
    struct dt_decide_options decide;
    const struct detour_cluster *cluster; /* the job, for remedies (remedy.h); NULL: none */
    struct dt_validate_funcs validate;    /* before a remedy; not with dry_run */
    struct dt_control_funcs funcs;
    void *funcs_arg;
};

/* NULL when out of memory, or if the cluster is none for remedies: dt_remedy_create() has the reason. */
struct dt_control *dt_control_create(const struct dt_control_options *options);

/* Releases the lease if it is held. */
void dt_control_destroy(struct dt_control *control);

/*
 * The first part of a round, a few times a second: reads, judges and plans. Returns the store's status; after
 * a failure the next round goes on where this one ended.
 */
enum dt_status dt_control_step(struct dt_control *control, uint64_t now_ns, int64_t time_ns);

/*
 * The second part, in each round: appends what was decided. now_ns is read after dt_control_step(), since
 * reading and planning may have taken longer than the lease. A decision whose lease has ended by then is
 * dropped; the next holder of the lease, this controller or another, plans anew. An append may still reach
 * the store late: the fencing number is what agents refuse it by.
 */
enum dt_status dt_control_append(struct dt_control *control, uint64_t now_ns);

/*
 * A decision of the caller instead of the judge, for example a hold of all hosts: `kind`, `host` ("": every
 * one) and what the kind needs; its number, fencing number and point in time are filled in. The next round
 * appends it; funcs.acknowledged() then has the result of each host under *number. DT_AGAIN: this controller
 * has no lease, or no room before the next round.
 */
enum dt_status dt_control_order(struct dt_control *control, const struct dt_decision *wanted,
                                int64_t *number);

/* Holds the lease, as far as it knows. */
bool dt_control_is_leader(const struct dt_control *control);

/* The state of the job after the last round, for metrics. */
struct dt_control_state {
    bool is_leader;
    size_t hosts;            /* that have reported lately: dt_known_present_hosts() */
    uint64_t iteration_ns;   /* dt_known_iteration_ns() */
    struct dt_counts counts; /* since dt_control_create() */
    uint32_t finding_count;  /* open findings */
    struct dt_finding findings[DT_JUDGE_FINDINGS];
    /* What is in force. Without the lease, or in a dry run: nothing. */
    bool is_held;
    struct dt_in_force measures;
    enum detour_step step;
};

void dt_control_read(const struct dt_control *control, struct dt_control_state *state);

#ifdef __cplusplus
}
#endif

#endif
