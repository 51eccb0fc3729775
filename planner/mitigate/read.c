/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs and events as JSON. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "planner/mitigate/layout.h"
#include "sched/arena.h"
#include "sched/call.h"
#include "sched/format/json_read.h"

enum { PERMILLE = 1000 };
#define SLOW_ITERATIONS_MAX 1000000000000

static const char *const cluster_keys[] = {
    "version",  "name",          "replicas",       "stages",           "microbatches",
    "stage_ms", "message_bytes", "gradient_bytes", "bytes_per_s",      "latency_ms",
    "nodes",    "costs_ms",      "state_bytes",    "copy_bytes_per_s", "machines",
    NULL};
static const char *const cost_keys[] = {"S1", "S2", "S3", "S4", NULL};
static const char *const event_keys[] = {"version", "slow_iterations", "nodes", "links", NULL};
static const char *const node_keys[] = {"node", "compute", "network", NULL};
static const char *const link_keys[] = {"a", "b", "factor", "delay_ms", NULL};

static bool out_of_memory(const struct dt_json_at *at)
{
    at->reader->status = dt_fail_memory(at->reader->error);
    return false;
}

static bool read_int32(const struct dt_json_at *object, const char *key, const char *what, int32_t min,
                       int32_t max, int32_t *value)
{
    struct dt_json_at at;
    int64_t read;

    if (!dt_json_member(object, key, &at) || !dt_json_int(&at, what, min, max, &read))
        return false;
    *value = (int32_t)read;
    return true;
}

static bool read_size(const struct dt_json_at *object, const char *key, const char *what, int64_t max,
                      int64_t *value)
{
    struct dt_json_at at;

    return dt_json_member(object, key, &at) && dt_json_int(&at, what, 0, max, value);
}

/* 0 if it is missing. */
static bool read_size_optional(const struct dt_json_at *object, const char *key, const char *what,
                               int64_t max, int64_t *value)
{
    struct dt_json_at at = dt_json_optional(object, key);

    return !at.value || dt_json_int(&at, what, 0, max, value);
}

/* A name: a copy in the arena; detour_cluster_check() has its rules. */
static bool read_name(struct detour_arena *arena, const struct dt_json_at *root,
                      struct detour_cluster *cluster)
{
    struct dt_json_at at;
    char *copy;

    if (!dt_json_member(root, "name", &at))
        return false;
    if (!json_is_string(at.value))
        return dt_json_fail(&at, DETOUR_INVALID, "must be a string");
    size_t bytes = json_string_length(at.value);

    if (!dt_arena_new(arena, copy, bytes + 1))
        return out_of_memory(&at);
    memcpy(copy, json_string_value(at.value), bytes);
    cluster->name = copy;
    return true;
}

static bool read_stages(struct detour_arena *arena, const struct dt_json_at *root,
                        struct detour_cluster *cluster)
{
    struct dt_json_at times;
    int64_t *stage_ns;

    if (!dt_json_member(root, "stage_ms", &times) ||
        !dt_json_array_of(&times, (size_t)cluster->stage_count, "one for each stage"))
        return false;
    if (!dt_arena_new(arena, stage_ns, cluster->stage_count))
        return out_of_memory(root);
    for (int32_t s = 0; s < cluster->stage_count; s++) {
        struct dt_json_at at = dt_json_element(&times, (size_t)s);
        if (!dt_json_time(&at, DETOUR_TIME_MAX_NS, &stage_ns[s]))
            return false;
        if (!stage_ns[s])
            return dt_json_fail(&at, DETOUR_INVALID, "is %g; it must be at least 0.000001 (ms)",
                                json_number_value(at.value));
    }
    cluster->stage_ns = stage_ns;
    return true;
}

static bool read_positions(struct detour_arena *arena, const struct dt_json_at *root,
                           struct detour_cluster *cluster)
{
    struct dt_json_at list = dt_json_optional(root, "nodes");
    int32_t count = dt_cluster_nodes(cluster), *nodes;

