/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a seed makes of a run: devices and their hosts, settings, connections and their traffic, faults. Pure.
 *
 * A swarm: which kinds of trouble there are at all is drawn first, per run, so that runs differ in character
 * and not only in detail.
 */
#ifndef DETOUR_TESTS_SIM_SCENARIO_H
#define DETOUR_TESTS_SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/wire_sim.h"
#include "tests/sim/chaos.h"
#include "tests/sim/flow.h"
#include "tests/sim/plugin_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_FLOWS_MAX            4
#define DT_DEVICES_PER_HOST_MAX 4

enum dt_profile {
    DT_PROFILE_LOSSY,    /* packets are lost, doubled, late by a little: nothing may fail, or even warn */
    DT_PROFILE_SCRIPT,   /* no draw: two hosts with two devices, some dozens of messages, no faults */
    DT_PROFILE_FAILOVER, /* links, devices, drivers, hosts and the control network fail */
    DT_PROFILE_SLOW      /* what is slow is not dead (slow.h) */
};

/* A host's settings, as params.h has them. */
struct dt_host_settings {
    uint32_t paths;
    uint32_t qps_per_path;
    bool is_split;       /* messages, over the queue pairs */
    const char *posting; /* "std" or "dv" */
    uint32_t timeout_exponent;
    uint32_t retry_count;
    uint64_t idle_takeover_us;
    uint64_t is_adaptive; /* payload above the threshold goes without its immediate */
    uint64_t ar_threshold;
    const char *inject;      /* delay rules; "": none */
    const char *personality; /* of its devices (docs/injection.md); NULL: the software RNIC's own */
    uint32_t device_first, device_count; /* the devices that have it */
    uint64_t fence_ms;
    uint64_t late_ms;
    uint64_t dead_ms;
    uint64_t stable_ms;
    uint64_t hostpath_bytes; /* 0: sends go directly */
    const char *hostpath;
    uint64_t hostpath_queues;
    bool is_held;    /* its messages are held and released while they go (`detour hold`) */
    bool is_ordered; /* its host path is switched while messages go (`detour hostpath`) */
};

struct dt_scenario {
    uint64_t seed;
    enum dt_profile profile;
    uint32_t device_count;
    struct dt_sim_options network;
    struct dt_plugin_sim_options plugin;
    struct dt_host_settings settings[DT_HOSTS];
    uint32_t flow_count;
    struct dt_flow_options flow[DT_FLOWS_MAX];
    struct dt_chaos_run chaos;
    uint64_t patience_ns;      /* everything is over this long after the last fault */
    uint64_t rate_bytes_per_s; /* of every link; 0: unlimited */
    bool must_not_switch;      /* no path may be given up */
    bool may_miss_stop;        /* a device discards completions, and a fault can delay the answer to STOP */
    bool may_warn;
    bool reuses_numbers; /* devices give queue pair numbers out again at once */
    bool is_doomed;      /* there may be no way out: connections may fail */
    bool is_overlap;     /* nearly everything is staged, of many chunks */
    /* Its cable is out while connections are set up; every one of them has a path without it. */
    bool has_cut_at_setup;
    uint32_t cut_at_setup; /* device of the network's */
};

/* dt_host_options.set, with struct dt_host_settings as its argument. */
void dt_host_settings_apply(void *arg, struct dt_params *params);

/* plugin.host[].set points into *scenario, which must stay where it is. */
void dt_scenario_draw(enum dt_profile profile, uint64_t seed, struct dt_scenario *scenario);

/*
 * Every device of the run behaves like this provider in the error state. No draw depends on it. With ionic
 * DETOUR_FENCE_MS is longer than STOP and its answer take; where a fault delays them, a message may be lost
 * (docs/failover.md, limits).
 */
void dt_scenario_set_personality(struct dt_scenario *scenario, const char *personality);

/* Several lines, for a person. */
void dt_scenario_print(const struct dt_scenario *scenario);

/* The profile of this name; false: there is none. */
bool dt_profile_find(const char *name, enum dt_profile *profile);
const char *dt_profile_name(enum dt_profile profile);

#ifdef __cplusplus
}
#endif

#endif
