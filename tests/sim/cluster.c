/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/cluster.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/util.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/plugin_sim.h"

#define CONNECT_NS (60 * DT_NS_PER_S)

struct host {
    struct dt_cluster *cluster;
    uint32_t number;
    uint64_t wanted_ns; /* its threads want to run then */
    bool is_awake;
};

struct dt_cluster {
    struct dt_cluster_options options;
    const ncclNet_v8_t *net;
    uint32_t awake_count;
    struct host host[DT_SIM_HOSTS_MAX];
};

uint64_t dt_cluster_now_ns(const struct dt_cluster *cluster)
{
    (void)cluster;
    return dt_sim_now_ns(dt_driver_sim_network());
}

/* ---- start ---- */

static void set_host(void *arg, struct dt_params *params)
{
    const struct host *host = arg;

    if (host->cluster->options.set)
        host->cluster->options.set(host->cluster->options.set_arg, host->number, params);
}

/* A host's RNIC may have completed something. */
static void acted(void *arg, struct dt_wire *at)
{
    struct dt_cluster *cluster = arg;

    for (uint32_t i = 0; i < cluster->options.host_count; i++)
        if (dt_driver_sim_port(i) == at)
            dt_cluster_wake(cluster, i);
}

static bool start_plugins(struct dt_cluster *cluster)
{
    const struct dt_cluster_options *o = &cluster->options;
    struct dt_plugin_sim_options plugin = {
        .seed = o->seed, .control_latency_ns = o->control_latency_ns, .host_count = o->host_count};

    for (uint32_t i = 0; i < o->host_count; i++) {
        cluster->host[i] = (struct host){.cluster = cluster, .number = i};
        plugin.host[i] = (struct dt_host_options){
            .device_first = i, .device_count = 1, .set = set_host, .set_arg = &cluster->host[i]};
    }
    cluster->net = dt_plugin_sim_start(&plugin);
    if (cluster->net && o->gpu.to_host_bytes_per_s)
        dt_cuda_sim_set_rates(&o->gpu);
    return cluster->net;
}

static void set_all_links(struct dt_cluster *cluster)
{
    for (uint32_t from = 0; from < cluster->options.host_count; from++)
        for (uint32_t to = 0; to < cluster->options.host_count; to++)
            if (from != to)
                dt_cluster_set_link(cluster, from, to, &cluster->options.link);
}

struct dt_cluster *dt_cluster_start(const struct dt_cluster_options *options)
{
    struct dt_sim_options network = {.seed = options->seed,
                                     .start_ns = DT_NS_PER_S,
                                     .latency_ns = options->link.latency_ns,
                                     .segment_bytes_max = options->segment_bytes_max,
                                     .block_bytes = options->block_bytes};
    struct dt_cluster *cluster = calloc(1, sizeof *cluster);
    struct dt_sim_watch watch = {.arg = cluster, .acted = acted};

    DT_CHECK(options->host_count > 0 && options->host_count <= DT_SIM_HOSTS_MAX);
    if (!cluster)
        return NULL;
    cluster->options = *options;
    if (dt_driver_sim_start(&network, options->host_count) && start_plugins(cluster)) {
        set_all_links(cluster);
        dt_sim_set_watch(dt_driver_sim_network(), &watch);
        return cluster;
    }
    dt_cluster_stop(cluster);
    return NULL;
}

void dt_cluster_stop(struct dt_cluster *cluster)
{
    struct dt_sim_watch none = {0};

    if (!cluster)
        return;
    if (dt_driver_sim_network())
        dt_sim_set_watch(dt_driver_sim_network(), &none);
    dt_plugin_sim_stop();
    dt_driver_sim_stop();
    free(cluster);
}

const ncclNet_v8_t *dt_cluster_net(const struct dt_cluster *cluster)
{
    return cluster->net;
}

void dt_cluster_set_link(struct dt_cluster *cluster, uint32_t from, uint32_t to,
                         const struct dt_sim_link_options *link)
{
    DT_CHECK(from < cluster->options.host_count && to < cluster->options.host_count);
    dt_sim_set_link(dt_driver_sim_port(from), dt_driver_sim_port(to), link);
}

/* ---- turns and time ---- */

void dt_cluster_enter(struct dt_cluster *cluster, uint32_t host)
{
    DT_CHECK(host < cluster->options.host_count);
    dt_plugin_sim_enter(host);
}