    if (!list.value)
        return true;
    if (!dt_json_array_of(&list, (size_t)count, "one for each position, replica by replica"))
        return false;
    if (!dt_arena_new(arena, nodes, count))
        return out_of_memory(root);
    for (int32_t p = 0; p < count; p++) {
        struct dt_json_at at = dt_json_element(&list, (size_t)p);
        int64_t node;
        if (!dt_json_int(&at, "a node", 0, count - 1, &node))
            return false;
        nodes[p] = (int32_t)node;
    }
    cluster->nodes = nodes;
    return true;
}

/* The number of a machine by its name, in the order of their first nodes. A number is a name, too. */
static bool read_machine(const struct dt_json_at *at, json_t *numbers, int32_t *machine)
{
    char text[24];
    const char *name = json_string_value(at->value);

    if (json_is_integer(at->value)) {
        snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(at->value));
        name = text;
    }
    if (!name || !*name)
        return dt_json_fail(at, DETOUR_INVALID, "must be the name or the number of a machine");
    json_t *number = json_object_get(numbers, name);

    *machine = (int32_t)(number ? json_integer_value(number) : (json_int_t)json_object_size(numbers));
    if (!number && json_object_set_new(numbers, name, json_integer(*machine)))
        return out_of_memory(at);
    return true;
}

static bool read_machines(struct detour_arena *arena, const struct dt_json_at *root,
                          struct detour_cluster *cluster)
{
    struct dt_json_at list = dt_json_optional(root, "machines");
    int32_t count = dt_cluster_nodes(cluster), *machines;

    if (!list.value)
        return true;
    if (!dt_json_array_of(&list, (size_t)count, "one for each node"))
        return false;
    json_t *numbers = json_object();
    bool is_read = (numbers && dt_arena_new(arena, machines, count)) || out_of_memory(root);

    for (int32_t n = 0; is_read && n < count; n++) {
        struct dt_json_at at = dt_json_element(&list, (size_t)n);
        is_read = read_machine(&at, numbers, &machines[n]);
    }
    json_decref(numbers);
    if (is_read)
        cluster->machines = machines;
    return is_read;
}

/* That of S1, of taking a remedy back, may be missing: 0. */
static bool read_costs(const struct dt_json_at *root, struct detour_cluster *cluster)
{
    struct dt_json_at costs, at;

    if (!dt_json_member(root, "costs_ms", &costs) || !dt_json_object(&costs, cost_keys) ||
        !dt_json_time_optional(&costs, cost_keys[0], DETOUR_STEP_COST_MAX_NS, &cluster->cost_ns[0]))
        return false;
    for (int step = DETOUR_STEP_S2; step < DETOUR_STEP_COUNT; step++)
        if (!dt_json_member(&costs, cost_keys[step], &at) ||
            !dt_json_time(&at, DETOUR_STEP_COST_MAX_NS, &cluster->cost_ns[step]))
            return false;
    return true;
}

