/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel's network in a simulation: byte streams inside one process, in virtual time, which cut
 * what is sent into pieces of any size and deliver each after a delay of its own, in order. Everything
 * follows from the seed. One thread.
 */
#ifndef DETOUR_TESTS_SIM_STREAM_SIM_H
#define DETOUR_TESTS_SIM_STREAM_SIM_H

#include <stdint.h>

#include "transport/stream.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_sim_network_options {
    uint64_t seed;
    uint64_t latency_ns;  /* one way */
    uint64_t jitter_ns;   /* up to this much more per piece */
    uint32_t piece_bytes; /* send takes at most this much, and delivers it in up to three pieces; > 0 */
};

/* NULL when memory is short. */
struct dt_network *dt_sim_network_create(const struct dt_sim_network_options *options);

/* Frees all streams and ports as well. */
void dt_sim_network_destroy(struct dt_network *network);

/* The clock: to be called whenever time moves. */
void dt_sim_network_set_now(struct dt_network *network, uint64_t now_ns);

/* When the next piece arrives; DT_NEVER_NS when none is under way. */
uint64_t dt_sim_network_next_ns(const struct dt_network *network);

#ifdef __cplusplus
}
#endif

#endif
