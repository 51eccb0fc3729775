/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/remedy.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"
#include "controller/delay.h"
#include "controller/pace.h"
#include "controller/slowness.h"
#include "controller/unseen.h"

#define BUDGET         20000 /* exchanges of nodes to try */
#define DOUBLINGS_MAX  6
#define TRIAL_COUNT    5     /* iterations with a remedy; the first ones may have begun before it */
#define ITERATIONS_MAX 10000 /* of one observation */
#define CHECKED_MAX    (2 * DT_JUDGE_FINDINGS)
#define CLEAR_NS       (5 * DT_NS_PER_S) /* as of the measures of decide.h */

struct arrangement {
    int32_t counts[DT_RECORD_NODES_MAX]; /* [replica] */
    int32_t nodes[DT_RECORD_NODES_MAX];  /* [position] */
};

/* A finding that was validated. */
struct checked {
    uint64_t number;
    bool is_confirmed;
    uint64_t until_ns; /* it is refuted */
};

struct dt_remedy {
    const struct detour_cluster *cluster;
    size_t positions;
    uint64_t recheck_ns;
    /* The ladder, in the time of iterations. */
    struct detour_ladder ladder;
    int64_t ladder_ns;
    int32_t rank;        /* whose iterations count; -1: none yet */
    struct dt_pace pace; /* of iterations while nothing is slow */
    /* What is slow, and the plan for it. */
    bool has_plan;
    struct dt_slowness slowness;
    int64_t estimate_ns[DETOUR_STEP_COUNT];
    int64_t cost_ns[DETOUR_STEP_COUNT];
    int64_t healthy_ns; /* estimates; the next one with the present arrangement */
    int64_t present_ns;
    struct arrangement plans[DETOUR_STEP_COUNT];
    /* In force, and being taken. */
    struct arrangement present;
    bool is_due; /* the ladder has decided, and the decision is not out yet */
    enum detour_step due;
    uint64_t since_ns;       /* of the present arrangement; of a decision, its beginning */
    uint32_t taken;          /* how often S3 was */
    uint64_t exchanged_ns;   /* S3 was, and has not been taken back; 0: no */
    struct dt_unseen unseen; /* of the remedy in force, as the next three */
    uint64_t refuted_ns;     /* its delays are, since then; 0: they are not */
    size_t link_count;       /* adopted; 0: nothing refutes it */
    struct dt_decided_link links[DT_RECORD_LINKS_MAX];
    int32_t nodes_before[DT_RECORD_NODES_MAX]; /* [position]: before the present arrangement */
    /* Whether the present remedy helps. */
    int64_t recent_ns;                  /* the last iteration */
    int64_t unremedied_ns;              /* the one before the last decision; a validation holds later ones */
    int64_t before_ns;                  /* the last iteration before the remedy */
    int64_t shortest_ns;                /* since then */
    int trial;                          /* iterations that are left; the remedy is judged at the last one */
    bool has_grown;                     /* more is slow than when the remedy was taken */
    bool is_useless[DETOUR_STEP_COUNT]; /* has not helped against what is slow */
    /* Validations. */
    size_t suspect_count;
    struct dt_suspect suspects[DT_JUDGE_FINDINGS];
    size_t checked_count;
    struct checked checked[CHECKED_MAX]; /* the last ones */
};

/* Equal numbers of microbatches. `nodes`: NULL for each node's position of its number. */
static void arrange(const struct dt_remedy *remedy, const int32_t *nodes, struct arrangement *to)
{
    const struct detour_cluster *cluster = remedy->cluster;
    int32_t replicas = cluster->replica_count, count = cluster->microbatch_count;

    for (int32_t i = 0; i < replicas; i++)
        to->counts[i] = count / replicas + (i < count % replicas);
    for (size_t i = 0; i < remedy->positions; i++)
        to->nodes[i] = nodes ? nodes[i] : (int32_t)i;
}

