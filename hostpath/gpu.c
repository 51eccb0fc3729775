/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/gpu.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/log.h"
#include "base/util.h"
#include "hostpath/gpu_thread.h"

/* ------------------------------------------------------------------------------------------------------------
 * Copying
 */

/* Moves the pushed copies into the lanes, the oldest first. */
static void take_pushed(struct dt_gpus *gpus)
{
    struct dt_gpu_copy *newest = dt_exchange_acq_rel(&gpus->pushed, NULL);
    struct dt_gpu_copy *oldest = NULL;

    while (newest) {
        struct dt_gpu_copy *next = newest->next;

        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    for (; oldest; oldest = oldest->next) {
        dt_list_push_back(&gpus->active, &oldest->node);
        dt_copy_start(&oldest->copy, oldest->gpu->lane[oldest->direction], oldest->to, oldest->from,
                      oldest->bytes, oldest->chunk_bytes ? oldest->chunk_bytes : DT_GPU_CHUNK_BYTES,
                      oldest->flags);
    }
}

static void drop_unwanted(struct dt_gpus *gpus)
{
    dt_list_for_each(node, &gpus->active)
    {
        struct dt_gpu_copy *copy = dt_container_of(node, struct dt_gpu_copy, node);

        if (dt_load_relaxed(&copy->is_unwanted))
            dt_copy_abandon(&copy->copy);
    }
}

void dt_gpu_copy_abandon(struct dt_gpu_copy *copy)
{
    dt_store_relaxed(&copy->is_unwanted, 1u);
}

static void progress_lanes(struct dt_gpus *gpus, uint64_t now_ns)
{
    for (int i = 0; i < DT_CUDA_GPUS_MAX; i++) {
        struct dt_gpu *gpu = dt_load_acquire(&gpus->gpu[i]);

        for (size_t lane = 0; gpu && lane < DT_COUNT_OF(gpu->lane); lane++) {
            if (!dt_copy_lane_is_idle(gpu->lane[lane]))
                dt_copy_lane_progress(gpu->lane[lane], now_ns);
        }
    }
}

/* Returns the finished copies to their owners. False: there were none. */
static bool complete(struct dt_gpus *gpus)
{
    bool was_any = false;

    dt_list_for_each(node, &gpus->active)
    {
        struct dt_gpu_copy *copy = dt_container_of(node, struct dt_gpu_copy, node);

        if (!dt_copy_is_finished(&copy->copy))
            continue;
        dt_list_remove(&copy->node);
        copy->is_failed = dt_copy_state(&copy->copy) != DT_COPY_DONE;
        DT_CHECK(copy->copy.in_flight == 0 && dt_load_relaxed(copy->left) > 0);
        dt_fetch_sub_acq_rel(copy->left, 1); /* releases the copy to its owner */
        was_any = true;
    }
    return was_any;
}

bool dt_gpus_run(struct dt_gpus *gpus, uint64_t now_ns)
{
    take_pushed(gpus);
    drop_unwanted(gpus);
    progress_lanes(gpus, now_ns);
    return complete(gpus);
}

void dt_gpus_push(struct dt_gpus *gpus, struct dt_gpu_copy *copy)
{
    struct dt_gpu_copy *head = dt_load_relaxed(&gpus->pushed);

    if (__builtin_expect(dt_load_acquire(&gpus->is_stopping), 0)) {
        copy->is_failed = true; /* the thread has stopped, and the owner may wait for the end of the copy */
        dt_fetch_sub_acq_rel(copy->left, 1);
        return;
    }
    do {
        copy->next = head;
    } while (!dt_compare_swap(&gpus->pushed, &head, copy));
    if (gpus->has_threads)
        dt_wakeup_post(&gpus->wake);
}

/* ------------------------------------------------------------------------------------------------------------
 * Opening and closing
 */
void dt_gpus_open(struct dt_gpus *gpus, const char *library, void *pool, size_t pool_bytes, bool has_threads)
{
    *gpus = (struct dt_gpus){
        .library = library, .pool = pool, .pool_bytes = pool_bytes, .has_threads = has_threads};
    pthread_mutex_init(&gpus->mutex, NULL);
    dt_list_init(&gpus->active);
}

static void load(struct dt_gpus *gpus)
{
    char reason[256] = "out of memory";

    gpus->was_tried = true;
    if (!gpus->library[0])
        return;
    if (dt_cuda_open(gpus->library, &gpus->cuda, reason, sizeof reason) != DT_OK)
        dt_info("gpu-not-staged", "host path: GPU memory is not staged: %s", reason);
}

static void free_gpu(struct dt_gpu *gpu)
{
    for (size_t i = 0; i < DT_COUNT_OF(gpu->lane); i++)
        dt_cuda_lane_close(gpu->lane[i]);
    free(gpu);
}

static struct dt_gpu *open_gpu(struct dt_cuda_gpu *cuda)
{
    struct dt_gpu *gpu = calloc(1, sizeof *gpu);

    if (!gpu)
        return NULL;
    gpu->cuda = cuda;
    if (dt_cuda_lane_open(cuda, DT_CUDA_TO_HOST, &gpu->lane[DT_CUDA_TO_HOST]) == DT_OK &&
        dt_cuda_lane_open(cuda, DT_CUDA_TO_GPU, &gpu->lane[DT_CUDA_TO_GPU]) == DT_OK)
        return gpu;
    free_gpu(gpu);
    return NULL;
}

/* The first GPU pins the pool for the contexts of all. */
static bool pin_pool(struct dt_gpus *gpus, struct dt_cuda_gpu *cuda)
{
    if (!gpus->pinned_by && dt_cuda_pin(cuda, gpus->pool, gpus->pool_bytes) == DT_OK)
        gpus->pinned_by = cuda;
    return gpus->pinned_by;
}

static struct dt_gpu *find(struct dt_gpus *gpus, const void *address)
{
    struct dt_cuda_gpu *cuda;
    struct dt_gpu *gpu = NULL;
    int ordinal;

    if (!gpus->was_tried)
        load(gpus);
    if (!gpus->cuda || dt_cuda_gpu_of(gpus->cuda, address, &cuda) != DT_OK)
        return NULL;
    ordinal = dt_cuda_gpu_ordinal(cuda);
    DT_CHECK(ordinal >= 0 && ordinal < DT_CUDA_GPUS_MAX);
    if (gpus->gpu[ordinal] || gpus->unusable_mask & 1ull << ordinal)
        return gpus->gpu[ordinal];
    if (pin_pool(gpus, cuda) && dt_gpu_thread_start(gpus))
        gpu = open_gpu(cuda);
    gpus->unusable_mask |= gpu ? 0 : 1ull << ordinal;
    dt_store_release(&gpus->gpu[ordinal], gpu);
    return gpu;
}

struct dt_gpu *dt_gpus_find(struct dt_gpus *gpus, const void *address)
{
    struct dt_gpu *gpu;

    pthread_mutex_lock(&gpus->mutex);
    gpu = find(gpus, address);
    pthread_mutex_unlock(&gpus->mutex);
    return gpu;
}

void dt_gpus_stop(struct dt_gpus *gpus)
{
    dt_gpu_thread_stop(gpus);
}

void dt_gpus_close(struct dt_gpus *gpus)
{
    if (!gpus->library)
        return;
    dt_gpu_thread_stop(gpus);
    if (dt_gpus_is_busy(gpus)) {
        dt_warn("gpu-busy",
                "host path: a GPU has not finished its copies within 2 s; its resources are not freed");
        return;
    }
    for (int i = 0; i < DT_CUDA_GPUS_MAX; i++) {
        if (gpus->gpu[i])
            free_gpu(gpus->gpu[i]);
    }
    if (gpus->pinned_by)
        dt_cuda_unpin(gpus->pinned_by, gpus->pool);
    dt_cuda_close(gpus->cuda);
    pthread_mutex_destroy(&gpus->mutex);
}
