/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control threads in virtual time: stands in for transport/path/executor.c when a simulation is linked. A job
 * takes a time drawn from the seed, and a device's control thread can hang in a verb.
 */
#ifndef DETOUR_TESTS_SIM_EXECUTOR_SIM_H
#define DETOUR_TESTS_SIM_EXECUTOR_SIM_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_net;

/* Every job takes up to `job_ns_max`. Call before the first executor is made. */
void dt_executor_sim_start(uint64_t seed, uint64_t job_ns_max);

/* When a job that waits can be run, later than now; DT_NEVER_NS when none does. */
uint64_t dt_executor_sim_next_ns(void);

/* A job can be run now, on a control thread of this transport. */
bool dt_executor_sim_has_some(const struct dt_net *net);

/* No control thread of this device (its name) runs a job before `until_ns`. */
void dt_executor_sim_hang(const char *device, uint64_t until_ns);

#ifdef __cplusplus
}
#endif

#endif
