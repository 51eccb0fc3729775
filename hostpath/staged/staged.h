/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host path of a connection, as transport/ calls it. Everything else goes through the operations of the
 * two kinds of end (transport/message/end.h), which this module replaces:
 *
 *   sender     isend copies the payload into host memory of Detour's own and is done with the copy (stage.h);
 * if the CTS is late, the payload is written into a buffer at the receiver (eager.h) receiver   memory for
 * such payloads (eager.h), and bounce buffers for GPU memory that a device cannot write (gpu_bounce.h)
 *
 * With DETOUR_HOSTPATH=off nothing here is called but dt_staged_prepare() and dt_staged_open(), which do
 * nothing.
 */
#ifndef DETOUR_HOSTPATH_STAGED_STAGED_H
#define DETOUR_HOSTPATH_STAGED_STAGED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_connection;
struct dt_memory;
struct dt_receiver;
struct dt_request;
struct dt_sender;

/* Set-up, before the paths are created: creates the memory that the paths register. */
void dt_staged_prepare(struct dt_connection *connection);
/* Set-up, after the paths are created: from now on the connection's calls come here. DT_NO_MEMORY, DT_SYSTEM
 * (one WARN). */
enum dt_status dt_staged_open(struct dt_connection *connection);

/*
 * Service thread: memory that the CPU may not be able to read was registered, and the devices of
 * `missing_mask` refused it. Finds out whether it belongs to a GPU that the host path can copy from and to;
 * gives a receiver's memory a bounce buffer for the missing paths.
 */
void dt_staged_add_gpu_memory(struct dt_connection *connection, struct dt_memory *memory,
                              uint32_t missing_mask);

/* Owner: isend and irecv of a connection with DT_NOTICE_STAGED. */
enum dt_status dt_staged_isend(struct dt_sender *sender, void *data, uint32_t bytes, int tag,
                               struct dt_memory *memory, struct dt_request **request);
bool dt_staged_irecv(struct dt_receiver *receiver, unsigned n, void *const *data, const uint32_t *bytes,
                     const int *tags, struct dt_memory *const *memories, struct dt_request **request);

#ifdef __cplusplus
}
#endif

#endif
