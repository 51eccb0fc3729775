/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a slow link or device to the cheapest remedy, after FALCON (arXiv 2410.12588).
 *
 * A validation finds the slow link or device: pairs of ranks exchange messages in a constant number of
 * passes, and the times of the pairs say where the slowness is (section 4.3). Remedies are steps of a ladder
 * (section 5): S1 ignores the slowness, S2 gives slow replicas fewer microbatches, S3 exchanges nodes, S4
 * restarts the job.
 *
 * The rules of detour/sched.h hold: int64 nanoseconds and bytes, results in the caller's arena, no global
 * state, no clock, no thread, one line of text for each error. The same input gives the same result.
 */
#ifndef DETOUR_MITIGATE_H
#define DETOUR_MITIGATE_H

#include "detour/sched.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Limits; beyond them an input is refused (DETOUR_LIMIT). */
#define DETOUR_RANKS_MAX    65536
#define DETOUR_REPLICAS_MAX 4096

/* ---- validation: who exchanges messages with whom ---------------------------------------------------- */

struct detour_rank_pair {
    int32_t from; /* sends */
    int32_t to;
};

/*
 * Pass p has the pairs first_pair[p] .. first_pair[p + 1] - 1. No rank is in two pairs of a pass, so that all
 * pairs of a pass exchange at once and do not disturb each other.
 */
struct detour_validation {
    int32_t rank_count;
    int32_t pass_count;
    int32_t pair_count;
    const int32_t *first_pair; /* pass_count + 1 */
    const struct detour_rank_pair *pairs;
};

/*
 * Every link of the ring 0 -> 1 -> ... -> 0: two passes for an even number of ranks, three for an odd one
 * (section 4.3, figure 9). At least two ranks.
 */
DETOUR_API enum detour_status detour_validation_ring(struct detour_arena *arena, int32_t rank_count,
                                                     const struct detour_validation **validation,
                                                     struct detour_error *error);

/*
 * Every link of NCCL's double binary tree, from child to parent, in four passes. The paper needs four for
 * one tree; here both trees share them, since a rank that has children in one tree is a leaf of the other. A
 * link of both trees appears once. At least two ranks; a handful of ranks needs less than four passes.
 */
DETOUR_API enum detour_status detour_validation_double_tree(struct detour_arena *arena, int32_t rank_count,
                                                            const struct detour_validation **validation,
                                                            struct detour_error *error);

/* ---- validation: where the slowness is --------------------------------------------------------------- */

/* Of the same message for all pairs and the same computation for all ranks, each from 1 to
 * DETOUR_TIME_MAX_NS; a pair that did not finish has DETOUR_TIME_MAX_NS. */
struct detour_validation_times {
    const int64_t *pair_ns;    /* [pair] */
    const int64_t *compute_ns; /* [rank]; NULL: no test of computing */
};

/* Zero is the default of every field. */
struct detour_diagnose_options {
    int32_t threshold_permille; /* slow: longer than this part of the reference; 0 means 1100 (section 4.3) */
    int64_t pair_reference_ns;  /* 0: the median of the pairs, which must be healthy */
    int64_t compute_reference_ns; /* 0: the median of the ranks */
};

enum detour_slow_kind {
    DETOUR_SLOW_LINK = 0,    /* between `rank` and `peer` */
    DETOUR_SLOW_NETWORK = 1, /* every link of `rank` */
    DETOUR_SLOW_COMPUTE = 2, /* computing of `rank` */
};

struct detour_slow {
    enum detour_slow_kind kind;
    int32_t rank;
    int32_t peer;            /* of a link, else -1 */
    int32_t factor_permille; /* of the reference */
};

/*
 * `slow` has the ranks with slow computing, then those with a slow network, then the links, each in
 * ascending order. Where all pairs of a rank are slow, the cause is the rank or each of its links. `confirm`
 * is then a further validation of such ranks with healthy ones; without its times the pairs count as slow
 * links.
 */
struct detour_diagnosis {
    int32_t slow_count;
    const struct detour_slow *slow;
    const struct detour_validation *confirm; /* NULL: not needed */
    bool ambiguous; /* a rank has only slow pairs, and there is no healthy rank to confirm it with */
};

/*
 * `confirm` and `confirm_ns` ([pair]): the diagnosis' further validation and its times, or NULL. A link of a
 * rank with a slow network is reported only if it is slower than that network by the threshold.
 */
DETOUR_API enum detour_status
detour_diagnose(struct detour_arena *arena, const struct detour_validation *validation,
                const struct detour_validation_times *times, const struct detour_validation *confirm,
                const int64_t *confirm_ns, const struct detour_diagnose_options *options,
                struct detour_diagnosis *diagnosis, struct detour_error *error);

/* ---- S2: microbatches of each replica ---------------------------------------------------------------- */

/* m microbatches take fixed_ns + m * microbatch_ns. */
struct detour_replica {
    int64_t microbatch_ns; /* 1 to DETOUR_TIME_MAX_NS */
    int64_t fixed_ns;      /* filling and draining the pipeline; 0 in the paper's equation 1 */
};

struct detour_microbatches {
    int64_t time_ns;       /* of the slowest replica */
    const int32_t *counts; /* [replica] */
    /* Of each replica's mean gradient in the mean of all microbatches: counts[r] / sum (section 5.3). */
    const double *weights;
};

/*
 * The numbers of microbatches, each at least 1, that make the slowest replica's time smallest: the exact
 * optimum of equation 1. No microbatch could move to another replica and end earlier there. The relaxation
 * gives all replicas their parts of one common time but for less than one microbatch each; a heap hands out
 * these. O(D log D), and D is at most the number of microbatches.
 *
 * (The sum of squares on the right of the paper's equation 1 is another problem for whole numbers: for
 * microbatches of 2, 5 and 10 ms and 12 of them its optimum takes 20 ms, this one 16 ms.)
 */
DETOUR_API enum detour_status detour_microbatches_assign(struct detour_arena *arena,
                                                         const struct detour_replica *replicas,
                                                         int32_t replica_count, int32_t microbatch_count,
                                                         struct detour_microbatches *assigned,
                                                         struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
