/* SPDX-License-Identifier: Apache-2.0 */
/* The LL128 protocol (chunk.h; NCCL's src/device/prims_ll128.h). */
#include <string.h>

#include "tests/nccl/kernels/chunk.h"

enum {
    LINE_WORDS = 16,
    DATA_WORDS = 15,
    DATA_BYTES = DATA_WORDS * 8,
    SLICE_LINES = 16,
    LINE_BYTES = LINE_WORDS * 8
};

/* The data of a line, whose flag has to have become visible after it. Returns -1 when aborted. */
static int read_line(const struct nh_block *block, const uint64_t *line, uint64_t flag, uint64_t *data)
{
    unsigned spins = 0;

    while (__atomic_load_n(&line[DATA_WORDS], __ATOMIC_ACQUIRE) != flag) {
        if (nh_is_aborted(block))
            return -1;
        nh_relax(&spins);
    }
    memcpy(data, line, DATA_BYTES);
    return 0;
}

static void write_line(uint64_t *line, const uint64_t *data, uint64_t flag)
{
    memcpy(line, data, DATA_BYTES);
    __atomic_store_n(&line[DATA_WORDS], flag, __ATOMIC_RELEASE);
}

/* One line: `bytes` of it are elements, possibly none. */
static int move_line(const struct nh_mover *mover, const struct nh_chunk *chunk, size_t line, size_t bytes,
                     const uint64_t *from, uint64_t *to)
{
    uint64_t own[DATA_WORDS] = {0}, received[DATA_WORDS], out[DATA_WORDS] = {0};

    if (chunk->source && bytes)
        memcpy(own, chunk->source + line * DATA_BYTES, bytes);
    if (from && read_line(mover->block, from + line * LINE_WORDS, chunk->receiver->step + 1, received))
        return -1;
    nh_combine(mover, chunk, out, chunk->source ? own : NULL, from ? received : NULL,
               bytes / nh_type_bytes(mover->reduction.type));
    if (to)
        write_line(to + line * LINE_WORDS, out, chunk->sender->step + 1);
    if (chunk->destination && bytes)
        memcpy(chunk->destination + line * DATA_BYTES, out, bytes);
    return 0;
}

/* Slices of 16 lines travel whole. */
int nh_move_ll128(const struct nh_mover *mover, const struct nh_chunk *chunk)
{
    size_t bytes = (size_t)chunk->count * nh_type_bytes(mover->reduction.type);
    size_t slice_bytes = SLICE_LINES * DATA_BYTES,
           lines = (bytes + slice_bytes - 1) / slice_bytes * SLICE_LINES;
    uint64_t *from = NULL, *to = NULL;

    if (chunk->sender) {
        if (nh_end_wait(chunk->sender, 1))
            return -1;
        nh_end_set_bytes(chunk->sender, lines * LINE_BYTES);
        to = (uint64_t *)nh_end_slot(chunk->sender, NH_LL128);
    }
    if (chunk->receiver)
        from = (uint64_t *)nh_end_slot(chunk->receiver, NH_LL128);
    for (size_t i = 0; i < lines; i++) {
        size_t at = i * DATA_BYTES, rest = at < bytes ? bytes - at : 0;

        if (move_line(mover, chunk, i, rest < DATA_BYTES ? rest : DATA_BYTES, from, to))
            return -1;
    }
    if (chunk->receiver)
        nh_end_post(chunk->receiver, 1, 0);
    if (chunk->sender)
        nh_end_post(chunk->sender, 1, 1);
    return 0;
}
