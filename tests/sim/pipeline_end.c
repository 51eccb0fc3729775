/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/pipeline_end.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/util.h"
#include "hostpath/cuda_table.h"
#include "tests/sim/cuda_sim.h"

#define BUFFERS 32 /* as many requests as NCCL has (NCCL_NET_MAX_REQUESTS) */
#define TAG     0

/* The legal order of a transfer's states; a send skips those in the middle, a receive one of them. */
enum state {
    QUEUED,
    READY,    /* has a buffer; a send's is filled */
    POSTED,   /* isend or irecv was accepted */
    FLUSHING, /* received into GPU memory: what the RNIC wrote becomes visible to the GPU */
    COPYING   /* received into host memory: on its way to the GPU */
};

struct transfer {
    struct dt_executor_order order;
    enum state state;
    bool is_spoiled;
    uint32_t buffer;
    void *request;
    uint32_t copy; /* COPYING: the value that `flag` gets with the end of the copy */
};

struct dt_pipeline_end {
    struct dt_pipeline_end_options o;
    const ncclNet_v8_t *net;
    uint64_t buffer_bytes; /* distance between two */
    uint8_t *memory;       /* BUFFERS of them: the GPU's, or the host's if is_on_host */
    uint8_t *gpu_memory;   /* is_on_host: where the copies go */
    void *mhandle;
    uint32_t free[BUFFERS];
    uint32_t free_count;
    struct transfer *queue; /* a ring of `size`, a power of two; [first, first + count) are in use */
    uint64_t first, count, size;
    uint64_t unposted; /* of these, the last ones */
    struct dt_cuda_table cuda;
    void *stream;
    uint32_t flag; /* [atomic] the last copy that has ended */
    uint32_t copies;
};

/* ---- life ---- */

