/* SPDX-License-Identifier: Apache-2.0 */
/* S3: nodes of the positions; FALCON, section 5.3. */
#include "planner/mitigate/topology.h"

#include <string.h>

#include "base/prng.h"
#include "sched/arena.h"
#include "sched/call.h"

enum {
    PERMILLE = 1000,
    DEFAULT_BUDGET = 200000,
    USUAL_NODES = 64, /* with more, an affected node is tried at chosen positions only */
    PARTS = 4,        /* of the budget: three beginnings, and the kicks */
    EXHAUSTIVE_NODES = 8,
    KICKS = 16,  /* beginnings near the best so far */
    KICK_MAX = 4 /* exchanges of such a beginning */
};

/* Compared field by field; less is better. */
struct score {
    int64_t iteration_ns;
    int32_t straggler_stages;
    int32_t edge_stragglers; /* in the first and the last stage */
    int32_t data_links;      /* of rings, on slow paths */
    int32_t moved_count;
};

struct search {
    struct detour_arena *arena;
    struct detour_error *error;
    const struct detour_cluster *cluster;
    struct dt_layout layout;
    const int32_t *before; /* [position] */
    int32_t *stragglers;   /* nodes that compute slowly, the slowest first */
    int32_t straggler_count;
    int32_t *affected; /* nodes that are not like all others */
    int32_t affected_count;
    int32_t *affected_in; /* [replica]: number of its nodes */
    int32_t *candidates;  /* positions for an affected node, the most likely ones first */
    int32_t candidate_count;
    int32_t *listed;  /* [position]: the last list that has it */
    int32_t list;     /* number of the present list */
    bool *stage_seen; /* [stage] */
    bool even;
    int32_t *counts; /* [replica]: of the layout */
    struct score best;
    int32_t *best_nodes;
    int32_t *best_counts;
    uint64_t tried;
    uint64_t budget;
    uint64_t limit;            /* of tried, in this part */
    bool is_cut;               /* a part has reached its limit */
    enum detour_status status; /* of an allocation */
};

static int compare(const struct score *a, const struct score *b)
{
    if (a->iteration_ns != b->iteration_ns)
        return a->iteration_ns < b->iteration_ns ? -1 : 1;
    if (a->straggler_stages != b->straggler_stages)
        return a->straggler_stages - b->straggler_stages;
    if (a->edge_stragglers != b->edge_stragglers)
        return a->edge_stragglers - b->edge_stragglers;
    if (a->data_links != b->data_links)
        return a->data_links - b->data_links;
    return a->moved_count - b->moved_count;
}

/* The pipelines of the layout, and their numbers of microbatches. */
static int64_t share_out(struct search *s)
{
    struct dt_arena_mark mark = dt_arena_save(s->arena);
    struct detour_microbatches assigned;

    if (s->even)
        return dt_layout_pipeline_ns(&s->layout, s->counts);
    s->status = detour_microbatches_assign(s->arena, s->layout.replicas, s->cluster->replica_count,
                                           s->cluster->microbatch_count, &assigned, s->error);
    if (!s->status)
        memcpy(s->counts, assigned.counts, (size_t)s->cluster->replica_count * sizeof(*s->counts));
    dt_arena_rewind(s->arena, mark);
    return s->status ? INT64_MAX / 2 : assigned.time_ns;
}

/*
 * The time of the pipelines with S2's numbers of microbatches beside a limit: 1 above, 0 equal, -1 below.
 * Nearly all exchanges are no improvement, and this finds so without assigning the microbatches: the optimum
 * is the least time in which the replicas together have room for all.
 */
static int beside_limit(const struct search *s, int64_t limit_ns)
{
    int64_t count = s->cluster->microbatch_count, room = 0, room_below = 0;
    bool is_below = true;

    for (int32_t r = 0; r < s->cluster->replica_count; r++) {
        const struct detour_replica *replica = &s->layout.replicas[r];
        int64_t left_ns = limit_ns - replica->fixed_ns;
        if (left_ns < replica->microbatch_ns)
            return 1;
        int64_t fit = left_ns / replica->microbatch_ns;
        int64_t fit_below = fit - (fit * replica->microbatch_ns == left_ns);
        is_below = is_below && fit_below > 0;
        room += fit < count ? fit : count;
        room_below += fit_below < count ? fit_below : count;
    }
    if (room < count)
        return 1;
    return is_below && room_below >= count ? -1 : 0;
}

