/* SPDX-License-Identifier: Apache-2.0 */
#include "base/job_env.h"

#include <ctype.h>
#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/util.h"

/* The innermost launcher first: mpirun inside a Slurm job counts, not the job. */
static const struct {
    const char *launcher, *rank, *ranks;
} launchers[] = {
    {"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"mpirun", "PMI_RANK", "PMI_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE"},
    {"srun", "SLURM_PROCID", "SLURM_NTASKS"},
};

static bool read_number(dt_getenv_func *get, void *arg, const char *name, unsigned *value)
{
    const char *text = get(arg, name);
    char *end;

    if (!text || !isdigit((unsigned char)*text))
        return false;
    unsigned long number = strtoul(text, &end, 10);
    *value = (unsigned)number;
    return !*end && number <= UINT_MAX;
}

bool dt_job_env_find(struct dt_job_env *env, dt_getenv_func *get, void *arg)
{
    for (size_t i = 0; i < DT_COUNT_OF(launchers); i++) {
        env->launcher = launchers[i].launcher;
        if (read_number(get, arg, launchers[i].rank, &env->rank) &&
            read_number(get, arg, launchers[i].ranks, &env->ranks))
            return true;
    }
    return false;
}

int32_t dt_job_env_rank(uint64_t setting, dt_getenv_func *get, void *arg)
{
    struct dt_job_env env;

    if (setting < DT_PARAM_RANK_AUTO)
        return (int32_t)setting;
    return dt_job_env_find(&env, get, arg) && env.rank <= INT32_MAX ? (int32_t)env.rank : -1;
}
