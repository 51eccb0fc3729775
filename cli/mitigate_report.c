/* SPDX-License-Identifier: Apache-2.0 */
/* `detour mitigate`: the plan as a table and as JSON. */
#include <inttypes.h>
#include <jansson.h>

#include "cli/mitigate.h"

static double ms(int64_t time_ns)
{
    return (double)time_ns / 1e6;
}

static int64_t iteration_ns(const struct dt_mitigate_report *report, enum detour_step step)
{
    return report->plan->steps[step].iteration.iteration_ns;
}

/* The part of the slowdown that the step removes, in percent. */
static double removed(const struct dt_mitigate_report *report, enum detour_step step)
{
    double slow_ns = (double)iteration_ns(report, DETOUR_STEP_S1);
    double slowdown_ns = slow_ns - (double)report->plan->healthy.iteration_ns;

    return slowdown_ns > 0 ? 100 * (slow_ns - (double)iteration_ns(report, step)) / slowdown_ns : 0;
}

/* ---- table ------------------------------------------------------------------------------------------ */

static const char *remedy_of(enum detour_step step)
{
    static const char *const names[] = {"ignore", "move microbatches", "exchange nodes", "restart"};

    return names[step];
}

static void print_due(FILE *out, const struct dt_mitigate_report *report, enum detour_step step)
{
    const struct detour_mitigation_step *row = &report->plan->steps[step];
    int64_t slow_ns = iteration_ns(report, DETOUR_STEP_S1);

    if (step == DETOUR_STEP_S1)
        fprintf(out, "at once\n");
    else if (row->due_iterations >= 0)
        fprintf(out, "%" PRId64 " slow iteration%s\n", row->due_iterations,
                row->due_iterations == 1 ? "" : "s");
    else if (row->iteration.iteration_ns >= slow_ns)
        fprintf(out, "never: it saves nothing\n");
    else
        fprintf(out, "never: what it would save is within the noise\n");
}

static void print_steps(FILE *out, const struct dt_mitigate_report *report)
{
    fprintf(out, "%-4s %-18s %10s %14s %10s  %s\n", "step", "remedy", "cost s", "iteration ms", "removed %",
            "taken after");
    for (int s = 0; s < DETOUR_STEP_COUNT; s++) {
        enum detour_step step = (enum detour_step)s;
        fprintf(out, "%-4s %-18s %10.3f %14.3f %10.1f  ", detour_step_name(step), remedy_of(step),
                (double)report->plan->steps[s].cost_ns / 1e9, ms(iteration_ns(report, step)),
                removed(report, step));
        print_due(out, report, step);
    }
}

static void print_counts(FILE *out, const struct dt_mitigate_report *report, const int32_t *counts)
{
    for (int32_t r = 0; r < report->cluster->replica_count; r++)
        fprintf(out, " %" PRId32, counts[r]);
    fputc('\n', out);
}

static int32_t node_before(const struct detour_cluster *cluster, int32_t position)
{
    return cluster->nodes ? cluster->nodes[position] : position;
}

/* Of the pause, what moving takes. */
static void print_move(FILE *out, const struct dt_mitigate_report *report)
{
    int64_t move_ns = report->plan->steps[DETOUR_STEP_S3].cost_ns - report->cluster->cost_ns[DETOUR_STEP_S3];

    if (move_ns > 0)
        fprintf(out, "    each sends and receives a state of %.3f GB: %.3f s\n",
                (double)report->cluster->state_bytes / 1e9, (double)move_ns / 1e9);
}

static void print_limit(FILE *out, const struct detour_topology *topology)
{
    if (topology->optimal)
        fprintf(out, "no assignment of nodes is better\n");
    else
        fprintf(out, "no assignment of nodes is below %.3f ms\n", ms(topology->bound_ns));
}

static void print_topology(FILE *out, const struct dt_mitigate_report *report)
{
    const struct detour_topology *topology = &report->plan->topology;
    const struct detour_cluster *cluster = report->cluster;

    if (topology->ended_early)
        fprintf(out,
                "S3: the search ended at its budget, %" PRIu64 " exchanges; a better assignment may exist\n",
                topology->tried);
    if (iteration_ns(report, DETOUR_STEP_S3) >= iteration_ns(report, DETOUR_STEP_S1)) {
        fprintf(out, "S3: no node moves; ");
        print_limit(out, topology);
        return;
    }
    fprintf(out, "S3: %" PRId32 " nodes move; ", topology->moved_count);
    print_limit(out, topology);
    for (int32_t p = 0; p < cluster->replica_count * cluster->stage_count; p++)
        if (topology->nodes[p] != node_before(cluster, p))
            fprintf(out,
                    "    replica %" PRId32 ", stage %" PRId32 ": node %" PRId32 " instead of %" PRId32 "\n",
                    p / cluster->stage_count, p % cluster->stage_count, topology->nodes[p],
                    node_before(cluster, p));
    print_move(out, report);
    for (int32_t k = 0; k < report->event->slowness.link_count; k++) {
        const struct detour_slow_link *link = &report->event->slowness.links[k];
        const struct detour_link_use *use = &topology->uses[k];
        fprintf(out, "    link %" PRId32 "-%" PRId32 ": %s, %.3f MB an iteration, becomes %s, %.3f MB\n",
                link->a, link->b, detour_group_name(use->before), (double)use->before_bytes / 1e6,
                detour_group_name(use->after), (double)use->after_bytes / 1e6);
    }
    fprintf(out, "    microbatches:");
    print_counts(out, report, topology->counts);
}

