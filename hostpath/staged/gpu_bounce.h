/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounce buffers: receiving into GPU memory that a path's device cannot write.
 *
 * When such memory is registered it gets a bounce buffer: as many bytes of host memory, pinned, and
 * registered with that device under the addresses of the GPU memory. Nothing changes for the sender: the CTS
 * names one address; a write to it lands in the GPU with the key of one path, and in the bounce buffer with
 * the key of another. When all of a message has arrived over a path with a bounce buffer, its bytes
 * are copied to the GPU, on a stream of Detour's own, by the GPU copy thread (hostpath/gpu.h); the request is
 * done when the copy is. A message that arrives over another path is in the GPU already. A path that fails in
 * the middle of a message leaves bytes in the bounce buffer that are never read, since another path brings
 * the whole message.
 *
 * A receive waits for no memory: each irecv has its own place in the bounce buffer, as in the GPU's memory,
 * and two messages are never received in one place. So no order of calls that completes without the host path
 * can deadlock with it.
 *
 * All bounce buffers of a process are bounded by DETOUR_HOSTPATH_BYTES; GPU memory without one is not carried
 * by the paths in question, as without the host path.
 */
#ifndef DETOUR_HOSTPATH_STAGED_GPU_BOUNCE_H
#define DETOUR_HOSTPATH_STAGED_GPU_BOUNCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "hostpath/gpu.h"
#include "transport/message/receiver.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a dt_memory. */
struct dt_bounce_buffer {
    struct dt_gpu *gpu; /* whose memory it stands for */
    uint8_t *at;        /* stands for the first byte */
    void *pages;        /* that it lies in */
    size_t bytes;       /* of the pages */
};

/* The legal transitions are the table of gpu_bounce.c. */
enum dt_bounce_state {
    DT_BOUNCE_NONE,
    DT_BOUNCE_AWAITED, /* the message has not arrived */
    DT_BOUNCE_COPYING, /* it has, and is being copied to the GPU */
    DT_BOUNCE_DONE,    /* waits for the test */
    DT_BOUNCE_FAILED,
    DT_BOUNCE_STATES
};

/* A receive with a part in memory that has a bounce buffer; that of the slot with the same number. */
struct dt_bounce_receive {
    struct dt_list node; /* while it is AWAITED or COPYING */
    uint8_t state;       /* enum dt_bounce_state */
    void *data[DT_PARTS_MAX];
    uint32_t copy_count;
    uint32_t copies_left; /* [atomic; written by the copying threads] */
    struct dt_gpu_copy copy[DT_PARTS_MAX];
};

/* Of a receiver, from its first bounce buffer on. */
struct dt_gpu_bounce {
    struct dt_gpus *gpus;
    struct dt_list open; /* struct dt_bounce_receive */
    struct dt_bounce_receive receive[DT_SLOTS_MAX];
};

/*
 * Service thread, when memory of `gpu` is registered: gives it a bounce buffer on the paths of `path_mask`,
 * whose devices have refused it. Where that is impossible the memory stays as it is; the reason is logged at
 * INFO.
 */
void dt_bounce_buffer_create(struct dt_connection *connection, struct dt_memory *memory, struct dt_gpu *gpu,
                             uint32_t path_mask);
/* After its regions were deregistered, and with no copy under way. Harmless without a buffer. May block. */
void dt_bounce_buffer_destroy(struct dt_connection *connection, struct dt_memory *memory);
/* The receiver is freed. */
void dt_bounce_close(struct dt_receiver *receiver);

/* Owner. irecv: the slot is open. */
void dt_bounce_await(struct dt_receiver *receiver, struct dt_recv_slot *slot, void *const *data);
/* Owner. Starts to copy messages that have arrived, and completes those that are copied. */
void dt_bounce_progress(struct dt_receiver *receiver);

/*
 * Waits until no copy is under way. Not on NCCL's progress thread; the caller keeps other threads from the
 * connection meanwhile.
 */
void dt_bounce_finish_copies(struct dt_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
