/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETOUR_CLI_PERF_PERF_H
#define DETOUR_CLI_PERF_PERF_H

#ifdef __cplusplus
extern "C" {
#endif

/* `detour perf`: see cli/command.h. */
int dt_perf_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
