/* SPDX-License-Identifier: Apache-2.0 */
/* Detour's own plugin, for commands that run ranks: where it is, and on which verbs it runs. */
#ifndef DETOUR_CLI_OWN_PLUGIN_H
#define DETOUR_CLI_OWN_PLUGIN_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Writes the plugin's path: beside this program (../lib), as built and as installed, else the bare name,
 * which the dynamic loader searches for. Returns `path`.
 */
const char *dt_own_plugin_find(char *path, size_t bytes);

/*
 * Checks Detour's settings and, unless DETOUR_VERBS chooses, sets it to the software RNIC where the kernel
 * has no RDMA device: inside NCCL `auto` means real devices only, but a command on a machine without one is
 * better run than refused. *note: a line for the user about that choice, or unchanged. On failure one line
 * goes to `error`.
 */
enum dt_status dt_own_plugin_prepare(const char **note, char *error, size_t error_bytes);

#ifdef __cplusplus
}
#endif

#endif
