/* SPDX-License-Identifier: Apache-2.0 */
/* `detour control` and `detour agent`: the drivers of controller/, with the clock, the signals and the
 * output. */
#ifndef DETOUR_CLI_CONTROL_H
#define DETOUR_CLI_CONTROL_H

#ifdef __cplusplus
extern "C" {
#endif

int dt_control_command(int argc, char **argv);
int dt_agent_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