/* Of the layout, if it is at most limit_ns, else above it. */
static int64_t iteration_ns(struct search *s, int64_t limit_ns)
{
    int64_t gradients_ns = dt_layout_gradients_ns(&s->layout);

    if (!s->even && limit_ns < INT64_MAX) {
        int beside = beside_limit(s, limit_ns - gradients_ns);
        if (beside >= 0)
            return beside ? INT64_MAX : limit_ns;
    }
    return share_out(s) + gradients_ns;
}

static void score_stragglers(struct search *s, struct score *score)
{
    int32_t stages = s->cluster->stage_count;

    memset(s->stage_seen, 0, (size_t)stages * sizeof(*s->stage_seen));
    for (int32_t k = 0; k < s->straggler_count; k++) {
        int32_t stage = s->layout.position[s->stragglers[k]] % stages;
        score->straggler_stages += !s->stage_seen[stage];
        score->edge_stragglers += stage == 0 || stage == stages - 1;
        s->stage_seen[stage] = true;
    }
}

/* The node's link to the next replica's node in its ring is on a slow path. */
static bool has_slow_edge(const struct search *s, int32_t node)
{
    int32_t count = dt_cluster_nodes(s->cluster);
    int32_t next = s->layout.nodes[(s->layout.position[node] + s->cluster->stage_count) % count];
    int32_t path = dt_layout_path(&s->layout, node, next);

    return path >= 0 &&
           (s->layout.paths[path].factor_permille > PERMILLE || s->layout.paths[path].delay_ns > 0);
}

/* Of the layout; of an iteration beyond the limit nothing else is computed. */
static struct score score_of(struct search *s, int64_t limit_ns)
{
    struct score score = {.iteration_ns = iteration_ns(s, limit_ns)};

    if (score.iteration_ns > limit_ns)
        return score;
    score_stragglers(s, &score);
    for (int32_t k = 0; k < s->affected_count; k++)
        score.data_links += has_slow_edge(s, s->affected[k]);
    for (int32_t p = 0; p < dt_cluster_nodes(s->cluster); p++)
        score.moved_count += s->layout.nodes[p] != s->before[p];
    return score;
}

static void offer(struct search *s, const struct score *score)
{
    if (s->status || compare(score, &s->best) >= 0)
        return;
    share_out(s);
    if (s->status)
        return;
    s->best = *score;
    memcpy(s->best_nodes, s->layout.nodes, (size_t)dt_cluster_nodes(s->cluster) * sizeof(*s->best_nodes));
    memcpy(s->best_counts, s->counts, (size_t)s->cluster->replica_count * sizeof(*s->best_counts));
}

static bool is_over(const struct search *s)
{
    return s->status || s->tried >= s->limit;
}

/* Every order of the nodes, each one exchange away from the one before (Heap, 1963). */
static void try_all(struct search *s)
{
    int32_t count = dt_cluster_nodes(s->cluster), next[EXHAUSTIVE_NODES] = {0}, i = 1;

    while (i < count && !is_over(s)) {
        if (next[i] >= i) {
            next[i++] = 0;
            continue;
        }
        dt_layout_swap(&s->layout, i % 2 ? next[i] : 0, i);
        struct score score = score_of(s, s->best.iteration_ns);
        offer(s, &score);
        s->tried++;
        next[i]++;
        i = 1;
    }
}

/* ---- positions for an affected node ---- */

static void add_position(struct search *s, int32_t position)
{
    if (s->listed[position] == s->list)
        return;
    s->listed[position] = s->list;
    s->candidates[s->candidate_count++] = position;
}

/* All stages, from that one on. */
static void add_replica(struct search *s, int32_t replica, int32_t stage)
{
    int32_t stages = s->cluster->stage_count;

    for (int32_t k = 0; k < stages; k++)
        add_position(s, replica * stages + (stage + k) % stages);
}

/* With the fewest affected nodes in it and in its neighbors; of equal ones the nearest one behind. */
static int32_t calmest_replica(struct search *s, int32_t replica)
{
    int32_t count = s->cluster->replica_count, calmest = replica, least = INT32_MAX;

    memset(s->affected_in, 0, (size_t)count * sizeof(*s->affected_in));
    for (int32_t k = 0; k < s->affected_count; k++)
        s->affected_in[s->layout.position[s->affected[k]] / s->cluster->stage_count]++;
    for (int32_t k = 1; k < count && least > 0; k++) {
        int32_t r = (replica + k) % count;
        int32_t sum =
            s->affected_in[r] + s->affected_in[(r + 1) % count] + s->affected_in[(r + count - 1) % count];
        if (sum < least) {
            least = sum;
            calmest = r;
        }
    }
    return calmest;
}

