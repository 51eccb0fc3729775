/* SPDX-License-Identifier: Apache-2.0 */
/* The driver, its GPUs and pinned memory. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "hostpath/cuda_private.h"

struct dt_cuda {
    struct dt_cuda_table table;
    pthread_mutex_t mutex; /* protects gpus */
    struct dt_cuda_gpu *gpu[DT_CUDA_GPUS_MAX];
};

const char *dt_cuda_text(const struct dt_cuda_table *table, int result)
{
    const char *text = NULL;

    return table->get_error_string(result, &text) == DT_CUDA_SUCCESS && text ? text : "unknown error";
}

/* ------------------------------------------------------------------------------------------------------------
 * The driver
 */
enum dt_status dt_cuda_open_table(const struct dt_cuda_table *table, struct dt_cuda **out, char *reason,
                                  size_t reason_bytes)
{
    struct dt_cuda *cuda;
    int result = table->init(0), version = 0;

    if (result != DT_CUDA_SUCCESS) {
        snprintf(reason, reason_bytes, "the CUDA driver does not start: %s", dt_cuda_text(table, result));
        return DT_NOT_FOUND;
    }
    cuda = calloc(1, sizeof *cuda);
    if (!cuda)
        return DT_NO_MEMORY;
    cuda->table = *table;
    pthread_mutex_init(&cuda->mutex, NULL);
    table->driver_get_version(&version);
    dt_info("cuda-driver", "cuda: driver for CUDA %d.%d%s", version / 1000, version % 1000 / 10,
            table->stream_write_value32 ? "" : ", without stream memory operations");
    *out = cuda;
    return DT_OK;
}

enum dt_status dt_cuda_open(const char *library, struct dt_cuda **cuda, char *reason, size_t reason_bytes)
{
    struct dt_cuda_table table;
    enum dt_status status = dt_cuda_table_load(library, &table, reason, reason_bytes);

    return status == DT_OK ? dt_cuda_open_table(&table, cuda, reason, reason_bytes) : status;
}

void dt_cuda_close(struct dt_cuda *cuda)
{
    if (!cuda)
        return;
    for (int i = 0; i < DT_CUDA_GPUS_MAX; i++) {
        if (cuda->gpu[i])
            cuda->table.device_primary_ctx_release(cuda->gpu[i]->device);
        free(cuda->gpu[i]);
    }
    pthread_mutex_destroy(&cuda->mutex);
    free(cuda);
}

/* ------------------------------------------------------------------------------------------------------------
 * GPUs
 */
int dt_cuda_enter(const struct dt_cuda_gpu *gpu, int *capture_mode)
{
    const struct dt_cuda_table *table = gpu->table;

    /* A stream capture of the application must not fail Detour's calls or be invalidated by them. */
    *capture_mode = DT_CUDA_STREAM_CAPTURE_RELAXED;
    if (table->thread_exchange_stream_capture_mode)
        table->thread_exchange_stream_capture_mode(capture_mode);
    return table->ctx_push_current(gpu->context);
}

void dt_cuda_leave(const struct dt_cuda_gpu *gpu, int capture_mode, int entered)
{
    const struct dt_cuda_table *table = gpu->table;
    void *context;

    if (entered == DT_CUDA_SUCCESS)
        table->ctx_pop_current(&context);
    if (table->thread_exchange_stream_capture_mode)
        table->thread_exchange_stream_capture_mode(&capture_mode);
}

static enum dt_status open_gpu(struct dt_cuda *cuda, int ordinal, struct dt_cuda_gpu **out)
{
    struct dt_cuda_gpu *gpu = calloc(1, sizeof *gpu);
    int result;

    if (!gpu)
        return DT_NO_MEMORY;
    gpu->table = &cuda->table;
    gpu->ordinal = ordinal;
    result = cuda->table.device_get(&gpu->device, ordinal);
    if (result == DT_CUDA_SUCCESS)
        result = cuda->table.device_primary_ctx_retain(&gpu->context, gpu->device);
    if (result == DT_CUDA_SUCCESS) {
        *out = gpu;
        return DT_OK;
    }
    dt_warn("cuda-context", "cuda: cannot retain the primary context of GPU %d: %s", ordinal,
            dt_cuda_text(&cuda->table, result));
    free(gpu);
    return DT_SYSTEM;
}

