/* SPDX-License-Identifier: Apache-2.0 */
/* One direction of one GPU: a stream, and the detection of its progress. */
#include <stdlib.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "hostpath/cuda_private.h"

#define DEPTH      8u
#define LINE_BYTES 128u
#define FLAG_BYTES 8u /* the last word of a line, which LL128's readers poll */

/* The flag does not show errors: while it does not change, the stream is queried at this interval. */
#define CHECK_NS (1 * DT_NS_PER_MS)

struct cuda_lane {
    struct dt_copy_lane lane;
    struct dt_cuda_gpu *gpu;
    enum dt_cuda_direction direction;
    void *stream;
    uint32_t *flag;        /* pinned: ticket of the last chunk that arrived; NULL: `event` is used */
    uint64_t flag_address; /* in the GPU's address space */
    void *event[DT_COPY_DEPTH_MAX];
    uint64_t checked_ns;
    bool is_blind; /* work in flight has no completion mark: only the whole stream can be waited
                      for */
};

static struct cuda_lane *lane_of(struct dt_copy_lane *lane)
{
    return dt_container_of(lane, struct cuda_lane, lane);
}

static const char *direction_text(const struct cuda_lane *cl)
{
    return cl->direction == DT_CUDA_TO_HOST ? "from" : "to";
}

static void warn(const struct cuda_lane *cl, const char *what, int result)
{
    dt_warn("cuda-copy", "cuda: copying %s GPU %d: %s: %s", direction_text(cl), cl->gpu->ordinal, what,
            dt_cuda_text(cl->gpu->table, result));
}

/* ------------------------------------------------------------------------------------------------------------
 * Enqueueing a chunk
 */

/* Copies `width_bytes` at the same offset of `lines` lines. */
static int copy_columns(const struct cuda_lane *cl, uint64_t to, const uint8_t *from, size_t width_bytes,
                        size_t lines)
{
    struct dt_cuda_copy_2d copy = {
        .from_type = DT_CUDA_MEMORY_HOST,
        .from_host = from,
        .from_pitch = LINE_BYTES,
        .to_type = DT_CUDA_MEMORY_DEVICE,
        .to_device = to,
        .to_pitch = LINE_BYTES,
        .width_bytes = width_bytes,
        .height = lines,
    };

    if (lines == 0 || width_bytes == 0)
        return DT_CUDA_SUCCESS;
    return cl->gpu->table->memcpy_2d_async(&copy, cl->stream);
}

/*
 * The order of writes within a copy is unspecified, but the operations of a stream are ordered. So everything
 * except the last word of each line is copied first, then the last words. The first and the last line may be
 * partial.
 *
 * Counts the operations that were enqueued.
 */
static int copy_polled(const struct cuda_lane *cl, uint64_t to, const uint8_t *from, size_t bytes,
                       unsigned *enqueued)
{
    const size_t body = LINE_BYTES - FLAG_BYTES;
    size_t skew = to % LINE_BYTES;
    size_t head = skew ? dt_min_u64(LINE_BYTES - skew, bytes) : 0;
    bool has_head_flag = head > 0 && skew + head == LINE_BYTES;
    size_t head_flag = has_head_flag ? dt_min_u64(FLAG_BYTES, head) : 0;
    size_t lines = (bytes - head) / LINE_BYTES;
    size_t tail = bytes - head - lines * LINE_BYTES;
    const struct {
        size_t offset, width, lines;
    } step[] = {
        {0, head - head_flag, 1},         {head, body, lines},
        {bytes - tail, tail, 1},          {head - head_flag, head_flag, 1},
        {head + body, FLAG_BYTES, lines},
    };
    int result = DT_CUDA_SUCCESS;

    for (size_t i = 0; i < DT_COUNT_OF(step) && result == DT_CUDA_SUCCESS; i++) {
        result = copy_columns(cl, to + step[i].offset, from + step[i].offset, step[i].width, step[i].lines);
        *enqueued += result == DT_CUDA_SUCCESS && step[i].width > 0 && step[i].lines > 0;
    }
    return result;
}

