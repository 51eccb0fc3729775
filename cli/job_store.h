/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a job, for the commands that take --redis URL. The URL may have a password. Every user of the
 * host can read /proc/PID/cmdline, so the command hides user and password there as soon as it has read them;
 * DETOUR_REDIS, which only the same user can read, never puts them there.
 */
#ifndef DETOUR_CLI_JOB_STORE_H
#define DETOUR_CLI_JOB_STORE_H

#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_JOB_STORE_FORM "redis[s]://[USER:PASSWORD@]HOST[:PORT][/DB] (default: DETOUR_REDIS)"

/*
 * A copy of `arg`, an element of argv, in which user and password are then overwritten with '*' (everything
 * from "://" to the last '@'). The copy lives until the next call.
 */
const char *dt_job_store_take(char *arg);

/* The URL in DETOUR_REDIS. NULL: it is unset or empty. */
const char *dt_job_store_of_environment(void);

/* Opens the store, NULL: in memory. Files for TLS are those of DETOUR_REDIS_CA, _CERT and _KEY. Returns
 * DT_EXIT_OK, or another exit code after one line on standard error. */
int dt_job_store_open(const char *command, const char *url, const char *job, struct dt_store **store);

/* The job's name without --job: SLURM_JOB_ID, or "job" where it is unset or no name of a job. */
const char *dt_job_store_name(void);

/* This process as the holder of a lease; unique also among containers, which may share host name and PID. */
void dt_job_store_holder(const char *host, char holder[DT_STORE_NAME_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
