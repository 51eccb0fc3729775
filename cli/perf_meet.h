/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks on several machines: rank 0's launcher listens at --rendezvous, the other ranks dial it. A connection
 * that does not introduce itself as a rank of this run within a second is dropped.
 */
#ifndef DETOUR_CLI_PERF_MEET_H
#define DETOUR_CLI_PERF_MEET_H

#include <stdbool.h>

#include "cli/perf_error.h"
#include "cli/perf_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Listens at options->root. Returns the socket; -1 when the address is bad or in use. */
int dt_perf_meet_listen(const struct dt_perf_options *options, struct dt_perf_error *error);

/*
 * Takes in ranks 1 to options->ranks - 1: fds[rank] is set for each. Fails, naming a missing rank, after
 * options->timeout_s; when `stop_fd` becomes readable; or when a rank has other options than this one.
 */
bool dt_perf_meet_accept(int listen_fd, const struct dt_perf_options *options, int stop_fd, int *fds,
                         struct dt_perf_error *error);

/* Dials rank 0 and introduces this process as options->rank. Returns the socket or -1. */
int dt_perf_meet_dial(const struct dt_perf_options *options, struct dt_perf_error *error);

#ifdef __cplusplus
}
#endif

#endif
