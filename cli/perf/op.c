/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/perf/pattern.h"

const struct dt_perf_op *const dt_perf_ops[] = {
    &dt_perf_op_all_reduce, &dt_perf_op_all_gather, &dt_perf_op_reduce_scatter, &dt_perf_op_broadcast,
    &dt_perf_op_alltoall,   &dt_perf_op_sendrecv,   &dt_perf_op_latency,        NULL,
};

enum {
    CHANNEL_ALIGN = 128,
    SLICE_ALIGN_ELEMENTS = 16,
    SLICES_PER_SLOT_MAX = 32 /* a slice of a chunk is not shorter than this part of the largest one */
};

const struct dt_perf_op *dt_perf_op_find(const char *name)
{
    for (size_t i = 0; dt_perf_ops[i]; i++) {
        if (!strcmp(dt_perf_ops[i]->name, name))
            return dt_perf_ops[i];
    }
    return NULL;
}

void dt_perf_actions_add(struct dt_perf_actions *actions, struct dt_perf_action action)
{
    if (actions->failed)
        return;
    if (actions->count == actions->capacity) {
        size_t capacity = actions->capacity ? actions->capacity * 2 : 16;
        void *items = realloc(actions->items, capacity * sizeof action);

        if (!items) {
            actions->failed = true;
            return;
        }
        actions->items = items;
        actions->capacity = capacity;
    }
    actions->items[actions->count++] = action;
}

void dt_perf_actions_free(struct dt_perf_actions *actions)
{
    free(actions->items);
    memset(actions, 0, sizeof *actions);
}

void dt_perf_op_fill(const struct dt_perf_op *op, const struct dt_perf_type *type, unsigned rank,
                     uint64_t iteration, size_t offset, size_t bytes, void *data)
{
    uint64_t stream = dt_perf_stream(rank, iteration);

    if (op->reduces)
        type->fill(data, bytes / type->bytes, stream, offset / type->bytes);
    else
        dt_perf_pattern_fill(data, bytes, stream, offset);
}

void dt_perf_op_expect_sum(const struct dt_perf_op *op, const struct dt_perf_shape *shape, uint64_t iteration,
                           size_t offset, size_t bytes, void *expected)
{
    uint64_t values[512]; /* aligned for every type */
    char *out = expected;

    for (size_t done = 0; done < bytes;) {
        size_t part = dt_min_u64(sizeof values, bytes - done);

        dt_perf_op_fill(op, shape->type, 0, iteration, offset + done, part, out + done);
        for (unsigned rank = 1; rank < shape->ranks; rank++) {
            dt_perf_op_fill(op, shape->type, rank, iteration, offset + done, part, values);
            shape->type->reduce[shape->redop](out + done, out + done, values, part / shape->type->bytes);
        }
        done += part;
    }
}

size_t dt_perf_op_count(const struct dt_perf_op *op, const struct dt_perf_type *type, unsigned ranks,
                        uint64_t bytes)
{
    return bytes / type->bytes / (op->has_shares ? ranks : 1);
}

size_t dt_perf_channel_part(const struct dt_perf_shape *shape, size_t count, size_t *first)
{
    size_t align = CHANNEL_ALIGN / shape->type->bytes;
    size_t used = count * shape->type->bytes / shape->channel_bytes_min;

    used = dt_max_u64(1, dt_min_u64(used, shape->channels));
    size_t part = dt_align_up((count + used - 1) / used, align);
    *first = dt_min_u64(count, part * shape->channel);
    return dt_min_u64(part, count - *first);
}

size_t dt_perf_slice_of(const struct dt_perf_shape *shape, size_t bytes, size_t left)
{
    size_t align = SLICE_ALIGN_ELEMENTS * shape->type->bytes;
    size_t even = dt_align_up((bytes + shape->slices - 1) / shape->slices, align);

    return dt_min_u64(left, dt_max_u64(even, shape->slice_bytes / SLICES_PER_SLOT_MAX));
}

static void add_chunk(const struct dt_perf_shape *shape, unsigned h, size_t offset, size_t bytes,
                      dt_perf_slice_func *add_slice, struct dt_perf_actions *actions)
{
    size_t done = 0;

    for (unsigned i = 0; i < shape->slices; i++) {
        size_t slice = dt_perf_slice_of(shape, bytes, bytes - done);

        add_slice(shape, h, offset + done, slice, actions);
        done += slice;
    }
}

void dt_perf_plan_slices(const struct dt_perf_shape *shape, unsigned hops, dt_perf_slice_func *add_slice,
                         struct dt_perf_actions *actions)
{
    size_t first;
    size_t count = dt_perf_channel_part(shape, shape->count, &first);
    size_t begin = first * shape->type->bytes, end = begin + count * shape->type->bytes;

    size_t chunk_max = shape->slice_bytes * shape->slices;

    for (size_t at = begin; at < end; at += chunk_max) {
        size_t chunk = dt_min_u64(chunk_max, end - at);

        for (unsigned h = 0; h < hops; h++)
            add_chunk(shape, h, at, chunk, add_slice, actions);
    }
}

unsigned dt_perf_one(unsigned ranks)
{
    (void)ranks;
    return 1;
}

double dt_perf_bus_factor_one(unsigned ranks)
{
    (void)ranks;
    return 1;
}

double dt_perf_bus_factor_others(unsigned ranks)
{
    return (double)(ranks - 1) / ranks;
}

void dt_perf_layout_same(const struct dt_perf_shape *shape, struct dt_perf_layout *layout)
{
    layout->input_bytes = shape->count * shape->type->bytes;
    layout->output_bytes = layout->input_bytes;
    layout->in_place_offset = 0;
}

struct dt_perf_ends dt_perf_ends_ring(unsigned program)
{
    (void)program;
    return (struct dt_perf_ends){.send_distance = 1, .receive_distance = 1};
}
