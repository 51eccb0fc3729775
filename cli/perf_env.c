/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf_env.h"

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

static bool read_number(const char *name, unsigned *value)
{
    const char *text = getenv(name);
    char *end;

    if (!text || !isdigit((unsigned char)*text))
        return false;
    unsigned long number = strtoul(text, &end, 10);
    *value = (unsigned)number;
    return !*end && number <= UINT_MAX;
}

bool dt_perf_env_find(struct dt_perf_env *env)
{
    for (size_t i = 0; i < DT_COUNT_OF(launchers); i++) {
        env->launcher = launchers[i].launcher;
        if (read_number(launchers[i].rank, &env->rank) && read_number(launchers[i].ranks, &env->ranks))
            return true;
    }
    return false;
}
