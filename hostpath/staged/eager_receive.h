/* SPDX-License-Identifier: Apache-2.0 */
/* Eager send, at the receiver: arrivals, matching, copying out, and the test. All functions: owner of the
 * connection, unless they say otherwise. */
#ifndef DETOUR_HOSTPATH_STAGED_EAGER_RECEIVE_H
#define DETOUR_HOSTPATH_STAGED_EAGER_RECEIVE_H

#include "hostpath/staged/eager.h"

#ifdef __cplusplus
extern "C" {
#endif

/* irecv, in this order: the slot is open; its row is filled in; the row is on its way. The last one looks for
 * the message among the arrivals. */
void dt_eager_await(struct dt_receiver *receiver, struct dt_recv_slot *slot, void *const *data,
                    const int *tags);
void dt_eager_fill(const struct dt_receiver *receiver, const struct dt_recv_slot *slot,
                   struct dt_cts_entry *row);
void dt_eager_look(struct dt_receiver *receiver, struct dt_recv_slot *slot);

/* Arrivals of kind DT_IMM_EAGER and DT_IMM_TAKE. */
dt_arrival_function dt_eager_arrive;
dt_arrival_function dt_eager_take;

/* Completes the receives whose copy is done. */
void dt_eager_finish_copied(struct dt_receiver *receiver);
/* Waits until no copy is under way. Not on NCCL's progress thread; the caller keeps other threads from the
 * connection meanwhile. */
void dt_eager_finish_copies(struct dt_receiver *receiver);

#ifdef __cplusplus
}
#endif

#endif
