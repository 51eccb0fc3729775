/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/chunk.h"

#include <string.h>

int nh_move(const struct nh_mover *mover, const struct nh_chunk *chunk)
{
    struct nh_chunk whole = *chunk;

    if (whole.count < 0)
        whole.count = 0;
    switch (mover->protocol) {
    case NH_LL:
        return nh_move_ll(mover, &whole);
    case NH_LL128:
        return nh_move_ll128(mover, &whole);
    default:
        return nh_move_simple(mover, &whole);
    }
}

void nh_combine(const struct nh_mover *mover, const struct nh_chunk *chunk, void *out, const void *source,
                const void *received, size_t count)
{
    const struct nh_reduction *reduction = &mover->reduction;

    if (source && received && reduction->operation == NH_PRE_MUL_SUM) {
        char scaled[2048]; /* `out` may be what is received */
        size_t bytes = nh_type_bytes(reduction->type), at_most = sizeof scaled / bytes;

        for (size_t at = 0, n; at < count; at += n) {
            n = count - at < at_most ? count - at : at_most;
            nh_reduce_before(reduction, scaled, (const char *)source + at * bytes, n);
            nh_reduce(reduction, (char *)out + at * bytes, (const char *)received + at * bytes, scaled, n);
        }
    } else if (source && received) {
        nh_reduce(reduction, out, received, source, count);
    } else if (source) {
        nh_reduce_before(reduction, out, source, count);
    } else if (out != received) {
        memmove(out, received, count * nh_type_bytes(reduction->type));
    }
    if (chunk->is_last)
        nh_reduce_after(reduction, out, count);
}

/* The slice of the Simple protocol: whole 16 elements, and not less than 1/32 of what fits. */
static ssize_t slice_elements(const struct nh_mover *mover, ssize_t count)
{
    ssize_t even = (count + 16 * mover->slices - 1) / (16 * mover->slices) * 16;
    ssize_t least = mover->step_elements * mover->steps / 32;

    return even > least ? even : least;
}

static void move_slice(const struct nh_mover *mover, const struct nh_chunk *chunk, ssize_t at, ssize_t count)
{
    size_t bytes = nh_type_bytes(mover->reduction.type), offset = (size_t)at * bytes;
    const char *source = chunk->source ? chunk->source + offset : NULL;
    const char *received = chunk->receiver ? nh_end_slot(chunk->receiver, NH_SIMPLE) : NULL;
    char *destination = chunk->destination ? chunk->destination + offset : NULL;
    char *sent = chunk->sender ? nh_end_slot(chunk->sender, NH_SIMPLE) : NULL;
    char *first = destination ? destination : sent;

    nh_combine(mover, chunk, first, source, received, (size_t)count);
    if (sent && first != sent)
        memcpy(sent, first, (size_t)count * bytes);
}

int nh_move_simple(const struct nh_mover *mover, const struct nh_chunk *chunk)
{
    size_t bytes = nh_type_bytes(mover->reduction.type);
    ssize_t slice = slice_elements(mover, chunk->count), at = 0;

    for (int i = 0; i < mover->slices; i++) {
        ssize_t count = slice < chunk->count - at ? slice : chunk->count - at;

        if (chunk->receiver && nh_end_wait(chunk->receiver, mover->steps))
            return -1;
        if (chunk->sender) {
            if (nh_end_wait(chunk->sender, mover->steps))
                return -1;
            nh_end_set_bytes(chunk->sender, (size_t)count * bytes);
        }
        if (count)
            move_slice(mover, chunk, at, count);
        if (chunk->sender)
            nh_end_post(chunk->sender, mover->steps, 1);
        if (chunk->receiver)
            nh_end_post(chunk->receiver, mover->steps, 1);
        at += count;
    }
    return 0;
}
