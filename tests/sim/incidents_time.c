/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/incidents_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAGES_MAX 16
#define KNOWN_MAX  16384
#define PERMILLE   1000
#define OPERATIONS 3 /* F, B and W of a microbatch */

/* A replica: its microbatches, the factor of each stage and of each link behind it, the links' delays. */
struct key {
    int32_t count;
    int32_t stage_permille[STAGES_MAX];
    int32_t link_permille[STAGES_MAX];
    int64_t delay_ns[STAGES_MAX];
};

struct known {
    struct key key;
    int64_t pipeline_ns;
};

struct dt_incidents_time {
    const struct detour_cluster *cluster;
    enum dt_incidents_model model;
    struct detour_arena *arena;
    size_t known_count;
    struct known known[KNOWN_MAX];
};

/* A profile and what it points to. */
struct profile {
    struct detour_profile profile;
    struct detour_stage stages[STAGES_MAX];
    struct detour_link links[STAGES_MAX];
};

struct dt_incidents_time *dt_incidents_time_create(const struct detour_cluster *cluster,
                                                   enum dt_incidents_model model)
{
    struct dt_incidents_time *time = calloc(1, sizeof *time);

    if (!time)
        return NULL;
    time->cluster = cluster;
    time->model = model;
    time->arena = detour_arena_create();
    if (time->arena)
        return time;
    free(time);
    return NULL;
}

void dt_incidents_time_destroy(struct dt_incidents_time *time)
{
    if (!time)
        return;
    detour_arena_destroy(time->arena);
    free(time);
}

static void use_node(const struct detour_slowness *slowness, int32_t node, int32_t *permille)
{
    for (int32_t k = 0; k < slowness->node_count; k++)
        if (slowness->nodes[k].node == node && slowness->nodes[k].compute_permille > *permille)
            *permille = slowness->nodes[k].compute_permille;
}

static void use_links(const struct detour_slowness *slowness, int32_t a, int32_t b, int32_t *permille,
                      int64_t *delay_ns)
{
    for (int32_t k = 0; k < slowness->node_count; k++)
        if ((slowness->nodes[k].node == a || slowness->nodes[k].node == b) &&
            slowness->nodes[k].network_permille > *permille)
            *permille = slowness->nodes[k].network_permille;
    for (int32_t k = 0; k < slowness->link_count; k++) {
        const struct detour_slow_link *link = &slowness->links[k];
        if ((link->a != a || link->b != b) && (link->a != b || link->b != a))
            continue;
        *permille = link->factor_permille > *permille ? link->factor_permille : *permille;
        *delay_ns += link->delay_ns;
    }
}

static struct key key_of(const struct detour_cluster *cluster, const struct detour_slowness *slowness,
                         const int32_t *nodes, int32_t count)
{
    struct key key;

    memset(&key, 0, sizeof key); /* keys are compared as bytes */
    key.count = count;
    for (int32_t s = 0; s < cluster->stage_count; s++) {
        key.stage_permille[s] = key.link_permille[s] = PERMILLE;
        use_node(slowness, nodes[s], &key.stage_permille[s]);
        if (s + 1 < cluster->stage_count)
            use_links(slowness, nodes[s], nodes[s + 1], &key.link_permille[s], &key.delay_ns[s]);
    }
    return key;
}

static void describe(const struct detour_cluster *cluster, const struct key *key, bool is_healthy,
                     struct profile *made)
{
    int64_t healthy_ns = cluster->bytes_per_s
                             ? (int64_t)((__int128)cluster->message_bytes * 1000000000 / cluster->bytes_per_s)
                             : 0;

    made->profile = (struct detour_profile){.stage_count = cluster->stage_count,
                                            .microbatch_count = key->count,
                                            .device_count = cluster->stage_count,
                                            .stages = made->stages,
                                            .links = made->links};
    for (int32_t s = 0; s < cluster->stage_count; s++) {
        int64_t permille = is_healthy ? PERMILLE : key->stage_permille[s];
        int64_t ns = cluster->stage_ns[s] / OPERATIONS * permille / PERMILLE;
        int64_t serial_ns = healthy_ns * (is_healthy ? PERMILLE : key->link_permille[s]) / PERMILLE;
        int64_t latency_ns = cluster->latency_ns + (is_healthy ? 0 : key->delay_ns[s]);
        made->stages[s] = (struct detour_stage){.f_ns = ns, .b_ns = ns, .w_ns = ns, .device = s};
        made->links[s] = (struct detour_link){latency_ns, latency_ns, serial_ns, serial_ns};
    }
}

/* The schedule made for `planned`, on the links and devices of `actual`. */
static enum detour_status simulate(struct dt_incidents_time *time, enum detour_algorithm algorithm,
                                   const struct profile *planned, const struct profile *actual, int64_t *ns,
                                   struct detour_error *error)
{
    const struct detour_options options = {.algorithm = algorithm};
    struct detour_plan *plan;
    struct detour_report *report;

    detour_arena_reset(time->arena);
    enum detour_status status = detour_generate(time->arena, &planned->profile, &options, &plan, error);
    if (!status)
        status = detour_simulate(time->arena, &actual->profile, plan->schedule, &report, error);
    if (!status)
        *ns = report->makespan_ns;
    return status;
}

static enum detour_status pipeline_of(struct dt_incidents_time *time, const struct key *key, int64_t *ns,
                                      struct detour_error *error)
{
    struct profile healthy, actual;
    int64_t replanned_ns;

    for (size_t i = 0; i < time->known_count; i++)
        if (!memcmp(&time->known[i].key, key, sizeof *key)) {
            *ns = time->known[i].pipeline_ns;
            return DETOUR_OK;
        }
    describe(time->cluster, key, true, &healthy);
    describe(time->cluster, key, false, &actual);
    enum detour_status status = simulate(time, DETOUR_ALGORITHM_ZB, &healthy, &actual, ns, error);
    if (!status && time->model == DT_INCIDENTS_REPLANNED) {
        status = simulate(time, DETOUR_ALGORITHM_ADAPTRA, &actual, &actual, &replanned_ns, error);
        *ns = !status && replanned_ns < *ns ? replanned_ns : *ns;
    }
    if (!status && time->known_count < KNOWN_MAX)
        time->known[time->known_count++] = (struct known){*key, *ns};
    return status;
}

enum detour_status dt_incidents_time_of(struct dt_incidents_time *time,
                                        const struct detour_slowness *slowness, const int32_t *nodes,
                                        const int32_t *counts, int64_t *iteration_ns,
                                        struct detour_error *error)
{
    const struct detour_cluster *cluster = time->cluster;
    struct detour_iteration estimate;
    int64_t longest_ns = 0, ns = 0;

    detour_arena_reset(time->arena);
    enum detour_status status =
        detour_iteration_estimate(time->arena, cluster, slowness, nodes, counts, &estimate, error);
    if (status || time->model == DT_INCIDENTS_ESTIMATE) {
        *iteration_ns = status ? 0 : estimate.iteration_ns;
        return status;
    }
    if (cluster->stage_count > STAGES_MAX) {
        snprintf(error->text, sizeof error->text, "more than %d stages", STAGES_MAX);
        return DETOUR_LIMIT;
    }
    for (int32_t r = 0; !status && r < cluster->replica_count; r++) {
        struct key key = key_of(cluster, slowness, &nodes[r * cluster->stage_count], counts[r]);
        status = pipeline_of(time, &key, &ns, error);
        longest_ns = ns > longest_ns ? ns : longest_ns;
    }
    *iteration_ns = longest_ns + estimate.gradients_ns;
    return status;
}