void dt_cluster_wake(struct dt_cluster *cluster, uint32_t host)
{
    cluster->awake_count += !cluster->host[host].is_awake;
    cluster->host[host].is_awake = true;
}

static void wake_due(struct dt_cluster *cluster)
{
    uint64_t now_ns = dt_cluster_now_ns(cluster);

    for (uint32_t i = 0; i < cluster->options.host_count; i++)
        if (cluster->host[i].wanted_ns <= now_ns || dt_plugin_sim_has_some(i) ||
            dt_cuda_sim_next_ns(i) <= now_ns)
            dt_cluster_wake(cluster, i);
}

bool dt_cluster_take(struct dt_cluster *cluster, uint32_t *out)
{
    for (uint32_t i = 0; cluster->awake_count && i < cluster->options.host_count; i++) {
        struct host *host = &cluster->host[i];

        if (!host->is_awake)
            continue;
        host->is_awake = false;
        cluster->awake_count--;
        host->wanted_ns = dt_plugin_sim_progress(i);
        *out = i;
        return true;
    }
    return false;
}

static uint64_t next_ns(const struct dt_cluster *cluster)
{
    uint64_t next_ns = dt_earlier_ns(dt_sim_next_ns(dt_driver_sim_network()), dt_plugin_sim_next_ns());

    for (uint32_t i = 0; i < cluster->options.host_count; i++) {
        next_ns = dt_earlier_ns(next_ns, cluster->host[i].wanted_ns);
        next_ns = dt_earlier_ns(next_ns, dt_cuda_sim_next_ns(i));
    }
    return next_ns;
}

void dt_cluster_advance(struct dt_cluster *cluster, uint64_t until_ns)
{
    uint64_t now_ns = dt_cluster_now_ns(cluster);
    uint64_t to_ns = dt_min_u64(dt_max_u64(next_ns(cluster), now_ns), until_ns);

    if (to_ns == now_ns && to_ns < until_ns && dt_sim_next_ns(dt_driver_sim_network()) > now_ns)
        to_ns = dt_min_u64(now_ns + DT_NS_PER_US, until_ns); /* a thread that wants to run again at once */
    dt_sim_run_until(dt_driver_sim_network(), to_ns);
    dt_sim_network_set_now(dt_plugin_sim_control(), to_ns);
    wake_due(cluster);
}

/* ---- connections ---- */

static bool try_connect(struct dt_cluster *cluster, void *listen, char *handle,
                        struct dt_cluster_connection *c)
{
    const ncclNet_v8_t *net = cluster->net;

    dt_cluster_enter(cluster, c->from);
    if (!c->send && net->connect(0, handle, &c->send, NULL) != ncclSuccess)
        return false;
    dt_cluster_enter(cluster, c->to);
    return c->recv || net->accept(listen, &c->recv, NULL) == ncclSuccess;
}

bool dt_cluster_connect(struct dt_cluster *cluster, uint32_t from, uint32_t to,
                        struct dt_cluster_connection *connection)
{
    uint64_t until_ns = dt_cluster_now_ns(cluster) + CONNECT_NS;
    char handle[NCCL_NET_HANDLE_MAXSIZE];
    void *listen;
    uint32_t host;
    bool is_good = true;

    *connection = (struct dt_cluster_connection){.from = from, .to = to};
    dt_cluster_enter(cluster, to);
    if (cluster->net->listen(0, handle, &listen) != ncclSuccess)
        return false;
    while (is_good && (!connection->send || !connection->recv) && dt_cluster_now_ns(cluster) < until_ns) {
        is_good = try_connect(cluster, listen, handle, connection);
        while (dt_cluster_take(cluster, &host))
            continue;
        dt_cluster_advance(cluster, until_ns);
    }
    dt_cluster_enter(cluster, to);
    return cluster->net->closeListen(listen) == ncclSuccess && connection->send && connection->recv;
}

void dt_cluster_close(struct dt_cluster *cluster, struct dt_cluster_connection *connection)
{
    if (connection->send) {
        dt_cluster_enter(cluster, connection->from);
        cluster->net->closeSend(connection->send);
    }
    if (connection->recv) {
        dt_cluster_enter(cluster, connection->to);
        cluster->net->closeRecv(connection->recv);
    }
    connection->send = connection->recv = NULL;
}
