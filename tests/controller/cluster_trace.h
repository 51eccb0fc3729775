/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job of 1,024 ranks with at most two incidents, made from a seed, with a known truth: the input of the
 * test and of the benchmark of controller/judge.h. It was committed before the judge was tuned; a test
 * compares the digest of the traces.
 *
 * Each constant names the section of FALCON (arXiv 2410.12588) or of PipeMorph (NSDI 2026) that it is from,
 * or is marked "assumption": the papers have no value.
 *
 * Model. 8 stages times 128 replicas, one NIC per rank, 8 ranks per host: the ranks of a host are 8
 * consecutive replicas of one stage (FALCON section 2: stages are on different nodes). Links that cross
 * hosts: a rank sends to the same replica of the next and of the previous stage, and to the rank at the same
 * position of the next host of its stage (a ring of replicas that uses every NIC). A tick is a quarter of an
 * iteration. In each tick a pipeline link has a report with the median of its transfers, a ring link has one
 * per iteration, in the last quarter, and a rank has one per iteration. Medians of n transfers are drawn from
 * their asymptotic normal distribution, not from n transfers; a tick of which an incident covers at least
 * half is slow as a whole, and otherwise not at all. Iterations do not become longer in an incident, so that
 * reports keep their rhythm.
 */
#ifndef DETOUR_TESTS_CONTROLLER_CLUSTER_TRACE_H
#define DETOUR_TESTS_CONTROLLER_CLUSTER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/prng.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Shape. */
#define TRACE_STAGES         8   /* assumption */
#define TRACE_REPLICAS       128 /* 1,024 ranks: FALCON section 3.4, jobs of 512 to 1024 GPUs */
#define TRACE_RANKS          (TRACE_STAGES * TRACE_REPLICAS)
#define TRACE_RANKS_PER_HOST 8 /* FALCON section 7.1 */
#define TRACE_HOSTS          (TRACE_RANKS / TRACE_RANKS_PER_HOST)
#define TRACE_LINKS          (2 * (TRACE_STAGES - 1) * TRACE_REPLICAS + TRACE_RANKS)
#define TRACE_TICK_NS                                                                     \
    877193000ull /* a quarter of an iteration; FALCON figure 20: 17.1 iterations a minute \
                  */
#define TRACE_TICKS_PER_ITERATION 4
#define TRACE_QUIET_TICKS         (64 * TRACE_TICKS_PER_ITERATION) /* before the first incident; assumption */
#define TRACE_TICKS               (320 * TRACE_TICKS_PER_ITERATION) /* 19 minutes; assumption */

/* Healthy transfers. */
#define TRACE_PIPELINE_BYTES \
    20971520ull /* FALCON appendix 9.2: n_ctx h values; 2048 * 5120 * 2 bytes, a 13B model */
#define TRACE_RING_BYTES         4194304ull   /* assumption: a chunk of the ring */
#define TRACE_BYTES_PER_S        50000000000. /* FALCON section 7.1: 400 Gbit/s */
#define TRACE_TRANSFERS_PIPELINE 16 /* of a tick; assumption: 64 microbatches an iteration and replica */
#define TRACE_TRANSFERS_RING                                                      \
    240 /* of an iteration; assumption: 30 steps of a ring of 16 hosts, 8 buckets \
         */
#define TRACE_COMPUTE_NS 2800000000. /* computing of a rank in an iteration; assumption: 80 % of it */

/*
 * Noise. FALCON table 2 has a coefficient of variation of 0.29 for transfers between nodes, over jobs. Half
 * of the variance is between links, which keep their speed, and half between the transfers of a link:
 * assumption.
 */
#define TRACE_BETWEEN_LINKS     0.205
#define TRACE_BETWEEN_TRANSFERS 0.205
#define TRACE_BETWEEN_DEVICES   0.01 /* FALCON table 2: inside a GPU */
#define TRACE_COMPUTE_NOISE     0.01 /* the same */
#define TRACE_SLOW_NOISE        0.01 /* of a link's level, correlated over TRACE_SLOW_TICKS; assumption */
#define TRACE_SLOW_TICKS        8    /* assumption */
/* Short congestion of some NIC, no incident: in 2 % of the iterations of the job, as in tests/detect/trace.h.
 */
#define TRACE_BURST_EVERY_TICKS 200  /* assumption */
#define TRACE_BURST_TICKS       2    /* at most; shorter than the shortest incident; assumption */
#define TRACE_CHECKPOINT_MAX    250  /* iterations between two checkpoints, 50 at least; assumption */
#define TRACE_CHECKPOINT_LEVEL  1500 /* permille, at most: all links for two ticks; assumption */
#define TRACE_WAIT_SHARE        0.01 /* mean share of waits for a processor on a healthy host; assumption */

