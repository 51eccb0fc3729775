/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/move_sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"
#include "detour/mitigate.h"
#include "tests/sim/cluster.h"

#define PERMILLE           1000
#define CONTROL_LATENCY_NS (50 * DT_NS_PER_US)
#define PATIENCE_NS        (100000 * DT_NS_PER_S)
#define BLOCK_BYTES        (DETOUR_MOVE_SLICE_BYTES / 4) /* wire_sim.h */
#define TAG                0

enum { SEND, RECEIVE, DIRECTIONS };

/* One direction of a node: slice i lies in the buffer i % slots, with its number at its start. */
struct end {
    void *comm, *mhandle;
    uint8_t *buffer;
    void *requests[DETOUR_MOVE_SLOTS];
    uint64_t posted, completed;
};

struct run {
    const struct dt_move_sim_options *options;
    struct dt_cluster *cluster;
    const ncclNet_v8_t *net;
    struct dt_cluster_connection connections[DT_MOVE_SIM_NODES_MAX]; /* from node k to the next one */
    struct end ends[DT_MOVE_SIM_NODES_MAX][DIRECTIONS];
    uint64_t slices; /* of a state */
    bool has_failed;
};

static int bytes_of(const struct run *run, uint64_t slice)
{
    return (int)dt_min_u64(DETOUR_MOVE_SLICE_BYTES,
                           run->options->state_bytes - slice * DETOUR_MOVE_SLICE_BYTES);
}

/* ---- set-up ---- */

/* Of the direction from node 0 to node 1 and, in an exchange, the one back: each node sends once. */
static void set_host(void *arg, uint32_t host, struct dt_params *params)
{
    const struct dt_move_sim_options *o = arg;

    if (o->delay_ns && (host == 0 || (host == 1 && o->node_count == 2)))
        snprintf(params->inject, sizeof params->inject, "connection=0 latency=%" PRIu64 "ns", o->delay_ns);
}

static bool start(struct run *run)
{
    const struct dt_move_sim_options *o = run->options;
    const struct dt_cluster_options options = {
        .seed = 1,
        .host_count = o->node_count,
        .link = {.latency_ns = o->latency_ns, .rate_bytes_per_s = o->rate_bytes_per_s},
        .segment_bytes_max = DETOUR_MOVE_SLICE_BYTES,
        .block_bytes = BLOCK_BYTES,
        .control_latency_ns = CONTROL_LATENCY_NS,
        .set = set_host,
        .set_arg = (void *)o,
    };
    const struct dt_sim_link_options slow = {
        .latency_ns = o->latency_ns, .rate_bytes_per_s = o->rate_bytes_per_s * PERMILLE / o->factor_permille};

    run->cluster = dt_cluster_start(&options);
    if (!run->cluster)
        return false;
    run->net = dt_cluster_net(run->cluster);
    dt_cluster_set_link(run->cluster, 0, 1, &slow);
    dt_cluster_set_link(run->cluster, 1, 0, &slow);
    return true;
}

static bool open_end(struct run *run, uint32_t host, int direction, void *comm)
{
    struct end *end = &run->ends[host][direction];
    size_t bytes = (size_t)DETOUR_MOVE_SLOTS * DETOUR_MOVE_SLICE_BYTES;

    end->comm = comm;
    end->buffer = aligned_alloc(4096, bytes);
    dt_cluster_enter(run->cluster, host);
    return end->buffer &&
           run->net->regMr(comm, end->buffer, bytes, NCCL_PTR_HOST, &end->mhandle) == ncclSuccess;
}

static bool connect_all(struct run *run)
{
    uint32_t count = run->options->node_count;

    for (uint32_t k = 0; k < count; k++) {
        struct dt_cluster_connection *c = &run->connections[k];

        if (!dt_cluster_connect(run->cluster, k, (k + 1) % count, c) ||
            !open_end(run, c->from, SEND, c->send) || !open_end(run, c->to, RECEIVE, c->recv))
            return false;
    }
    return true;
}

/* ---- slices ---- */

static bool post(struct run *run, struct end *end, int direction)
{
    uint64_t slice = end->posted;
    void *data = end->buffer + slice % DETOUR_MOVE_SLOTS * DETOUR_MOVE_SLICE_BYTES;
    void **request = &end->requests[slice % DETOUR_MOVE_SLOTS];
    int bytes = bytes_of(run, slice), tag = TAG;
    ncclResult_t result;

    *request = NULL;
    if (direction == SEND) {
        memcpy(data, &slice, sizeof slice);
        result = run->net->isend(end->comm, data, bytes, TAG, end->mhandle, request);
    } else {
        result = run->net->irecv(end->comm, 1, &data, &bytes, &tag, &end->mhandle, request);
    }
    run->has_failed |= result != ncclSuccess;
    end->posted += *request != NULL;
    return *request;
}

