/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is slow in a job of many hosts: a link, all links of a NIC, a device, or the processors of a host.
 *
 * A process compares only its own connections (detect/). The judge has the reports of all hosts and compares
 * each link with its kind: links of one size class of transfers, of the same use (`group`), inside a host or
 * between hosts. It follows FALCON (arXiv 2410.12588, section 4.3: groups that take 1.1 times the median are
 * suspicious), with two references instead of one:
 *
 * - Its own. The change of a link against its first reports, divided by the median change of its kind, is the
 *   link's factor (series.h). So neither a job whose messages grow, nor a fabric that is slow everywhere,
 * makes a link slow; a difference between links that has always existed is no incident; and a drift below 10
 * % is found. Kinds with less than DT_JUDGE_KIND_MIN links have no median; their links have only their own
 * past.
 * - Its kind. A link that was slow from its first report on is found if it takes 1.1 times the median of its
 * kind and is an outlier of it, DT_JUDGE_OUTLIER robust deviations away.
 *
 * The same holds for the computing time of ranks; their kind is their stage (`stage`). Ranks of unknown stage
 * are one kind for their common change, but may have different work: their reference is their own past only.
 *
 * What causes it, in this order:
 *
 * 1. PROCESSOR. The threads of the host at either end waited for a processor, and that explains at least half
 * of the extra time (the rule of detect/processor.h), or the sending process itself found so
 *    (DETOUR_STAT_CAUSE_OWN_PROCESSOR). No link, NIC or device of it is blamed. The other links of the rank
 *    refute it if this one takes twice its healthy time and they have less than a quarter of its rise: a busy
 *    processor delays all of them. A rise of some percent needs so few waits that an idle host may have them
 *    in a few reports: then the mean over more reports has to explain it.
 * 2. NIC. The other links of the NIC at one end, to or from other NICs, are slow as well: their mean rise
 * since then is more than half of that of the link, and the processors do not explain it. Links that are slow
 * by themselves since another time, or because of the NIC or the host at their other end, do not count.
 * 3. LINK. The others are not. Both ends are named; both directions are one finding.
 *    As long as the others are neither (2.5 standard errors from half), the verdict waits for the next
 * reports.
 * 4. DEVICE. A rank that computes slowly on a host whose processors are not busy; or 1.1 times as long as
 * they make the other ranks of the host compute, without longer waits than these. If only one rank of a busy
 * host is slow, it is the host's processors.
 *
 * One report of an iteration (or DT_JUDGE_SPAN_NS, if that is longer) is enough to call a link or a rank slow
 * if it is 14 % above the reference and DT_SERIES_ERRORS standard errors of its kind. Bursts of a NIC or a
 * processor last as long as one report of a link that sends once in an iteration, so such a link is only
 * blamed if other links of both NICs have been measured in that round and are healthy. Nor does one report
 * name a link or a rank if the waits for a processor in the last report of its host explain half of the
 * rise: the smoothed share of the waits follows a host that has just become busy later. A finding of one
 * report that the next report refutes was a false alarm: from then on the kind requires two, so a job has at
 * most one such false alarm for each kind.
 *
 * The two directions of a link are judged by themselves and together: a link that is slow in both by less
 * than one of them shows alone is slow, with both.
 *
 * A rank that waits for a slow neighbor is not slow: `service_ns` and `compute_ns` contain no waiting for
 * peers.
 *
 * Owner and thread: one controller, one thread. Pure: time is an argument, nothing is allocated after
 * dt_judge_create(). Reports come from other hosts and are not trusted: a report with impossible values, or
 * for which there is no room, is dropped and counted. Memory: about 2.2 kB per link and rank.
 *
 * Use: add the reports that have arrived, then call dt_judge_decide(); about once a second, or when reports
 * come.
 */
#ifndef DETOUR_CONTROLLER_JUDGE_H
#define DETOUR_CONTROLLER_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_JUDGE_HOST_BYTES 64 /* names end with a zero byte within it */
#define DT_JUDGE_NIC_BYTES  32
#define DT_JUDGE_RANKS      8   /* of a finding that are named */
#define DT_JUDGE_REASON     200 /* bytes */
#define DT_JUDGE_FINDINGS   64  /* at a time */

#define DT_JUDGE_SLOW     1.10         /* times the median of its kind; FALCON section 4.3 */
#define DT_JUDGE_KIND_MIN 8            /* links or ranks of a kind required for a median */
#define DT_JUDGE_OUTLIER  6.0          /* robust deviations from the median of its kind */
#define DT_JUDGE_BUSY     0.03         /* share of waits for a processor below which a host is not busy */
#define DT_JUDGE_SPAN_NS  500000000ull /* a rise that lasts less, or less than an iteration, is a burst */
#define DT_JUDGE_STALE_NS \
    (30 * 1000000000ull) /* without a report for so long, a link or rank is not judged */

#define DT_JUDGE_UNKNOWN UINT32_MAX /* a stage or a rank that is not known */