/*
 * In a large job most positions are alike. One replica in which nothing is slow stands for all of them; the
 * others are the node's own replica, those of the other ends of its slow links (a slow link is best between
 * two stages, if it has to be used), the replicas beside its own one, and the positions of affected nodes.
 */
static void list_candidates(struct search *s, int32_t node)
{
    const struct detour_slowness *slowness = s->layout.slowness;
    int32_t stages = s->cluster->stage_count, count = s->cluster->replica_count;
    int32_t replica = s->layout.position[node] / stages, stage = s->layout.position[node] % stages;

    s->candidate_count = 0;
    s->list++;
    if (dt_cluster_nodes(s->cluster) <= USUAL_NODES) {
        for (int32_t q = 0; q < dt_cluster_nodes(s->cluster); q++)
            add_position(s, q);
        return;
    }
    add_replica(s, calmest_replica(s, replica), stage);
    add_replica(s, replica, stage);
    for (int32_t k = 0; k < slowness->link_count; k++)
        if (slowness->links[k].a == node || slowness->links[k].b == node)
            add_replica(s, s->layout.position[slowness->links[k].a + slowness->links[k].b - node] / stages,
                        stage);
    add_position(s, (replica + 1) % count * stages + stage);
    add_position(s, (replica + count - 1) % count * stages + stage);
    for (int32_t k = 0; k < s->affected_count; k++)
        add_position(s, s->layout.position[s->affected[k]]);
}

/* ---- the search ---- */

/* Exchanges the affected node with those at its candidates, where that helps. */
static bool improve(struct search *s, int32_t node, struct score *now)
{
    bool improved = false;

    list_candidates(s, node);
    for (int32_t k = 0; k < s->candidate_count && !is_over(s); k++) {
        int32_t p = s->layout.position[node], q = s->candidates[k];
        if (p == q)
            continue;
        dt_layout_swap(&s->layout, p, q);
        s->tried++;
        struct score score = score_of(s, now->iteration_ns);
        if (s->status || compare(&score, now) >= 0) {
            dt_layout_swap(&s->layout, p, q);
            continue;
        }
        *now = score;
        improved = true;
        offer(s, now);
    }
    return improved;
}

/* Exchanges of affected nodes, as long as one helps. */
static void climb(struct search *s)
{
    struct score now = score_of(s, INT64_MAX);
    bool improved = true;

    offer(s, &now);
    while (improved && !is_over(s)) {
        improved = false;
        for (int32_t k = 0; k < s->affected_count; k++)
            improved = improve(s, s->affected[k], &now) || improved;
    }
    s->is_cut = s->is_cut || is_over(s);
}

/* The stage that is the k-th to take stragglers: interior ones first. */
static int32_t stage_for(const struct search *s, int32_t k)
{
    int32_t stages = s->cluster->stage_count;

    if (stages < 3)
        return k;
    return k + 1 < stages ? k + 1 : 0;
}

/* Stragglers into the fewest stages, or into the fewest replicas. */
static void gather(struct search *s, bool in_replicas)
{
    int32_t stages = s->cluster->stage_count, replicas = s->cluster->replica_count;

    dt_layout_set(&s->layout, s->before);
    for (int32_t k = 0; k < s->straggler_count; k++) {
        int32_t stage = stage_for(s, in_replicas ? k % stages : k / replicas);
        int32_t replica = in_replicas ? k / stages : k % replicas;
        int32_t from = s->layout.position[s->stragglers[k]], to = replica * stages + stage;
        if (from != to)
            dt_layout_swap(&s->layout, from, to);
    }
}

