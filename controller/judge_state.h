/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of a judge, shared by judge.c (tables, reports, rounds), judge_kind.c (what the links of a kind
 * have in common), judge_cause.c (what causes a slow link) and judge_findings.c (the list of findings). Not
 * for users of judge.h.
 */
#ifndef DETOUR_CONTROLLER_JUDGE_STATE_H
#define DETOUR_CONTROLLER_JUDGE_STATE_H

#include <stddef.h>

#include "controller/judge.h"
#include "controller/series.h"

#define DT_JUDGE_NONE  UINT32_MAX
#define DT_JUDGE_KINDS 64

/* A smoothed share that idle hosts do not have by chance. */
#define DT_JUDGE_CLEARLY_BUSY (2 * DT_JUDGE_BUSY)

struct dt_judge_kind {
    bool is_rank;
    uint32_t group, size_class; /* ranks: the stage, 0 */
    bool is_inside;             /* both ends on one host */
    uint32_t count;             /* learned members with recent reports */
    double change;              /* logarithm: median change of the present members against their references */
    struct dt_series_errors errors; /* robust deviation of the members' window means; 0: unknown */
    double level, spread;           /* of the members' references: median, robust deviation */
    uint64_t rounds;                /* with enough members */
    bool is_news;                   /* a member has a new report */
    uint64_t seen_ns;               /* of all members: the last report, on the judge's clock */
    bool is_spiky;                  /* a finding that rested on one report was wrong: two are required */
};

/* What links and ranks have in common. */
struct dt_judge_member {
    struct dt_series series;
    uint32_t kind;
    double sum;        /* of logarithm * samples, of the reports since the last round */
    uint64_t samples;  /* of these reports; 0: none */
    double last;       /* logarithm of the last report */
    uint64_t last_ns;  /* time of the last report; 0: none yet */
    uint64_t seen_ns;  /* when it came, on the judge's clock: the decision before it */
    uint64_t gap_ns;   /* between the last two reports; 0: there was one */
    uint64_t round;    /* the last one with a report */
    uint64_t first_ns; /* time of the first report */
    double outlier;    /* logarithm above the median of its kind; 0: no outlier */
    uint32_t finding;  /* index among the judge's findings, or DT_JUDGE_NONE */
};

struct dt_judge_link {
    struct dt_judge_member member;
    uint32_t from_rank, to_rank, nic, peer_nic, group, size_class;
    uint32_t next_out, next_in; /* of the same NIC */
    uint32_t back;              /* the other direction, or DT_JUDGE_NONE */
    bool is_own_processor;      /* by the sender's own verdict */
};

struct dt_judge_rank {
    struct dt_judge_member member;
    uint32_t rank, host, stage;
    uint64_t iteration_ns; /* the last one that is known; 0: none */
    uint64_t reported_ns;  /* the last time, with or without an iteration */
    double share;          /* of waits for a processor, smoothed over its own reports */
};

struct dt_judge_nic {
    char name[DT_JUDGE_NIC_BYTES];
    uint32_t host;
    uint32_t rank;                /* the one that uses it; DT_JUDGE_UNKNOWN: several, or not known */
    uint32_t unnamed_rank;        /* of a NIC without a name; otherwise DT_JUDGE_UNKNOWN */
    uint32_t first_out, first_in; /* links */
};

/* The ranks of a host that are not slow devices: what its processors do to all of them. */
struct dt_judge_host_ranks {
    uint32_t count;
    double sum, squares; /* of dt_series_lower_of_two(), and of its standard errors */
    double shares;       /* of waits for a processor */
};

struct dt_judge_host {
    char name[DT_JUDGE_HOST_BYTES];
    double share;        /* of waits for a processor, smoothed */
    double share_before; /* the same before the last time of a report */
    double share_last;   /* not smoothed: of the last time of a report */
    double mean;         /* of shares, smoothed over more reports */
    double mean_before;
    uint64_t share_ns;
    struct dt_judge_host_ranks ranks; /* of the present round */
};

/* Open addressing: positions in an array by the digest of a key. */
struct dt_judge_index {
    uint32_t *slots;
    uint32_t mask;
};

struct dt_judge_findings {
    struct dt_finding list[DT_JUDGE_FINDINGS]; /* as the caller sees them */
    uint32_t keys[DT_JUDGE_FINDINGS][2];       /* what it is about: positions of NICs, a host or a rank */
    uint64_t touched[DT_JUDGE_FINDINGS];       /* the round in which something was last slow because of it */
    uint32_t count;
    uint64_t next_number;
};

struct dt_judge {
    struct dt_judge_link *links;
    struct dt_judge_rank *ranks;
    struct dt_judge_nic *nics;
    struct dt_judge_host *hosts;
    struct dt_judge_kind kinds[DT_JUDGE_KINDS];
    uint32_t link_count, rank_count, nic_count, host_count, kind_count;
    uint32_t link_max, rank_max, nic_max, host_max;
    struct dt_judge_index link_index, rank_index, nic_index, host_index;
    double *scratch; /* link_max + rank_max */
    struct dt_judge_findings findings;
    struct dt_judge_counts counts;
    uint64_t round, now_ns, span_ns;
};

bool dt_judge_is_recent(const struct dt_judge *judge, const struct dt_judge_member *member);

/* Links first, then ranks. */
static inline struct dt_judge_member *dt_judge_member_at(struct dt_judge *judge, uint32_t at)
{
    return at < judge->link_count ? &judge->links[at].member : &judge->ranks[at - judge->link_count].member;
}

/* The other direction of a link; NULL: of a rank, or there is none. Of each pair once: for its first member.
 */
static inline struct dt_judge_member *dt_judge_back(struct dt_judge *judge, uint32_t at)
{
    uint32_t back = at < judge->link_count ? judge->links[at].back : DT_JUDGE_NONE;

    return back == DT_JUDGE_NONE || back <= at ? NULL : &judge->links[back].member;
}

/* Slow because of one report alone. */
static inline bool dt_judge_is_early(const struct dt_judge_member *member)
{
    return dt_series_is_early(&member->series) && member->outlier <= 0;
}

static inline bool dt_judge_is_slow(const struct dt_judge_member *member)
{
    return member->series.is_slow || member->outlier > 0;
}

/* Logarithm of its factor; of a slow member. */
static inline double dt_judge_rise(const struct dt_judge_member *member)
{
    return member->outlier > member->series.rise || !member->series.is_slow ? member->outlier
                                                                            : member->series.rise;
}

static inline uint64_t dt_judge_since_ns(const struct dt_judge_member *member)
{
    return member->series.is_slow ? member->series.since_ns : member->first_ns;
}

#endif
