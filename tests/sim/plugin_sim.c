/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/plugin_sim.h"

#include <string.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/prng.h"
#include "plugin/plugin.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/stream_sim.h"

static struct {
    struct dt_plugin plugin;
    struct dt_network *network;
    struct dt_prng prng;
} sim;

static uint64_t plugin_now_ns(void *arg)
{
    (void)arg;
    return dt_clock_now_ns();
}

static void draw_bytes(void *arg, void *to, size_t bytes)
{
    (void)arg;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)to)[i] = (uint8_t)dt_prng_next(&sim.prng);
}

static const char *no_environment(void *arg, const char *name)
{
    (void)arg;
    (void)name;
    return NULL;
}

static bool open_net(const struct dt_plugin_sim_options *options)
{
    struct dt_params params;
    struct dt_net_options net_options = {
        .params = &params,
        .verbs = sim.plugin.verbs,
        .network = sim.network,
        .address = {.family = DT_ADDRESS_IPV4, .ip = {127, 0, 0, 1}},
        .random = draw_bytes,
        .chunk_bytes = options->chunk_bytes,
        .has_threads = false,
    };
    char error[256];

    DT_CHECK(dt_params_load(&params, no_environment, NULL, error, sizeof error) == DT_OK);
    params.paths = options->paths;
    params.qps_per_path = options->qps_per_path;
    strcpy(params.posting, options->posting);
    return dt_net_create(&net_options, &sim.plugin.net) == DT_OK;
}

const ncclNet_v8_t *dt_plugin_sim_start(const struct dt_plugin_sim_options *options)
{
    extern const ncclNet_v8_t ncclNetPlugin_v8;
    struct dt_sim_network_options network_options = {.seed = options->seed,
                                                     .latency_ns = options->control_latency_ns,
                                                     .jitter_ns = options->control_latency_ns,
                                                     .piece_bytes = 700};
    struct dt_verbs_options verbs_options = {.kind = DT_VERBS_SOFT,
                                             .soft_device_count = dt_driver_sim_device_count()};

    memset(&sim, 0, sizeof sim);
    dt_prng_init_stream(&sim.prng, options->seed, 1);
    sim.plugin.now_ns = plugin_now_ns;
    sim.network = dt_sim_network_create(&network_options);
    if (!sim.network || dt_verbs_open(&verbs_options, &sim.plugin.verbs) != DT_OK)
        return NULL;
    dt_sim_network_set_now(sim.network, dt_clock_now_ns());
    if (!open_net(options))
        return NULL;
    dt_plugin_replace(&sim.plugin);
    return &ncclNetPlugin_v8;
}

uint64_t dt_plugin_sim_progress(uint64_t now_ns)
{
    dt_sim_network_set_now(sim.network, now_ns);
    return dt_net_progress(sim.plugin.net, now_ns);
}

uint64_t dt_plugin_sim_next_ns(void)
{
    return dt_sim_network_next_ns(sim.network);
}

void dt_plugin_sim_stop(void)
{
    dt_plugin_replace(NULL);
    dt_net_destroy(sim.plugin.net);
    dt_verbs_close(sim.plugin.verbs);
    dt_sim_network_destroy(sim.network);
}
