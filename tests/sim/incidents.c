/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/incidents.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

#define TAIL_ITERATIONS 8 /* healthy ones behind the last incident: a recovery is confirmed within three */

/* Exchanges of nodes that a plan of S3 tries: where each slow link is one pair of 64 nodes, more find nothing
 * better. */
#define S3_BUDGET 4000

enum { PPM = 1000000 };
enum { PERMILLE = 1000, NOISE_PERMILLE = 100 }; /* as the ladder's; for the steps at once */

static const struct detour_slowness nothing;

/* A run; the arrays behind it have an entry for each position, but counts. */
struct run {
    const struct dt_incidents_options *options;
    struct dt_incidents_result *result;
    struct dt_incidents_time *time;
    struct detour_arena *arena; /* of the present plan */
    struct detour_ladder ladder;
    int64_t now_ns, end_ns;
    bool is_active[DT_INCIDENTS_MAX], is_over[DT_INCIDENTS_MAX];
    struct detour_slow_node slow_nodes[DT_INCIDENTS_MAX];
    struct detour_slow_link slow_links[DT_INCIDENTS_MAX];
    struct detour_slowness slowness;
    struct detour_mitigation plan;
    struct detour_ladder_step steps[DETOUR_STEP_COUNT];
    struct dt_incidents_phase phase;
    int64_t iteration_ns;
    bool is_verified; /* as in the ladder, for the steps at once */
    int32_t *nodes, *counts, *first_nodes, *even;
};

static size_t bytes_of(int32_t count)
{
    return (size_t)count * sizeof(int32_t);
}

/* ---- what is slow ---- */

/* True: it is not what it was. */
static bool refresh_active(struct run *run)
{
    bool is_changed = false;

    for (int32_t i = 0; i < run->options->incident_count; i++) {
        const struct dt_incident *incident = &run->options->incidents[i];
        bool is_active = !run->is_over[i] && incident->start_ns <= run->now_ns &&
                         run->now_ns < incident->start_ns + incident->duration_ns;
        is_changed |= is_active != run->is_active[i];
        run->is_active[i] = is_active;
    }
    return is_changed;
}

static void list_slowness(struct run *run)
{
    struct detour_slowness made = {.nodes = run->slow_nodes, .links = run->slow_links};

    for (int32_t i = 0; i < run->options->incident_count; i++) {
        const struct dt_incident *incident = &run->options->incidents[i];
        if (!run->is_active[i])
            continue;
        if (incident->is_link)
            run->slow_links[made.link_count++] =
                (struct detour_slow_link){incident->a, incident->b, incident->factor_permille, 0};
        else
            run->slow_nodes[made.node_count++] =
                (struct detour_slow_node){incident->a, incident->factor_permille, 1000};
    }
    run->slowness = made;
}

/* When the next incident starts, the end of the run at the latest. */
static int64_t next_start_ns(const struct run *run)
{
    int64_t next_ns = run->end_ns;

    for (int32_t i = 0; i < run->options->incident_count; i++) {
        int64_t start_ns = run->options->incidents[i].start_ns;
        if (!run->is_over[i] && start_ns > run->now_ns && start_ns < next_ns)
            next_ns = start_ns;
    }
    return next_ns;
}

/* ---- what remedies would bring ---- */

static int32_t incident_count(const struct run *run)
{
    return run->slowness.node_count + run->slowness.link_count;
}

static enum detour_status time_of(struct run *run, const struct detour_slowness *slowness,
                                  const int32_t *nodes, const int32_t *counts, int64_t *ns,
                                  struct detour_error *error)
{
    return dt_incidents_time_of(run->time, slowness, nodes, counts, ns, error);
}

/* Nothing is slow: what the numbers of microbatches of the remedy cost, and the way back from them. */
static enum detour_status plan_return(struct run *run, struct detour_error *error)
{
    const struct detour_cluster *cluster = run->options->cluster;
    bool is_even = !memcmp(run->counts, run->even, bytes_of(cluster->replica_count));

    for (int step = 0; step < DETOUR_STEP_COUNT; step++)
        run->steps[step] = (struct detour_ladder_step){cluster->cost_ns[step], INT64_MAX, false};
    run->steps[DETOUR_STEP_S1].cost_ns = is_even ? 0 : cluster->cost_ns[DETOUR_STEP_S2];
    return time_of(run, &nothing, run->nodes, run->even, &run->steps[DETOUR_STEP_S1].iteration_ns, error);
}

