/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any number of hosts with one RNIC, one GPU and one plugin each, in virtual time: for what needs a cluster
 * and no faults drawn from a seed (two_hosts.h and world.h have those). Every host is called at each instant
 * at which something happens to it, so that no result depends on an interval of polling.
 *
 * One cluster at a time, since the parts below it are global (plugin_sim.h). One thread.
 *
 * Use: dt_cluster_start, dt_cluster_connect for each direction that carries messages; then, until all is
 * done, call the plugin for every host that dt_cluster_take() names, and dt_cluster_advance().
 */
#ifndef DETOUR_TESTS_SIM_CLUSTER_H
#define DETOUR_TESTS_SIM_CLUSTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"
#include "plugin/nccl_net_v8.h"
#include "tests/sim/cuda_sim.h"
#include "tests/sim/stream_sim.h"
#include "tests/sim/wire_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_cluster_options {
    uint64_t seed;
    uint32_t host_count;             /* 1 to DT_SIM_HOSTS_MAX */
    struct dt_sim_link_options link; /* of every direction between two hosts, until dt_cluster_set_link() */
    uint64_t segment_bytes_max;      /* wire.h; 0 is one path MTU */
    uint64_t block_bytes;            /* wire_sim.h */
    struct dt_cuda_sim_rates gpu;    /* rates of 0: copies take a drawn time */
    uint64_t control_latency_ns;
    void (*set)(void *arg, uint32_t host,
                struct dt_params *params); /* changes a host's settings; NULL: none */
    void *set_arg;
};

struct dt_cluster;

/* Both ends of a connection, to be used while their host is entered. */
struct dt_cluster_connection {
    uint32_t from, to;
    void *send, *recv;
};

/* NULL: a plugin did not start, or memory is short. */
struct dt_cluster *dt_cluster_start(const struct dt_cluster_options *options);

/* After every connection was closed. NULL is accepted. */
void dt_cluster_stop(struct dt_cluster *cluster);

const ncclNet_v8_t *dt_cluster_net(const struct dt_cluster *cluster);

void dt_cluster_set_link(struct dt_cluster *cluster, uint32_t from, uint32_t to,
                         const struct dt_sim_link_options *link);

/* Lets time pass until both ends are connected. False: they are not within a minute. */
bool dt_cluster_connect(struct dt_cluster *cluster, uint32_t from, uint32_t to,
                        struct dt_cluster_connection *connection);
void dt_cluster_close(struct dt_cluster *cluster, struct dt_cluster_connection *connection);

uint64_t dt_cluster_now_ns(const struct dt_cluster *cluster);

/* Calls on the plugin's table are this host's from now on. */
void dt_cluster_enter(struct dt_cluster *cluster, uint32_t host);

/*
 * A host to which something has happened since its last turn, in ascending order; it is entered, and its
 * threads have run. False: there is none, and time may pass. dt_cluster_wake() gives a host a turn at this
 * instant.
 */
bool dt_cluster_take(struct dt_cluster *cluster, uint32_t *host);
void dt_cluster_wake(struct dt_cluster *cluster, uint32_t host);

/* To the next instant at which something happens, until_ns at the latest. */
void dt_cluster_advance(struct dt_cluster *cluster, uint64_t until_ns);

#ifdef __cplusplus
}
#endif

#endif
