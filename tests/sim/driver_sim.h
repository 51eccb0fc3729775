/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Software RNICs on a simulated network: stands in for softrnic/driver.c when a simulation is linked, so that
 * the calls of libibverbs, and all above them, run unchanged in virtual time and in one thread. Nothing moves
 * unless the simulation steps the network (tests/sim/wire_sim.h).
 */
#ifndef DETOUR_TESTS_SIM_DRIVER_SIM_H
#define DETOUR_TESTS_SIM_DRIVER_SIM_H

#include "tests/sim/wire_sim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A network with `device_count` ports, one for each device soft0... Replaces the one before. False: no
 * memory. */
bool dt_driver_sim_start(const struct dt_sim_options *options, uint32_t device_count);

/* All devices are closed. */
void dt_driver_sim_stop(void);

uint32_t dt_driver_sim_device_count(void);

/* The clock of this process: the network's, or what `now_ns` makes of it (NULL: the network's again). */
uint64_t dt_driver_sim_clock_ns(void);
void dt_driver_sim_set_clock(uint64_t (*now_ns)(void));

/* Devices opened from now on give numbers of destroyed queue pairs out again at once. */
void dt_driver_sim_reuse_numbers(bool reuses_numbers);

/* The rate of each device's link; 0: unlimited. Before the devices are opened. */
void dt_driver_sim_set_rate(uint64_t rate_bytes_per_s);

/* Called when a device has raised an asynchronous event; NULL: no call. */
void dt_driver_sim_on_event(void (*raised)(uint32_t device));

/* The network that runs now. */
struct dt_sim *dt_driver_sim_network(void);

/* The end of a device's cable. */
struct dt_wire *dt_driver_sim_port(uint32_t device);

/* The RNIC behind a device, for what only a test may do to it; NULL while it is not open. */
struct dt_rnic *dt_driver_sim_rnic(uint32_t device);

/* False when the device is not open. */
bool dt_driver_sim_counters(uint32_t device, struct dt_rnic_counters *counters);

#ifdef __cplusplus
}
#endif

#endif
