/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where NCCL's kernels find their arguments: offsets and sizes of the structures that its host code writes
 * for the GPU (src/include/device.h of each release), in bytes. A row per release; a release without a row is
 * refused. tests/nccl/layout_test.py compares each row with the debug information of its wheel.
 *
 * Constants below are the same in all releases of the table.
 */
#ifndef DETOUR_TESTS_NCCL_KERNELS_LAYOUT_H
#define DETOUR_TESTS_NCCL_KERNELS_LAYOUT_H

#include <stdint.h>
#include <string.h>

enum nh_layout_constants {
    /* ncclDevKernelArgs */
    NH_ARGS_COMM = 0,
    NH_ARGS_CHANNEL_MASK = 8,
    NH_ARGS_STORAGE = 16, /* 0: works behind the batches, 1: in a ring at NH_ARGS_WORK_BUFFER */
    NH_ARGS_WORK_MASK = 20,
    NH_ARGS_WORK_BUFFER = 24,
    NH_ARGS_BYTES = 32, /* batches follow */
    /* ncclDevWorkBatch */
    NH_BATCH_FLAGS = 0, /* nextJump 14 bits, nextExtends 1, workType 2, funcId func_bits */
    NH_BATCH_OFFSET = 4,
    NH_BATCH_SET = 8,
    NH_BATCH_BYTES = 16,
    /* ncclKernelComm */
    NH_COMM_RANK = 0,
    NH_COMM_RANKS = 4,
    NH_COMM_BUFFER_BYTES = 16, /* int[3], by protocol */
    NH_COMM_P2P_CHUNK = 28,
    /* ncclDevChannel */
    NH_CHANNEL_PEERS = 0,
    NH_RING_PREVIOUS = 8,
    NH_RING_NEXT = 12,
    NH_RING_USER_RANKS = 16,
    /* ncclDevChannelPeer: send[2], recv[2] of ncclConnInfo */
    NH_CONN_BYTES = 152,
    /* ncclConnInfo */
    NH_CONN_BUFFERS = 0, /* by protocol */
    NH_CONN_TAIL = 48,
    NH_CONN_HEAD = 56,
    NH_CONN_STEP_SIZE = 72,
    NH_CONN_FIFO = 96,
    NH_CONN_STEP = 104,
    /* ncclConnFifo */
    NH_FIFO_MODE = 0,
    /* ncclDevWorkP2p */
    NH_P2P_SEND_ADDRESS = 0,
    NH_P2P_RECV_ADDRESS = 8,
    NH_P2P_SEND_BYTES = 16,
    NH_P2P_RECV_BYTES = 24,
    NH_P2P_SEND_RANK = 32,
    NH_P2P_RECV_RANK = 36,
    NH_P2P_CHANNELS = 40,
    NH_P2P_CHANNEL_BASE = 41,
    NH_P2P_SEND_CHANNELS = 42,
    NH_P2P_RECV_CHANNELS = 43,
    NH_P2P_SEND_CHUNK = 44, /* an 8-bit float, see nh_fp8 in sendrecv.c */
    NH_P2P_RECV_CHUNK = 45,
    NH_P2P_FLAGS = 46, /* 1: send by LL, 2: receive by LL, 4 to 32: registered buffers */
    NH_P2P_BYTES = 48,
    /* ncclDevWorkColl */
    NH_COLL_BITS = 0, /* first channel 8 bits, last 8, warps 8, argument is a pointer 1, registered 2 */
    NH_COLL_ROOT = 4,
    NH_COLL_GRAINS = 24,  /* from cbd: three fields of 21 bits behind three counts */
    NH_COLL_ARGUMENT = 32 /* from cbd */
};

struct nh_layout {
    int version;           /* ncclGetVersion's number */
    int comm_abort;        /* ncclKernelComm.abortFlag */
    int comm_channels;     /* ncclKernelCommAndChannels.channels */
    int channel_bytes;     /* sizeof ncclDevChannel */
    int ring_index;        /* ncclDevChannel.ring.index */
    int channel_counter;   /* ncclDevChannel.workCounter, -1: none */
    int coll_bytes;        /* sizeof ncclDevWorkColl */
    int coll_recv;         /* ncclDevWorkColl.recvbuff */
    int coll_send;         /* ncclDevWorkColl.sendbuff */
    int coll_cbd;          /* ncclDevWorkColl.cbd */
    int fifo_bytes;        /* sizeof ncclConnFifo */
    int fifo_offset;       /* ncclConnFifo.offset: 4 bytes at 4, 8 bytes at 8 */
    int fifo_size;         /* ncclConnFifo.size */
    int func_bits;         /* ncclDevWorkBatch.funcId */
    int types;             /* data types in the table of functions */
    int gather_algorithms; /* algorithms of all-gather and reduce-scatter in that table */
    int gather_v_rows;     /* rows of AllGatherV in that table */
    int parts_reversed;    /* ncclP2pChannelToPart reverses the bits of the part */
    int average_packed; /* the argument of an average of integers is 2 * ranks + is_signed, else the ranks */
};

/* The row of a release, or NULL for one that has none. */
const struct nh_layout *nh_layout_of(int version);
/* Rows by index, for the check against debug information; NULL behind the last. */
const struct nh_layout *nh_layout_row(int index);

/* Reads at an offset of one of NCCL's structures. */
#define NH_FIELD(type)                                               \
    static inline type nh_##type(const void *object, int offset)     \
    {                                                                \
        type value;                                                  \
                                                                     \
        memcpy(&value, (const char *)object + offset, sizeof value); \
        return value;                                                \
    }
typedef uint8_t byte;
typedef void *pointer;
NH_FIELD(byte)
NH_FIELD(int)
NH_FIELD(uint32_t)
NH_FIELD(uint64_t)
NH_FIELD(pointer)
#undef NH_FIELD

#endif
