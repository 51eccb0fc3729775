/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/sendrecv.h"

#include <pthread.h>
#include <string.h>

#include "tests/nccl/kernels/chunk.h"
#include "tests/nccl/runtime/log.h"

enum { TRANSFERS_MAX = 64, PART_ALIGNMENT = 4096, FLAGS_REGISTERED = 0x3c };

struct transfer {
    const struct nh_block *block;
    int is_send, peer, uses_ll;
    char *address;
    size_t bytes, chunk_bytes;
    pthread_t thread;
};

/* A run at least once: an empty transfer is a message of no bytes. */
static void *run_transfer(void *argument)
{
    const struct transfer *transfer = argument;
    struct nh_end end = nh_end_open(transfer->block, transfer->peer, transfer->is_send, 1, 1);
    struct nh_mover mover = {
        .block = transfer->block,
        .reduction = {.operation = NH_SUM, .type = NH_UINT8},
        .protocol = transfer->uses_ll ? NH_LL : NH_SIMPLE,
        .slices = 1,
        .steps = 1,
        .step_elements = nh_int(transfer->block->comm, NH_COMM_P2P_CHUNK),
    };
    size_t at = 0;

    do {
        size_t left = transfer->bytes - at,
               bytes = transfer->chunk_bytes < left ? transfer->chunk_bytes : left;
        struct nh_chunk chunk = {.count = (ssize_t)bytes};

        if (transfer->is_send) {
            chunk.sender = &end;
            chunk.source = transfer->address + at;
        } else {
            chunk.receiver = &end;
            chunk.destination = transfer->address + at;
        }
        if (nh_move(&mover, &chunk))
            break;
        at += bytes;
    } while (at < transfer->bytes);
    nh_end_close(&end);
    return NULL;
}

/* NCCL's unsigned 8-bit float: 5 bits of exponent, 3 of mantissa (u32fp8Decode). */
static size_t decode_fp8(uint8_t bits)
{
    unsigned exponent = bits >> 3, mantissa = (bits & 7u) | (exponent ? 8u : 0);

    return (size_t)mantissa << (exponent ? exponent - 1 : 0);
}

/* Which part of a work the channel has (ncclP2pChannelToPart); the number of channels is a power of two. */
static int part_of(const struct nh_block *block, int channels, int base)
{
    int part = (block->channel_index - base) & (channels - 1), reversed = 0;

    if (!block->layout->parts_reversed)
        return part;
    for (int bit = 1; bit < channels; bit *= 2)
        reversed = reversed * 2 + !!(part & bit);
    return reversed;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* This channel's part of one direction of a work. Returns 0 if it has none. */
static int plan(const struct nh_block *block, const char *work, int is_send, struct transfer *transfer)
{
    size_t bytes = nh_uint64_t(work, is_send ? NH_P2P_SEND_BYTES : NH_P2P_RECV_BYTES), part_bytes, start;
    int parts = nh_byte(work, is_send ? NH_P2P_SEND_CHANNELS : NH_P2P_RECV_CHANNELS);
    int part = part_of(block, nh_byte(work, NH_P2P_CHANNELS), nh_byte(work, NH_P2P_CHANNEL_BASE));
    int flags = nh_byte(work, NH_P2P_FLAGS);

    if (flags & FLAGS_REGISTERED)
        nh_die("send and receive on registered buffers are not run here");
    if (part >= parts)
        return 0;
    part_bytes =
        ((bytes + (size_t)parts - 1) / (size_t)parts + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    start = smaller((size_t)part * part_bytes, bytes);
    *transfer = (struct transfer){
        .block = block,
        .is_send = is_send,
        .peer = nh_int(work, is_send ? NH_P2P_SEND_RANK : NH_P2P_RECV_RANK),
        .uses_ll = !!(flags & (is_send ? 1 : 2)),
        .address = (char *)nh_pointer(work, is_send ? NH_P2P_SEND_ADDRESS : NH_P2P_RECV_ADDRESS) + start,
        .bytes = smaller((size_t)(part + 1) * part_bytes, bytes) - start,
        .chunk_bytes = decode_fp8(nh_byte(work, is_send ? NH_P2P_SEND_CHUNK : NH_P2P_RECV_CHUNK)),
    };
    return 1;
}

void nh_run_send_receive(const struct nh_block *block, char *const *works, int count)
{
    struct transfer transfers[TRANSFERS_MAX], *next = transfers;
    const int rank = nh_int(block->comm, NH_COMM_RANK);

    if (count > TRANSFERS_MAX / 2)
        nh_die("%d works in one batch", count);
    for (int i = 0; i < count; i++) {
        struct transfer send, receive;
        int sends = plan(block, works[i], 1, &send), receives = plan(block, works[i], 0, &receive);

        if (sends && receives && send.peer == rank) { /* to itself */
            memmove(receive.address, send.address, send.bytes);
            continue;
        }
        if (sends)
            *next++ = send;
        if (receives)
            *next++ = receive;
    }
    for (struct transfer *transfer = transfers; transfer < next; transfer++)
        if (pthread_create(&transfer->thread, NULL, run_transfer, transfer))
            nh_die("no thread for a transfer");
    for (struct transfer *transfer = transfers; transfer < next; transfer++)
        pthread_join(transfer->thread, NULL);
}