enum dt_status dt_remedy_create(const struct detour_cluster *cluster, uint64_t recheck_ns,
                                struct dt_remedy **remedy, char reason[DT_RECORD_REASON_BYTES])
{
    struct detour_error error;
    size_t positions;

    if (detour_cluster_check(cluster, &error)) {
        snprintf(reason, DT_RECORD_REASON_BYTES, "%.200s", error.text);
        return DT_INVALID;
    }
    positions = (size_t)cluster->replica_count * (size_t)cluster->stage_count;
    if (positions > DT_RECORD_NODES_MAX) {
        snprintf(reason, DT_RECORD_REASON_BYTES, "%zu positions; the controller has remedies for %d at most",
                 positions, DT_RECORD_NODES_MAX);
        return DT_INVALID;
    }
    *remedy = calloc(1, sizeof **remedy);
    if (!*remedy) {
        snprintf(reason, DT_RECORD_REASON_BYTES, "out of memory");
        return DT_NO_MEMORY;
    }
    (*remedy)->cluster = cluster;
    (*remedy)->positions = positions;
    (*remedy)->recheck_ns = recheck_ns;
    (*remedy)->rank = -1;
    arrange(*remedy, cluster->nodes, &(*remedy)->present);
    detour_ladder_init(&(*remedy)->ladder, NULL, 0);
    return DT_OK;
}

void dt_remedy_destroy(struct dt_remedy *remedy)
{
    free(remedy);
}

/* ---- Iterations. ---- */
static int64_t pace_ns(const struct dt_remedy *remedy)
{
    return remedy->pace.count ? dt_pace_ns(&remedy->pace) : remedy->healthy_ns;
}

/* -1: the rank has none. */
static int32_t position_of(const struct dt_remedy *remedy, const int32_t *nodes, int32_t rank)
{
    for (size_t i = 0; i < remedy->positions; i++) {
        if (nodes[i] == rank)
            return (int32_t)i;
    }
    return -1;
}

/* An estimate may be wrong, or what is slow something else: a step counts by what it brings. */
static void judge_remedy(struct dt_remedy *remedy)
{
    if (remedy->trial == 0 || --remedy->trial > 0)
        return;
    if (remedy->shortest_ns < remedy->before_ns)
        return;
    remedy->is_useless[remedy->ladder.current] = true;
    remedy->has_plan = false;
}

static void count_iterations(struct dt_remedy *remedy, int64_t iteration_ns, int64_t iterations)
{
    enum detour_step step;

    for (int64_t i = 0; i < iterations && i < ITERATIONS_MAX && !remedy->is_due; i++) {
        remedy->ladder_ns += iteration_ns;
        remedy->recent_ns = iteration_ns;
        if (iteration_ns < remedy->shortest_ns)
            remedy->shortest_ns = iteration_ns;
        judge_remedy(remedy);
        if (remedy->ladder.state == DETOUR_LADDER_QUIET)
            dt_pace_add(&remedy->pace, iteration_ns);
        if (!detour_ladder_boundary(&remedy->ladder, remedy->ladder_ns, &step))
            continue;
        remedy->is_due = true;
        remedy->due = step;
    }
}

static bool compares_in_stages(const struct dt_remedy *remedy)
{
    return remedy->cluster->replica_count >= DT_JUDGE_KIND_MIN;
}

/* The computing time of equal microbatches; of a rank that is compared with its past, at its first position.
 */
static int64_t equal_compute_ns(const struct dt_remedy *remedy, int32_t rank, int32_t position,
                                int64_t compute_ns)
{
    const struct detour_cluster *cluster = remedy->cluster;
    int32_t stages = cluster->stage_count, replica = position / stages;
    int32_t first = cluster->nodes ? position_of(remedy, cluster->nodes, rank) : rank;
    double equal_ns = (double)compute_ns * cluster->microbatch_count / cluster->replica_count /
                      remedy->present.counts[replica];

    if (!compares_in_stages(remedy) && first >= 0)
        equal_ns = equal_ns * (double)cluster->stage_ns[first % stages] /
                   (double)cluster->stage_ns[position % stages];
    return (int64_t)dt_min_u64((uint64_t)equal_ns, INT64_MAX);
}

