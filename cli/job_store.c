/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/job_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/param.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/rounds.h"

const char *dt_job_store_take(char *arg)
{
    static char *copy;
    char *at = strrchr(arg, '@'), *begin = strstr(arg, "://");

    free(copy);
    copy = strdup(arg);
    if (!copy)
        return arg;
    begin = begin && begin < at ? begin + 3 : arg;
    if (at)
        memset(begin, '*', (size_t)(at - begin));
    return copy;
}

const char *dt_job_store_of_environment(void)
{
    const char *url = dt_getenv_process(NULL, DT_ENV_REDIS);

    return url && *url ? url : NULL;
}

const char *dt_job_store_name(void)
{
    const char *name = dt_getenv_process(NULL, "SLURM_JOB_ID");

    return name && dt_store_is_name(name) && !strchr(name, ':') ? name : "job";
}

void dt_job_store_holder(const char *host, char holder[DT_STORE_NAME_BYTES])
{
    uint64_t id;

    if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
        id = dt_clock_now_ns();
    snprintf(holder, DT_STORE_NAME_BYTES, "%.30s:%d:%016" PRIx64, host, (int)getpid(), id);
}

int dt_job_store_open(const char *command, const char *url, const char *job, struct dt_store **store)
{
    const struct dt_store_options options = {
        .url = url ? url : "memory:",
        .job = job,
        .time_ms = (uint64_t)dt_rounds_time_ns() / DT_NS_PER_MS,
        .tls = {.ca = dt_getenv_process(NULL, DT_ENV_REDIS_CA),
                .certificate = dt_getenv_process(NULL, DT_ENV_REDIS_CERT),
                .key = dt_getenv_process(NULL, DT_ENV_REDIS_KEY)},
    };
    char reason[DT_STORE_REASON_BYTES];
    enum dt_status status = dt_store_open(&options, store, reason);

    if (status == DT_OK)
        return DT_EXIT_OK;
    dt_arg_refuse(command, "%s", reason);
    return status == DT_INVALID ? DT_EXIT_USAGE : DT_EXIT_FAILED;
}
