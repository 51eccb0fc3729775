/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iflush: loopback reads that make received bytes visible to the GPU that owns them, and CUDA's flush for the
 * writes of a device that has failed (flush.c). All functions: owner of the connection.
 */
#ifndef DETOUR_TRANSPORT_MESSAGE_FLUSH_H
#define DETOUR_TRANSPORT_MESSAGE_FLUSH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"
#include "transport/message/connection.h"
#include "transport/message/memory.h"
#include "transport/path/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_receiver;

struct dt_flush_slot {
    struct dt_request request;
    uint64_t addr[DT_PATHS_MAX]; /* read over each path of left_mask */
    struct dt_memory *memory[DT_PATHS_MAX];
    uint32_t unsubmitted_mask; /* paths whose read is not posted yet; part of left_mask */
    uint32_t left_mask;        /* paths whose read is not complete */
    uint32_t lost_mask; /* of left_mask, paths that cannot read any more: CUDA has to flush their writes */
};

/* CUDA's flush, for one request at a time. While is_busy the control thread owns all other members. */
struct dt_lost_flush {
    struct dt_task job;
    struct dt_receiver *receiver;
    struct dt_flush_slot *slot;
    uint32_t path_mask;           /* the slot's lost_mask at submission */
    uint32_t over_mask;           /* paths that were fenced at submission */
    uint32_t epoch[DT_PATHS_MAX]; /* of the paths at submission */
    bool is_busy;                 /* [owner] */
    uint32_t is_answered;         /* `status` and `reason` are valid [atomic] */
    enum dt_status status;
    char reason[160];
};

/* iflush (net.h has its contract), with *request NULL before. */
enum dt_status dt_receiver_iflush(struct dt_receiver *receiver, unsigned n, void *const *data,
                                  const uint32_t *bytes, struct dt_memory *const *memories,
                                  struct dt_request **request);

void dt_receiver_flush_progress(struct dt_receiver *receiver);

/* The path's device cannot read any more: requests that await its reads are completed or left to CUDA. */
void dt_receiver_flush_lose(struct dt_receiver *receiver, struct dt_path *path);
/* The path gets a new loopback queue pair. True: reads have to be posted on it. */
bool dt_receiver_flush_renew(struct dt_receiver *receiver, struct dt_path *path);

enum dt_status dt_flush_test(struct dt_request *request, int *done, int *bytes);

#ifdef __cplusplus
}
#endif

#endif