static int enqueue(const struct cuda_lane *cl, void *to, const void *from, size_t bytes, uint32_t flags,
                   unsigned *enqueued)
{
    const struct dt_cuda_table *table = cl->gpu->table;
    int result;

    if (cl->direction == DT_CUDA_TO_GPU && flags & DT_COPY_POLLED)
        return copy_polled(cl, (uintptr_t)to, from, bytes, enqueued);
    result = cl->direction == DT_CUDA_TO_GPU
                 ? table->memcpy_htod_async((uintptr_t)to, from, bytes, cl->stream)
                 : table->memcpy_dtoh_async(to, (uintptr_t)from, bytes, cl->stream);
    *enqueued += result == DT_CUDA_SUCCESS;
    return result;
}

/* Enqueues the mark that all chunks before have arrived. */
static int mark(const struct cuda_lane *cl, uint32_t ticket)
{
    const struct dt_cuda_table *table = cl->gpu->table;

    return cl->flag ? table->stream_write_value32(cl->stream, cl->flag_address, ticket, 0)
                    : table->event_record(cl->event[ticket % DT_COPY_DEPTH_MAX], cl->stream);
}

static enum dt_status start(struct dt_copy_lane *lane, void *to, const void *from, size_t bytes,
                            uint32_t flags, uint32_t ticket)
{
    struct cuda_lane *cl = lane_of(lane);
    int mode, entered, result;
    unsigned enqueued = 0;

    if (cl->is_blind)
        return DT_AGAIN;
    entered = result = dt_cuda_enter(cl->gpu, &mode);
    if (entered == DT_CUDA_SUCCESS)
        result = enqueue(cl, to, from, bytes, flags, &enqueued);
    if (result == DT_CUDA_SUCCESS)
        result = mark(cl, ticket);
    dt_cuda_leave(cl->gpu, mode, entered);
    if (result == DT_CUDA_SUCCESS)
        return DT_OK;
    warn(cl, "the driver refused", result);
    cl->is_blind = enqueued > 0;
    return cl->is_blind ? DT_OK : DT_SYSTEM;
}

/* ------------------------------------------------------------------------------------------------------------
 * Progress
 */
static int query(const struct cuda_lane *cl, int (*call)(void *), void *object)
{
    int mode, entered = dt_cuda_enter(cl->gpu, &mode);
    int result = entered == DT_CUDA_SUCCESS ? call(object) : entered;

    dt_cuda_leave(cl->gpu, mode, entered);
    return result;
}

static enum dt_status poll_events(struct cuda_lane *cl, uint32_t *ticket)
{
    while (*ticket != cl->lane.started) {
        int result = query(cl, cl->gpu->table->event_query, cl->event[(*ticket + 1) % DT_COPY_DEPTH_MAX]);

        if (result == DT_CUDA_NOT_READY)
            return DT_OK;
        if (result != DT_CUDA_SUCCESS) {
            warn(cl, "the copy failed", result);
            return DT_SYSTEM;
        }
        ++*ticket;
    }
    return DT_OK;
}

static enum dt_status poll_flag(struct cuda_lane *cl, uint64_t now_ns, uint32_t *ticket)
{
    uint32_t seen = *ticket;
    int result;

    *ticket = dt_load_acquire(cl->flag);
    if (*ticket != seen || now_ns - cl->checked_ns < CHECK_NS) {
        cl->checked_ns = *ticket != seen ? now_ns : cl->checked_ns;
        return DT_OK;
    }
    cl->checked_ns = now_ns;
    result = query(cl, cl->gpu->table->stream_query, cl->stream);
    if (result == DT_CUDA_NOT_READY)
        return DT_OK;
    *ticket = dt_load_acquire(cl->flag);
    if (result == DT_CUDA_SUCCESS && *ticket == cl->lane.started)
        return DT_OK;
    warn(cl, result == DT_CUDA_SUCCESS ? "the stream came to its end without telling" : "the copy failed",
         result);
    return DT_SYSTEM;
}

