/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host path of a receiver: GPU memory that a path's device cannot write to. Private to transport/.
 *
 * Such memory gets a *shadow* when it is registered: as many bytes of the host's, pinned, and known to that
 * device under the addresses of the GPU memory. So nothing changes for the sender: the clear-to-send names
 * one address, and with the key of one path what is written there lands in the GPU, with that of another in
 * the shadow. When all of a message has come over a path with a shadow its bytes are copied to the GPU, on a
 * stream of Detour's own, by the thread of the host path (hostpath/gpu.h); its request is done when the copy
 * is. What came over another path is where it belongs already. A path that failed in the middle leaves bytes
 * in the shadow that nobody looks at, since another one brings the whole message.
 *
 * A receive waits for no memory: the place of each irecv in the shadow is as much its own as the one in the
 * GPU, and nobody receives two messages in one place. So no order of calls that ends without the host path
 * can fail to end with it.
 *
 * All shadows of a process are bounded by DETOUR_HOSTPATH_BYTES; GPU memory that has none is not carried by
 * the paths in question, as without the host path.
 */
#ifndef DETOUR_TRANSPORT_LANDING_H
#define DETOUR_TRANSPORT_LANDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "hostpath/gpu.h"
#include "transport/connection.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of a dt_memory; its `gpu` is the one that is copied to. */
struct dt_shadow {
    struct dt_gpu *gpu;
    uint8_t *at; /* stands for the first byte */
    void *pages; /* it lies in */
    size_t bytes;
};

enum dt_landing_state {
    DT_LANDING_NONE,
    DT_LANDING_AWAITED, /* the message has not come */
    DT_LANDING_COPIED,  /* it has, and is on its way to the GPU */
    DT_LANDING_DONE,    /* waits for the test */
    DT_LANDING_FAILED
};

/* A receive into memory some of which has a shadow; that of the slot with the same number. */
struct dt_landing {
    struct dt_list node; /* while it is AWAITED or COPIED */
    uint8_t state;       /* enum dt_landing_state */
    void *data[DT_PARTS_MAX];
    uint32_t copy_count;
    uint32_t copies_left; /* [atomic; written by who copies] */
    struct dt_gpu_copy copy[DT_PARTS_MAX];
};

/* A receiver's, from its first shadow on. */
struct dt_landings {
    struct dt_gpus *gpus;
    struct dt_list open; /* struct dt_landing */
    struct dt_landing landing[DT_SLOTS_MAX];
};

/*
 * Service thread, when memory is registered: gives it a shadow on the paths of `path_mask`, whose devices
 * have refused it. What could not be had was said at INFO; the memory is then as it was.
 */
void dt_shadow_create(struct dt_connection *connection, struct dt_memory *memory, uint32_t path_mask);
/* After its regions were given back, and with no copy under way. May block. */
void dt_shadow_destroy(struct dt_connection *connection, struct dt_memory *memory);

/* Owner. irecv: the slot is open. */
void dt_landing_await(struct dt_receiver *receiver, struct dt_recv_slot *slot, void *const *data);
/* Owner: starts to copy what has come, and sees what is copied. */
void dt_landing_progress(struct dt_receiver *receiver);
/* Owner. Of a receive that was awaited here. */
enum dt_status dt_landing_test(struct dt_request *request, int *done, int *bytes);

/* Waits until nothing is copied any more. Not on NCCL's progress thread; nobody moves the connection on
 * meanwhile. */
void dt_landing_finish_copies(struct dt_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
