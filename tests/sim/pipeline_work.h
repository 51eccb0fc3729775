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
