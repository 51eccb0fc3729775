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

/*
 * These links, each once, in as few passes as are found: at most one more than the links of a rank. A link
 * has two different ranks. DETOUR_UNSUPPORTED: more than eight passes are needed.
 */
DETOUR_API enum detour_status detour_validation_links(struct detour_arena *arena, int32_t rank_count,
                                                      const struct detour_rank_pair *links,
                                                      int32_t link_count,
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

/* ---- the job ----------------------------------------------------------------------------------------- */

#define DETOUR_CLUSTER_NODES_MAX   4096
#define DETOUR_SLOW_MAX            1024    /* slow nodes, and slow links, of one incident */
#define DETOUR_SLOW_PERMILLE_MAX   1000000 /* of a healthy time */
#define DETOUR_CLUSTER_NAME_BYTES  64      /* with its NUL */
#define DETOUR_STEP_COST_MAX_NS    1000000000000000
#define DETOUR_CLUSTER_BYTES_MAX   DETOUR_BYTES_MAX
#define DETOUR_CLUSTER_BYTES_S_MAX 1000000000000000

/* The remedies, in the order of their usual costs (section 5.1, table 3). */
enum detour_step {
    DETOUR_STEP_S1 = 0, /* ignore */
    DETOUR_STEP_S2 = 1, /* other numbers of microbatches */
    DETOUR_STEP_S3 = 2, /* other nodes for the positions */
    DETOUR_STEP_S4 = 3, /* restart on healthy nodes */
    DETOUR_STEP_COUNT = 4,
};

/* "S1" to "S4"; NULL for other values. */
DETOUR_API const char *detour_step_name(enum detour_step step);

/*
 * A job of replicas (data parallel), each a pipeline of stages. Position (replica, stage) has the number
 * replica * stage_count + stage; a node holds one position, with all devices of its tensor-parallel group.
 * Owned by the caller, only read by the library.
 */
struct detour_cluster {
    const char *name; /* printable ASCII */
    int32_t replica_count;
    int32_t stage_count;
    int32_t microbatch_count; /* of all replicas; at least one for each */
    const int64_t *stage_ns;  /* [stage]: all operations of one microbatch on a healthy node */
    int64_t message_bytes;    /* of one microbatch from a stage to the next; back the same */
    int64_t gradient_bytes;   /* of one node */
    int64_t bytes_per_s;      /* of a healthy link; 0: messages take no time but latency_ns */
    int64_t latency_ns;
    const int32_t *nodes; /* [position]; NULL: node and position have the same number */
    /* What it costs to take a step, once; S3: beside moving state_bytes. */
    int64_t cost_ns[DETOUR_STEP_COUNT];
    int64_t state_bytes; /* of one node, which S3 moves: parameters and optimizer; 0: moving is in the cost */
    int64_t copy_bytes_per_s; /* between a node's GPU and its host; 0: the state moves without such copies */
    /* [node]: the number of its machine, less than that of nodes; NULL: each node is a machine. Between two
     * machines there is one path of the network: a slow link between their nodes is one of all these pairs.
     */
    const int32_t *machines;
};

struct detour_slow_node {
    int32_t node;
    int32_t compute_permille; /* of a healthy node's times; at least 1000 */
    int32_t network_permille; /* of all its links; likewise */
};

/* Both directions. Of several for one link, or for one path between machines, the largest values count. */
struct detour_slow_link {
    int32_t a;
    int32_t b;
    int32_t factor_permille; /* of the time that bytes occupy the link; at least 1000 */
    int64_t delay_ns;        /* of every message */
};

/* Everything that is slow at present. */
struct detour_slowness {
    int32_t node_count;
    int32_t link_count;
    const struct detour_slow_node *nodes;
    const struct detour_slow_link *links;
};

/* DETOUR_OK when every field is in range. The functions below check both themselves. */
DETOUR_API enum detour_status detour_cluster_check(const struct detour_cluster *cluster,
                                                   struct detour_error *error);
DETOUR_API enum detour_status detour_slowness_check(const struct detour_cluster *cluster,
                                                    const struct detour_slowness *slowness,
                                                    struct detour_error *error);

/*
 * The validation of every link that the job uses with these nodes at its positions (NULL: the cluster's):
 * between the stages of each replica, and in the rings of gradients. A rank has at most four, so that the
 * passes are five at most, however many ranks there are. At least two positions.
 */
DETOUR_API enum detour_status
detour_validation_job(struct detour_arena *arena, const struct detour_cluster *cluster, const int32_t *nodes,
                      const struct detour_validation **validation, struct detour_error *error);

/* ---- how long an iteration takes --------------------------------------------------------------------- */

/*
 * An estimate: the slowest replica's pipeline, then the slowest stage's all-reduce.
 *
 *   message    c = message_bytes / bandwidth * factor + latency + delay
 *   period     p = max(t[s], (t[s] + t[s + 1]) / 2 + c[s]) of the stages and links of a replica: 1F1B, where
 *              the next forward pass of a stage waits for a message there and one back
 *   pipeline   sum of t and of both directions' c, and p for every microbatch but the first
 *   gradients  a ring: 2 (D - 1) times the slowest link's gradient_bytes / D, latency and delay
 *
 * A time of more than DETOUR_TIME_MAX_NS counts as DETOUR_TIME_MAX_NS.
 */
struct detour_iteration {
    int64_t iteration_ns;
    int64_t pipeline_ns;
    int64_t gradients_ns;
};

/* `nodes` ([position]) and `counts` ([replica]): NULL for the cluster's and for equal counts, the first ones
 * one larger where they are not divisible. */
DETOUR_API enum detour_status
detour_iteration_estimate(struct detour_arena *arena, const struct detour_cluster *cluster,
                          const struct detour_slowness *slowness, const int32_t *nodes, const int32_t *counts,
                          struct detour_iteration *iteration, struct detour_error *error);

/* ---- S3: nodes of the positions ---------------------------------------------------------------------- */

/* The groups of nodes that exchange data over a link (section 5.3). */
enum detour_group {
    DETOUR_GROUP_NONE = 0,     /* the link is not used */
    DETOUR_GROUP_DATA = 1,     /* a stage of all replicas: gradients */
    DETOUR_GROUP_PIPELINE = 2, /* the stages of one replica: messages of microbatches */
};

/* "none", "data", "pipeline"; NULL for other values. */
DETOUR_API const char *detour_group_name(enum detour_group group);

/* Of a slow link: the bytes in each direction and iteration. Between two machines: those of all links between
 * them, and the group with more of them. */
struct detour_link_use {
    enum detour_group before;
    enum detour_group after;
    int64_t before_bytes;
    int64_t after_bytes;
};

/* Zero is the default of every field. */
struct detour_topology_options {
    bool even;       /* the numbers of microbatches stay equal; else those of S2 */
    uint64_t budget; /* exchanges of two nodes to try; 0 means 200,000 */
};

struct detour_topology {
    const int32_t *nodes;  /* [position] */
    const int32_t *counts; /* [replica]: microbatches */
    struct detour_iteration iteration;
    int64_t bound_ns;                   /* no assignment of nodes takes less */
    bool optimal;                       /* every assignment was tried, or the bound is reached */
    int32_t moved_count;                /* nodes at another position than before */
    int32_t straggler_stages;           /* stages with a node that computes slowly */
    const struct detour_link_use *uses; /* [link of the slowness] */
    uint64_t tried;
    bool ended_early; /* the budget ended the search while exchanges were left that might help */
};

/*
 * Assigns the nodes to the positions: the shortest estimated iteration, then the fewest stages with
 * stragglers, the fewest stragglers in the first and the last stage, the fewest slow links with gradients,
 * the fewest moves (section 5.3). Up to eight nodes every assignment is tried; for more, exchanges of two
 * nodes from several beginnings, and bound_ns tells how far the result may be from the optimum. Of more than
 * 64 nodes a node is exchanged with chosen others only: most of a large job's positions are alike.
 *
 * With `even` set, stragglers end in one stage, as in the paper. With the counts of S2 it is better to have
 * them in one replica, which then gets fewer microbatches.
 */
DETOUR_API enum detour_status
detour_topology_adjust(struct detour_arena *arena, const struct detour_cluster *cluster,
                       const struct detour_slowness *slowness, const struct detour_topology_options *options,
                       struct detour_topology *topology, struct detour_error *error);

/* How `detour pipeline` moves a node's state (cli/pipeline/slices.h): transfers under way in each direction,
 * and most bytes of one. */
#define DETOUR_MOVE_SLOTS       8
#define DETOUR_MOVE_SLICE_BYTES (1024 * 1024)

/*
 * The pause of an S3 after which `nodes` ([position]) are at the positions instead of the cluster's. It
 * begins when the iteration has ended on all ranks. Connections are closed, and made anew at the end: the
 * cost of S3. In between every node that changes its position sends its state to the node that takes this
 * position, and receives the one of its new position; nodes and directions at once.
 *
 *   slice   s = the bytes of a slice / bandwidth * factor
 *   round   of n = DETOUR_MOVE_SLOTS slices, each of which the receiver requests:
 *           max(n s, s + 2 latency + delay); over a link on which a state goes back as well, which keeps the
 *           order, requests wait behind slices: delay + latency + max(n s, s + latency)
 *   move    3 latency + delay (request, slice, acknowledgement), the rounds before the last one, and the
 *           bytes of the last one; of the slowest link
 *   copies  2 state_bytes / copy_bytes_per_s: to the host before, to the GPU behind
 *
 * Links are those of the slowness; two links do not slow each other down. Not in it: registration of memory.
 * At most DETOUR_STEP_COST_MAX_NS.
 */
DETOUR_API enum detour_status detour_exchange_pause(struct detour_arena *arena,
                                                    const struct detour_cluster *cluster,
                                                    const struct detour_slowness *slowness,
                                                    const int32_t *nodes, int64_t *pause_ns,
                                                    struct detour_error *error);

/* ---- the ladder: when a step is taken ---------------------------------------------------------------- */

/*
 * How long a slowness lasts is not known before it ends. As with skis that can be rented or bought
 * (section 5.2), a step is taken once waiting for it has cost as much as the step does: for every step, the
 * time that it would have saved is added up, iteration by iteration, and it is taken at the boundary at which
 * one more iteration would reach its cost. Whenever the slowness ends, what was lost by waiting for a step,
 * with its cost, is at most twice what the best decision in hindsight costs (take it at once, or never); if
 * iterations get longer without notice, at most that and one such iteration. The iteration in which the first
 * incident opens counts for neither: no decision avoids it. (As with skis, at each boundary it is known
 * whether the slowness goes on: detour_ladder_change() comes before detour_ladder_boundary().)
 *
 * The paper adds up the whole loss and compares it with the cost of the next step alone, whether that step
 * helps or not. Here every step has its own sum, so a step that saves nothing is never taken, and one that
 * pays before a cheaper one is taken before it. Going back to S1 after a recovery is a step like the others:
 * its cost is weighed against what the remedy costs each iteration that nothing is slow.
 *
 * Noise. A change of the mean iteration by less than 10 % is a jitter and no incident (section 4.2). The rule
 * is about the incident as a whole: once it is verified, every step counts that saves more of an iteration
 * than plans resolve, also where it removes only a part of the slowdown or another step has removed most of
 * it, and an iteration shorter than with the step makes the step's sum smaller, so that jitter around the
 * step's time does not add up.
 */

/* A step that changes an iteration by up to this part of its time changes nothing. */
#define DETOUR_SAVING_NOISE_PERMILLE 10

/*
 * What a step would bring, at present. The step in force is taken again only where is_other is set: for a
 * second incident it may need other numbers of microbatches or other nodes.
 */
struct detour_ladder_step {
    int64_t cost_ns;      /* of taking it; DETOUR_STEP_S1: of taking the present remedy back */
    int64_t iteration_ns; /* an iteration with it, in the scale of measured ones; INT64_MAX: not possible */
    bool is_other; /* of the step in force: it would be taken again, with another plan than the present one */
};

/* Zero is the default of every field. */
struct detour_ladder_options {
    /* Incidents that make the mean iteration longer by up to this part of a healthy one are noise; 0 means
     * 100 (section 4.2). */
    int32_t noise_permille;
    int32_t confirm_count; /* iterations without an incident that confirm a recovery; 0 means 3 */
    int64_t timeout_ns;    /* after which a step in progress counts as failed; 0 means one hour */
};

enum detour_ladder_state {
    DETOUR_LADDER_QUIET = 0,    /* nothing is slow, no remedy */
    DETOUR_LADDER_OPEN = 1,     /* something is slow */
    DETOUR_LADDER_REMEDIED = 2, /* nothing is slow, and a remedy is in force */
    DETOUR_LADDER_TAKING = 3,   /* a step is in progress */
    DETOUR_LADDER_STATE_COUNT = 4,
};

/* "quiet", "open", "remedied", "taking"; NULL for other values. */
DETOUR_API const char *detour_ladder_state_name(enum detour_ladder_state state);

/* Owned by the caller, who reads the fields and changes none. One thread at a time. */
struct detour_ladder {
    struct detour_ladder_options options; /* without zeros */
    enum detour_ladder_state state;
    enum detour_step current; /* in force; S1: no remedy */
    enum detour_step taking;  /* in progress */
    int32_t incidents;        /* open ones */
    int32_t calm_count;       /* iterations since all have recovered, up to confirm_count */
    bool is_first;            /* this iteration is the one in which an incident opened */
    bool is_verified;         /* the open incidents are more than noise */
    int64_t healthy_ns;       /* as last given */
    int64_t slow_ns;          /* of slow_count iterations since the last change */
    int64_t slow_count;
    struct detour_ladder_step steps[DETOUR_STEP_COUNT]; /* as last given */
    int64_t lost_ns[DETOUR_STEP_COUNT];                 /* by not having taken the step; at least 0 */
    int64_t began_ns;                 /* of this iteration; of a step in progress, its begin */
    int64_t taken[DETOUR_STEP_COUNT]; /* how often */
};

/* Nothing is slow at now_ns, and an iteration begins. `options` may be NULL. */
DETOUR_API void detour_ladder_init(struct detour_ladder *ladder, const struct detour_ladder_options *options,
                                   int64_t now_ns);

/*
 * What is slow has changed, or what the steps would bring: `incidents` are open (0: all have recovered), and
 * steps[] ([step]) holds for all of them together. healthy_ns is an iteration when nothing is slow, in the
 * scale of measured ones; 0: not known, and every incident is more than noise. Sums stay as they are, so that
 * a second incident does not delay what the first has nearly paid for. They begin anew confirm_count
 * iterations after all have recovered; a link that flaps faster is one incident. While a step is in progress,
 * it is completed, and the new values hold after it.
 */
DETOUR_API void detour_ladder_change(struct detour_ladder *ladder, int32_t incidents, int64_t healthy_ns,
                                     const struct detour_ladder_step *steps);

/*
 * An iteration has ended at now_ns and the next begins. True: *step is to be taken now, before the next
 * iteration; the caller does so and calls detour_ladder_done(). False while a step is in progress.
 */
DETOUR_API bool detour_ladder_boundary(struct detour_ladder *ladder, int64_t now_ns, enum detour_step *step);

/*
 * The step in progress is done, or has failed; an iteration begins at now_ns. A failed step changes nothing,
 * and has to be paid for again before it is tried again. After S4 the job is on healthy nodes: no incident is
 * open. False, and no effect, if no step is in progress.
 */
DETOUR_API bool detour_ladder_done(struct detour_ladder *ladder, int64_t now_ns, bool success);

/* When the step in progress counts as failed: call detour_ladder_done() then. INT64_MAX: no step is in
 * progress. */
DETOUR_API int64_t detour_ladder_deadline_ns(const struct detour_ladder *ladder);

/* ---- the plan: every step with its cost and what it brings ------------------------------------------- */

struct detour_mitigation_step {
    int64_t cost_ns;                   /* of S3: detour_exchange_pause() */
    struct detour_iteration iteration; /* with the step */
    int64_t due_iterations; /* slow iterations after which the ladder takes it, if the slowness goes on and
                               takes every step that is due before; -1: never */
};

struct detour_mitigation {
    struct detour_iteration healthy;
    struct detour_mitigation_step steps[DETOUR_STEP_COUNT];
    struct detour_microbatches microbatches; /* of S2 */
    struct detour_topology topology;         /* of S3: with equal counts, unless those of S2 are faster */
    enum detour_step due;                    /* the last step that the ladder has taken by now */
};

/* What is slow, as a detector reports it. */
struct detour_event {
    struct detour_slowness slowness;
    int64_t slow_iterations; /* iterations since it began */
};

/* Zero is the default of every field. */
struct detour_mitigate_options {
    int32_t noise_permille; /* as in struct detour_ladder_options */
    uint64_t budget;        /* as in struct detour_topology_options */
};

/* Plans the steps S1 to S4 for the event. `options` may be NULL. */
DETOUR_API enum detour_status
detour_mitigate(struct detour_arena *arena, const struct detour_cluster *cluster,
                const struct detour_event *event, const struct detour_mitigate_options *options,
                struct detour_mitigation *mitigation, struct detour_error *error);

/* ---- files ------------------------------------------------------------------------------------------- */

/* Jobs and events as JSON; docs/mitigate.md has the formats. `name` is the input's, for error lines. An event
 * is checked against its job. */
DETOUR_API enum detour_status detour_cluster_from_json(struct detour_arena *arena, const char *name,
                                                       const char *text, size_t bytes,
                                                       struct detour_cluster **cluster,
                                                       struct detour_error *error);
DETOUR_API enum detour_status detour_event_from_json(struct detour_arena *arena,
                                                     const struct detour_cluster *cluster, const char *name,
                                                     const char *text, size_t bytes,
                                                     struct detour_event **event, struct detour_error *error);

#ifdef __cplusplus
}
#endif

#endif