/* A plan of S3 takes long; there is none where it is not needed. */
static struct detour_mitigate_options budget_of(const struct dt_incidents_options *options)
{
    bool has_s3 = options->policy == DT_INCIDENTS_LADDER || options->policy == DT_INCIDENTS_EAGER ||
                  options->step == DETOUR_STEP_S3;

    if (!has_s3)
        return (struct detour_mitigate_options){.budget = 1};
    return (struct detour_mitigate_options){.budget = options->budget ? options->budget : S3_BUDGET};
}

/* With the numbers of microbatches of S2, which are at least as good as equal ones for every assignment. */
static enum detour_status compare_s3(struct run *run, const struct detour_cluster *cluster,
                                     struct detour_error *error)
{
    struct detour_topology_options options = {.budget = 1};
    struct detour_topology reference;

    if (run->options->reference == DT_INCIDENTS_NO_REFERENCE)
        return DETOUR_OK;
    if (run->options->reference == DT_INCIDENTS_OPTIMUM)
        options.budget = 0;
    enum detour_status status =
        detour_topology_adjust(run->arena, cluster, &run->slowness, &options, &reference, error);
    if (status)
        return status;
    int64_t above_ns = run->plan.topology.iteration.iteration_ns - reference.bound_ns;
    int64_t above_ppm = (int64_t)((__int128)above_ns * PPM / reference.bound_ns);

    DT_CHECK(above_ns >= 0);
    run->result->plan_count++;
    run->result->equal_count += above_ns == 0;
    run->result->above_sum_ppm += above_ppm;
    if (above_ppm > run->result->above_largest_ppm)
        run->result->above_largest_ppm = above_ppm;
    return DETOUR_OK;
}

/* The remedies begin with the nodes where they are now. */
static enum detour_status plan_steps(struct run *run, struct detour_error *error)
{
    struct detour_cluster cluster = *run->options->cluster;
    const struct detour_event event = {.slowness = run->slowness};
    const struct detour_mitigate_options budget = budget_of(run->options);
    struct detour_ladder_step *steps = run->steps;

    if (!incident_count(run))
        return plan_return(run, error);
    cluster.nodes = run->nodes;
    detour_arena_reset(run->arena);
    enum detour_status status = detour_mitigate(run->arena, &cluster, &event, &budget, &run->plan, error);
    if (!status)
        status = compare_s3(run, &cluster, error);
    if (status)
        return status;
    const int32_t *counts = run->plan.microbatches.counts;
    const struct detour_topology *topology = &run->plan.topology;

    for (int step = 0; step < DETOUR_STEP_COUNT; step++)
        steps[step] = (struct detour_ladder_step){run->plan.steps[step].cost_ns, INT64_MAX, false};
    steps[DETOUR_STEP_S2].is_other = memcmp(counts, run->counts, bytes_of(cluster.replica_count)) != 0;
    steps[DETOUR_STEP_S3].is_other = topology->moved_count > 0;
    status = time_of(run, &run->slowness, run->nodes, counts, &steps[DETOUR_STEP_S2].iteration_ns, error);
    if (!status)
        status = time_of(run, &run->slowness, topology->nodes, topology->counts,
                         &steps[DETOUR_STEP_S3].iteration_ns, error);
    if (!status)
        status =
            time_of(run, &nothing, run->first_nodes, run->even, &steps[DETOUR_STEP_S4].iteration_ns, error);
    for (int step = run->options->highest + 1; run->options->highest && step < DETOUR_STEP_COUNT; step++)
        steps[step].iteration_ns = INT64_MAX;
    return status;
}

/* After a change of what is slow or of what is in force. */
static enum detour_status replan(struct run *run, struct detour_error *error)
{
    list_slowness(run);
    enum detour_status status =
        time_of(run, &run->slowness, run->nodes, run->counts, &run->iteration_ns, error);
    if (!status)
        status = plan_steps(run, error);
    if (status)
        return status;
    if (run->options->policy == DT_INCIDENTS_LADDER)
        detour_ladder_change(&run->ladder, incident_count(run), run->result->healthy_ns, run->steps);
    if (run->iteration_ns > run->result->longest_ns)
        run->result->longest_ns = run->iteration_ns;
    return DETOUR_OK;
}

