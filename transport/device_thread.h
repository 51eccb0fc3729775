/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device thread: one per device. It sleeps until a control channel or the device is readable,
 * dt_nic_wake() is called, or the next round is due; then it does a round (service.h).
 */
#ifndef DETOUR_TRANSPORT_DEVICE_THREAD_H
#define DETOUR_TRANSPORT_DEVICE_THREAD_H

#include "transport/session/session.h"
#include "transport/net_state.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Initializes nic->service: its back pointer and its poller. */
void dt_device_thread_init(struct dt_nic *nic);

/* The time after a part of a round that began at now_ns: a round over hundreds of connections takes long.
 * Without threads time does not advance within a round. */
uint64_t dt_device_thread_later_ns(const struct dt_nic *nic, uint64_t now_ns);

/* Marks the sessions whose channel is ready, and the device. With nic->mutex; never blocks. */
void dt_device_thread_collect(struct dt_nic *nic);

/* Starts the device thread unless it runs. DT_SYSTEM: one WARN. */
enum dt_status dt_nic_start(struct dt_nic *nic);

/* Has the device thread end as soon as no message is staged, or the time for that is over. */
void dt_nic_ask_to_stop(struct dt_nic *nic);

/* As above, and waits for the thread; a later wake-up has no effect. Harmless when repeated. */
void dt_nic_stop(struct dt_nic *nic);

/* As above, and closes its files; no thread may wake it any more. */
void dt_nic_close(struct dt_nic *nic);

#ifdef __cplusplus
}
#endif

#endif