enum dt_status dt_cuda_gpu_of(struct dt_cuda *cuda, const void *address, struct dt_cuda_gpu **gpu)
{
    const struct dt_cuda_table *table = &cuda->table;
    unsigned type = 0;
    int ordinal = -1;
    enum dt_status status = DT_OK;

    if (table->pointer_get_attribute(&type, DT_CUDA_POINTER_MEMORY_TYPE, (uintptr_t)address) !=
            DT_CUDA_SUCCESS ||
        type != DT_CUDA_MEMORY_DEVICE ||
        table->pointer_get_attribute(&ordinal, DT_CUDA_POINTER_DEVICE_ORDINAL, (uintptr_t)address) !=
            DT_CUDA_SUCCESS ||
        ordinal < 0 || ordinal >= DT_CUDA_GPUS_MAX)
        return DT_INVALID;
    pthread_mutex_lock(&cuda->mutex);
    if (!cuda->gpu[ordinal])
        status = open_gpu(cuda, ordinal, &cuda->gpu[ordinal]);
    if (status == DT_OK)
        *gpu = cuda->gpu[ordinal];
    pthread_mutex_unlock(&cuda->mutex);
    return status;
}

int dt_cuda_gpu_ordinal(const struct dt_cuda_gpu *gpu)
{
    return gpu->ordinal;
}

/* ------------------------------------------------------------------------------------------------------------
 * Flush of RDMA writes
 */
static int attribute_of(const struct dt_cuda_gpu *gpu, int attribute)
{
    int value = 0, result = gpu->table->device_get_attribute(&value, attribute, gpu->device);

    return result == DT_CUDA_SUCCESS ? value : 0;
}

enum dt_status dt_cuda_flush(struct dt_cuda_gpu *gpu, char *reason, size_t reason_bytes)
{
    const struct dt_cuda_table *table = gpu->table;
    int mode, entered, result;

    if (!table->device_get_attribute || !table->flush_rdma_writes) {
        snprintf(reason, reason_bytes, "the CUDA driver has no cuFlushGPUDirectRDMAWrites (CUDA 11.3)");
        return DT_UNSUPPORTED;
    }
    if (attribute_of(gpu, DT_CUDA_RDMA_WRITES_ORDERING) >= DT_CUDA_RDMA_ORDERED_FOR_OWNER)
        return DT_OK;
    if (!(attribute_of(gpu, DT_CUDA_RDMA_FLUSH_OPTIONS) & DT_CUDA_RDMA_FLUSH_BY_HOST)) {
        snprintf(reason, reason_bytes, "GPU %d does not offer cuFlushGPUDirectRDMAWrites", gpu->ordinal);
        return DT_UNSUPPORTED;
    }
    result = entered = dt_cuda_enter(gpu, &mode);
    if (entered == DT_CUDA_SUCCESS)
        result = table->flush_rdma_writes(DT_CUDA_RDMA_FLUSH_CONTEXT, DT_CUDA_RDMA_FLUSH_TO_OWNER);
    dt_cuda_leave(gpu, mode, entered);
    if (result == DT_CUDA_SUCCESS)
        return DT_OK;
    snprintf(reason, reason_bytes, "cuFlushGPUDirectRDMAWrites of GPU %d: %s", gpu->ordinal,
             dt_cuda_text(table, result));
    return DT_SYSTEM;
}

/* ------------------------------------------------------------------------------------------------------------
 * Pinned memory
 */
enum dt_status dt_cuda_pin(struct dt_cuda_gpu *gpu, void *memory, size_t bytes)
{
    int mode, entered = dt_cuda_enter(gpu, &mode), result = entered;

    if (entered == DT_CUDA_SUCCESS)
        result = gpu->table->mem_host_register(memory, bytes, DT_CUDA_HOST_REGISTER_PORTABLE);
    dt_cuda_leave(gpu, mode, entered);
    if (result == DT_CUDA_SUCCESS)
        return DT_OK;
    dt_warn("cuda-pin", "cuda: cannot pin %zu bytes of host memory for GPU %d: %s", bytes, gpu->ordinal,
            dt_cuda_text(gpu->table, result));
    return DT_SYSTEM;
}

/* Errors are ignored: they occur when the driver has shut down first. */
void dt_cuda_unpin(struct dt_cuda_gpu *gpu, void *memory)
{
    int mode, entered = dt_cuda_enter(gpu, &mode);

    if (entered == DT_CUDA_SUCCESS)
        gpu->table->mem_host_unregister(memory);
    dt_cuda_leave(gpu, mode, entered);
}