void dt_mitigate_print(FILE *out, const struct dt_mitigate_report *report)
{
    const struct detour_mitigation *plan = report->plan;
    const struct detour_cluster *cluster = report->cluster;
    int64_t healthy_ns = plan->healthy.iteration_ns, slow_ns = iteration_ns(report, DETOUR_STEP_S1);

    fprintf(out, "%s: %" PRId32 " replicas of %" PRId32 " stages, %" PRId32 " microbatches\n", cluster->name,
            cluster->replica_count, cluster->stage_count, cluster->microbatch_count);
    fprintf(out, "an iteration takes %.3f ms, healthy %.3f ms: %.2f times\n\n", ms(slow_ns), ms(healthy_ns),
            (double)slow_ns / (double)healthy_ns);
    print_steps(out, report);
    fprintf(out, "\nnow, with %" PRId64 " slow so far: %s\n", report->event->slow_iterations,
            detour_step_name(plan->due));
    fprintf(out, "S2: microbatches:");
    print_counts(out, report, plan->microbatches.counts);
    print_topology(out, report);
}

/* ---- JSON ------------------------------------------------------------------------------------------- */

/* Appends; *array becomes NULL when out of memory. */
static void append(json_t **array, json_t *value)
{
    if (*array && json_array_append_new(*array, value)) {
        json_decref(*array);
        *array = NULL;
    }
}

static json_t *integers_json(const int32_t *values, int32_t count)
{
    json_t *array = json_array();

    for (int32_t k = 0; k < count; k++)
        append(&array, json_integer(values[k]));
    return array;
}

static json_t *steps_json(const struct dt_mitigate_report *report)
{
    json_t *array = json_array();

    for (int s = 0; s < DETOUR_STEP_COUNT; s++) {
        const struct detour_mitigation_step *row = &report->plan->steps[s];
        enum detour_step step = (enum detour_step)s;
        append(&array,
               json_pack("{s:s, s:f, s:f, s:f, s:f, s:f, s:o}", "step", detour_step_name(step), "cost_ms",
                         ms(row->cost_ns), "iteration_ms", ms(row->iteration.iteration_ns), "pipeline_ms",
                         ms(row->iteration.pipeline_ns), "gradients_ms", ms(row->iteration.gradients_ns),
                         "removed_percent", removed(report, step), "due_iterations",
                         row->due_iterations < 0 ? json_null() : json_integer(row->due_iterations)));
    }
    return array;
}

static json_t *weights_json(const struct dt_mitigate_report *report)
{
    json_t *array = json_array();

    for (int32_t r = 0; r < report->cluster->replica_count; r++)
        append(&array, json_real(report->plan->microbatches.weights[r]));
    return array;
}

static json_t *links_json(const struct dt_mitigate_report *report)
{
    json_t *array = json_array();

    for (int32_t k = 0; k < report->event->slowness.link_count; k++) {
        const struct detour_slow_link *link = &report->event->slowness.links[k];
        const struct detour_link_use *use = &report->plan->topology.uses[k];
        append(&array, json_pack("{s:i, s:i, s:s, s:s, s:I, s:I}", "a", (int)link->a, "b", (int)link->b,
                                 "before", detour_group_name(use->before), "after",
                                 detour_group_name(use->after), "before_bytes", (json_int_t)use->before_bytes,
                                 "after_bytes", (json_int_t)use->after_bytes));
    }
    return array;
}

bool dt_mitigate_print_json(FILE *out, const struct dt_mitigate_report *report)
{
    const struct detour_topology *topology = &report->plan->topology;
    int32_t replicas = report->cluster->replica_count, nodes = replicas * report->cluster->stage_count;
    json_t *document = json_pack(
        "{s:i, s:s, s:f, s:I, s:s, s:o, s:{s:o, s:o}, s:{s:o, s:o, s:i, s:i, s:f, s:b, s:b, s:o}}", "version",
        1, "cluster", report->cluster->name, "healthy_ms", ms(report->plan->healthy.iteration_ns),
        "slow_iterations", (json_int_t)report->event->slow_iterations, "due",
        detour_step_name(report->plan->due), "steps", steps_json(report), "S2", "microbatches",
        integers_json(report->plan->microbatches.counts, replicas), "weights", weights_json(report), "S3",
        "nodes", integers_json(topology->nodes, nodes), "microbatches",
        integers_json(topology->counts, replicas), "moved", (int)topology->moved_count, "straggler_stages",
        (int)topology->straggler_stages, "bound_ms", ms(topology->bound_ns), "optimal",
        (int)topology->optimal, "ended_early", (int)topology->ended_early, "links", links_json(report));
    bool written = document && json_dumpf(document, out, JSON_INDENT(1) | JSON_REAL_PRECISION(12)) == 0 &&
                   fputc('\n', out) != EOF;

    json_decref(document);
    return written;
}
