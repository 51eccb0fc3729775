/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the rows of layout.c with the constants, a line per release: VERSION NAME=VALUE... (for
 * layout_test.py). */
#include <stdio.h>

#include "tests/nccl/kernels/layout.h"

#define FIELDS(X)                                                                                       \
    X(comm_abort)                                                                                       \
    X(comm_channels)                                                                                    \
    X(channel_bytes)                                                                                    \
    X(ring_index)                                                                                       \
    X(channel_counter) X(coll_bytes) X(coll_recv) X(coll_send) X(coll_cbd) X(fifo_bytes) X(fifo_offset) \
        X(fifo_size) X(func_bits)

#define CONSTANTS(X)                                                                                         \
    X(NH_ARGS_CHANNEL_MASK)                                                                                  \
    X(NH_ARGS_STORAGE)                                                                                       \
    X(NH_ARGS_WORK_MASK)                                                                                     \
    X(NH_ARGS_WORK_BUFFER)                                                                                   \
    X(NH_ARGS_BYTES) X(NH_BATCH_OFFSET) X(NH_BATCH_SET) X(NH_BATCH_BYTES) X(NH_COMM_RANK) X(NH_COMM_RANKS)   \
        X(NH_COMM_BUFFER_BYTES) X(NH_COMM_P2P_CHUNK) X(NH_CHANNEL_PEERS) X(NH_RING_PREVIOUS) X(NH_RING_NEXT) \
            X(NH_RING_USER_RANKS) X(NH_CONN_BYTES) X(NH_CONN_TAIL) X(NH_CONN_HEAD) X(NH_CONN_STEP_SIZE)      \
                X(NH_CONN_FIFO) X(NH_CONN_STEP) X(NH_P2P_RECV_ADDRESS) X(NH_P2P_SEND_BYTES)                  \
                    X(NH_P2P_RECV_BYTES) X(NH_P2P_SEND_RANK) X(NH_P2P_RECV_RANK) X(NH_P2P_CHANNELS)          \
                        X(NH_P2P_CHANNEL_BASE) X(NH_P2P_SEND_CHANNELS) X(NH_P2P_RECV_CHANNELS)               \
                            X(NH_P2P_SEND_CHUNK) X(NH_P2P_RECV_CHUNK) X(NH_P2P_BYTES) X(NH_COLL_ROOT)

int main(void)
{
    const struct nh_layout *row;

    for (int i = 0; (row = nh_layout_row(i)); i++) {
        printf("%d", row->version);
#define FIELD(name)    printf(" " #name "=%d", row->name);
#define CONSTANT(name) printf(" " #name "=%d", name);
        FIELDS(FIELD)
        CONSTANTS(CONSTANT)
        printf("\n");
    }
    return 0;
}