static uint8_t *map(uint64_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

static bool open_copies(struct dt_pipeline_end *end, uint64_t bytes)
{
    char reason[64];

    if (!end->o.is_on_host)
        return true;
    end->gpu_memory = map(bytes);
    if (!end->gpu_memory)
        return false;
    dt_cuda_sim_claim(end->gpu_memory, bytes);
    return dt_cuda_table_load("", &end->cuda, reason, sizeof reason) == DT_OK &&
           end->cuda.stream_create(&end->stream, 0) == DT_CUDA_SUCCESS;
}

static bool open_memory(struct dt_pipeline_end *end)
{
    uint64_t bytes = BUFFERS * end->buffer_bytes;

    end->memory = map(bytes);
    if (!end->memory)
        return false;
    if (!end->o.is_on_host)
        dt_cuda_sim_claim(end->memory, bytes);
    dt_cluster_enter(end->o.cluster, end->o.host);
    return open_copies(end, bytes) &&
           end->net->regMr(end->o.comm, end->memory, bytes, end->o.is_on_host ? NCCL_PTR_HOST : NCCL_PTR_CUDA,
                           &end->mhandle) == ncclSuccess;
}

struct dt_pipeline_end *dt_pipeline_end_create(const struct dt_pipeline_end_options *options)
{
    struct dt_pipeline_end *end = calloc(1, sizeof *end);

    if (!end)
        return NULL;
    end->o = *options;
    end->net = dt_cluster_net(options->cluster);
    end->buffer_bytes = dt_align_up(options->message_bytes, DT_PIPELINE_STAMP_EVERY);
    for (uint32_t i = 0; i < BUFFERS; i++)
        end->free[end->free_count++] = BUFFERS - 1 - i;
    if (open_memory(end))
        return end;
    dt_pipeline_end_destroy(end);
    return NULL;
}

void dt_pipeline_end_destroy(struct dt_pipeline_end *end)
{
    if (!end)
        return;
    dt_cluster_enter(end->o.cluster, end->o.host);
    if (end->mhandle)
        end->net->deregMr(end->o.comm, end->mhandle);
    if (end->stream)
        end->cuda.stream_destroy(end->stream);
    if (end->memory)
        munmap(end->memory, BUFFERS * end->buffer_bytes);
    if (end->gpu_memory)
        munmap(end->gpu_memory, BUFFERS * end->buffer_bytes);
    free(end->queue);
    free(end);
}

/* ---- the queue ---- */

static struct transfer *at(const struct dt_pipeline_end *end, uint64_t index)
{
    DT_CHECK(index < end->count);
    return &end->queue[(end->first + index) % end->size];
}

static bool grow(struct dt_pipeline_end *end)
{
    uint64_t size = end->size ? 2 * end->size : 64;
    struct transfer *queue = calloc(size, sizeof *queue);

    if (!queue)
        return false;
    for (uint64_t i = 0; i < end->count; i++)
        queue[i] = *at(end, i);
    free(end->queue);
    end->queue = queue;
    end->first = 0;
    end->size = size;
    return true;
}

const char *dt_pipeline_end_add(struct dt_pipeline_end *end, const struct dt_executor_order *order,
                                bool is_spoiled)
{
    if (end->count == end->size && !grow(end))
        return "out of memory";
    end->count++;
    end->unposted++;
    *at(end, end->count - 1) = (struct transfer){.order = *order, .state = QUEUED, .is_spoiled = is_spoiled};
    return NULL;
}

/* ---- content ---- */

static struct dt_pipeline_identity identity_at(const struct dt_pipeline_end *end,
                                               const struct dt_executor_order *order, uint64_t offset)
{
    struct dt_pipeline_identity identity = order->identity;

    identity.slice |= (uint32_t)(offset / end->o.stamp_bytes) << 16;
    return identity;
}

static uint64_t stamp_bytes(const struct dt_executor_order *order, uint64_t offset)
{
    return dt_min_u64(DT_SIM_STAMP_BYTES, order->bytes - offset);
}

static void write_stamps(const struct dt_pipeline_end *end, uint8_t *data,
                         const struct dt_executor_order *order, bool is_spoiled)
{
    uint64_t last = (order->bytes - 1) / end->o.stamp_bytes * end->o.stamp_bytes;

    for (uint64_t offset = 0; offset < order->bytes; offset += end->o.stamp_bytes) {
        struct dt_pipeline_identity identity = identity_at(end, order, offset);

        dt_pipeline_payload_fill(data + offset, stamp_bytes(order, offset), &identity);
    }
    data[last + stamp_bytes(order, last) - 1] ^= is_spoiled;
}

static bool has_stamps(const struct dt_pipeline_end *end, const uint8_t *data,
                       const struct dt_executor_order *order)
{
    for (uint64_t offset = 0; offset < order->bytes; offset += end->o.stamp_bytes) {
        struct dt_pipeline_identity identity = identity_at(end, order, offset);
        uint64_t bytes = stamp_bytes(order, offset);

        if (dt_pipeline_payload_check(data + offset, bytes, &identity) != bytes)
            return false;
    }
    return true;
}

/* ---- calls ---- */

static uint8_t *data_of(const struct dt_pipeline_end *end, const struct transfer *t)
{
    return end->memory + t->buffer * end->buffer_bytes;
}

static uint8_t *gpu_data_of(const struct dt_pipeline_end *end, const struct transfer *t)
{
    return (end->o.is_on_host ? end->gpu_memory : end->memory) + t->buffer * end->buffer_bytes;
}

static ncclResult_t call_post(struct dt_pipeline_end *end, struct transfer *t)
{
    int bytes = (int)t->order.bytes, tag = TAG;
    void *data = data_of(end, t);

    if (!end->o.sends)
        return end->net->irecv(end->o.comm, 1, &data, &bytes, &tag, &end->mhandle, &t->request);
    return end->net->isend(end->o.comm, data, bytes, TAG, end->mhandle, &t->request);
}

static void fill(struct dt_pipeline_end *end, const struct transfer *t)
{
    if (!end->o.gradients) {
        write_stamps(end, data_of(end, t), &t->order, t->is_spoiled);
        return;
    }
    dt_gradients_pack(end->o.gradients, &t->order, data_of(end, t));
    data_of(end, t)[0] ^= t->is_spoiled;
}

static bool make_ready(struct dt_pipeline_end *end, struct transfer *t)
{
    if (t->state == READY)
        return true;
    if (!end->free_count)
        return false;
    t->buffer = end->free[--end->free_count];
    t->state = READY;
    if (end->o.sends)
        fill(end, t);
    return true;
}

/* Posts in order as long as there are buffers and the plugin takes them. */
static const char *post(struct dt_pipeline_end *end, uint32_t *posted)
{
    while (end->unposted) {
        struct transfer *t = at(end, end->count - end->unposted);

        if (!make_ready(end, t))
            return NULL;
        if (call_post(end, t) != ncclSuccess)
            return end->o.sends ? "isend failed" : "irecv failed";
        if (!t->request)
            return NULL;
        t->state = POSTED;
        end->unposted--;
        ++*posted;
    }
    return NULL;
}

/* The message is in the buffer: makes it visible to the GPU. False: the plugin or the driver failed. */
static bool begin_arrival(struct dt_pipeline_end *end, struct transfer *t)
{
    int bytes = (int)t->order.bytes;
    void *data = data_of(end, t);

    if (end->o.is_on_host) {
        t->state = COPYING;
        t->copy = ++end->copies;
        return end->cuda.memcpy_htod_async((uintptr_t)gpu_data_of(end, t), data, t->order.bytes,
                                           end->stream) == DT_CUDA_SUCCESS &&
               end->cuda.stream_write_value32(end->stream, (uintptr_t)&end->flag, t->copy, 0) ==
                   DT_CUDA_SUCCESS;
    }
    t->state = FLUSHING;
    t->request = NULL;
    return end->net->iflush(end->o.comm, 1, &data, &bytes, &end->mhandle, &t->request) == ncclSuccess;
}

static bool test(struct dt_pipeline_end *end, struct transfer *t, bool *is_done)
{
    int done = 1, bytes = 0;

    if (t->request && end->net->test(t->request, &done, &bytes) != ncclSuccess)
        return false;
    DT_CHECK(!done || t->state != POSTED || bytes == (int)t->order.bytes);
    *is_done = done;
    return true;
}

/* One step of the oldest transfer. NULL, or what is wrong. *is_over: it is complete. */
static const char *step(struct dt_pipeline_end *end, struct transfer *t, bool *is_over)
{
    bool is_done = false;

    *is_over = false;
    if (t->state == COPYING) {
        *is_over = dt_load_acquire(&end->flag) == t->copy;
        return NULL;
    }
    if (!test(end, t, &is_done))
        return "test failed";
    if (!is_done)
        return NULL;
    *is_over = end->o.sends || t->state == FLUSHING;
    if (!*is_over && !begin_arrival(end, t))
        return "a message cannot be made visible to the GPU";
    return t->state == FLUSHING && !t->request ? step(end, t, is_over) : NULL;
}

static const char *complete_gradients(struct dt_pipeline_end *end, const struct transfer *t, uint64_t now_ns)
{
    if (end->o.sends)
        dt_gradients_sent(end->o.gradients, now_ns);
    else
        dt_gradients_received(end->o.gradients, &t->order, gpu_data_of(end, t), now_ns);
    return NULL;
}

static const char *complete(struct dt_pipeline_end *end, const struct transfer *t,
                            struct dt_executor *executor, uint64_t now_ns)
{
    const uint8_t *data = gpu_data_of(end, t);
    struct dt_pipeline_identity identity;

    if (end->o.gradients)
        return complete_gradients(end, t, now_ns);
    if (end->o.sends) {
        dt_executor_sent(executor, end->o.flow, now_ns);
        return NULL;
    }
    identity = dt_pipeline_payload_identity(data);
    if (!dt_executor_received(executor, end->o.flow, &identity, now_ns))
        return "a message is not the expected one";
    return has_stamps(end, data, &t->order) ? NULL : "a message has another content than was sent";
}

const char *dt_pipeline_end_progress(struct dt_pipeline_end *end, struct dt_executor *executor,
                                     uint64_t now_ns, uint32_t *posted, uint32_t *completed)
{
    const char *problem = post(end, posted);

    while (!problem && end->count > end->unposted) {
        struct transfer *t = at(end, 0);
        enum state before = t->state;
        bool is_over;

        problem = step(end, t, &is_over);
        if (problem || !is_over) {
            *posted += t->state != before; /* a copy or a flush has begun */
            break;
        }
        problem = complete(end, t, executor, now_ns);
        end->free[end->free_count++] = t->buffer;
        end->first = (end->first + 1) % end->size;
        end->count--;
        ++*completed;
    }
    return problem ? problem : post(end, posted);
}