uint32_t dt_remedy_observe(struct dt_remedy *remedy, struct dt_observation *observation)
{
    int32_t position = position_of(remedy, remedy->present.nodes, observation->rank);
    uint32_t stage = position >= 0 && compares_in_stages(remedy)
                         ? (uint32_t)(position % remedy->cluster->stage_count)
                         : DT_JUDGE_UNKNOWN;

    if (position < 0 || observation->iterations <= 0)
        return stage;
    if (remedy->rank < 0 || observation->rank < remedy->rank)
        remedy->rank = observation->rank;
    if (observation->rank == remedy->rank && observation->iteration_ns > 0 &&
        observation->iteration_ns <= DETOUR_TIME_MAX_NS)
        count_iterations(remedy, observation->iteration_ns, observation->iterations);
    observation->compute_ns = equal_compute_ns(remedy, observation->rank, position, observation->compute_ns);
    return stage;
}

/* ---- What is slow. ---- */
static const struct checked *checked_of(const struct dt_remedy *remedy, uint64_t number)
{
    for (size_t i = 0; i < dt_min_u64(remedy->checked_count, CHECKED_MAX); i++) {
        if (remedy->checked[i].number == number)
            return &remedy->checked[i];
    }
    return NULL;
}

/* About ranks of the job, and not refuted. */
static bool counts(const struct dt_remedy *remedy, const struct dt_finding *finding, uint64_t now_ns)
{
    const uint32_t ranks = (uint32_t)remedy->positions;
    const struct checked *checked = checked_of(remedy, finding->number);

    if (finding->state == DT_FINDING_ENDED || finding->rank >= ranks ||
        (checked && !checked->is_confirmed && now_ns < checked->until_ns))
        return false;
    return finding->kind != DT_FINDING_LINK ||
           (finding->peer_rank < ranks && finding->peer_rank != finding->rank);
}

/* Those that S3 has taken out of use: nothing shows their recovery. */
static bool keeps_links(const struct dt_remedy *remedy, uint64_t now_ns)
{
    uint32_t doublings = remedy->taken ? remedy->taken - 1 : 0;

    return remedy->exchanged_ns &&
           now_ns < dt_deadline_ns(remedy->exchanged_ns,
                                   remedy->recheck_ns << dt_min_u64(doublings, DOUBLINGS_MAX));
}

static struct dt_slowness slowness_of(const struct dt_remedy *remedy, const struct dt_situation *situation,
                                      uint64_t now_ns)
{
    struct dt_slowness slowness = {0};

    for (size_t i = 0; i < situation->finding_count; i++) {
        if (counts(remedy, &situation->findings[i], now_ns))
            dt_slowness_add(&slowness, remedy->cluster, &situation->findings[i]);
    }
    for (int32_t i = 0; keeps_links(remedy, now_ns) && i < remedy->slowness.link_count; i++) {
        if (!dt_slowness_is_used(remedy->cluster, remedy->present.nodes, &remedy->slowness.links[i]))
            dt_slowness_add_link(&slowness, &remedy->slowness.links[i]);
    }
    return slowness;
}

/* ---- The plan. ---- */
static bool is_useless(const struct dt_remedy *remedy)
{
    return remedy->is_useless[remedy->ladder.current];
}

