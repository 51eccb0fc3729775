/* SPDX-License-Identifier: Apache-2.0 */
/* Asynchronous events of a device: port errors, a port that is active again, fatal errors of a queue or of
 * the device. */
#ifndef DETOUR_TRANSPORT_DEVICE_EVENTS_H
#define DETOUR_TRANSPORT_DEVICE_EVENTS_H

#include <stdint.h>

#include "transport/net_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Reads all pending events. Each becomes one INFO line and one event of the page, and marks the paths that it
 * concerns as suspect, whatever the connection's default device is. The device's thread, without a mutex.
 */
void dt_device_events_read(struct dt_nic *nic, uint64_t now_ns);

/* The device was opened again: its paths are tried now, whatever the pause. The device's thread, without a
 * mutex. */
void dt_device_events_hint(struct dt_nic *nic, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
