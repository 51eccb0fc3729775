/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A whole run from one seed: devices on a lossy network, the plugin with its settings, connections between
 * them and their traffic, in virtual time. The seed decides everything, so a failure is replayed by its
 * number.
 */
#ifndef DETOUR_TESTS_SIM_WORLD_H
#define DETOUR_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_world_report {
    char drawn[256];   /* what the seed made of this run */
    char failure[256]; /* "" when all is well */
    uint64_t messages;
    uint64_t bytes;
    uint64_t virtual_ns;
    uint64_t retransmissions; /* of all devices */
    uint64_t duplicates;
    uint64_t out_of_sequence;
};

/* False: report->failure says what went wrong. */
bool dt_world_run(uint64_t seed, struct dt_world_report *report);

#ifdef __cplusplus
}
#endif

#endif
