/* SPDX-License-Identifier: Apache-2.0 */
/* Which rank of how many this process is, as the launchers of parallel programs tell it: by the environment.
 */
#ifndef DETOUR_CLI_PERF_ENV_H
#define DETOUR_CLI_PERF_ENV_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct dt_perf_env {
    const char *launcher; /* for messages: "mpirun", ... */
    unsigned rank;
    unsigned ranks;
};

/* The launchers that are understood, for messages. */
#define DT_PERF_ENV_LAUNCHERS "mpirun (Open MPI, MPICH), srun or torchrun"

/* False when no launcher has set both of its variables to numbers. */
bool dt_perf_env_find(struct dt_perf_env *env);

#ifdef __cplusplus
}
#endif

#endif
