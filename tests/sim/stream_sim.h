/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel's network in a simulation: byte streams inside one process, in virtual time, which cut
 * what is sent into pieces of any size and deliver each after a delay of its own, in order. Everything
 * follows from the seed. One thread.
 */
#ifndef DETOUR_TESTS_SIM_STREAM_SIM_H
#define DETOUR_TESTS_SIM_STREAM_SIM_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/session/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_SIM_HOSTS_MAX 128

struct dt_sim_network_options {
    uint64_t seed;
    uint64_t latency_ns;  /* one way */
    uint64_t jitter_ns;   /* up to this much more per piece */
    uint32_t piece_bytes; /* send takes at most this much, and delivers it in up to three pieces; > 0 */
};

struct dt_sim_network;

/* NULL when memory is short. Hosts are numbered 0 ... DT_SIM_HOSTS_MAX - 1. */
struct dt_sim_network *dt_sim_network_create(const struct dt_sim_network_options *options);

/* Frees all streams and ports as well. */
void dt_sim_network_destroy(struct dt_sim_network *network);

/* The network as one host sees it; lives as long as the whole. */
struct dt_network *dt_sim_network_of_host(struct dt_sim_network *network, uint32_t host);

/* The clock: to be called whenever time moves. */
void dt_sim_network_set_now(struct dt_sim_network *network, uint64_t now_ns);

/* When the next piece arrives, later than now; DT_NEVER_NS when none is under way. */
uint64_t dt_sim_network_next_ns(const struct dt_sim_network *network);

/* Something has arrived at the host that was not read. */
bool dt_sim_network_has_some(const struct dt_sim_network *network, uint32_t host);

/*
 * Nothing passes between hosts before `until_ns`: what is sent waits, as TCP repeats it, and arrives after.
 * Streams inside one host are not concerned, here and below.
 */
void dt_sim_network_hold(struct dt_sim_network *network, uint64_t until_ns);

/* The latency of what is sent from now on. */
void dt_sim_network_set_latency(struct dt_sim_network *network, uint64_t latency_ns);

enum dt_stream_fault {
    DT_STREAM_RESET,       /* both ends learn that it has ended */
    DT_STREAM_TIMED_OUT,   /* both ends give up: nothing is known about the peer */
    DT_STREAM_HALF_CLOSED, /* one end receives an orderly end, the other nothing; its bytes still arrive */
    DT_STREAM_FAULTS
};

enum dt_stream_death {
    DT_STREAM_ENDED,     /* as a process that ends in order: what it sent arrives, and the end after it */
    DT_STREAM_DESTROYED, /* as one that had not read everything: a reset */
    DT_STREAM_SILENT,    /* as a machine without power: nothing is received, and nothing answers */
    DT_STREAM_DEATHS
};

/* The host's process is no more: its streams end, its ports have no listener. */
void dt_sim_network_kill(struct dt_sim_network *network, uint32_t host, enum dt_stream_death death);

/* Breaks one stream between hosts, chosen by `which` among those that are whole. False: there is none. */
bool dt_sim_network_break(struct dt_sim_network *network, uint64_t which, enum dt_stream_fault fault);

#ifdef __cplusplus
}
#endif

#endif