static void search(struct search *s)
{
    int32_t count = dt_cluster_nodes(s->cluster);
    struct dt_prng prng;

    s->limit = s->budget / PARTS;
    climb(s);
    for (int in_replicas = 0; in_replicas < 2; in_replicas++) {
        gather(s, in_replicas);
        s->limit = s->tried + s->budget / PARTS;
        climb(s);
    }
    s->limit = s->budget;
    if (s->is_cut) { /* what the parts have left is for the best beginning */
        dt_layout_set(&s->layout, s->best_nodes);
        climb(s);
    }
    dt_prng_init(&prng, 1);
    for (int kick = 0; kick < KICKS && s->affected_count && !is_over(s); kick++) {
        dt_layout_set(&s->layout, s->best_nodes);
        for (uint64_t k = 1 + dt_prng_below(&prng, KICK_MAX); k > 0; k--) {
            int32_t node = s->affected[dt_prng_below(&prng, (uint64_t)s->affected_count)];
            int32_t p = s->layout.position[node], q = (int32_t)dt_prng_below(&prng, (uint64_t)count);
            if (p != q)
                dt_layout_swap(&s->layout, p, q);
        }
        climb(s);
    }
}

/* Stragglers, the slowest first, and the nodes with slow links. */
static void list_nodes(struct search *s)
{
    int32_t count = dt_cluster_nodes(s->cluster);

    for (int32_t node = 0; node < count; node++) {
        int32_t k = s->straggler_count;
        if (s->layout.compute_permille[node] > PERMILLE || s->layout.network_permille[node] > PERMILLE ||
            dt_layout_has_path(&s->layout, node))
            s->affected[s->affected_count++] = node;
        if (s->layout.compute_permille[node] <= PERMILLE)
            continue;
        for (; k > 0 && s->layout.compute_permille[s->stragglers[k - 1]] < s->layout.compute_permille[node];
             k--)
            s->stragglers[k] = s->stragglers[k - 1];
        s->stragglers[k] = node;
        s->straggler_count++;
    }
}

static enum detour_status prepare(struct search *s, const struct detour_slowness *slowness)
{
    size_t count = (size_t)dt_cluster_nodes(s->cluster), replicas = (size_t)s->cluster->replica_count;
    enum detour_status status;
    int32_t *before;

    if (!dt_arena_new(s->arena, s->best_nodes, count) || !dt_arena_new(s->arena, s->best_counts, replicas) ||
        !dt_arena_new(s->arena, before, count) || !dt_arena_new(s->arena, s->stragglers, count) ||
        !dt_arena_new(s->arena, s->affected, count) || !dt_arena_new(s->arena, s->counts, replicas) ||
        !dt_arena_new(s->arena, s->affected_in, replicas) || !dt_arena_new(s->arena, s->candidates, count) ||
        !dt_arena_new(s->arena, s->listed, count) ||
        !dt_arena_new(s->arena, s->stage_seen, s->cluster->stage_count))
        return dt_fail_memory(s->error);
    status = dt_layout_create(s->arena, s->cluster, slowness, NULL, &s->layout, s->error);
    if (status)
        return status;
    memcpy(before, s->layout.nodes, count * sizeof(*before));
    s->before = before;
    s->best.iteration_ns = INT64_MAX;
    dt_counts_even(s->cluster, s->counts);
    list_nodes(s);
    return DETOUR_OK;
}

static uint64_t factorial(int32_t count)
{
    uint64_t product = 1;

    for (int32_t k = 2; k <= count; k++)
        product *= (uint64_t)k;
    return product;
}

/* Of one path. */
struct use {
    bool groups[DETOUR_GROUP_PIPELINE + 1];
    int64_t bytes[DETOUR_GROUP_PIPELINE + 1];
};

static void add_use(const struct search *s, int32_t from, int32_t to, enum detour_group group, int64_t bytes,
                    struct use *uses)
{
    int32_t path = dt_layout_path(&s->layout, s->layout.nodes[from], s->layout.nodes[to]);

    if (path < 0)
        return;
    uses[path].groups[group] = true;
    uses[path].bytes[group] += bytes;
}

/* What the layout's links add to the slow paths that they are on. */
static void add_uses(const struct search *s, const int32_t *counts, struct use *uses)
{
    int32_t replicas = s->cluster->replica_count, stages = s->cluster->stage_count;
    int64_t gradient_bytes = 2 * (replicas - 1) * ((s->cluster->gradient_bytes + replicas - 1) / replicas);

    for (int32_t p = 0; p < replicas * stages; p++) {
        if (p % stages + 1 < stages)
            add_use(s, p, p + 1, DETOUR_GROUP_PIPELINE, counts[p / stages] * s->cluster->message_bytes, uses);
        if (replicas > 2 || (replicas == 2 && p < stages)) /* a ring of two has one link */
            add_use(s, p, (p + stages) % (replicas * stages), DETOUR_GROUP_DATA, gradient_bytes, uses);
    }
}

