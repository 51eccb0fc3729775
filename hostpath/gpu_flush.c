/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/gpu_flush.h"

#include <stdio.h>

void dt_gpu_flusher_open(struct dt_gpu_flusher *flusher, const char *library)
{
    *flusher = (struct dt_gpu_flusher){.library = library};
    pthread_mutex_init(&flusher->mutex, NULL);
}

void dt_gpu_flusher_close(struct dt_gpu_flusher *flusher)
{
    if (!flusher->library)
        return;
    dt_cuda_close(flusher->cuda);
    pthread_mutex_destroy(&flusher->mutex);
    flusher->library = NULL;
}

/* Loading is tried again each time: flushes are rare, and CUDA may have become available. */
static enum dt_status load(struct dt_gpu_flusher *flusher, char *reason, size_t reason_bytes)
{
    enum dt_status status;

    pthread_mutex_lock(&flusher->mutex);
    snprintf(reason, reason_bytes, "out of memory");
    if (flusher->cuda)
        status = DT_OK;
    else if (flusher->library[0])
        status = dt_cuda_open(flusher->library, &flusher->cuda, reason, reason_bytes);
    else
        status = DT_NOT_FOUND;
    if (!flusher->library[0])
        snprintf(reason, reason_bytes, "DETOUR_CUDA_LIB names no CUDA driver");
    pthread_mutex_unlock(&flusher->mutex);
    return status;
}

enum dt_status dt_gpu_flush(struct dt_gpu_flusher *flusher, const void *address, char *reason,
                            size_t reason_bytes)
{
    struct dt_cuda_gpu *gpu;
    enum dt_status status = load(flusher, reason, reason_bytes);

    if (status != DT_OK)
        return status;
    status = dt_cuda_gpu_of(flusher->cuda, address, &gpu);
    if (status == DT_OK)
        return dt_cuda_flush(gpu, reason, reason_bytes);
    snprintf(reason, reason_bytes, "CUDA does not know the memory at %p as a GPU's", address);
    return status;
}
