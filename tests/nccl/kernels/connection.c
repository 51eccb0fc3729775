/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/connection.h"

#include <sched.h>
#include <time.h>

#include "tests/nccl/kernels/function.h"

enum { SPINS_BEFORE_SLEEP = 200, SLEEP_NS = 20000, MODE_OFFSET = 1 };

int nh_is_aborted(const struct nh_block *block)
{
    const volatile uint32_t *flag = nh_pointer(block->comm, block->layout->comm_abort);

    return flag && *flag;
}

/* A GPU would spin; the threads of all ranks share a few cores here. */
void nh_relax(unsigned *spins)
{
    if (++*spins < SPINS_BEFORE_SLEEP)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = SLEEP_NS}, NULL);
}

struct nh_end nh_end_open(const struct nh_block *block, int peer, int is_sender, int index, int steps)
{
    char **peers = nh_pointer(block->channel, NH_CHANNEL_PEERS);
    struct nh_end end = {
        .block = block,
        .info = peers[peer] + ((is_sender ? 0 : 2) + index) * NH_CONN_BYTES,
        .is_sender = is_sender,
    };
    uint64_t step = nh_uint64_t(end.info, NH_CONN_STEP);

    end.step = (step + (uint64_t)steps - 1) / (uint64_t)steps * (uint64_t)steps;
    if (!is_sender) /* steps that were skipped are free */
        __atomic_store_n((uint64_t *)nh_pointer(end.info, NH_CONN_HEAD), end.step, __ATOMIC_RELEASE);
    return end;
}

void nh_end_close(struct nh_end *end)
{
    memcpy(end->info + NH_CONN_STEP, &end->step, sizeof end->step);
}

int nh_end_wait(struct nh_end *end, int steps)
{
    const uint64_t *counter = nh_pointer(end->info, end->is_sender ? NH_CONN_HEAD : NH_CONN_TAIL);
    uint64_t ahead = end->is_sender ? NH_SLOTS : 0;
    unsigned spins = 0;

    while (__atomic_load_n(counter, __ATOMIC_ACQUIRE) + ahead < end->step + (uint64_t)steps) {
        if (nh_is_aborted(end->block))
            return -1;
        nh_relax(&spins);
    }
    return 0;
}

/* ncclConnFifo of the current step, or NULL for a connection without a proxy. */
static char *fifo_of(const struct nh_end *end)
{
    char *fifo = nh_pointer(end->info, NH_CONN_FIFO);

    return fifo ? fifo + end->step % NH_SLOTS * (uint64_t)end->block->layout->fifo_bytes : NULL;
}

void nh_end_set_bytes(struct nh_end *end, size_t bytes)
{
    char *fifo = fifo_of(end);

    if (fifo)
        *(volatile int64_t *)(fifo + end->block->layout->fifo_size) = (int64_t)bytes;
}

char *nh_end_slot(const struct nh_end *end, int protocol)
{
    const struct nh_layout *layout = end->block->layout;
    char *buffer = nh_pointer(end->info, NH_CONN_BUFFERS + 8 * protocol), *fifo = fifo_of(end);
    uint64_t slot = end->step % NH_SLOTS;

    if (protocol != NH_SIMPLE)
        return buffer +
               slot * (uint64_t)(nh_int(end->block->comm, NH_COMM_BUFFER_BYTES + 4 * protocol) / NH_SLOTS);
    if (fifo && *(volatile int *)(fifo + NH_FIFO_MODE) == MODE_OFFSET)
        return buffer + (layout->fifo_offset == 8 ? (int64_t)nh_uint64_t(fifo, layout->fifo_offset)
                                                  : nh_int(fifo, layout->fifo_offset));
    return buffer + slot * (uint64_t)nh_int(end->info, NH_CONN_STEP_SIZE);
}

void nh_end_post(struct nh_end *end, int steps, int tells_tail)
{
    end->step += (uint64_t)steps;
    if (!end->is_sender || tells_tail)
        __atomic_store_n((uint64_t *)nh_pointer(end->info, end->is_sender ? NH_CONN_TAIL : NH_CONN_HEAD),
                         end->step, __ATOMIC_RELEASE);
}