static enum detour_group group_of(const struct use *use)
{
    if (use->groups[DETOUR_GROUP_DATA] && use->bytes[DETOUR_GROUP_DATA] >= use->bytes[DETOUR_GROUP_PIPELINE])
        return DETOUR_GROUP_DATA;
    return use->groups[DETOUR_GROUP_PIPELINE] ? DETOUR_GROUP_PIPELINE : DETOUR_GROUP_NONE;
}

/* Which group uses each slow link at the layout's assignment. */
static void list_uses(const struct search *s, bool after, const int32_t *counts, struct use *paths,
                      struct detour_link_use *uses)
{
    const struct detour_slowness *slowness = s->layout.slowness;

    memset(paths, 0, (size_t)s->layout.path_count * sizeof(*paths));
    add_uses(s, counts, paths);
    for (int32_t k = 0; k < slowness->link_count; k++) {
        const struct use *use =
            &paths[dt_layout_path(&s->layout, slowness->links[k].a, slowness->links[k].b)];
        int64_t bytes = use->bytes[DETOUR_GROUP_DATA] + use->bytes[DETOUR_GROUP_PIPELINE];
        if (after) {
            uses[k].after = group_of(use);
            uses[k].after_bytes = bytes;
        } else {
            uses[k].before = group_of(use);
            uses[k].before_bytes = bytes;
        }
    }
}

static enum detour_status finish(struct search *s, bool all, struct detour_topology *topology)
{
    struct detour_link_use *uses;
    struct use *paths;

    if (!dt_arena_new(s->arena, uses, (size_t)s->layout.slowness->link_count + 1) ||
        !dt_arena_new(s->arena, paths, (size_t)s->layout.path_count + 1))
        return dt_fail_memory(s->error);
    dt_layout_set(&s->layout, s->before);
    dt_counts_even(s->cluster, s->counts);
    list_uses(s, false, s->counts, paths, uses);
    dt_layout_set(&s->layout, s->best_nodes);
    list_uses(s, true, s->best_counts, paths, uses);
    topology->nodes = s->best_nodes;
    topology->counts = s->best_counts;
    topology->iteration.pipeline_ns = dt_layout_pipeline_ns(&s->layout, s->best_counts);
    topology->iteration.gradients_ns = dt_layout_gradients_ns(&s->layout);
    topology->iteration.iteration_ns = s->best.iteration_ns;
    topology->moved_count = s->best.moved_count;
    topology->straggler_stages = s->best.straggler_stages;
    topology->uses = uses;
    topology->tried = s->tried;
    enum detour_status status =
        dt_topology_bound(s->arena, &s->layout, s->even, &topology->bound_ns, s->error);
    topology->optimal = all || topology->bound_ns == s->best.iteration_ns;
    topology->ended_early = s->is_cut && !topology->optimal;
    if (topology->optimal)
        topology->bound_ns = s->best.iteration_ns;
    return status;
}

enum detour_status detour_topology_adjust(struct detour_arena *arena, const struct detour_cluster *cluster,
                                          const struct detour_slowness *slowness,
                                          const struct detour_topology_options *options,
                                          struct detour_topology *topology, struct detour_error *error)
{
    static const struct detour_topology_options defaults;
    struct search s = {.arena = arena, .error = error, .cluster = cluster};
    struct detour_topology made = {0};
    enum detour_status status = detour_cluster_check(cluster, error);

    options = options ? options : &defaults;
    s.even = options->even;
    if (!status)
        status = detour_slowness_check(cluster, slowness, error);
    if (!status)
        status = prepare(&s, slowness);
    if (status)
        return status;
    s.limit = s.budget = options->budget ? options->budget : DEFAULT_BUDGET;
    struct score score = score_of(&s, INT64_MAX);
    offer(&s, &score);
    bool all =
        dt_cluster_nodes(cluster) <= EXHAUSTIVE_NODES && factorial(dt_cluster_nodes(cluster)) <= s.budget;
    if (all)
        try_all(&s);
    else
        search(&s);
    status = s.status ? s.status : finish(&s, all, &made);
    if (!status)
        *topology = made;
    return status;
}
