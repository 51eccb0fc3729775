/* SPDX-License-Identifier: Apache-2.0 */
/* What the options of a simulated pipeline (pipeline_sim.h) mean for one host, iteration or link. Pure. */
#ifndef DETOUR_TESTS_SIM_PIPELINE_WORK_H
#define DETOUR_TESTS_SIM_PIPELINE_WORK_H

#include "tests/sim/pipeline_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A slice of gradients, of any device. The host path sends up to 8 x 512 KiB in parts that end where stamps
 * begin. */
#define DT_PIPELINE_SIM_SLICE_BYTES (4u << 20)

/*
 * The distance of the stamps in a message (pipeline_end.h), and the block size of the network. A packet that
 * is longer than a block carries the beginning of each block, and the host path sends a large message in
 * pieces, a packet each, whose length follows from the message's: stamps must lie at the beginning of a block
 * wherever a piece begins. 0: the pieces have no length for which they do, or, with replicas, not beside
 * gradients, whose pieces fit the largest blocks only.
 */
uint32_t dt_pipeline_sim_stamp_bytes(const struct dt_pipeline_sim_options *options);

/* The microbatches of a host in an iteration. */
struct dt_pipeline_share dt_pipeline_sim_share(const struct dt_pipeline_sim_options *options, uint32_t host,
                                               uint32_t iteration);

/* What a host executes; program: in use for the microbatches of options->profile. */
struct dt_executor_work dt_pipeline_sim_work(const struct dt_pipeline_sim_options *options,
                                             const struct detour_program *program, uint32_t host,
                                             uint32_t iteration);

/*
 * The options of the all-reduce of a device's gradients; replicas > 1. Slices of 4 MiB in as many slots as
 * together hold what the slots of a message do.
 */
struct dt_gradients_options dt_pipeline_sim_gradients(const struct dt_pipeline_sim_options *options,
                                                      struct dt_pipeline_position position);

/* The delay of a slice of gradients on a link between replicas. */
uint64_t dt_pipeline_sim_slice_delay_ns(const struct dt_pipeline_sim_options *options,
                                        const struct dt_pipeline_slow_link *slow);

#ifdef __cplusplus
}
#endif

#endif
