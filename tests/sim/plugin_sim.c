/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/plugin_sim.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/prng.h"
#include "plugin/plugin.h"
#include "tests/sim/cuda_sim.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/executor_sim.h"
#include "tests/sim/gpu_writes.h"
#include "tests/sim/verbs_sim.h"
#include "transport/message/connection.h"
#include "transport/net_state.h"
#include "transport/session/session.h"

#define PPM 1000000

struct host {
    struct dt_plugin plugin;
    struct dt_host_options options;
    struct dt_prng prng;
};

static struct {
    struct dt_sim_network *network;
    struct host host[DT_SIM_HOSTS_MAX];
    uint32_t host_count;
    struct host *running;
    uint64_t start_ns;
} sim;

/* ---- clocks ---------------------------------------------------------------------------------------------
 */

static uint64_t true_now_ns(void)
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

/* A host's clock goes wrong from the start of the simulation on. */
static uint64_t host_now_ns(const struct host *host)
{
    uint64_t run_ns = true_now_ns() - sim.start_ns;
    int64_t drift_ns = (int64_t)(run_ns / 1000) * host->options.clock_drift_ppm / (PPM / 1000);

    return sim.start_ns + host->options.clock_offset_ns + (uint64_t)((int64_t)run_ns + drift_ns);
}

/* The time of a process, for every caller. */
static uint64_t running_now_ns(void)
{
    return sim.running ? host_now_ns(sim.running) : true_now_ns();
}

static uint64_t plugin_now_ns(void *arg)
{
    return host_now_ns(arg);
}

/* ---- start ----------------------------------------------------------------------------------------------
 */

static void draw_bytes(void *arg, void *to, size_t bytes)
{
    struct host *host = arg;

    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = (uint8_t)dt_prng_next(&host->prng);
}

static const char *no_environment(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

/* The devices soft<first> ... are this host's. */
static void choose_devices(const struct dt_host_options *options, char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "=");

    for (uint32_t i = 0; i < options->device_count; i++)
        used +=
            (size_t)snprintf(text + used, bytes - used, "%ssoft%u", i ? "," : "", options->device_first + i);
}

static bool open_net(struct host *host, uint32_t index)
{
    struct dt_params params;
    struct dt_net_options options = {
        .params = &params,
        .verbs = host->plugin.verbs,
        .network = dt_sim_network_of_host(sim.network, index),
        .address = {.family = DT_ADDRESS_IPV4, .ip = {127, 0, 0, 1}},
        .random = draw_bytes,
        .random_arg = host,
        .chunk_bytes = host->options.chunk_bytes,
        .now_ns = plugin_now_ns,
        .now_arg = host,
        .has_threads = false,
    };
    char error[256];

    DT_CHECK(dt_params_load(&params, no_environment, NULL, error, sizeof error) == DT_OK);
    params.dead_ms = 10000; /* within what a run may take */
    choose_devices(&host->options, params.hca, sizeof params.hca);
    if (host->options.set)
        host->options.set(host->options.set_arg, &params);
    return dt_net_create(&options, &host->plugin.net) == DT_OK &&
           (!params.inject[0] ||
            dt_net_inject(host->plugin.net, params.inject, error, sizeof error) == DT_OK);
}

static bool start_host(const struct dt_plugin_sim_options *options, uint32_t index)
{
    struct host *host = &sim.host[index];

    host->options = options->host[index];
    dt_prng_init_stream(&host->prng, options->seed, 100 + index);
    host->plugin.now_ns = plugin_now_ns;
    host->plugin.now_arg = host;
    dt_plugin_sim_enter(index);
    return dt_verbs_sim_open(dt_driver_sim_device_count(), &host->plugin.verbs) == DT_OK &&
           open_net(host, index);
}