static enum dt_status poll(struct dt_copy_lane *lane, uint64_t now_ns, uint32_t *ticket)
{
    struct cuda_lane *cl = lane_of(lane);

    if (cl->is_blind)
        return query(cl, cl->gpu->table->stream_query, cl->stream) == DT_CUDA_NOT_READY ? DT_OK : DT_SYSTEM;
    return cl->flag ? poll_flag(cl, now_ns, ticket) : poll_events(cl, ticket);
}

/* ------------------------------------------------------------------------------------------------------------
 * Opening and closing
 */

/* False: not supported by the driver or the GPU. */
static bool open_flag(struct cuda_lane *cl)
{
    const struct dt_cuda_table *table = cl->gpu->table;
    void *memory = NULL;

    if (!table->stream_write_value32 ||
        table->mem_host_alloc(&memory, sizeof *cl->flag,
                              DT_CUDA_HOST_ALLOC_PORTABLE | DT_CUDA_HOST_ALLOC_DEVICEMAP) != DT_CUDA_SUCCESS)
        return false;
    cl->flag = memory;
    *cl->flag = 0;
    if (table->mem_host_get_device_pointer(&cl->flag_address, memory, 0) == DT_CUDA_SUCCESS &&
        table->stream_write_value32(cl->stream, cl->flag_address, 0, 0) == DT_CUDA_SUCCESS)
        return true;
    table->mem_free_host(memory);
    cl->flag = NULL;
    return false;
}

static int open_events(struct cuda_lane *cl)
{
    int result = DT_CUDA_SUCCESS;

    for (uint32_t i = 0; i < DT_COPY_DEPTH_MAX && result == DT_CUDA_SUCCESS; i++)
        result = cl->gpu->table->event_create(&cl->event[i], DT_CUDA_EVENT_DISABLE_TIMING);
    return result;
}

static int open_stream(struct cuda_lane *cl)
{
    int mode, entered = dt_cuda_enter(cl->gpu, &mode), result = entered;

    if (entered == DT_CUDA_SUCCESS)
        result = cl->gpu->table->stream_create(&cl->stream, DT_CUDA_STREAM_NON_BLOCKING);
    if (result == DT_CUDA_SUCCESS && !open_flag(cl))
        result = open_events(cl);
    dt_cuda_leave(cl->gpu, mode, entered);
    return result;
}

/* Errors of the driver are ignored: there is no remedy. */
static void close_stream(struct cuda_lane *cl)
{
    const struct dt_cuda_table *table = cl->gpu->table;
    int mode, entered = dt_cuda_enter(cl->gpu, &mode);

    if (entered == DT_CUDA_SUCCESS) {
        if (cl->stream)
            table->stream_destroy(cl->stream);
        for (uint32_t i = 0; i < DT_COPY_DEPTH_MAX; i++) {
            if (cl->event[i])
                table->event_destroy(cl->event[i]);
        }
        if (cl->flag)
            table->mem_free_host(cl->flag);
    }
    dt_cuda_leave(cl->gpu, mode, entered);
}

enum dt_status dt_cuda_lane_open(struct dt_cuda_gpu *gpu, enum dt_cuda_direction direction,
                                 struct dt_copy_lane **lane)
{
    static const struct dt_copy_lane_ops ops = {start, poll};
    struct cuda_lane *cl = calloc(1, sizeof *cl);
    int result;

    if (!cl)
        return DT_NO_MEMORY;
    dt_copy_lane_init(&cl->lane, &ops, DEPTH);
    cl->gpu = gpu;
    cl->direction = direction;
    result = open_stream(cl);
    if (result == DT_CUDA_SUCCESS) {
        *lane = &cl->lane;
        return DT_OK;
    }
    warn(cl, "no stream", result);
    close_stream(cl);
    free(cl);
    return DT_SYSTEM;
}

void dt_cuda_lane_close(struct dt_copy_lane *lane)
{
    struct cuda_lane *cl = lane ? lane_of(lane) : NULL;

    if (!cl)
        return;
    DT_CHECK(dt_copy_lane_is_idle(lane));
    close_stream(cl);
    free(cl);
}
