/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One end of a connection between two ranks, as a kernel sees it: 8 slots of a buffer for each protocol, and
 * two counters that the proxy thread or the peer moves. A kernel takes the counter of steps from ncclConnInfo
 * when it starts and puts it back when it ends. Used by the one thread that runs the kernel's block.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_CONNECTION_H
#define DETOUR_TESTS_NCCL_KERNELS_CONNECTION_H

#include <stddef.h>
#include <stdint.h>

#include "tests/nccl/kernels/layout.h"
#include "tests/nccl/kernels/reduce.h"

enum { NH_SLOTS = 8 }; /* NCCL_STEPS */

/* What a block of a kernel works with: its channel of a communicator. */
struct nh_block {
    const struct nh_layout *layout;
    const char *arguments; /* ncclDevKernelArgs */
    char *comm;            /* ncclKernelComm */
    char *channel;         /* ncclDevChannel */
    int channel_index;
};

struct nh_end {
    const struct nh_block *block;
    char *info; /* ncclConnInfo */
    int is_sender;
    uint64_t step;
};

/* True once the communicator is being aborted: every wait ends then. */
int nh_is_aborted(const struct nh_block *block);

/* Waits a moment in a loop; `spins` counts its turns and starts at 0. */
void nh_relax(unsigned *spins);

/*
 * Opens the end towards `peer`: 0 is the connection of collectives, 1 that of send and receive. The counter
 * is rounded up to whole chunks of `steps`.
 */
struct nh_end nh_end_open(const struct nh_block *block, int peer, int is_sender, int index, int steps);
void nh_end_close(struct nh_end *end);

/*
 * A sender waits until `steps` slots are free, a receiver of the Simple protocol until as many are filled.
 * Returns -1 when aborted.
 */
int nh_end_wait(struct nh_end *end, int steps);

/* Tells the proxy how many bytes of the sender's current slot to send. */
void nh_end_set_bytes(struct nh_end *end, size_t bytes);

/* The slot of the current step in the protocol's buffer (Simple: where the proxy's FIFO places it). */
char *nh_end_slot(const struct nh_end *end, int protocol);

/* Passes `steps` slots on: free slots to the sender; filled ones to the proxy, by the tail (not in LL). */
void nh_end_post(struct nh_end *end, int steps, int tells_tail);

#endif
