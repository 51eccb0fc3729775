/* SPDX-License-Identifier: Apache-2.0 */
/* How a rank waits for its computation: to the microsecond at its end, polling for messages until then. */
#ifndef DETOUR_CLI_PIPELINE_WAIT_H
#define DETOUR_CLI_PIPELINE_WAIT_H

#include <stdint.h>

#include "delay/timer.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PIPELINE_POLL_US 150

/* Waits until due_ns by the timer's means, or until it is time to poll for messages (DT_PIPELINE_POLL_US
 * after now_ns), whichever is earlier. Times are those of dt_clock_now_ns(). */
void dt_pipeline_wait(struct dt_delay_timer *timer, uint64_t due_ns, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
