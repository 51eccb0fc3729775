/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loopback reads: a QP connected to itself that reads one byte of a buffer through the device. When the read
 * is complete, earlier writes of this device to that memory have reached it (NCCL's iflush for GPU buffers).
 *
 * Threads: as for one QP with its CQ (queue.h).
 */
#ifndef DETOUR_VERBS_FLUSH_H
#define DETOUR_VERBS_FLUSH_H

#include <stdint.h>

#include "base/status.h"
#include "verbs/device.h"
#include "verbs/queue.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_flush;

/* At most `depth` reads are outstanding. `psn` as in dt_qp_options. May block. Errors as dt_qp_create and
 * dt_qp_connect. */
enum dt_status dt_flush_create(struct dt_device *device, uint32_t depth, uint32_t psn,
                               const struct dt_qp_link_options *options, struct dt_flush **flush);
void dt_flush_destroy(struct dt_flush *flush);

/* Starts to read one byte at `addr`, which `rkey` covers with DT_MR_REMOTE_READ. DT_FULL, DT_PATH_ERROR as
 * queue.h. */
enum dt_status dt_flush_post(struct dt_flush *flush, uint64_t addr, uint32_t rkey, uint64_t wr_id);

/* As dt_cq_poll(). */
int dt_flush_poll(struct dt_flush *flush, struct dt_completion *completions, unsigned count_max);

#ifdef __cplusplus
}
#endif

#endif