/* Incidents: durations in seconds. */
#define TRACE_DURATION_MIN    20.   /* FALCON section 1: from tens of seconds */
#define TRACE_DURATION_DEVICE 600.  /* mean; FALCON section 3.2 */
#define TRACE_DURATION_LINK   1440. /* mean; FALCON section 3.3 */
#define TRACE_SECOND_OF_16    3     /* FALCON table 1: of 16 slow jobs at scale 3 had several issues */
/* Factors in permille, uniform in the logarithm (assumption). */
#define TRACE_SLOW_MIN                                                                                      \
    1200                              /* slowdowns from here on must be found in two iterations; assumption \
                                       */
#define TRACE_LINK_MAX           6667 /* FALCON section 3.4: throughput 85 % lower */
#define TRACE_DEVICE_MAX         1900 /* FALCON section 7.3 */
#define TRACE_PROCESSOR_MAX      1276 /* of computing; FALCON section 3.2: throughput at most 21.6 % lower */
#define TRACE_PROCESSOR_LINK_MAX 3000 /* of the links of a busy host; assumption */
#define TRACE_FABRIC_MAX         2000 /* all links together; assumption */
#define TRACE_MILD_MIN           1100 /* FALCON section 4.2: less is a jitter */
#define TRACE_DRIFT_MIN          1040 /* assumption */
#define TRACE_DRIFT_MAX          1095
#define TRACE_DRIFT_TICKS_MIN    240 /* until a drift has its last level: 60 iterations; assumption */
#define TRACE_DRIFT_TICKS_MAX    640 /* assumption */

/* X(kind, text) */
#define TRACE_KINDS(X)                                                                                 \
    X(QUIET, "no incident")                                                                            \
    X(LINK, "one link, one direction")                                                                 \
    X(LINK_BOTH, "one link, both directions")                                                          \
    X(FLUCTUATING, "one pipeline link, delays of PipeMorph section 7.5: median 13.0 ms, 99 % 79.3 ms") \
    X(NIC, "all links of one NIC")                                                                     \
    X(DEVICE, "computing of one rank")                                                                 \
    X(PROCESSOR, "busy processors of one host: its computing, its links, and waits for a processor")   \
    X(FABRIC, "all links of the job alike: no link is slow against its kind")

enum trace_kind {
#define TRACE_KIND_ENUM(kind, text) TRACE_KIND_##kind,
    TRACE_KINDS(TRACE_KIND_ENUM)
#undef TRACE_KIND_ENUM
        TRACE_KIND_COUNT
};

enum trace_band { TRACE_BAND_SLOW, TRACE_BAND_MILD, TRACE_BAND_DRIFT, TRACE_BAND_COUNT };

struct trace_incident {
    enum trace_kind kind;
    enum trace_band band;
    uint32_t rank;        /* DEVICE, NIC: its rank; LINK...: the sender; PROCESSOR: a rank of the host */
    uint32_t peer;        /* LINK...: the receiver */
    uint32_t factor;      /* permille: of transfers, or of computing */
    uint32_t factor_link; /* PROCESSOR: of transfers */
    uint64_t start_ns;
    uint64_t duration_ns;
    uint64_t ramp_ns; /* DRIFT: time until the factor is reached; otherwise 0 */
};

struct trace_link {
    uint32_t from, to;
    bool is_ring;
};

struct cluster_trace {
    struct trace_incident incidents[2];
    uint32_t incident_count;
    uint64_t tick; /* of the values below, from 0; they are valid after cluster_trace_step() */
    double service_ns[TRACE_LINKS]; /* 0: no report in this tick */
    double compute_ns[TRACE_RANKS]; /* the same */
    double
        wait_share[TRACE_HOSTS]; /* of the time in which threads wanted to run, the part that they waited */
    /* private */
    struct dt_prng prng;
    uint64_t next_tick;
    double spare;
    bool has_spare;
    double link_base[TRACE_LINKS], link_slow[TRACE_LINKS], rank_base[TRACE_RANKS];
    double burst_factor[TRACE_RANKS];
    uint64_t burst_end[TRACE_RANKS];
    uint64_t checkpoint_tick;
    double checkpoint_factor;
};

/* Of a trace: its links are the same for all seeds. */
struct trace_link cluster_trace_link(uint32_t link);
static inline uint32_t cluster_trace_host(uint32_t rank)
{
    return rank / TRACE_RANKS_PER_HOST;
}

/* Only the incidents of cluster_trace_start(), for their digest. */
void cluster_trace_draw(struct cluster_trace *trace, enum trace_kind kind, enum trace_band band,
                        uint64_t seed);

/* A trace whose first incident has this kind and band. */
void cluster_trace_start(struct cluster_trace *trace, enum trace_kind kind, enum trace_band band,
                         uint64_t seed);

/* The values of the next tick; it ends at (tick + 1) * TRACE_TICK_NS. */
void cluster_trace_step(struct cluster_trace *trace);

const char *cluster_trace_kind_name(enum trace_kind kind);
const char *cluster_trace_band_name(enum trace_band band);

#ifdef __cplusplus
}
#endif

#endif
