/* SPDX-License-Identifier: Apache-2.0 */
/* What a device says of itself: port errors, a port that is active again, fatal errors of queues or of it
 * all. */
#ifndef DETOUR_TRANSPORT_DEVICE_EVENTS_H
#define DETOUR_TRANSPORT_DEVICE_EVENTS_H

#include <stdint.h>

#include "transport/net_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Reads all that is there: each is one INFO line and one event of the page, and tells the connections with a
 * path that it concerns, whatever their default device. The device's thread, without a mutex.
 */
void dt_device_events_read(struct dt_nic *nic, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
