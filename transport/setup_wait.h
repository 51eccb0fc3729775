/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a set-up (setup.h) waits for the devices of its paths. If another path is ready, a device that
 * hangs delays the set-up by LATE_NS at most, the default device by DEFAULT_LATE_NS, and one that refuses to
 * connect its queue pairs by REFUSED_NS (setup_wait.c): the set-up then goes on without the path, and the
 * connection uses it once recovery has connected it. The functions run in a step of the set-up, on the thread
 * that runs it, and never block.
 */
#ifndef DETOUR_TRANSPORT_SETUP_WAIT_H
#define DETOUR_TRANSPORT_SETUP_WAIT_H

#include <stdbool.h>
#include <stdint.h>

#include "transport/setup_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Whether the control threads have finished the tasks of this step, or the set-up goes on without those that
 * have not (one WARN for each).
 */
bool dt_setup_tasks_done(struct dt_setup *setup, uint64_t now_ns);

/*
 * Whether the step waits to repeat link tasks that devices have refused; submits them when they are due.
 * False: none was refused, or each was repeated often enough, and its path is left out (one WARN for each).
 */
bool dt_setup_repeats_links(struct dt_setup *setup, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
