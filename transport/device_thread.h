/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detour's thread of a device: sleeps until a control channel or the device has something to say, somebody
 * calls dt_nic_wake(), or the next round is due; then does a round (service.h).
 */
#ifndef DETOUR_TRANSPORT_DEVICE_THREAD_H
#define DETOUR_TRANSPORT_DEVICE_THREAD_H

#include "transport/line.h"
#include "transport/nic.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Adds the line's channel to what the thread sleeps on, or looks at its state again; takes it away. With
 * nic->mutex. */
void dt_device_thread_watch(struct dt_nic *nic, struct dt_line *line);
void dt_device_thread_forget(struct dt_nic *nic, struct dt_line *line);

/* The time, after a part of a round that began at now_ns: a round over hundreds of connections takes some.
 * Without threads time stands still meanwhile. */
uint64_t dt_device_thread_later_ns(const struct dt_nic *nic, uint64_t now_ns);

/* Marks the lines whose channel is ready, the device and the listener. With nic->mutex; never blocks. */
void dt_device_thread_collect(struct dt_nic *nic);

#ifdef __cplusplus
}
#endif

#endif
