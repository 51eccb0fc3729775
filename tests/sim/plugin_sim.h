/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin inside a simulation: its own entry points on software RNICs of a simulated network
 * (driver_sim.h), with a simulated control network (stream_sim.h), virtual time, seeded random numbers and no
 * threads.
 */
#ifndef DETOUR_TESTS_SIM_PLUGIN_SIM_H
#define DETOUR_TESTS_SIM_PLUGIN_SIM_H

#include <stdint.h>

#include "plugin/nccl_net_v8.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_plugin_sim_options {
    uint64_t seed;
    uint32_t paths;
    uint32_t qps_per_path;
    const char *posting;  /* "std" or "dv" */
    uint32_t chunk_bytes; /* largest write; 0: the default */
    uint64_t control_latency_ns;
};

/* The plugin's table, initialised; NULL when it does not start. The simulated network runs already. */
const ncclNet_v8_t *dt_plugin_sim_start(const struct dt_plugin_sim_options *options);

/* Does what the plugin's threads would do; returns when it wants to be called again at the latest. */
uint64_t dt_plugin_sim_progress(uint64_t now_ns);

/* When something on the control network happens next. */
uint64_t dt_plugin_sim_next_ns(void);

/* After everything was closed. */
void dt_plugin_sim_stop(void);

#ifdef __cplusplus
}
#endif

#endif