/* Of the receiver: the slice of that number, whole. */
static bool is_right(const struct run *run, const struct end *end, int bytes)
{
    uint64_t number;

    memcpy(&number, end->buffer + end->completed % DETOUR_MOVE_SLOTS * DETOUR_MOVE_SLICE_BYTES,
           sizeof number);
    return number == end->completed && bytes == bytes_of(run, end->completed);
}

/* True: it has come further. */
static bool progress(struct run *run, struct end *end, int direction)
{
    bool moves = false;
    int done = 0, bytes = 0;

    while (!run->has_failed && end->posted < run->slices &&
           end->posted - end->completed < DETOUR_MOVE_SLOTS && post(run, end, direction))
        moves = true;
    if (run->has_failed || end->completed == end->posted)
        return moves;
    run->has_failed =
        run->net->test(end->requests[end->completed % DETOUR_MOVE_SLOTS], &done, &bytes) != ncclSuccess;
    if (run->has_failed || !done)
        return moves;
    run->has_failed = direction == RECEIVE && !is_right(run, end, bytes);
    end->completed++;
    return true;
}

static bool is_done(const struct run *run)
{
    for (uint32_t k = 0; k < run->options->node_count; k++)
        for (int d = 0; d < DIRECTIONS; d++)
            if (run->ends[k][d].completed < run->slices)
                return false;
    return true;
}

static bool move_all(struct run *run)
{
    uint64_t until_ns = dt_cluster_now_ns(run->cluster) + PATIENCE_NS;
    uint32_t host;

    for (uint32_t k = 0; k < run->options->node_count; k++)
        dt_cluster_wake(run->cluster, k);
    while (!run->has_failed && dt_cluster_now_ns(run->cluster) < until_ns) {
        while (!run->has_failed && dt_cluster_take(run->cluster, &host)) {
            bool sends = progress(run, &run->ends[host][SEND], SEND);
            bool receives = progress(run, &run->ends[host][RECEIVE], RECEIVE);
            if (sends || receives)
                dt_cluster_wake(run->cluster, host);
        }
        if (is_done(run))
            return !run->has_failed;
        dt_cluster_advance(run->cluster, until_ns);
    }
    return false;
}

/* ---- life ---- */

static void clean_up(struct run *run)
{
    for (uint32_t k = 0; k < run->options->node_count; k++)
        for (int d = 0; d < DIRECTIONS; d++) {
            struct end *end = &run->ends[k][d];
            if (end->mhandle) {
                dt_cluster_enter(run->cluster, k);
                run->net->deregMr(end->comm, end->mhandle);
            }
            free(end->buffer);
        }
    for (uint32_t k = 0; run->cluster && k < run->options->node_count; k++)
        dt_cluster_close(run->cluster, &run->connections[k]);
    dt_cluster_stop(run->cluster);
}

bool dt_move_sim_run(const struct dt_move_sim_options *options, uint64_t *took_ns)
{
    struct run run = {.options = options,
                      .slices =
                          (options->state_bytes + DETOUR_MOVE_SLICE_BYTES - 1) / DETOUR_MOVE_SLICE_BYTES};

    DT_CHECK(options->node_count >= 2 && options->node_count <= DT_MOVE_SIM_NODES_MAX);
    bool is_good = start(&run) && connect_all(&run);
    uint64_t began_ns = is_good ? dt_cluster_now_ns(run.cluster) : 0;

    is_good = is_good && move_all(&run);
    if (is_good)
        *took_ns = dt_cluster_now_ns(run.cluster) - began_ns;
    clean_up(&run);
    return is_good;
}

bool dt_move_sim_model(const struct dt_move_sim_options *options, int64_t *pause_ns)
{
    const int64_t stage_ns = 1;
    const struct detour_cluster cluster = {.name = "move",
                                           .replica_count = (int32_t)options->node_count,
                                           .stage_count = 1,
                                           .microbatch_count = (int32_t)options->node_count,
                                           .stage_ns = &stage_ns,
                                           .bytes_per_s = (int64_t)options->rate_bytes_per_s,
                                           .latency_ns = (int64_t)options->latency_ns,
                                           .state_bytes = (int64_t)options->state_bytes};
    const struct detour_slow_link link = {0, 1, (int32_t)options->factor_permille,
                                          (int64_t)options->delay_ns};
    const struct detour_slowness slowness = {.link_count = 1, .links = &link};
    struct detour_arena *arena = detour_arena_create();
    int32_t nodes[DT_MOVE_SIM_NODES_MAX];

    for (uint32_t k = 0; k < options->node_count; k++)
        nodes[(k + 1) % options->node_count] = (int32_t)k;
    bool is_good = arena && !detour_exchange_pause(arena, &cluster, &slowness, nodes, pause_ns, NULL);

    detour_arena_destroy(arena);
    return is_good;
}