const ncclNet_v8_t *dt_plugin_sim_start(const struct dt_plugin_sim_options *options)
{
    extern const ncclNet_v8_t ncclNetPlugin_v8;
    struct dt_sim_network_options network_options = {.seed = options->seed,
                                                     .latency_ns = options->control_latency_ns,
                                                     .jitter_ns = options->control_latency_ns,
                                                     .piece_bytes = 700};

    memset(&sim, 0, sizeof sim);
    sim.host_count = options->host_count ? options->host_count : DT_HOSTS;
    DT_CHECK(sim.host_count <= DT_SIM_HOSTS_MAX);
    sim.start_ns = true_now_ns();
    dt_executor_sim_start(options->seed, options->job_ns_max);
    dt_verbs_sim_start(options->qp_wr_max);
    dt_cuda_sim_start(options->seed);
    dt_gpu_writes_start();
    dt_driver_sim_on_event(dt_verbs_sim_event);
    dt_driver_sim_set_clock(running_now_ns);
    sim.network = dt_sim_network_create(&network_options);
    if (!sim.network)
        return NULL;
    dt_sim_network_set_now(sim.network, true_now_ns());
    for (uint32_t i = 0; i < sim.host_count; i++)
        if (!start_host(options, i))
            return NULL;
    return &ncclNetPlugin_v8;
}

/* ---- running --------------------------------------------------------------------------------------------
 */

void dt_plugin_sim_enter(uint32_t host)
{
    if (sim.running == &sim.host[host])
        return;
    sim.running = &sim.host[host];
    dt_plugin_replace(&sim.running->plugin);
}

uint32_t dt_plugin_sim_host(void)
{
    DT_CHECK(sim.running);
    return (uint32_t)(sim.running - sim.host);
}

void dt_plugin_sim_flush_gpus(void)
{
    const struct dt_host_options *options = &sim.running->options;

    for (uint32_t i = 0; i < options->device_count; i++)
        dt_gpu_writes_flush(options->device_first + i);
}

uint64_t dt_plugin_sim_progress(uint32_t index)
{
    struct host *host = &sim.host[index];
    uint64_t now_ns, next_ns;

    dt_plugin_sim_enter(index);
    dt_sim_network_set_now(sim.network, true_now_ns());
    dt_cuda_sim_advance();
    now_ns = host_now_ns(host);
    next_ns = dt_net_progress(host->plugin.net, now_ns);
    if (next_ns == DT_NEVER_NS)
        return DT_NEVER_NS;
    return true_now_ns() + (next_ns > now_ns ? next_ns - now_ns : 0);
}

uint64_t dt_plugin_sim_next_ns(void)
{
    return dt_earlier_ns(dt_sim_network_next_ns(sim.network), dt_executor_sim_next_ns());
}

void dt_plugin_sim_drain(uint32_t host, uint32_t device, bool is_drained)
{
    struct host *running = sim.running;
    char name[16], answer[128];

    dt_plugin_sim_enter(host);
    snprintf(name, sizeof name, "soft%u", device);
    DT_CHECK(dt_net_drain(sim.running->plugin.net, name, is_drained, answer, sizeof answer) == DT_OK);
    if (running)
        dt_plugin_sim_enter((uint32_t)(running - sim.host));
}

uint64_t dt_plugin_sim_personality_actions(void)
{
    struct dt_delay_info info[DT_DELAY_RULES_MAX];
    uint64_t actions = 0;

    for (uint32_t host = 0; host < sim.host_count; host++) {
        struct dt_net *net = sim.host[host].plugin.net;
        size_t count = net ? dt_delay_table_list(net->inject.table, info) : 0;

        for (size_t i = 0; i < count; i++)
            actions += info[i].rule.effect == DT_DELAY_PERSONALITY ? info[i].messages : 0;
    }
    return actions;
}

bool dt_plugin_sim_has_some(uint32_t host)
{
    return dt_sim_network_has_some(sim.network, host) || dt_executor_sim_has_some(sim.host[host].plugin.net);
}

bool dt_plugin_sim_has_peer_closed(const void *comm)
{
    const struct dt_connection *c = comm;

    return c->session->has_peer_closed;
}

struct dt_sim_network *dt_plugin_sim_control(void)
{
    return sim.network;
}

static void stop_host(struct host *host)
{
    if (host->plugin.net)
        dt_net_destroy(host->plugin.net);
    if (host->plugin.verbs)
        dt_verbs_close(host->plugin.verbs);
}

void dt_plugin_sim_stop(void)
{
    dt_plugin_replace(NULL);
    for (uint32_t i = 0; i < sim.host_count; i++)
        stop_host(&sim.host[i]);
    dt_sim_network_destroy(sim.network);
    dt_driver_sim_on_event(NULL);
    dt_driver_sim_set_clock(NULL);
    dt_gpu_writes_stop();
    memset(&sim, 0, sizeof sim);
}
