/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of a process to the `detour` command: its counter page and its command socket (obs/) with the
 * commands of `detour` and its agent. If they cannot be created, the process runs without them, and one
 * INFO line has the reason.
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

/* DETOUR_EVENT_KINDS as bits (obs/event_queue.h). DT_INVALID, with one WARN: a name that is no kind. */
enum dt_status dt_control_event_kinds(const struct dt_params *params, uint32_t *kinds);

/* Starts the threads of the command socket and of DETOUR_EVENT_COMMAND. NULL: out of memory. `verbs` and
 * `net` must outlive it. */
struct dt_control *dt_control_start(const struct dt_params *params, struct dt_verbs *verbs,
                                    struct dt_net *net);

/* Stops the threads and removes page and socket. NULL is allowed. */
void dt_control_stop(struct dt_control *control);

#ifdef __cplusplus
}
#endif

#endif
