/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which rank this process is, and of how many: from the environment variables that the launchers of
 * parallel programs (mpirun, srun, torchrun) set.
 */
#ifndef DETOUR_BASE_JOB_ENV_H
#define DETOUR_BASE_JOB_ENV_H

#include <stdbool.h>
#include <stdint.h>

#include "base/param.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_job_env {
    const char *launcher; /* for messages: "mpirun", ... */
    unsigned rank;
    unsigned ranks;
};

/* The supported launchers, for messages. */
#define DT_JOB_ENV_LAUNCHERS "mpirun (Open MPI, MPICH), srun or torchrun"

/* False when no launcher has set both of its variables to numbers. get: the environment. */
bool dt_job_env_find(struct dt_job_env *env, dt_getenv_func *get, void *arg);

/* The rank of this process in its job: `setting` (DETOUR_RANK), else the launcher's; -1: unknown. */
int32_t dt_job_env_rank(uint64_t setting, dt_getenv_func *get, void *arg);

#ifdef __cplusplus
}
#endif

#endif
