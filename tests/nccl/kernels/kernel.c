/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/kernel.h"

#include <pthread.h>
#include <string.h>

#include "tests/nccl/kernels/ring.h"
#include "tests/nccl/kernels/sendrecv.h"
#include "tests/nccl/runtime/log.h"
#include "tests/nccl/seam/seam.h"

enum { CHANNELS_MAX = 64, WORKS_MAX = 256, WORK_P2P = 0, WORK_COLLECTIVE = 1, STORAGE_ARGUMENTS = 0 };

static const struct nh_layout *layout;
static const int *function_table;
static size_t function_rows;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The row of this NCCL; its table of functions has to have the size that the row computes. */
static void choose_layout(void)
{
    int version = nh_nccl_version();
    size_t bytes = 0;

    layout = nh_layout_of(version);
    if (!layout)
        nh_die("NCCL %d has no row in kernels/layout.c: its kernels are not run (docs/nccl.md, \"A new "
               "release\")",
               version);
    function_table = nh_symbol_address("ncclDevFuncRowToId", &bytes);
    function_rows = bytes / sizeof *function_table;
    if (function_rows != nh_function_rows(layout))
        nh_die("NCCL %d: ncclDevFuncRowToId has %zu entries, the row in kernels/layout.c computes %zu",
               version, function_rows, nh_function_rows(layout));
}

/* A batch and those that extend it. */
struct batch {
    char *works[WORKS_MAX];
    int count, type, function_id;
    int next; /* the index of the next batch, -1: none */
};

static char *work_at(const struct nh_block *block, uint32_t offset)
{
    char *ring = nh_pointer(block->arguments, NH_ARGS_WORK_BUFFER);

    if (nh_byte(block->arguments, NH_ARGS_STORAGE) == STORAGE_ARGUMENTS)
        return (char *)block->arguments + offset;
    return ring + (offset & nh_uint32_t(block->arguments, NH_ARGS_WORK_MASK));
}

static int work_bytes(int type)
{
    switch (type) {
    case WORK_P2P:
        return NH_P2P_BYTES;
    case WORK_COLLECTIVE:
        return layout->coll_bytes;
    default:
        nh_die("work of type %d (registered buffers, broadcast lists) is not run here", type);
    }
}

static void load_batch(const struct nh_block *block, int index, struct batch *batch)
{
    const char *batches = block->arguments + NH_ARGS_BYTES;

    *batch = (struct batch){.next = -1};
    for (;;) {
        const char *entry = batches + index * NH_BATCH_BYTES;
        uint32_t flags = nh_uint32_t(entry, NH_BATCH_FLAGS), offset = nh_uint32_t(entry, NH_BATCH_OFFSET);
        uint64_t set = nh_uint64_t(entry, NH_BATCH_SET);
        int jump = flags & 0x3fff, extends = flags >> 14 & 1;

        batch->type = flags >> 15 & 3;
        batch->function_id = flags >> 17 & ((1 << layout->func_bits) - 1);
        for (int i = 0; i < 64 && batch->count < WORKS_MAX; i++)
            if (set >> i & 1)
                batch->works[batch->count++] =
                    work_at(block, offset + (uint32_t)(i * work_bytes(batch->type)));
        if (!extends) {
            batch->next = jump ? index + jump : -1;
            return;
        }
        index += jump;
    }
}

static void run_batch(const struct nh_block *block, const struct batch *batch)
{
    struct nh_function function;

    if (batch->type == WORK_P2P) {
        nh_run_send_receive(block, batch->works, batch->count);
        return;
    }
    function = nh_function_of(layout, function_table, function_rows, batch->function_id);
    for (int i = 0; i < batch->count; i++)
        if (nh_run_ring(block, batch->works[i], &function))
            return;
}

struct running_block {
    struct nh_block block;
    int first_batch;
    pthread_t thread;
};

static void *run_block(void *argument)
{
    struct running_block *running = argument;
    const struct nh_block *block = &running->block;
    uint64_t works = 0;
    struct batch batch = {.next = running->first_batch};

    while (batch.next >= 0 && !nh_is_aborted(block)) {
        load_batch(block, batch.next, &batch);
        run_batch(block, &batch);
        works += (uint64_t)batch.count;
    }
    if (layout->channel_counter >= 0) {
        works += nh_uint64_t(block->channel, layout->channel_counter);
        memcpy(block->channel + layout->channel_counter, &works, sizeof works);
    }
    return NULL;
}

void nh_run_kernel(const char *name, const void *arguments, size_t bytes, unsigned blocks)
{
    struct running_block running[CHANNELS_MAX];
    char *comm = nh_pointer(arguments, NH_ARGS_COMM);
    uint64_t mask;
    int count = 0;

    pthread_once(&once, choose_layout);
    nh_log(1, "%s, %u blocks, %zu bytes of arguments", name, blocks, bytes);
    if (!strstr(name, "ncclDevKernel"))
        nh_die("the kernel %s is not run here", name);
    mask = nh_uint64_t(arguments, NH_ARGS_CHANNEL_MASK);
    for (int i = 0; i < CHANNELS_MAX; i++)
        if (mask >> i & 1) {
            running[count] = (struct running_block){
                .block = {.layout = layout,
                          .arguments = arguments,
                          .comm = comm,
                          .channel = comm + layout->comm_channels + i * layout->channel_bytes,
                          .channel_index = i},
                .first_batch = count,
            };
            count++;
        }
    for (int i = 0; i < count; i++)
        if (pthread_create(&running[i].thread, NULL, run_block, &running[i]))
            nh_die("no thread for a block");
    for (int i = 0; i < count; i++)
        pthread_join(running[i].thread, NULL);
}
