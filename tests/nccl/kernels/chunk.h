/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One chunk through a block: from a buffer of the user and/or what a peer sent, to a buffer of the user
 * and/or a peer (NCCL's "primitives": src/device/prims_*.h). With both a source and a receiver the two are
 * reduced. Three protocols:
 *
 * Simple  slots are handed over by counters; a chunk is cut into slices of whole slots.
 * LL      every 8 bytes travel in a line of 16: data, flag, data, flag. The receiver polls the flags in the
 * buffer that the network writes, so each half of a line has to arrive as a whole, and nothing may arrive
 * late. LL128   lines of 128 bytes: 120 of data, then the flag, which has to become visible last.
 *
 * The order of data within a 2 KiB slice of LL128 is not that of NCCL's warps; both ends run this code.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_CHUNK_H
#define DETOUR_TESTS_NCCL_KERNELS_CHUNK_H

#include <stddef.h>
#include <sys/types.h>

#include "tests/nccl/kernels/connection.h"
#include "tests/nccl/kernels/function.h"
#include "tests/nccl/kernels/reduce.h"

struct nh_mover {
    const struct nh_block *block;
    struct nh_reduction reduction;
    enum nh_protocol protocol;
    int slices, steps;     /* Simple: slices per chunk, slots per slice */
    ssize_t step_elements; /* Simple: elements of a slot */
};

struct nh_chunk {
    struct nh_end *receiver, *sender; /* may be NULL */
    const char *source;               /* may be NULL; scaled first where the operation asks for it */
    char *destination;                /* may be NULL */
    ssize_t count; /* elements; not positive: an empty chunk, which takes its slots all the same */
    int is_last;   /* the reduction is complete: divide where the operation asks for it */
};

/* Returns 0, or -1 when the communicator is being aborted. */
int nh_move(const struct nh_mover *mover, const struct nh_chunk *chunk);

/* By protocol; called by nh_move with a count that is not negative. */
int nh_move_simple(const struct nh_mover *mover, const struct nh_chunk *chunk);
int nh_move_ll(const struct nh_mover *mover, const struct nh_chunk *chunk);
int nh_move_ll128(const struct nh_mover *mover, const struct nh_chunk *chunk);

/*
 * out = source, or received, or both reduced; then divided if it is the last. `out` may be `source`.
 */
void nh_combine(const struct nh_mover *mover, const struct nh_chunk *chunk, void *out, const void *source,
                const void *received, size_t count);

#endif
