/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/cuda_sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/atomics.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/prng.h"
#include "base/util.h"
#include "hostpath/copy.h"
#include "hostpath/cuda_table.h"
#include "tests/sim/driver_sim.h"
#include "tests/sim/plugin_sim.h"

#define REGIONS_MAX    (8 * DT_SIM_HOSTS_MAX)
#define OPERATIONS_MAX (4 * DT_COPY_DEPTH_MAX)
#define LATENCY_NS_MAX 300000
#define BYTES_PER_NS   10
/* In one run of four, the driver holds back one of this many copies to the host, for at most this time. */
#define STALL_RUNS   4
#define STALL_COPIES 8
#define STALL_NS_MAX (800 * DT_NS_PER_MS)
/* Directions of a GPU's copies. */
enum { TO_HOST, TO_GPU, DIRECTIONS };

/* After this many queries at one time a caller waits for the stream: it is completed. */
#define PATIENCE 100

struct operation {
    uint64_t due_ns;
    void *to; /* NULL: write `value` to `flag` */
    const void *from;
    size_t bytes; /* of each row */
    size_t rows, pitch;
    uint32_t *flag;
    uint32_t value;
};

struct stream {
    struct operation operation[OPERATIONS_MAX];
    uint32_t first, count;
    uint32_t host; /* whose GPU */
    uint64_t busy_until_ns;
    uint64_t asked_ns;
    uint32_t asked;
    struct stream *next;
};

static struct {
    struct dt_prng prng, stalls;
    bool has_stalls;
    struct {
        uintptr_t at;
        size_t bytes;
    } region[REGIONS_MAX];
    size_t region_count;
    struct stream *streams[DT_SIM_HOSTS_MAX];
    uint32_t host_end; /* no host from here on has a stream */
    struct dt_cuda_sim_rates rates;
    uint32_t pending[DT_SIM_HOSTS_MAX];                    /* operations in the streams of a host */
    uint64_t engine_free_ns[DT_SIM_HOSTS_MAX][DIRECTIONS]; /* with rates */
} sim;

static uint64_t now_ns(void)
{
    return dt_sim_now_ns(dt_driver_sim_network());
}

/* ---- what is under way ----------------------------------------------------------------------------------
 */
static void copy_row(uint8_t *to, const uint8_t *from, size_t bytes)
{
    const uint64_t block = sim.rates.block_bytes;

    if (!block || bytes <= block)
        memcpy(to, from, bytes);
    for (size_t at = 0; block && bytes > block && at < bytes; at += block)
        memcpy(to + at, from + at, dt_min_u64(DT_SIM_STAMP_BYTES, bytes - at));
}

static void run_until(struct stream *stream, uint64_t until_ns)
{
    while (stream->count > 0 && stream->operation[stream->first].due_ns <= until_ns) {
        struct operation *operation = &stream->operation[stream->first];

        for (size_t i = 0; operation->to && i < operation->rows; i++)
            copy_row((uint8_t *)operation->to + i * operation->pitch,
                     (const uint8_t *)operation->from + i * operation->pitch, operation->bytes);
        if (!operation->to)
            dt_store_release(operation->flag, operation->value);
        stream->first = (stream->first + 1) % OPERATIONS_MAX;
        stream->count--;
        sim.pending[stream->host]--;
    }
}

void dt_cuda_sim_advance(void)
{
    for (uint32_t host = 0; host < sim.host_end; host++)
        for (struct stream *stream = sim.streams[host]; sim.pending[host] && stream; stream = stream->next)
            run_until(stream, now_ns());
}

static int enqueue(void *handle, struct operation operation, uint64_t takes_ns)
{
    struct stream *stream = handle;

    DT_CHECK(stream->count < OPERATIONS_MAX);
    stream->busy_until_ns = dt_max_u64(stream->busy_until_ns, now_ns()) + takes_ns;
    operation.due_ns = stream->busy_until_ns;
    stream->operation[(stream->first + stream->count++) % OPERATIONS_MAX] = operation;
    sim.pending[stream->host]++;
    return DT_CUDA_SUCCESS;
}

/* A copy: at the stated rate if there is one, behind the host's other copies in this direction; else as
 * drawn. */