/* Ranks stay where they are, but for S3, an S3 that has not helped, and a restart. */
static void keep_plan(struct dt_remedy *remedy, const struct detour_mitigation *mitigation)
{
    const size_t counts_bytes = (size_t)remedy->cluster->replica_count * sizeof(int32_t);

    for (int step = 0; step < DETOUR_STEP_COUNT; step++) {
        remedy->estimate_ns[step] = mitigation->steps[step].iteration.iteration_ns;
        remedy->cost_ns[step] = mitigation->steps[step].cost_ns;
        arrange(remedy, remedy->present.nodes, &remedy->plans[step]);
    }
    if (is_useless(remedy))
        arrange(remedy, remedy->nodes_before, &remedy->plans[DETOUR_STEP_S1]);
    arrange(remedy, remedy->cluster->nodes, &remedy->plans[DETOUR_STEP_S4]);
    remedy->healthy_ns = mitigation->healthy.iteration_ns;
    memcpy(remedy->plans[DETOUR_STEP_S2].counts, mitigation->microbatches.counts, counts_bytes);
    memcpy(remedy->plans[DETOUR_STEP_S3].counts, mitigation->topology.counts, counts_bytes);
    memcpy(remedy->plans[DETOUR_STEP_S3].nodes, mitigation->topology.nodes,
           remedy->positions * sizeof(int32_t));
    remedy->has_plan = true;
}

/* False: out of memory, or an event that the planner refuses; the plan before it stays. */
static bool plan(struct dt_remedy *remedy, const struct dt_slowness *slowness)
{
    const struct detour_mitigate_options options = {.budget = BUDGET};
    const struct detour_event event = {.slowness = {.node_count = slowness->node_count,
                                                    .link_count = slowness->link_count,
                                                    .nodes = slowness->nodes,
                                                    .links = slowness->links}};
    struct detour_arena *arena = detour_arena_create();
    struct detour_cluster cluster = *remedy->cluster;
    struct detour_mitigation mitigation;
    struct detour_error error;
    struct detour_iteration present;

    cluster.nodes = remedy->present.nodes;
    bool is_made = arena && !detour_mitigate(arena, &cluster, &event, &options, &mitigation, &error) &&
                   !detour_iteration_estimate(arena, &cluster, &event.slowness, NULL, remedy->present.counts,
                                              &present, &error);

    if (is_made) {
        keep_plan(remedy, &mitigation);
        remedy->present_ns = present.iteration_ns;
    }
    detour_arena_destroy(arena);
    return is_made;
}

static bool is_present(const struct dt_remedy *remedy, const struct arrangement *plan)
{
    return !memcmp(plan, &remedy->present, sizeof *plan);
}

/* A step that the estimate finds no better than the present arrangement does not help, however long an
 * iteration takes for reasons that no finding names. */
static bool helps(const struct dt_remedy *remedy, int step)
{
    return !remedy->is_useless[step] && remedy->estimate_ns[step] < remedy->present_ns;
}

/* Estimates in the scale of the measured iterations. */
static void set_ladder(struct dt_remedy *remedy)
{
    struct detour_ladder_step steps[DETOUR_STEP_COUNT];
    const double scale = (double)pace_ns(remedy) / (double)dt_max_u64((uint64_t)remedy->healthy_ns, 1);

    for (int step = 0; step < DETOUR_STEP_COUNT; step++) {
        double ns = (double)remedy->estimate_ns[step] * scale;

        steps[step].cost_ns = remedy->cost_ns[step];
        steps[step].iteration_ns = !helps(remedy, step)              ? INT64_MAX
                                   : ns < (double)DETOUR_TIME_MAX_NS ? (int64_t)ns
                                                                     : DETOUR_TIME_MAX_NS;
        steps[step].is_other = !is_present(remedy, &remedy->plans[step]);
    }
    if (is_useless(remedy)) /* back, at once */
        steps[DETOUR_STEP_S1] = (struct detour_ladder_step){.iteration_ns = 1, .is_other = true};
    detour_ladder_change(&remedy->ladder, dt_slowness_count(&remedy->slowness), pace_ns(remedy), steps);
}

