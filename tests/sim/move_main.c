/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim-move: how long nodes need to exchange their states at 400 Gb/s and 10 us, executed in virtual
 * time and as detour_exchange_pause() has it. Prints a line of JSON.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/move_sim.h"

int main(int argc, char **argv)
{
    struct dt_move_sim_options options = {.rate_bytes_per_s = 50000000000, .latency_ns = 10000};
    uint64_t took_ns;
    int64_t model_ns;

    options.state_bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    options.node_count = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    options.factor_permille = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 1000;
    options.delay_ns = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    if (!options.state_bytes || options.node_count < 2 || options.node_count > DT_MOVE_SIM_NODES_MAX ||
        options.factor_permille < 1000) {
        fprintf(stderr,
                "usage: detour-sim-move BYTES [NODES [PERMILLE [NS]]]: a state of each node, nodes that "
                "exchange it "
                "in a circle (2 to %d),\nfactor of the link between the first two, delay of its messages\n",
                DT_MOVE_SIM_NODES_MAX);
        return 2;
    }
    if (!dt_move_sim_run(&options, &took_ns) || !dt_move_sim_model(&options, &model_ns)) {
        fprintf(stderr, "detour-sim-move: the plugin has failed, or a message is wrong\n");
        return 1;
    }
    printf("{\"bytes\": %" PRIu64 ", \"moved_ns\": %" PRIu64 ", \"model_ns\": %" PRId64 "}\n",
           options.state_bytes, took_ns, model_ns);
    return 0;
}
