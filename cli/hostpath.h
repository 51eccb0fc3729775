/* SPDX-License-Identifier: Apache-2.0 */
/* `detour hostpath`: switches the host path of running processes (docs/hostpath.md). */
#ifndef DETOUR_CLI_HOSTPATH_H
#define DETOUR_CLI_HOSTPATH_H

#ifdef __cplusplus
extern "C" {
#endif

#define DT_HOSTPATH_COMMAND "detour hostpath"

int dt_hostpath_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
