/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control socket of a program on the drop-in library, so that `detour nic` lists its devices, pulls their
 * cables, loses their packets and limits their rate as it does for the plugin's processes.
 */
#ifndef DETOUR_DROPIN_CONTROL_H
#define DETOUR_DROPIN_CONTROL_H

#include "base/param.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Starts the socket in params->runtime_dir, for the life of the process. Does nothing in a process that has
 * loaded Detour's plugin, which has a socket of its own. A failure is logged; the devices work without.
 */
void dt_dropin_control_start(const struct dt_params *params);

#ifdef __cplusplus
}
#endif

#endif