static void update(struct dt_remedy *remedy, const struct dt_situation *situation, uint64_t now_ns)
{
    const struct dt_slowness slowness = slowness_of(remedy, situation, now_ns);

    if (remedy->has_plan && dt_slowness_is_same(&slowness, &remedy->slowness))
        return;
    if (!plan(remedy, &slowness))
        return;
    if (dt_slowness_count(&slowness) > dt_slowness_count(&remedy->slowness)) {
        remedy->has_grown = true;
        remedy->trial = 0;
    }
    remedy->slowness = slowness;
    if (dt_slowness_count(&slowness) == 0)
        memset(remedy->is_useless, 0, sizeof remedy->is_useless);
    set_ladder(remedy);
}

/* ---- Decisions. ---- */

/* Those of the findings, for a later controller. No message refutes a slow device: then there are none. */
static void name_delays(const struct dt_remedy *remedy, const struct dt_situation *situation, uint64_t now_ns,
                        struct dt_decision *decision)
{
    for (size_t i = 0; i < situation->finding_count; i++) {
        const struct dt_finding *finding = &situation->findings[i];

        if (!counts(remedy, finding, now_ns) || finding->kind == DT_FINDING_PROCESSOR)
            continue;
        if (finding->kind == DT_FINDING_DEVICE) {
            decision->link_count = 0;
            return;
        }
        for (size_t j = 0; j < situation->slow_count && decision->link_count < DT_RECORD_LINKS_MAX; j++) {
            if (situation->slow[j].finding == finding->number &&
                dt_delay_of(&situation->slow[j], &decision->links[decision->link_count]))
                decision->link_count++;
        }
    }
}

/* But for its reason. */
static void begin_decision(const struct dt_remedy *remedy, enum detour_step step,
                           const struct arrangement *plan, struct dt_decision *decision)
{
    *decision = (struct dt_decision){.kind = DT_DECISION_REMEDY,
                                     .from_rank = -1,
                                     .to_rank = -1,
                                     .step = step,
                                     .replica_count = (size_t)remedy->cluster->replica_count,
                                     .node_count = remedy->positions};
    memcpy(decision->counts, plan->counts, sizeof decision->counts);
    memcpy(decision->nodes, plan->nodes, sizeof decision->nodes);
}

static void describe(const struct dt_remedy *remedy, struct dt_decision *decision)
{
    double scale = (double)pace_ns(remedy) / (double)dt_max_u64((uint64_t)remedy->healthy_ns, 1);

    begin_decision(remedy, remedy->due, &remedy->plans[remedy->due], decision);
    if (is_useless(remedy)) {
        snprintf(decision->reason, sizeof decision->reason,
                 "%s: %s has not made the iterations shorter: %.1f ms, before it %.1f ms",
                 detour_step_name(remedy->due), detour_step_name(remedy->ladder.current),
                 (double)remedy->shortest_ns / DT_NS_PER_MS, (double)remedy->before_ns / DT_NS_PER_MS);
        return;
    }
    if (remedy->due == DETOUR_STEP_S1 && dt_slowness_count(&remedy->slowness) == 0) {
        snprintf(decision->reason, sizeof decision->reason,
                 "S1: nothing is slow, and the remedy has cost as much as taking it back (%.1f s)",
                 (double)remedy->cost_ns[DETOUR_STEP_S1] / DT_NS_PER_S);
        return;
    }
    snprintf(decision->reason, sizeof decision->reason,
             "%s: %" PRId32 " slow ranks, %" PRId32 " slow links; waiting has cost as much as the step (%.1f "
             "s); the last iteration took %.1f ms, estimated: %.1f ms as it is, %.1f ms with the step",
             detour_step_name(remedy->due), remedy->slowness.node_count, remedy->slowness.link_count,
             (double)remedy->cost_ns[remedy->due] / DT_NS_PER_S, (double)remedy->unremedied_ns / DT_NS_PER_MS,
             (double)remedy->present_ns * scale / DT_NS_PER_MS,
             (double)remedy->estimate_ns[remedy->due] * scale / DT_NS_PER_MS);
}

