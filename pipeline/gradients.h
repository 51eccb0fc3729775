/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums the gradients of one device over the replicas of its pipeline, with the ring all-reduce that NCCL
 * uses: the gradients are cut into one chunk per replica; a chunk travels around the ring once and is added
 * up, and once more to reach everybody. One device of a grid of replicas x devices is one end of the ring.
 *
 * Like the executor (executor.h), it is pure: time and completed transfers are arguments, orders come out,
 * and the driver owns buffers and network:
 *
 *   dt_gradients_begin(gradients, iteration, share);
 *   while (!dt_gradients_is_done(gradients)) {
 *       while (dt_gradients_next(gradients, has_ended, &order))
 *           post the transfer; a send's content is written by dt_gradients_pack();
 *       for each completed transfer, the oldest of its direction first: dt_gradients_sent() or
 *           dt_gradients_received();
 *   }
 *   dt_gradients_check();
 *
 * A chunk is cut into slices, a transfer each; at most `slots` of a direction are posted at a time. Transfer
 * j of a direction is slice j % slices of step j / slices. At step s the replica r sends chunk r - s and
 * receives chunk r - 1 - s (modulo the replicas), adds it in the first replicas - 1 steps, and replaces it in
 * the others. A slice is sent as soon as it was received in the step before.
 *
 * Content: 64-bit integers. A microbatch of the global batch has a gradient that follows from iteration,
 * device, microbatch and position; a replica starts with the sum, not the mean, over its own microbatches
 * (shares.h). So a replica counts by its number of microbatches, as it must when these numbers differ, and
 * the sum of all replicas is the sum over the global batch: exact (modulo 2^64), known for each element, and
 * the same for every distribution of the microbatches. Each element is compared with it. The
 * gradients are counted in places of `place_bytes`; elements are kept in the first `kept_bytes` of each,
 * which is the whole place in a real run, and less where a simulation carries samples of a large message
 * only.
 *
 * Used by one thread.
 */
#ifndef DETOUR_PIPELINE_GRADIENTS_H
#define DETOUR_PIPELINE_GRADIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "pipeline/executor.h"
#include "pipeline/shares.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_GRADIENTS_ELEMENT_BYTES 8

struct dt_gradients_options {
    int32_t device;   /* whose gradients they are; enters the content */
    int32_t replica;  /* the place in the ring */
    int32_t replicas; /* at least 2 */
    uint64_t places;  /* at least `replicas` */
    uint32_t place_bytes;
    uint32_t kept_bytes;  /* a multiple of DT_GRADIENTS_ELEMENT_BYTES, at most place_bytes */
    uint64_t slice_bytes; /* at least two places */
    uint32_t slots;       /* at least 1 */
    size_t first_flow;    /* orders of sends have this flow, those of receives the next one */
};

struct dt_gradients;

/* NULL when out of memory. */
struct dt_gradients *dt_gradients_create(const struct dt_gradients_options *options);

/* NULL is allowed. */
void dt_gradients_destroy(struct dt_gradients *gradients);

/* The replica that this one sends to, or receives from. */
int32_t dt_gradients_peer(const struct dt_gradients *gradients, bool sends);

/* Slices of a chunk; of an all-reduce with these options, whose replica does not matter. */
uint64_t dt_gradients_slices(const struct dt_gradients_options *options);

/* Transfers of each direction in an iteration: 2 * (replicas - 1) times the slices of a chunk. */
uint64_t dt_gradients_transfers(const struct dt_gradients *gradients);

/* A new iteration, with the gradients of this replica's microbatches alone. The one before must be done. */
void dt_gradients_begin(struct dt_gradients *gradients, uint32_t iteration, struct dt_pipeline_share share);

/*
 * has_ended: the device has executed its last action (the end_ns of its executor's account is set), and the
 * all-reduce begins. True with an order that the driver must carry out; its identity is zero. False: nothing
 * more now.
 */
bool dt_gradients_next(struct dt_gradients *gradients, bool has_ended, struct dt_executor_order *order);

/* Writes the content of a send. data: order->bytes. */
void dt_gradients_pack(const struct dt_gradients *gradients, const struct dt_executor_order *order,
                       void *data);

/* The oldest posted send is complete: its buffer is free. */
void dt_gradients_sent(struct dt_gradients *gradients, uint64_t now_ns);

/* The oldest posted receive is complete, and brought `data`. */
void dt_gradients_received(struct dt_gradients *gradients, const struct dt_executor_order *order,
                           const void *data, uint64_t now_ns);

/* All transfers of the iteration are complete. */
bool dt_gradients_is_done(const struct dt_gradients *gradients);

/* When the last slice was received; 0 before. */
uint64_t dt_gradients_end_ns(const struct dt_gradients *gradients);

/* "slice 3 of 8 of chunk 1, step 2 of 2"; for messages about a stall. Returns `text`. */
const char *dt_gradients_text(const struct dt_gradients *gradients, char text[DT_EXECUTOR_TEXT_BYTES]);

/* After the iteration: false when an element is not the sum over the global batch; *wrong is the offset of
 * the first. */
bool dt_gradients_check(const struct dt_gradients *gradients, uint64_t *wrong);

/* After the iteration: the elements, valid until the next one begins. */
const uint64_t *dt_gradients_sums(const struct dt_gradients *gradients);

/* What the elements of the microbatches [first, end) of the global batch are multiples of, and element
 * `index` of that factor. Factors add up. */
uint64_t dt_gradients_factor(int32_t device, uint32_t iteration, int32_t first, int32_t end);
uint64_t dt_gradients_element(uint64_t factor, uint64_t index);

#ifdef __cplusplus
}
#endif

#endif
