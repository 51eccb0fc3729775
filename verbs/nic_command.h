/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `nic` command of the control socket, for plugin/ to register there (obs/command.h has the signature):
 *
 *   list             "soft0 soft up, soft1 soft down", or "mlx5_0 system" for real devices, which are not
 *                    asked; plugin/ adds which are drained (transport/net.h)
 *   DEVICE ACTION    dt_verbs_device_control()
 */
#ifndef DETOUR_VERBS_NIC_COMMAND_H
#define DETOUR_VERBS_NIC_COMMAND_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* `verbs` is a struct dt_verbs. Does not block. Any thread. */
enum dt_status dt_verbs_nic_command(void *verbs, const char *args, char *answer, size_t answer_bytes);

#ifdef __cplusplus
}
#endif

#endif