/* ---- Validations. ---- */
static void list_suspects(struct dt_remedy *remedy, const struct dt_situation *situation, uint64_t now_ns)
{
    remedy->suspect_count = 0;
    if (remedy->due == DETOUR_STEP_S1)
        return;
    for (size_t i = 0; i < situation->finding_count && remedy->suspect_count < DT_JUDGE_FINDINGS; i++) {
        const struct dt_finding *finding = &situation->findings[i];
        const struct checked *checked = checked_of(remedy, finding->number);

        if (!counts(remedy, finding, now_ns) || finding->kind == DT_FINDING_PROCESSOR ||
            (checked && checked->is_confirmed))
            continue;
        remedy->suspects[remedy->suspect_count++] =
            (struct dt_suspect){finding->number, finding->kind, (int32_t)finding->rank,
                                finding->kind == DT_FINDING_LINK ? (int32_t)finding->peer_rank : -1};
    }
}

size_t dt_remedy_suspects(const struct dt_remedy *remedy, const struct dt_suspect **list)
{
    *list = remedy->suspects;
    return remedy->suspect_count;
}

void dt_remedy_validated(struct dt_remedy *remedy, uint64_t number, bool is_confirmed, uint64_t now_ns)
{
    struct checked *checked = (struct checked *)checked_of(remedy, number);

    if (!checked)
        checked = &remedy->checked[remedy->checked_count++ % CHECKED_MAX];
    *checked = (struct checked){number, is_confirmed, dt_deadline_ns(now_ns, remedy->recheck_ns)};
}

void dt_remedy_begin(struct dt_remedy *remedy, uint64_t now_ns)
{
    remedy->since_ns = now_ns;
}

enum detour_status dt_remedy_links(const struct dt_remedy *remedy, struct detour_arena *arena,
                                   const struct detour_validation **links, struct detour_error *error)
{
    return detour_validation_job(arena, remedy->cluster, remedy->present.nodes, links, error);
}

static bool is_refuted(const struct dt_remedy *remedy, const struct dt_situation *situation)
{
    size_t count = 0;

    while (count < remedy->link_count && dt_delay_is_refuted(situation, &remedy->links[count], 0))
        count++;
    return remedy->link_count && count == remedy->link_count;
}

/* What this controller's judge finds slow is seen, and so is a link whose messages refute the delay. */
static void see(struct dt_remedy *remedy, const struct dt_situation *situation, uint64_t now_ns)
{
    for (size_t i = 0; i < situation->finding_count; i++) {
        if (situation->findings[i].kind != DT_FINDING_PROCESSOR &&
            counts(remedy, &situation->findings[i], now_ns))
            remedy->unseen = (struct dt_unseen){0};
    }
    if (!is_refuted(remedy, situation))
        remedy->refuted_ns = 0;
    else if (!remedy->refuted_ns)
        remedy->refuted_ns = now_ns;
    else if (now_ns >= dt_deadline_ns(remedy->refuted_ns, CLEAR_NS))
        remedy->unseen = (struct dt_unseen){0};
}

bool dt_remedy_decide(struct dt_remedy *remedy, const struct dt_situation *situation, uint64_t now_ns,
                      struct dt_decision *decision)
{
    if (remedy->is_due) {
        remedy->is_due = false;
        remedy->since_ns = now_ns;
        remedy->unremedied_ns = remedy->recent_ns;
        describe(remedy, decision);
        if (remedy->due != DETOUR_STEP_S1)
            name_delays(remedy, situation, now_ns, decision);
        list_suspects(remedy, situation, now_ns);
        return true;
    }
    if (remedy->ladder.state == DETOUR_LADDER_TAKING) {
        if (now_ns >= dt_deadline_ns(remedy->since_ns, DT_REMEDY_TIMEOUT_NS))
            dt_remedy_done(remedy, now_ns, false);
        return false;
    }
    see(remedy, situation, now_ns);
    if (!dt_unseen_stays(remedy->unseen, now_ns))
        update(remedy, situation, now_ns);
    return false;
}

