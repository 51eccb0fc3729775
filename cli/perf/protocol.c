/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/protocol.h"

#include <string.h>

#include "base/util.h"

enum {
    STEP_BYTES = 512 * 1024,     /* Simple, collectives: a slot of NCCL */
    P2P_STEP_BYTES = 128 * 1024, /* send and receive */
    LINE_DATA_BYTES = 8,
    WORDS_PER_LINE = 4,
    /* An operation uses a further channel for this number of bytes: NCCL's threads times bytes per thread. */
    SIMPLE_CHANNEL_BYTES = 32 * 1024,
    LL_CHANNEL_BYTES_PER_RANK = 4 * 1024
};

enum dt_perf_protocol dt_perf_protocol_find(const char *name)
{
    static const char *const names[] = {"auto", "simple", "ll"};
    int found = 0;

    while (found < DT_PERF_PROTOCOL_COUNT && strcmp(name, names[found]))
        found++;
    return (enum dt_perf_protocol)found;
}

static bool chooses_ll(const struct dt_perf_shape *shape, const struct dt_perf_op *op,
                       enum dt_perf_protocol wanted)
{
    uint64_t bytes = (uint64_t)shape->count * shape->type->bytes * (op->has_shares ? shape->ranks : 1);

    if (wanted != DT_PERF_AUTO)
        return wanted == DT_PERF_LL;
    return bytes <= op->ll_bytes + (uint64_t)op->ll_bytes_per_rank * shape->ranks;
}

/* NCCL tunes the chunks of send and receive to the size of the transfer (addP2pToPlan). */
static size_t p2p_message_bytes(size_t transfer_bytes)
{
    if (transfer_bytes < P2P_STEP_BYTES)
        return P2P_STEP_BYTES / 4;
    return transfer_bytes < 8 * (size_t)P2P_STEP_BYTES ? P2P_STEP_BYTES / 2 : P2P_STEP_BYTES;
}

void dt_perf_protocol_set(struct dt_perf_shape *shape, const struct dt_perf_op *op,
                          enum dt_perf_protocol wanted)
{
    unsigned shares = op->has_shares ? shape->ranks : 1;

    shape->protocol = DT_PERF_SIMPLE;
    shape->slices = op->slices;
    shape->step_bytes = op->is_p2p ? P2P_STEP_BYTES : STEP_BYTES;
    shape->slice_steps = op->slices;
    shape->slice_bytes = shape->step_bytes * shape->slice_steps;
    shape->channel_bytes_min = SIMPLE_CHANNEL_BYTES / (op->is_p2p ? 1 : shares);
    if (op->is_p2p && !op->is_whole) {
        shape->slice_bytes = p2p_message_bytes(shape->count * shape->type->bytes);
    } else if (!op->is_p2p && chooses_ll(shape, op, wanted)) {
        shape->protocol = DT_PERF_LL;
        shape->slices = shape->slice_steps = 1;
        shape->slice_bytes = DT_PERF_LL_DATA_BYTES;
        shape->channel_bytes_min = (size_t)LL_CHANNEL_BYTES_PER_RANK * shape->ranks / shares;
    }
}

size_t dt_perf_message_bytes(const struct dt_perf_shape *shape, size_t data_bytes)
{
    return shape->protocol == DT_PERF_LL ? 2 * dt_align_up(data_bytes, LINE_DATA_BYTES) : data_bytes;
}

size_t dt_perf_slot_bytes(const struct dt_perf_shape *shape)
{
    return shape->protocol == DT_PERF_LL ? 2 * (size_t)DT_PERF_LL_DATA_BYTES
                                         : shape->step_bytes * shape->slice_steps;
}

unsigned dt_perf_slot_count(const struct dt_perf_shape *shape)
{
    return DT_PERF_STEPS / shape->slice_steps;
}

void dt_perf_ll_write(void *lines, const void *data, size_t data_bytes, uint32_t flag)
{
    char *out = lines;

    for (size_t at = 0; at < data_bytes; at += LINE_DATA_BYTES, out += 2 * LINE_DATA_BYTES) {
        uint32_t words[2] = {0}, line[WORDS_PER_LINE];

        memcpy(words, (const char *)data + at, dt_min_u64(LINE_DATA_BYTES, data_bytes - at));
        line[0] = words[0];
        line[2] = words[1];
        line[1] = line[3] = flag;
        memcpy(out, line, sizeof line);
    }
}

size_t dt_perf_ll_read(void *data, const void *lines, size_t data_bytes, uint32_t flag)
{
    const char *in = lines;
    size_t wrong = 0;

    for (size_t at = 0; at < data_bytes; at += LINE_DATA_BYTES, in += 2 * LINE_DATA_BYTES) {
        uint32_t line[WORDS_PER_LINE];

        memcpy(line, in, sizeof line);
        wrong += (line[1] != flag) + (size_t)(line[3] != flag);
        memcpy((char *)data + at, (uint32_t[]){line[0], line[2]},
               dt_min_u64(LINE_DATA_BYTES, data_bytes - at));
    }
    return wrong;
}
