/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rank of `detour perf`: a main thread that talks to the launcher and watches, and the two threads that
 * call the plugin as NCCL's proxies do.
 */
#ifndef DETOUR_CLI_PERF_RANK_H
#define DETOUR_CLI_PERF_RANK_H

#include "cli/perf_link.h"
#include "cli/perf_options.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Runs the whole job of link->rank with the plugin at `plugin_path`. Returns the exit code; what went wrong
 * is in *error and has been sent to the launcher. After an error threads may still be inside the plugin:
 * leave the process with _exit.
 */
int dt_perf_rank_run(const struct dt_perf_options *options, const char *plugin_path,
                     struct dt_perf_link *link, struct dt_perf_error *error);

#ifdef __cplusplus
}
#endif

#endif
