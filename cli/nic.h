/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETOUR_CLI_NIC_H
#define DETOUR_CLI_NIC_H

#ifdef __cplusplus
extern "C" {
#endif

/* `detour nic`: see cli/command.h. */
int dt_nic_command(int argc, char **argv);

#ifdef __cplusplus
}
#endif

#endif