static bool read_cluster(struct detour_arena *arena, const struct dt_json_at *root,
                         struct detour_cluster *cluster)
{
    if (!dt_json_object(root, cluster_keys) || !dt_json_version(root) || !read_name(arena, root, cluster) ||
        !read_int32(root, "replicas", "a count of replicas", 1, DETOUR_CLUSTER_NODES_MAX,
                    &cluster->replica_count) ||
        !read_int32(root, "stages", "a count of stages", 1, DETOUR_CLUSTER_NODES_MAX / cluster->replica_count,
                    &cluster->stage_count) ||
        !read_int32(root, "microbatches", "a count of microbatches, at least one for each replica",
                    cluster->replica_count, DETOUR_CELLS_MAX, &cluster->microbatch_count))
        return false;
    return read_stages(arena, root, cluster) &&
           read_size(root, "message_bytes", "a size in bytes", DETOUR_CLUSTER_BYTES_MAX,
                     &cluster->message_bytes) &&
           read_size(root, "gradient_bytes", "a size in bytes", DETOUR_CLUSTER_BYTES_MAX,
                     &cluster->gradient_bytes) &&
           read_size(root, "bytes_per_s", "a bandwidth in bytes/s (0: no limit)", DETOUR_CLUSTER_BYTES_S_MAX,
                     &cluster->bytes_per_s) &&
           dt_json_time_optional(root, "latency_ms", DETOUR_TIME_MAX_NS, &cluster->latency_ns) &&
           read_size_optional(root, "state_bytes", "a size in bytes", DETOUR_CLUSTER_BYTES_MAX,
                              &cluster->state_bytes) &&
           read_size_optional(root, "copy_bytes_per_s", "a bandwidth in bytes/s (0: no copies)",
                              DETOUR_CLUSTER_BYTES_S_MAX, &cluster->copy_bytes_per_s) &&
           read_positions(arena, root, cluster) && read_machines(arena, root, cluster) &&
           read_costs(root, cluster);
}

/* What concerns several fields. */
static void check_again(struct dt_json_reader *reader, enum detour_status status,
                        const struct detour_error *found)
{
    if (status)
        reader->status = dt_error_set(reader->error, status, "%s: %s", reader->name, found->text);
}

enum detour_status detour_cluster_from_json(struct detour_arena *arena, const char *name, const char *text,
                                            size_t bytes, struct detour_cluster **cluster,
                                            struct detour_error *error)
{
    struct dt_json_reader reader = {.name = name, .error = error};
    struct detour_error found = {0};
    struct detour_cluster *made;
    struct dt_json_at root;

    if (!dt_arena_new(arena, made, 1))
        return dt_fail_memory(error);
    if (!dt_json_parse(&reader, text, bytes, &root))
        return reader.status;
    if (read_cluster(arena, &root, made))
        check_again(&reader, detour_cluster_check(made, &found), &found);
    json_decref((json_t *)root.value);
    if (reader.status == DETOUR_OK)
        *cluster = made;
    return reader.status;
}

/* 1 to 1000 times a healthy time; 1 if it is missing. */
static bool read_factor(const struct dt_json_at *object, const char *key, int32_t *permille)
{
    struct dt_json_at at = dt_json_optional(object, key);
    double factor = at.value ? json_number_value(at.value) : 1;

    if ((at.value && !json_is_number(at.value)) ||
        !(factor >= 1 && factor <= (double)DETOUR_SLOW_PERMILLE_MAX / PERMILLE))
        return dt_json_fail(&at, DETOUR_INVALID,
                            "must be a number from 1 to %d: 2 takes twice a healthy time",
                            DETOUR_SLOW_PERMILLE_MAX / PERMILLE);
    *permille = (int32_t)(factor * PERMILLE + 0.5);
    return true;
}

/* An entry without either would state that a healthy one is slow. */
static bool has_either(const struct dt_json_at *entry, const char *key, const char *other)
{
    return dt_json_optional(entry, key).value || dt_json_optional(entry, other).value ||
           dt_json_fail(entry, DETOUR_INVALID, "has neither %s nor %s, which state how slow it is", key,
                        other);
}

/* Two entries for one node would leave open which one holds. */
static bool is_first_node(const struct dt_json_at *at, const struct detour_slow_node *nodes, size_t k)
{
    for (size_t i = 0; i < k; i++)
        if (nodes[i].node == nodes[k].node)
            return dt_json_fail(at, DETOUR_INVALID, "is node %" PRId32 " again; nodes[%zu] has it",
                                nodes[k].node, i);
    return true;
}

static bool read_slow_nodes(struct detour_arena *arena, const struct dt_json_at *root, int32_t last,
                            struct detour_slowness *slowness)
{
    struct dt_json_at list = dt_json_optional(root, "nodes");
    struct detour_slow_node *nodes;
    size_t count;

