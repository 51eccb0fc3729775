/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETOUR_CLI_DOCTOR_H
#define DETOUR_CLI_DOCTOR_H

#ifdef __cplusplus
extern "C" {
#endif

/* `detour doctor`: see cli/command.h. */
int dt_doctor_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
