/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin inside a simulation: its own entry points on software RNICs of a simulated network
 * (driver_sim.h), with a simulated control network (stream_sim.h), virtual time, seeded random numbers and no
 * threads. Each host has devices, a plugin and a clock of its own.
 */
#ifndef DETOUR_TESTS_SIM_PLUGIN_SIM_H
#define DETOUR_TESTS_SIM_PLUGIN_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"
#include "plugin/nccl_net_v8.h"
#include "tests/sim/stream_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_HOSTS 2 /* of the profiles, and of two_hosts.h */

struct dt_host_options {
    uint32_t device_first; /* of the simulated network's */
    uint32_t device_count;
    uint32_t chunk_bytes; /* largest write; 0: the default */
    uint64_t clock_offset_ns;
    int64_t clock_drift_ppm;
    void (*set)(void *arg, struct dt_params *params); /* changes the defaults; NULL: nothing */
    void *set_arg;
};

struct dt_plugin_sim_options {
    uint64_t seed;
    uint64_t control_latency_ns;
    uint32_t qp_wr_max;  /* of each device's queues, which makes for fewer slots; 0: no limit */
    uint64_t job_ns_max; /* a control thread's job takes up to this */
    uint32_t host_count; /* at most DT_SIM_HOSTS_MAX; 0: DT_HOSTS */
    struct dt_host_options host[DT_SIM_HOSTS_MAX];
};

/* The plugin's table, initialized; NULL when it does not start. The simulated network runs already. */
const ncclNet_v8_t *dt_plugin_sim_start(const struct dt_plugin_sim_options *options);

/* Calls on the table are this host's from now on. */
void dt_plugin_sim_enter(uint32_t host);

/* The host that runs now. */
uint32_t dt_plugin_sim_host(void);

/* What all devices of the running host have written to its GPUs is there: CUDA's own flush. */
void dt_plugin_sim_flush_gpus(void);

/* Does what the host's threads would do now; returns when they want to be called again at the latest. */
uint64_t dt_plugin_sim_progress(uint32_t host);

/* When something on the control network, or on a control thread, happens next, later than now. */
uint64_t dt_plugin_sim_next_ns(void);

/* `detour nic soft<device> migrate` on this host, or `back`. */
void dt_plugin_sim_drain(uint32_t host, uint32_t device, bool is_drained);

/* How often the devices of all hosts have acted as the provider of their personality does. */
uint64_t dt_plugin_sim_personality_actions(void);

/* Something waits for the host's threads. */
bool dt_plugin_sim_has_some(uint32_t host);

/* The peer's CLOSE has reached this end of a connection, which is open. */
bool dt_plugin_sim_has_peer_closed(const void *comm);

struct dt_sim_network *dt_plugin_sim_control(void);

/* After everything was closed. */
void dt_plugin_sim_stop(void);

#ifdef __cplusplus
}
#endif

#endif
