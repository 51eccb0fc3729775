/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge on one trace of cluster_trace.h, compared with the truth. The first finding about an incident
 * counts: it is right if it names the kind and the place (a link with both ends). A finding about no incident
 * is a false alarm, also one of a burst or of a checkpoint.
 *
 * Both directions of a link are one finding (judge.h), which names the slowest direction first. So an
 * incident of the other direction of a link that has a finding already is named when that finding names its
 * direction first, not before: an older finding of the same link is no sign that the judge has seen the
 * incident. An incident of a direction, NIC, device or host that another incident slows as well needs a
 * finding of its own.
 */
#ifndef DETOUR_TESTS_CONTROLLER_JUDGE_SCORE_H
#define DETOUR_TESTS_CONTROLLER_JUDGE_SCORE_H

#include "controller/judge.h"
#include "tests/controller/cluster_trace.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SCORE_NOT_NAMED DT_FINDING_COUNT /* column of `named_as` */
#define SCORE_ALARMS    8                /* false alarms of a trace that are kept */
#define SCORE_LIMIT_NS \
    (2 * TRACE_TICKS_PER_ITERATION * TRACE_TICK_NS) /* two iterations; more than a second */

/* Of one incident. */
struct score_incident {
    struct trace_incident truth;
    uint32_t named_as;   /* enum dt_finding_kind of the first finding about it, or SCORE_NOT_NAMED */
    bool is_right;       /* the first finding has the kind and the place */
    uint64_t latency_ns; /* from its start to the first finding */
    double factor;       /* of that finding */
    uint32_t wrong;      /* other findings about it with a wrong kind or place */
    uint64_t
        local_ns; /* latency of the first monitor of detect/ that calls a link of it slow; UINT64_MAX: none */
};

struct score {
    struct score_incident incidents[2];
    uint32_t incident_count;
    uint32_t false_alarms;
    struct dt_finding alarms[SCORE_ALARMS]; /* the first ones of them */
    uint64_t alarm_ns[SCORE_ALARMS];        /* when they were made */
    uint32_t local_false_alarms; /* monitors of detect/ that call a link slow that no incident concerns */
    uint64_t simulated_ns;
};

/*
 * How to run a trace. SCORE_WHOLE: to its end. SCORE_NAMED: until SCORE_AFTER_TICKS after all of its
 * incidents have been named, which is what latencies and the confusion matrix need, in a third of the time.
 * SCORE_LOCAL: to its end, with the monitor of detect/ of each link, which takes most of the time.
 */
enum score_extent { SCORE_WHOLE, SCORE_NAMED, SCORE_LOCAL };

#define SCORE_AFTER_TICKS 32

void score_trace(struct score *score, enum trace_kind kind, enum trace_band band, uint64_t seed,
                 enum score_extent extent);

/* The rows that are measured: a kind and a band. Returns false behind the last one. */
bool score_row(uint32_t row, enum trace_kind *kind, enum trace_band *band);

#ifdef __cplusplus
}
#endif

#endif
