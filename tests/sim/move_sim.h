/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The states of nodes that exchange their positions, in virtual time: each node sends its state to the next
 * one and receives that of the one before, through the plugin's entry points and with the messages of
 * cli/pipeline/move.c (DETOUR_MOVE_SLICE_BYTES each, DETOUR_MOVE_SLOTS under way in each direction), which
 * itself has threads and a clock. For comparison with detour_exchange_pause().
 */
#ifndef DETOUR_TESTS_SIM_MOVE_SIM_H
#define DETOUR_TESTS_SIM_MOVE_SIM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DT_MOVE_SIM_NODES_MAX 8

struct dt_move_sim_options {
    uint32_t node_count; /* 2: an exchange; more: a circle */
    uint64_t state_bytes;
    uint64_t rate_bytes_per_s; /* of each direction between two nodes */
    uint64_t latency_ns;
    /* The link between the nodes 0 and 1. */
    uint32_t factor_permille; /* of the time for bytes */
    uint64_t delay_ns;        /* of every message; 0: none */
};

/* From the connections to the last byte at every node. False: the plugin has failed, or a message is wrong.
 */
bool dt_move_sim_run(const struct dt_move_sim_options *options, uint64_t *took_ns);

/* detour_exchange_pause() of the same: with costs of 0. False: it refuses the job. */
bool dt_move_sim_model(const struct dt_move_sim_options *options, int64_t *pause_ns);

#ifdef __cplusplus
}
#endif

#endif