/* ---- phases ---- */

static void end_phase(struct run *run)
{
    if (run->options->on_phase && run->phase.duration_ns)
        run->options->on_phase(run->options->phase_arg, &run->phase);
    run->phase = (struct dt_incidents_phase){
        .step = run->phase.step, .slowness = &run->slowness, .nodes = run->nodes, .counts = run->counts};
}

static void add_iterations(struct run *run, int64_t count)
{
    run->phase.duration_ns += count * run->iteration_ns;
    run->phase.iterations += count;
    run->result->iterations += count;
    run->now_ns += count * run->iteration_ns;
}

/* ---- remedies ---- */

static void put_in_force(struct run *run, enum detour_step step)
{
    const struct detour_cluster *cluster = run->options->cluster;
    const int32_t *nodes = run->nodes, *counts = run->even;

    if (step == DETOUR_STEP_S2) {
        counts = run->plan.microbatches.counts;
    } else if (step == DETOUR_STEP_S3) {
        nodes = run->plan.topology.nodes;
        counts = run->plan.topology.counts;
    } else if (step == DETOUR_STEP_S4) {
        nodes = run->first_nodes; /* healthy ones in the places of those that are slow */
        for (int32_t i = 0; i < run->options->incident_count; i++)
            run->is_over[i] |= run->is_active[i];
    }
    memmove(run->nodes, nodes, bytes_of(cluster->replica_count * cluster->stage_count));
    memmove(run->counts, counts, bytes_of(cluster->replica_count));
}

static enum detour_status take(struct run *run, enum detour_step step, struct detour_error *error)
{
    int64_t cost_ns = run->steps[step].cost_ns;

    end_phase(run);
    run->phase.step = step;
    run->phase.duration_ns = cost_ns;
    end_phase(run);
    run->now_ns += cost_ns;
    run->result->paused_ns += cost_ns;
    run->result->taken[step]++;
    if (run->options->policy == DT_INCIDENTS_LADDER &&
        run->ladder.lost_ns[step] > run->result->waited_ns[step])
        run->result->waited_ns[step] = run->ladder.lost_ns[step];
    put_in_force(run, step);
    if (step == DETOUR_STEP_S4)
        run->phase.step = DETOUR_STEP_S1;
    if (run->options->policy == DT_INCIDENTS_LADDER)
        detour_ladder_done(&run->ladder, run->now_ns, true);
    refresh_active(run);
    return replan(run, error);
}

static bool is_longer(int64_t iteration_ns, int64_t than_ns, int32_t permille)
{
    return (__int128)iteration_ns * PERMILLE > (__int128)than_ns * (PERMILLE + permille);
}

/* Without waiting. */
static enum detour_step step_at_once(const struct run *run)
{
    const struct detour_ladder_step *steps = run->steps;

    if (!incident_count(run))
        return DETOUR_STEP_S1;
    if (run->options->policy == DT_INCIDENTS_AT_ONCE)
        return run->options->step;
    return is_longer(steps[DETOUR_STEP_S2].iteration_ns, steps[DETOUR_STEP_S3].iteration_ns,
                     DETOUR_SAVING_NOISE_PERMILLE)
               ? DETOUR_STEP_S3
               : DETOUR_STEP_S2;
}

/* At the end of an iteration. */
static bool is_due(struct run *run, enum detour_step *step)
{
    if (run->options->policy == DT_INCIDENTS_LADDER)
        return detour_ladder_boundary(&run->ladder, run->now_ns, step);
    if (run->options->policy == DT_INCIDENTS_NEVER)
        return false;
    bool is_slow = incident_count(run);
    *step = step_at_once(run);
    run->is_verified = is_slow && (run->is_verified ||
                                   is_longer(run->iteration_ns, run->result->healthy_ns, NOISE_PERMILLE));
    return (!is_slow || run->is_verified) &&
           is_longer(run->iteration_ns, run->steps[*step].iteration_ns, DETOUR_SAVING_NOISE_PERMILLE);
}

/* ---- the run ---- */

