/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that fail. The error becomes visible to NCCL only once the queue pairs are fenced: until then
 * the devices may still write to buffers that NCCL would free.
 */
#ifndef DETOUR_TRANSPORT_FAILING_H
#define DETOUR_TRANSPORT_FAILING_H

#include <stdint.h>

#include "transport/message/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A fence that takes longer than this hangs in the driver: the error is reported without it. */
#define DT_FAIL_FENCE_NS 1000000000ull

/*
 * Sends CLOSE to the peer, which may not know of the failure, fences the queue pairs of every path, and after
 * DT_FAIL_FENCE_NS without success reports the error with one WARN. connection->failing is set. Device
 * thread, with nic->mutex; call it in every round.
 */
void dt_failing_progress(struct dt_connection *connection, uint64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
