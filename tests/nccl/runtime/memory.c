/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/runtime/memory.h"

#include <cuda_runtime.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/nccl/runtime/log.h"
#include "tests/nccl/runtime/stream.h"

enum { PAGE_BYTES = 4096, POISON = 0xdb };

struct block {
    char *start;
    size_t bytes;
    enum nh_memory kind;
    struct block *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct block *blocks;

int nh_allocate(void **pointer, size_t bytes, enum nh_memory kind)
{
    size_t rounded = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
    struct block *block;
    char *start;

    *pointer = NULL;
    if (!bytes)
        return cudaSuccess;
    start = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block = malloc(sizeof *block);
    if (start == MAP_FAILED || !block) {
        free(block);
        return cudaErrorMemoryAllocation;
    }
    if (kind == NH_DEVICE)
        memset(start, POISON, rounded);
    pthread_mutex_lock(&lock);
    *block = (struct block){.start = start, .bytes = rounded, .kind = kind, .next = blocks};
    blocks = block;
    pthread_mutex_unlock(&lock);
    *pointer = start;
    nh_log(1, "allocated %zu bytes at %p, kind %d", bytes, (void *)start, kind);
    return cudaSuccess;
}

int nh_release(void *pointer)
{
    struct block **link, *block;

    if (!pointer)
        return cudaSuccess;
    pthread_mutex_lock(&lock);
    for (link = &blocks; *link && (*link)->start != pointer; link = &(*link)->next)
        ;
    block = *link;
    if (block)
        *link = block->next;
    pthread_mutex_unlock(&lock);
    if (!block) {
        nh_log(0, "release of %p, which is not a block", pointer);
        return cudaErrorInvalidValue;
    }
    munmap(block->start, block->bytes);
    free(block);
    return cudaSuccess;
}

enum nh_memory nh_memory_of(const void *address, void **base, size_t *bytes)
{
    enum nh_memory kind = NH_PAGEABLE;
    const char *at = address;

    pthread_mutex_lock(&lock);
    for (const struct block *block = blocks; block; block = block->next)
        if (at >= block->start && at < block->start + block->bytes) {
            kind = block->kind;
            if (base)
                *base = block->start;
            if (bytes)
                *bytes = block->bytes;
            break;
        }
    pthread_mutex_unlock(&lock);
    return kind;
}

cudaError_t cudaMalloc(void **pointer, size_t bytes)
{
    return nh_allocate(pointer, bytes, NH_DEVICE);
}

cudaError_t cudaFree(void *pointer)
{
    return nh_release(pointer);
}

cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    (void)flags;
    return nh_allocate(pointer, bytes, NH_PINNED);
}

cudaError_t cudaFreeHost(void *pointer)
{
    return nh_release(pointer);
}

cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned flags)
{
    (void)pointer, (void)bytes, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *pointer)
{
    (void)pointer;
    return cudaSuccess;
}

cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags)
{
    (void)flags;
    *device = host;
    return cudaSuccess;
}

/* cudaPointerAttributes of the API reference. */
struct pointer_attributes {
    int type, device;
    void *device_pointer, *host_pointer;
};

cudaError_t cudaPointerGetAttributes(struct pointer_attributes *attributes, const void *pointer)
{
    enum nh_memory kind = nh_memory_of(pointer, NULL, NULL);

    *attributes = (struct pointer_attributes){
        .type = (int)kind,
        .device = kind == NH_PAGEABLE ? -1 : 0,
        .device_pointer = kind == NH_PAGEABLE ? NULL : (void *)pointer,
        .host_pointer = kind == NH_PINNED ? (void *)pointer : NULL,
    };
    return cudaSuccess;
}

/* ---- Pools: NCCL allocates its persistent device memory from one. Memory of a pool is memory. ---- */

cudaError_t cudaMemPoolCreate(void **pool, const void *properties)
{
    (void)properties;
    *pool = &blocks; /* an address that is not NULL; a pool has no state */
    return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(void *pool)
{
    (void)pool;
    return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(void *pool, int attribute, void *value)
{
    (void)pool, (void)attribute, (void)value;
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **pointer, size_t bytes, void *pool, cudaStream_t stream)
{
    (void)pool, (void)stream;
    return nh_allocate(pointer, bytes, NH_DEVICE);
}

static void release_task(void *pointer)
{
    nh_release(pointer);
}

cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream)
{
    nh_stream_push(nh_stream_of(stream), release_task, pointer);
    return cudaSuccess;
}

/* ---- Copies ---- */

struct copy {
    char *destination;
    const char *source;
    size_t bytes;
    int value;
    char staged[];
};

static void copy_task(void *argument)
{
    struct copy *copy = argument;

    memmove(copy->destination, copy->source, copy->bytes);
    free(copy);
}

static void set_task(void *argument)
{
    struct copy *copy = argument;

    memset(copy->destination, copy->value, copy->bytes);
    free(copy);
}

/*
 * The CUDA reference on pageable memory: it is read before the call returns (NCCL passes addresses of
 * locals), and it is written before the call returns.
 */
cudaError_t cudaMemcpyAsync(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    int stages = nh_memory_of(source, NULL, NULL) == NH_PAGEABLE;
    struct copy *copy = malloc(sizeof *copy + (stages ? bytes : 0));

    (void)kind;
    if (!copy)
        return cudaErrorMemoryAllocation;
    *copy = (struct copy){.destination = destination, .source = source, .bytes = bytes};
    if (stages) {
        memcpy(copy->staged, source, bytes);
        copy->source = copy->staged;
    }
    nh_stream_push(nh_stream_of(stream), copy_task, copy);
    if (nh_memory_of(destination, NULL, NULL) == NH_PAGEABLE)
        return cudaStreamSynchronize(stream);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *destination, int value, size_t bytes, cudaStream_t stream)
{
    struct copy *copy = malloc(sizeof *copy);

    if (!copy)
        return cudaErrorMemoryAllocation;
    *copy = (struct copy){.destination = destination, .bytes = bytes, .value = value};
    nh_stream_push(nh_stream_of(stream), set_task, copy);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void *destination, const void *source, size_t bytes, enum cudaMemcpyKind kind)
{
    (void)kind;
    cudaDeviceSynchronize();
    memmove(destination, source, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemset(void *destination, int value, size_t bytes)
{
    cudaDeviceSynchronize();
    memset(destination, value, bytes);
    return cudaSuccess;
}