void dt_remedy_done(struct dt_remedy *remedy, uint64_t now_ns, bool success)
{
    const enum detour_step step = remedy->ladder.taking, previous = remedy->ladder.current;

    if (remedy->is_due || !detour_ladder_done(&remedy->ladder, remedy->ladder_ns, success))
        return;
    if (success) {
        memcpy(remedy->nodes_before, remedy->present.nodes, sizeof remedy->nodes_before);
        remedy->present = remedy->plans[step];
        if (step != previous || remedy->has_grown) /* otherwise the same remedy in other numbers */
            remedy->before_ns = remedy->unremedied_ns;
        remedy->has_grown = false;
        remedy->shortest_ns = INT64_MAX;
        remedy->trial = step == DETOUR_STEP_S1 ? 0 : TRIAL_COUNT;
        remedy->since_ns = now_ns;
        remedy->taken += step == DETOUR_STEP_S3;
        if (step != DETOUR_STEP_S2)
            remedy->exchanged_ns = step == DETOUR_STEP_S3 ? now_ns : 0;
    }
    remedy->has_plan = false; /* S4 and failures change what is open: plan anew */
}

void dt_remedy_adopt(struct dt_remedy *remedy, const struct dt_decision *decision, bool is_seen,
                     uint64_t now_ns)
{
    struct detour_ladder_step steps[DETOUR_STEP_COUNT] = {0};
    enum detour_step step;

    if (decision->kind != DT_DECISION_REMEDY || decision->node_count != remedy->positions ||
        decision->replica_count != (size_t)remedy->cluster->replica_count)
        return;
    detour_ladder_init(&remedy->ladder, NULL, 0);
    remedy->is_due = remedy->has_plan = false;
    remedy->ladder_ns = 1;
    for (int i = 0; i < DETOUR_STEP_COUNT; i++)
        steps[i].iteration_ns = i == decision->step ? 0 : INT64_MAX;
    detour_ladder_change(&remedy->ladder, 1, 0, steps);
    if (detour_ladder_boundary(&remedy->ladder, remedy->ladder_ns, &step))
        detour_ladder_done(&remedy->ladder, remedy->ladder_ns, true);
    remedy->exchanged_ns = decision->step == DETOUR_STEP_S3 ? now_ns : 0;
    memcpy(remedy->present.counts, decision->counts, decision->replica_count * sizeof *decision->counts);
    memcpy(remedy->present.nodes, decision->nodes, decision->node_count * sizeof *decision->nodes);
    remedy->since_ns = now_ns;
    remedy->refuted_ns = 0;
    remedy->link_count = decision->link_count;
    memcpy(remedy->links, decision->links, decision->link_count * sizeof *decision->links);
    remedy->unseen = dt_unseen_adopt(is_seen || decision->step == DETOUR_STEP_S1, now_ns, remedy->recheck_ns);
}

bool dt_remedy_end(struct dt_remedy *remedy, struct dt_decision *decision)
{
    const bool is_given = remedy->ladder.state == DETOUR_LADDER_TAKING && !remedy->is_due;
    struct arrangement first = {0};

    arrange(remedy, remedy->cluster->nodes, &first);
    if (is_present(remedy, &first) && !is_given)
        return false;
    detour_ladder_init(&remedy->ladder, NULL, remedy->ladder_ns);
    remedy->is_due = remedy->has_plan = remedy->has_grown = false;
    memset(remedy->is_useless, 0, sizeof remedy->is_useless);
    remedy->trial = 0;
    remedy->exchanged_ns = remedy->refuted_ns = 0;
    remedy->unseen = (struct dt_unseen){0};
    remedy->link_count = 0;
    remedy->present = first;
    begin_decision(remedy, DETOUR_STEP_S1, &first, decision);
    snprintf(decision->reason, sizeof decision->reason,
             "S1: the job was started again, without the remedy of the job before");
    return true;
}

enum detour_step dt_remedy_step(const struct dt_remedy *remedy)
{
    return remedy->ladder.current;
}
