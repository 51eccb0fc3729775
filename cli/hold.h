/* SPDX-License-Identifier: Apache-2.0 */
/* `detour hold` and `detour release`: park new messages of running processes (docs/mitigate.md). */
#ifndef DETOUR_CLI_HOLD_H
#define DETOUR_CLI_HOLD_H

#ifdef __cplusplus
extern "C" {
#endif

#define DT_HOLD_COMMAND    "detour hold"
#define DT_RELEASE_COMMAND "detour release"

int dt_hold_command(int argc, char **argv);
int dt_release_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
