/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour stat --job`: the links of all hosts of a job in one table, as their agents have reported them last,
 * and what the controller has found and decided. They come from the job's store in Redis; or, without Redis,
 * from the runtime folders of hosts on this machine, read by the code of the agents. Only reads: a store in
 * Redis stays as it is.
 *
 * A process that its host no longer reports has ended, and is not shown. Records are validated as hostile;
 * one that is refused is counted in a line on standard error.
 */
#ifndef DETOUR_CLI_STAT_JOB_H
#define DETOUR_CLI_STAT_JOB_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_STAT_JOB_HOSTS_MAX 64

struct dt_stat_job {
    const char *name;
    const char *redis; /* NULL: the hosts */
    struct {
        char name[DT_STORE_NAME_BYTES];
        const char *runtime_dir; /* the end of an argument */
    } hosts[DT_STAT_JOB_HOSTS_MAX];
    size_t host_count;
};

/* "NAME=DIRECTORY". EINVAL after one line on standard error. */
error_t dt_stat_job_add_host(struct dt_stat_job *job, const char *text);

/* Prints the table, or one JSON object. The exit code of the command, after one line for an error. */
int dt_stat_job_show(const struct dt_stat_job *job, bool is_json);

#ifdef __cplusplus
}
#endif

#endif