/* Nothing is slow, no remedy is in force or can be taken back. */
static bool is_calm(const struct run *run)
{
    return !incident_count(run) && run->steps[DETOUR_STEP_S1].iteration_ns >= run->iteration_ns &&
           (run->options->policy != DT_INCIDENTS_LADDER || run->ladder.state == DETOUR_LADDER_QUIET);
}

/* Calm iterations up to the next incident as one: the ladder is quiet, so that their length does not count.
 */
static void skip(struct run *run)
{
    int64_t count = (next_start_ns(run) - run->now_ns) / run->iteration_ns;
    enum detour_step step;

    if (count < 1)
        return;
    add_iterations(run, count);
    if (run->options->policy == DT_INCIDENTS_LADDER)
        DT_CHECK(!detour_ladder_boundary(&run->ladder, run->now_ns, &step));
}

static enum detour_status play(struct run *run, struct detour_error *error)
{
    enum detour_status status = replan(run, error);
    enum detour_step step;

    end_phase(run);
    while (!status && run->now_ns < run->end_ns) {
        if (refresh_active(run)) {
            end_phase(run);
            status = replan(run, error);
            continue;
        }
        if (is_calm(run))
            skip(run);
        if (run->now_ns >= run->end_ns)
            break;
        add_iterations(run, 1);
        if (is_due(run, &step))
            status = take(run, step, error);
    }
    end_phase(run);
    return status;
}

static void begin(struct run *run)
{
    const struct detour_cluster *cluster = run->options->cluster;
    int64_t first_ns = INT64_MAX, last_ns = 0;

    for (int32_t i = 0; i < run->options->incident_count; i++) {
        const struct dt_incident *incident = &run->options->incidents[i];
        first_ns = incident->start_ns < first_ns ? incident->start_ns : first_ns;
        if (incident->start_ns + incident->duration_ns > last_ns)
            last_ns = incident->start_ns + incident->duration_ns;
    }
    run->now_ns = run->options->incident_count ? first_ns : 0;
    run->end_ns = last_ns + TAIL_ITERATIONS * run->result->healthy_ns;
    for (int32_t p = 0; p < cluster->replica_count * cluster->stage_count; p++)
        run->nodes[p] = run->first_nodes[p] = cluster->nodes ? cluster->nodes[p] : p;
    memcpy(run->counts, run->even, bytes_of(cluster->replica_count));
    detour_ladder_init(&run->ladder, NULL, run->now_ns);
}

static enum detour_status run_all(struct run *run, struct detour_error *error)
{
    const struct detour_cluster *cluster = run->options->cluster;

    for (int32_t r = 0; r < cluster->replica_count; r++)
        run->even[r] = cluster->microbatch_count / cluster->replica_count +
                       (r < cluster->microbatch_count % cluster->replica_count);
    begin(run);
    enum detour_status status =
        time_of(run, &nothing, run->nodes, run->even, &run->result->healthy_ns, error);
    if (status)
        return status;
    begin(run);
    int64_t began_ns = run->now_ns;

    status = play(run, error);
    run->result->elapsed_ns = run->now_ns - began_ns;
    run->result->lost_ns = run->result->elapsed_ns - run->result->iterations * run->result->healthy_ns;
    return status;
}

enum detour_status dt_incidents_run(const struct dt_incidents_options *options,
                                    struct dt_incidents_result *result, struct detour_error *error)
{
    enum detour_status status = detour_cluster_check(options->cluster, error);

    if (status)
        return status;
    size_t count = (size_t)options->cluster->replica_count * (size_t)options->cluster->stage_count;
    struct run *run = calloc(1, sizeof *run);
    int32_t *arrays = calloc(4 * count, sizeof *arrays);

    *result = (struct dt_incidents_result){0};
    *error = (struct detour_error){DETOUR_NO_MEMORY, "out of memory"};
    status = DETOUR_NO_MEMORY;
    if (run && arrays) {
        run->options = options;
        run->result = result;
        run->nodes = arrays;
        run->counts = arrays + count;
        run->first_nodes = arrays + 2 * count;
        run->even = arrays + 3 * count;
        run->time = dt_incidents_time_create(options->cluster, options->model);
        run->arena = detour_arena_create();
        if (run->time && run->arena)
            status = run_all(run, error);
        dt_incidents_time_destroy(run->time);
        detour_arena_destroy(run->arena);
    }
    free(arrays);
    free(run);
    return status;
}
