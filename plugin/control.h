/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this process shows to `detour`: its counter page and its control socket (obs/), with the commands
 * `nic` and `inject`. A process that cannot have them runs on without; one INFO line says why.
 */
#ifndef DETOUR_PLUGIN_CONTROL_H
#define DETOUR_PLUGIN_CONTROL_H

#include "base/param.h"
#include "obs/page.h"
#include "transport/net.h"
#include "verbs/verbs.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_control;

/* Starts a thread. NULL only when memory is short. `verbs` and `net` must outlive it. */
struct dt_control *dt_control_start(const struct dt_params *params, struct dt_verbs *verbs,
                                    struct dt_net *net);

/* Ends the thread and removes page and socket. NULL is allowed. */
void dt_control_stop(struct dt_control *control);

#ifdef __cplusplus
}
#endif

#endif
