/* SPDX-License-Identifier: Apache-2.0 */
/* The LL protocol (chunk.h; NCCL's src/device/prims_ll.h). */
#include <string.h>

#include "tests/nccl/kernels/chunk.h"

enum { LINE_BYTES = 16, DATA_BYTES = 8 };

/* In these steps of every 2^31 the whole slot is written, so that no flag of the previous round is left in
 * it. */
static const uint64_t clean_mask = 0x7ffffff8;

static int is_cleaning(uint64_t step)
{
    return (step & clean_mask) == clean_mask;
}

static uint64_t half_of(uint32_t data, uint32_t flag)
{
    return (uint64_t)flag << 32 | data;
}

static void write_line(uint64_t *line, uint64_t data, uint32_t flag)
{
    __atomic_store_n(&line[0], half_of((uint32_t)data, flag), __ATOMIC_RELEASE);
    __atomic_store_n(&line[1], half_of((uint32_t)(data >> 32), flag), __ATOMIC_RELEASE);
}

/* Waits for both flags. Returns -1 when aborted. */
static int read_line(const struct nh_block *block, const uint64_t *line, uint32_t flag, uint64_t *data)
{
    unsigned spins = 0;

    for (;;) {
        uint64_t low = __atomic_load_n(&line[0], __ATOMIC_ACQUIRE);
        uint64_t high = __atomic_load_n(&line[1], __ATOMIC_ACQUIRE);

        if (low >> 32 == flag && high >> 32 == flag) {
            *data = (uint32_t)low | high << 32;
            return 0;
        }
        if (nh_is_aborted(block))
            return -1;
        nh_relax(&spins);
    }
}

/* One line: `bytes` of it are elements. */
static int move_line(const struct nh_mover *mover, const struct nh_chunk *chunk, size_t line, size_t bytes,
                     const uint64_t *from, uint64_t *to)
{
    size_t count = bytes / nh_type_bytes(mover->reduction.type);
    uint64_t own = 0, received = 0, out = 0;

    if (chunk->source)
        memcpy(&own, chunk->source + line * DATA_BYTES, bytes);
    if (from && read_line(mover->block, from + 2 * line, (uint32_t)chunk->receiver->step + 1, &received))
        return -1;
    nh_combine(mover, chunk, &out, chunk->source ? &own : NULL, from ? &received : NULL, count);
    if (to)
        write_line(to + 2 * line, out, (uint32_t)chunk->sender->step + 1);
    if (chunk->destination)
        memcpy(chunk->destination + line * DATA_BYTES, &out, bytes);
    return 0;
}

int nh_move_ll(const struct nh_mover *mover, const struct nh_chunk *chunk)
{
    size_t bytes = (size_t)chunk->count * nh_type_bytes(mover->reduction.type);
    size_t lines = (bytes + DATA_BYTES - 1) / DATA_BYTES;
    size_t slot_lines = (size_t)nh_int(mover->block->comm, NH_COMM_BUFFER_BYTES) / NH_SLOTS / LINE_BYTES;
    uint64_t *from = NULL, *to = NULL;
    int cleans = 0;

    if (chunk->sender) {
        if (nh_end_wait(chunk->sender, 1))
            return -1;
        cleans = is_cleaning(chunk->sender->step);
        nh_end_set_bytes(chunk->sender, (cleans ? slot_lines : lines) * LINE_BYTES);
        to = (uint64_t *)nh_end_slot(chunk->sender, NH_LL);
    }
    if (chunk->receiver)
        from = (uint64_t *)nh_end_slot(chunk->receiver, NH_LL);
    for (size_t i = 0; i < lines; i++) {
        size_t rest = bytes - i * DATA_BYTES;

        if (move_line(mover, chunk, i, rest < DATA_BYTES ? rest : DATA_BYTES, from, to))
            return -1;
    }
    for (size_t i = lines; cleans && i < slot_lines; i++)
        write_line(to + 2 * i, 0, (uint32_t)chunk->sender->step + 1);
    if (chunk->receiver)
        nh_end_post(chunk->receiver, 1, 0);
    if (chunk->sender)
        nh_end_post(chunk->sender, 1, 0);
    return 0;
}