/* One sending link in the time since its last report, as its host measured it. */
struct dt_link_report {
    uint32_t from_rank, to_rank;    /* DT_JUDGE_UNKNOWN is allowed */
    char host[DT_JUDGE_HOST_BYTES]; /* of the sender */
    char peer_host[DT_JUDGE_HOST_BYTES];
    char nic[DT_JUDGE_NIC_BYTES]; /* of the sender; "": one unnamed NIC per host and rank */
    char peer_nic[DT_JUDGE_NIC_BYTES];
    uint32_t group;          /* use of the link, any number: links of different use are of different kinds */
    uint64_t service_ns;     /* median (or typical) time of a transfer, without waits for the peer; > 0 */
    uint64_t transfer_bytes; /* of that transfer; > 0 */
    uint64_t healthy_ns;     /* what the host takes for its healthy time; 0: unknown. For the record only */
    uint64_t delay_ns;       /* extra time by the host's own verdict. For the record only */
    uint32_t verdict;        /* enum detour_stat_verdict of the host. For the record only */
    uint32_t cause;          /* enum detour_stat_cause of the host */
    uint64_t samples;        /* transfers; > 0 */
    uint64_t time_ns;        /* end of that time, on the controller's clock or any that does not jump */
};

/* One rank in the time since its last report. */
struct dt_rank_report {
    uint32_t rank;
    uint32_t stage; /* ranks with the same work; DT_JUDGE_UNKNOWN: any work */
    char host[DT_JUDGE_HOST_BYTES];
    uint64_t iteration_ns;  /* 0: none since the last report; the last known one counts */
    uint64_t compute_ns;    /* own computing in an iteration, without waits; 0: unknown */
    double processor_share; /* of the time its threads wanted to run, the part they waited for a processor: 0
                               to 1 */
    uint64_t samples;       /* iterations that compute_ns is the typical one of; > 0 if compute_ns is */
    uint64_t time_ns;
};

/* X(kind, text) */
#define DT_FINDINGS(X)                               \
    X(LINK, "link")           /* between two NICs */ \
    X(NIC, "NIC")             /* of one host */      \
    X(DEVICE, "device")       /* slow computing */   \
    X(PROCESSOR, "processor") /* busy host */

enum dt_finding_kind {
#define DT_FINDING_ENUM(kind, text) DT_FINDING_##kind,
    DT_FINDINGS(DT_FINDING_ENUM)
#undef DT_FINDING_ENUM
        DT_FINDING_COUNT
};

enum dt_finding_state {
    DT_FINDING_NEW, /* reported for the first time */
    DT_FINDING_GOES_ON,
    DT_FINDING_ENDED, /* healthy again, explained by another finding, or without reports; reported once */
};

struct dt_finding {
    uint64_t number; /* unique in the life of the judge, ascending from 1 */
    enum dt_finding_kind kind;
    enum dt_finding_state state;
    uint32_t rank;      /* LINK: the sender of the slowest direction; NIC: its rank if only one uses it;
                           DEVICE; DT_JUDGE_UNKNOWN: unknown or several */
    uint32_t peer_rank; /* LINK: the receiver; otherwise DT_JUDGE_UNKNOWN */
    char host[DT_JUDGE_HOST_BYTES];
    char peer_host[DT_JUDGE_HOST_BYTES]; /* LINK; otherwise "" */
    char nic[DT_JUDGE_NIC_BYTES];        /* LINK, NIC; otherwise "" */
    char peer_nic[DT_JUDGE_NIC_BYTES];   /* LINK; otherwise "" */
    uint32_t count;                      /* links or ranks that are slow because of it */
    double factor;                       /* of the slowest one, against its reference */
    uint64_t delay_ns;                   /* extra time of its transfer or of its computing in an iteration */
    uint64_t since_ns;                   /* time of the first slow report */
    char reason[DT_JUDGE_REASON];        /* one line */
};

/* A link that is slow now, for schedules: delays of all slow links, whatever the cause. */
struct dt_slow_link {
    uint32_t from_rank, to_rank;
    double factor;
    uint64_t delay_ns; /* extra time of a transfer */
    uint64_t finding;  /* number of its finding; 0: not yet decided */
};

struct dt_judge_counts {
    uint64_t invalid;             /* reports dropped for impossible values */
    uint64_t no_room;             /* reports dropped because tables were full */
    uint32_t links, ranks, hosts; /* known */
};

struct dt_judge;

/* NULL: no memory, or a limit is 0. A link that moves to another NIC is another link. */
struct dt_judge *dt_judge_create(uint32_t links_max, uint32_t ranks_max);

/* NULL is allowed. */
void dt_judge_destroy(struct dt_judge *judge);

/* False: dropped. A report that is older than the last one of its link or rank is dropped as well. */
bool dt_judge_add_link(struct dt_judge *judge, const struct dt_link_report *report);
bool dt_judge_add_rank(struct dt_judge *judge, const struct dt_rank_report *report);

/*
 * Judges everything anew, at `now_ns`, which is on the clock of the reports. Returns the findings: new ones,
 * those that go on, and those that ended since the last call; `*count` of them, valid until the next call.
 */
const struct dt_finding *dt_judge_decide(struct dt_judge *judge, uint64_t now_ns, uint32_t *count);

/* Fills up to `room` slow links, the slowest first, and returns how many there are in all. Valid after a
 * decision. */
uint32_t dt_judge_slow_links(const struct dt_judge *judge, struct dt_slow_link *links, uint32_t room);

struct dt_judge_counts dt_judge_get_counts(const struct dt_judge *judge);

/* Never NULL. */
const char *dt_finding_kind_text(enum dt_finding_kind kind);

#ifdef __cplusplus
}
#endif

#endif