static int enqueue_copy(void *handle, struct operation operation, int direction, uint64_t drawn_ns)
{
    struct stream *stream = handle;
    uint64_t *free_ns = &sim.engine_free_ns[stream->host][direction];
    uint64_t rate = direction == TO_HOST ? sim.rates.to_host_bytes_per_s : sim.rates.to_gpu_bytes_per_s;
    uint64_t takes_ns;
    int result;

    if (!rate)
        return enqueue(stream, operation, drawn_ns);
    takes_ns = sim.rates.start_ns + operation.bytes * operation.rows * 1000000000u / rate;
    stream->busy_until_ns = dt_max_u64(stream->busy_until_ns, *free_ns);
    result = enqueue(stream, operation, takes_ns);
    *free_ns = stream->busy_until_ns;
    return result;
}

void dt_cuda_sim_start(uint64_t seed)
{
    memset(&sim, 0, sizeof sim);
    dt_prng_init_stream(&sim.prng, seed, 300);
    dt_prng_init_stream(&sim.stalls, seed, 301);
    sim.has_stalls = dt_prng_below(&sim.stalls, STALL_RUNS) == 0;
}

void dt_cuda_sim_set_rates(const struct dt_cuda_sim_rates *rates)
{
    DT_CHECK(rates->to_host_bytes_per_s > 0 && rates->to_gpu_bytes_per_s > 0);
    sim.rates = *rates;
}

uint64_t dt_cuda_sim_next_ns(uint32_t host)
{
    uint64_t next_ns = DT_NEVER_NS;

    for (const struct stream *stream = sim.streams[host]; sim.pending[host] && stream; stream = stream->next)
        if (stream->count > 0)
            next_ns = dt_earlier_ns(next_ns, stream->operation[stream->first].due_ns);
    return next_ns;
}

void dt_cuda_sim_claim(const void *memory, size_t bytes)
{
    DT_CHECK(sim.region_count < REGIONS_MAX);
    sim.region[sim.region_count].at = (uintptr_t)memory;
    sim.region[sim.region_count++].bytes = bytes;
}

/* ---- the driver's functions that the host path calls ----------------------------------------------------
 */
static int do_nothing(unsigned flags)
{
    (void)flags;
    return DT_CUDA_SUCCESS;
}

static int get_version(int *version)
{
    *version = 12000;
    return DT_CUDA_SUCCESS;
}

static int get_text(int result, const char **text)
{
    (void)result;
    *text = "simulated";
    return DT_CUDA_SUCCESS;
}

static int get_device(int *device, int ordinal)
{
    *device = ordinal;
    return DT_CUDA_SUCCESS;
}

static int retain(void **context, int device)
{
    (void)device;
    *context = &sim;
    return DT_CUDA_SUCCESS;
}

static int release(int device)
{
    (void)device;
    return DT_CUDA_SUCCESS;
}

static int push(void *context)
{
    (void)context;
    return DT_CUDA_SUCCESS;
}

static int pop(void **context)
{
    *context = &sim;
    return DT_CUDA_SUCCESS;
}

static int create_stream(void **handle, unsigned flags)
{
    struct stream *stream = calloc(1, sizeof *stream);

    (void)flags;
    if (!stream)
        return DT_CUDA_OUT_OF_MEMORY;
    stream->host = dt_plugin_sim_host();
    stream->next = sim.streams[stream->host];
    sim.streams[stream->host] = stream;
    sim.host_end = (uint32_t)dt_max_u64(sim.host_end, stream->host + 1);
    *handle = stream;
    return DT_CUDA_SUCCESS;
}

static int destroy_stream(void *handle)
{
    struct stream **link = &sim.streams[((struct stream *)handle)->host];

    while (*link != handle)
        link = &(*link)->next;
    sim.pending[(*link)->host] -= (*link)->count;
    *link = (*link)->next;
    free(handle);
    return DT_CUDA_SUCCESS;
}

static int query_stream(void *handle)
{
    struct stream *stream = handle;

    stream->asked = stream->asked_ns == now_ns() ? stream->asked + 1 : 0;
    stream->asked_ns = now_ns();
    run_until(stream, stream->asked > PATIENCE ? UINT64_MAX : now_ns());
    return stream->count > 0 ? DT_CUDA_NOT_READY : DT_CUDA_SUCCESS;
}

static int write_value(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
    struct operation operation = {.flag = (uint32_t *)(uintptr_t)address, .value = value};

    (void)flags;
    return enqueue(stream, operation, 0);
}

