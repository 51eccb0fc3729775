/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/incidents_read.h"

#include <math.h>
#include <stdio.h>

#define SECONDS_MAX 1e7

static bool get_number(const json_t *object, const char *name, double min, double max, double *number)
{
    const json_t *value = json_object_get(object, name);

    *number = json_number_value(value);
    return json_is_number(value) && *number >= min && *number <= max;
}

static bool get_node(const json_t *object, const char *name, int32_t *node)
{
    double number;
    bool is_good = get_number(object, name, 0, DETOUR_CLUSTER_NODES_MAX - 1, &number);

    *node = is_good ? (int32_t)number : 0;
    return is_good;
}

static bool read_one(const json_t *value, struct dt_incident *incident)
{
    const json_t *link = json_object_get(value, "link"), *device = json_object_get(value, "device");
    double start_s, duration_s, factor;

    *incident = (struct dt_incident){.is_link = link};
    if (!get_number(value, "start_s", 0, SECONDS_MAX, &start_s) ||
        !get_number(value, "duration_s", 0, SECONDS_MAX, &duration_s) ||
        !get_number(link ? link : device, "factor", 1, 1000, &factor))
        return false;
    incident->start_ns = llround(start_s * 1e9);
    incident->duration_ns = llround(duration_s * 1e9);
    incident->factor_permille = (int32_t)lround(factor * 1000);
    return link ? get_node(link, "a", &incident->a) && get_node(link, "b", &incident->b)
                : get_node(device, "node", &incident->a);
}

bool dt_incidents_read(const json_t *value, struct dt_incidents_trace *trace, char text[128])
{
    const json_t *incidents = json_object_get(value, "incidents");
    size_t count = json_array_size(incidents);

    trace->seed = json_integer_value(json_object_get(value, "seed"));
    trace->count = 0;
    if (!count || count > DT_INCIDENTS_MAX) {
        snprintf(text, 128, "a trace has %zu incidents; it must have 1 to %d", count, DT_INCIDENTS_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (!read_one(json_array_get(incidents, i), &trace->incidents[trace->count++])) {
            snprintf(text, 128,
                     "incident %zu: start_s, duration_s and a link (a, b, factor) or a device (node, "
                     "factor) are needed",
                     i);
            return false;
        }
    return true;
}

/* ---- results ---- */

static json_t *list_of(const int32_t *values, int32_t count)
{
    json_t *list = json_array();

    for (int32_t i = 0; i < count; i++)
        json_array_append_new(list, json_integer(values[i]));
    return list;
}

json_t *dt_incidents_phase_json(const struct detour_cluster *cluster, const struct dt_incidents_phase *phase)
{
    json_t *nodes = json_array(), *links = json_array();

    for (int32_t k = 0; k < phase->slowness->node_count; k++)
        json_array_append_new(nodes, json_pack("[ii]", phase->slowness->nodes[k].node,
                                               phase->slowness->nodes[k].compute_permille));
    for (int32_t k = 0; k < phase->slowness->link_count; k++)
        json_array_append_new(links,
                              json_pack("[iii]", phase->slowness->links[k].a, phase->slowness->links[k].b,
                                        phase->slowness->links[k].factor_permille));
    return json_pack("{s:I,s:I,s:s,s:o,s:o,s:o,s:o}", "duration_ns", (json_int_t)phase->duration_ns,
                     "iterations", (json_int_t)phase->iterations, "step", detour_step_name(phase->step),
                     "slow_nodes", nodes, "slow_links", links, "nodes",
                     list_of(phase->nodes, cluster->replica_count * cluster->stage_count), "counts",
                     list_of(phase->counts, cluster->replica_count));
}

json_t *dt_incidents_result_json(const struct dt_incidents_result *result)
{
    json_t *taken = json_object(), *waited = json_object();

    for (int step = 0; step < DETOUR_STEP_COUNT; step++) {
        const char *name = detour_step_name((enum detour_step)step);
        json_object_set_new(taken, name, json_integer(result->taken[step]));
        json_object_set_new(waited, name, json_integer(result->waited_ns[step]));
    }
    json_t *made =
        json_pack("{s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "iterations", (json_int_t)result->iterations, "elapsed_ns",
                  (json_int_t)result->elapsed_ns, "lost_ns", (json_int_t)result->lost_ns, "paused_ns",
                  (json_int_t)result->paused_ns, "longest_ns", (json_int_t)result->longest_ns, "taken", taken,
                  "waited_ns", waited);
    if (result->plan_count)
        json_object_set_new(made, "plans",
                            json_pack("{s:I,s:I,s:I,s:I}", "count", (json_int_t)result->plan_count, "equal",
                                      (json_int_t)result->equal_count, "above_sum_ppm",
                                      (json_int_t)result->above_sum_ppm, "above_largest_ppm",
                                      (json_int_t)result->above_largest_ppm));
    return made;
}
