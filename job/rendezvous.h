/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rendezvous of ranks on several machines: rank 0's launcher listens at options->rendezvous, the other
 * ranks connect to it. A connection that does not send a valid HELLO within a second is closed, and does not
 * delay the others.
 */
#ifndef DETOUR_JOB_RENDEZVOUS_H
#define DETOUR_JOB_RENDEZVOUS_H

#include <stdbool.h>

#include "job/error.h"
#include "job/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Listens at options->rendezvous. Returns the socket; -1 when the address is invalid or in use. */
int dt_job_rendezvous_listen(const struct dt_job_options *options, struct dt_job_error *error);

/*
 * Accepts ranks 1 to options->ranks - 1: sets fds[rank], -1 on entry, for each. Fails, naming a missing rank,
 * after options->timeout_s; when `stop_fd` becomes readable; or when a rank's digest differs.
 */
bool dt_job_rendezvous_accept(int listen_fd, const struct dt_job_options *options, int stop_fd, int *fds,
                              struct dt_job_error *error);

/* Connects to rank 0 as rank options->rank. Returns the socket or -1. */
int dt_job_rendezvous_connect(const struct dt_job_options *options, struct dt_job_error *error);

#ifdef __cplusplus
}
#endif

#endif