static int alloc_host(void **memory, size_t bytes, unsigned flags)
{
    (void)flags;
    *memory = calloc(1, bytes);
    return *memory ? DT_CUDA_SUCCESS : DT_CUDA_OUT_OF_MEMORY;
}

static int free_host(void *memory)
{
    free(memory);
    return DT_CUDA_SUCCESS;
}

static int get_device_pointer(uint64_t *address, void *memory, unsigned flags)
{
    (void)flags;
    *address = (uintptr_t)memory;
    return DT_CUDA_SUCCESS;
}

static int pin(void *memory, size_t bytes, unsigned flags)
{
    (void)memory;
    (void)bytes;
    (void)flags;
    return DT_CUDA_SUCCESS;
}

static int unpin(void *memory)
{
    (void)memory;
    return DT_CUDA_SUCCESS;
}

static uint64_t stall_ns(void)
{
    if (!sim.has_stalls || dt_prng_below(&sim.stalls, STALL_COPIES) > 0)
        return 0;
    return dt_prng_below(&sim.stalls, STALL_NS_MAX);
}

static int copy_to_host(void *to, uint64_t from, size_t bytes, void *stream)
{
    struct operation operation = {.to = to, .from = (const void *)(uintptr_t)from, .bytes = bytes, .rows = 1};

    return enqueue_copy(stream, operation, TO_HOST,
                        dt_prng_below(&sim.prng, LATENCY_NS_MAX) + bytes / BYTES_PER_NS + stall_ns());
}

static int copy_to_gpu(uint64_t to, const void *from, size_t bytes, void *stream)
{
    struct operation operation = {.to = (void *)(uintptr_t)to, .from = from, .bytes = bytes, .rows = 1};

    return enqueue_copy(stream, operation, TO_GPU,
                        dt_prng_below(&sim.prng, LATENCY_NS_MAX) + bytes / BYTES_PER_NS);
}

static int copy_columns_to_gpu(const struct dt_cuda_copy_2d *copy, void *stream)
{
    struct operation operation = {.to = (void *)(uintptr_t)copy->to_device,
                                  .from = copy->from_host,
                                  .bytes = copy->width_bytes,
                                  .rows = copy->height,
                                  .pitch = copy->to_pitch};

    return enqueue_copy(stream, operation, TO_GPU, dt_prng_below(&sim.prng, LATENCY_NS_MAX / 4));
}

static int get_attribute(void *value, int attribute, uint64_t address)
{
    for (size_t i = 0; i < sim.region_count; i++) {
        if (address - sim.region[i].at >= sim.region[i].bytes)
            continue;
        *(int *)value = attribute == DT_CUDA_POINTER_MEMORY_TYPE ? DT_CUDA_MEMORY_DEVICE : 0;
        return DT_CUDA_SUCCESS;
    }
    return DT_CUDA_INVALID_VALUE;
}

static int get_device_attribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute == DT_CUDA_RDMA_FLUSH_OPTIONS ? DT_CUDA_RDMA_FLUSH_BY_HOST : 0;
    return DT_CUDA_SUCCESS;
}

static int flush_writes(int target, int scope)
{
    (void)target;
    (void)scope;
    dt_plugin_sim_flush_gpus();
    return DT_CUDA_SUCCESS;
}

enum dt_status dt_cuda_table_load(const char *library, struct dt_cuda_table *table, char *reason,
                                  size_t reason_bytes)
{
    (void)library;
    (void)reason;
    (void)reason_bytes;
    *table = (struct dt_cuda_table){
        .init = do_nothing,
        .driver_get_version = get_version,
        .get_error_string = get_text,
        .device_get = get_device,
        .device_primary_ctx_retain = retain,
        .device_primary_ctx_release = release,
        .ctx_push_current = push,
        .ctx_pop_current = pop,
        .stream_create = create_stream,
        .stream_destroy = destroy_stream,
        .stream_query = query_stream,
        .stream_write_value32 = write_value,
        .mem_host_alloc = alloc_host,
        .mem_free_host = free_host,
        .mem_host_get_device_pointer = get_device_pointer,
        .mem_host_register = pin,
        .mem_host_unregister = unpin,
        .memcpy_dtoh_async = copy_to_host,
        .memcpy_htod_async = copy_to_gpu,
        .memcpy_2d_async = copy_columns_to_gpu,
        .pointer_get_attribute = get_attribute,
        .device_get_attribute = get_device_attribute,
        .flush_rdma_writes = flush_writes,
    };
    return DT_OK;
}