    if (!list.value)
        return true;
    if (!dt_json_array(&list, DETOUR_SLOW_MAX, &count))
        return false;
    if (!dt_arena_new(arena, nodes, count + 1))
        return out_of_memory(root);
    for (size_t k = 0; k < count; k++) {
        struct dt_json_at at = dt_json_element(&list, k);
        if (!dt_json_object(&at, node_keys) || !read_int32(&at, "node", "a node", 0, last, &nodes[k].node) ||
            !read_factor(&at, "compute", &nodes[k].compute_permille) ||
            !read_factor(&at, "network", &nodes[k].network_permille) ||
            !has_either(&at, "compute", "network") || !is_first_node(&at, nodes, k))
            return false;
    }
    slowness->nodes = nodes;
    slowness->node_count = (int32_t)count;
    return true;
}

/* Likewise, in either direction. */
static bool is_first_link(const struct dt_json_at *at, const struct detour_slow_link *links, size_t k)
{
    for (size_t i = 0; i < k; i++)
        if ((links[i].a == links[k].a && links[i].b == links[k].b) ||
            (links[i].a == links[k].b && links[i].b == links[k].a))
            return dt_json_fail(at, DETOUR_INVALID,
                                "is link %" PRId32 "-%" PRId32 " again; links[%zu] has it", links[k].a,
                                links[k].b, i);
    return true;
}

static bool read_slow_links(struct detour_arena *arena, const struct dt_json_at *root, int32_t last,
                            struct detour_slowness *slowness)
{
    struct dt_json_at list = dt_json_optional(root, "links");
    struct detour_slow_link *links;
    size_t count;

    if (!list.value)
        return true;
    if (!dt_json_array(&list, DETOUR_SLOW_MAX, &count))
        return false;
    if (!dt_arena_new(arena, links, count + 1))
        return out_of_memory(root);
    for (size_t k = 0; k < count; k++) {
        struct dt_json_at at = dt_json_element(&list, k);
        if (!dt_json_object(&at, link_keys) || !read_int32(&at, "a", "a node", 0, last, &links[k].a) ||
            !read_int32(&at, "b", "a node", 0, last, &links[k].b) ||
            !read_factor(&at, "factor", &links[k].factor_permille) ||
            !dt_json_time_optional(&at, "delay_ms", DETOUR_TIME_MAX_NS, &links[k].delay_ns) ||
            !has_either(&at, "factor", "delay_ms") || !is_first_link(&at, links, k))
            return false;
    }
    slowness->links = links;
    slowness->link_count = (int32_t)count;
    return true;
}

static bool read_event(struct detour_arena *arena, const struct dt_json_at *root, int32_t last,
                       struct detour_event *event)
{
    struct dt_json_at iterations;

    if (!dt_json_object(root, event_keys) || !dt_json_version(root))
        return false;
    iterations = dt_json_optional(root, "slow_iterations");
    if (iterations.value &&
        !dt_json_int(&iterations, "a count of iterations", 0, SLOW_ITERATIONS_MAX, &event->slow_iterations))
        return false;
    return read_slow_nodes(arena, root, last, &event->slowness) &&
           read_slow_links(arena, root, last, &event->slowness);
}

enum detour_status detour_event_from_json(struct detour_arena *arena, const struct detour_cluster *cluster,
                                          const char *name, const char *text, size_t bytes,
                                          struct detour_event **event, struct detour_error *error)
{
    struct dt_json_reader reader = {.name = name, .error = error};
    struct detour_error found = {0};
    struct detour_event *made;
    struct dt_json_at root;

    if (!dt_arena_new(arena, made, 1))
        return dt_fail_memory(error);
    if (!dt_json_parse(&reader, text, bytes, &root))
        return reader.status;
    if (read_event(arena, &root, dt_cluster_nodes(cluster) - 1, made))
        check_again(&reader, detour_slowness_check(cluster, &made->slowness, &found), &found);
    json_decref((json_t *)root.value);
    if (reader.status == DETOUR_OK)
        *event = made;
    return reader.status;
}
