/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network plugin for which GPU memory is GPU memory (GPUDirect RDMA), before one that moves host memory. It
 * claims NCCL_PTR_CUDA. The plugin behind registers a shadow of each GPU buffer, as NCCL_PTR_CUDA, and
 * receives into that. What arrived becomes visible in the buffer itself as PCIe allows it to: when an iflush
 * of it completes, else up to 2 ms later, its 128-byte lines in random order, each line from its first to its
 * last 8 bytes. So NCCL's Simple protocol depends on the flush, LL on 8-byte writes, LL128 on the order
 * within a line. A send reads the buffer when isend is called.
 *
 * DETOUR_GPU_DOUBLE plants a bug that plugins have had, which the test above has to find:
 *   late_write    a message completes, and then an older one is written over the start of the same slot again
 *   lost_flush    iflush reports that there is nothing to wait for
 *   short_stores  8 bytes are written as two stores of 4, the upper one (LL's flag) first
 *
 * One mutex: calls come from NCCL's service and progress threads, and lines from a thread of this file.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/nccl/plugins/forward.h"

enum { GROUP_MAX = 8, LINE_BYTES = 128, LATE_NS_MAX = 2000000, OLD_BYTES = 64, PAUSE_NS = 20000 };

static const ncclNet_v8_t *net;
static enum { NONE, LATE_WRITE, LOST_FLUSH, SHORT_STORES } planted;
static int behind_takes_gpu;
/* Of the driver's double (tests/hostpath/fake_cuda.h), where DETOUR_CUDA_LIB names it: shadows are GPU memory
 * to it. */
static void (*adopt)(int ordinal, void *address, size_t bytes);
static void (*disown)(void *address);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t something_arrived = PTHREAD_COND_INITIALIZER;

/* A registration: of GPU memory with a shadow, or of host memory without. */
struct region {
    void *behind; /* the plugin's handle */
    char *data, *shadow;
    size_t bytes;
    int is_host_behind; /* the plugin behind takes no GPU memory: its shadow is host memory to it */
};

/* A request of a receive into GPU memory, or one that is passed on. */
struct request {
    void *behind;
    struct region *regions[GROUP_MAX];
    char *data[GROUP_MAX];
    int count; /* 0: nothing to do at the end */
    int is_flush;
};

/* A part of a buffer that arrived and is not visible yet. */
struct arrival {
    struct region *region;
    size_t offset, bytes;
    uint64_t due_ns;
    struct arrival *next;
};
static struct arrival *arrivals;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_ns(long ns)
{
    nanosleep(&(struct timespec){.tv_nsec = ns}, NULL);
}

static void store_8(char *to, const char *from)
{
    uint64_t value;

    memcpy(&value, from, sizeof value);
    if (planted == SHORT_STORES) {
        __atomic_store_n((uint32_t *)(to + 4), (uint32_t)(value >> 32), __ATOMIC_RELEASE);
        pause_ns(PAUSE_NS);
        __atomic_store_n((uint32_t *)to, (uint32_t)value, __ATOMIC_RELEASE);
        return;
    }
    __atomic_store_n((uint64_t *)to, value, __ATOMIC_RELEASE);
}

/* Ascending; the bytes before and after whole words one by one. */
static void reveal_bytes(char *to, const char *from, size_t bytes)
{
    size_t at = 0;

    for (; at < bytes && (uintptr_t)(to + at) % 8; at++)
        to[at] = from[at];
    for (; at + 8 <= bytes; at += 8)
        store_8(to + at, from + at);
    for (; at < bytes; at++)
        to[at] = from[at];
}

/* All lines, in an order that begins anywhere and takes strides prime to their number. */
static void reveal(const struct arrival *arrival, uint64_t random)
{
    static const size_t strides[] = {1, 3, 7, 31, 127, 1021};
    size_t lines = (arrival->bytes + LINE_BYTES - 1) / LINE_BYTES;
    size_t stride = strides[random % (sizeof strides / sizeof *strides)],
           line = lines ? random / 8 % lines : 0;

    if (lines % stride == 0)
        stride = 1;
    for (size_t i = 0; i < lines; i++, line = (line + stride) % lines) {
        size_t at = line * LINE_BYTES, rest = arrival->bytes - at;

        reveal_bytes(arrival->region->data + arrival->offset + at,
                     arrival->region->shadow + arrival->offset + at, rest < LINE_BYTES ? rest : LINE_BYTES);
    }
}

/* Takes the arrivals out that a flush of this region covers, or that are due. The caller reveals them. */
static struct arrival *take(const struct region *region, uint64_t due_ns)
{
    struct arrival **link = &arrivals, *taken = NULL;

    while (*link) {
        struct arrival *arrival = *link;

        if (region ? arrival->region == region : arrival->due_ns <= due_ns) {
            *link = arrival->next;
            arrival->next = taken;
            taken = arrival;
        } else {
            link = &arrival->next;
        }
    }
    return taken;
}

static void reveal_all(struct arrival *taken)
{
    static uint64_t state = 88172645463325252u; /* xorshift64; under the lock */

    while (taken) {
        struct arrival *next = taken->next;

        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        reveal(taken, state);
        free(taken);
        taken = next;
    }
}

static void *reveal_late(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&lock);
    for (;;) {
        while (!arrivals)
            pthread_cond_wait(&something_arrived, &lock);
        reveal_all(take(NULL, now_ns()));
        pthread_mutex_unlock(&lock);
        pause_ns(100000);
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

static void arrived(struct region *region, const char *data, size_t bytes)
{
    static unsigned count;
    struct arrival *arrival = malloc(sizeof *arrival);

    if (!arrival)
        abort();
    *arrival = (struct arrival){.region = region,
                                .offset = (size_t)(data - region->data),
                                .bytes = bytes,
                                .due_ns = now_ns() + (uint64_t)(++count * 7919 % 97) * LATE_NS_MAX / 97,
                                .next = arrivals};
    arrivals = arrival;
    pthread_cond_signal(&something_arrived);
}

/* The planted late write: what this slot held before goes over its start once more. Call after the data
 * arrived. */
static void write_late(char *slot, size_t bytes)
{
    static struct {
        char *slot, old[OLD_BYTES];
    } slots[64];
    static unsigned next, completions;
    char fresh[OLD_BYTES];

    if (bytes < OLD_BYTES)
        return;
    memcpy(fresh, slot, sizeof fresh);
    for (size_t i = 0; i < 64; i++)
        if (slots[i].slot == slot) {
            if (++completions % 50 == 0)
                memcpy(slot, slots[i].old, OLD_BYTES);
            memcpy(slots[i].old, fresh, OLD_BYTES);
            return;
        }
    slots[next].slot = slot;
    memcpy(slots[next].old, fresh, OLD_BYTES);
    next = (next + 1) % 64;
}

static ncclResult_t double_properties(int device, ncclNetProperties_v8_t *properties)
{
    ncclResult_t result = net->getProperties(device, properties);

    /* Detour's software RNICs register NCCL_PTR_CUDA without claiming it, since they do not reach a real GPU.
     */
    behind_takes_gpu = properties->ptrSupport & NCCL_PTR_CUDA || !strcmp(net->name, "Detour");
    properties->ptrSupport |= NCCL_PTR_CUDA;
    return result;
}

static ncclResult_t double_register(void *comm, void *data, size_t bytes, int type, void **mhandle)
{
    struct region *region = calloc(1, sizeof *region);
    ncclResult_t result;

    if (!region)
        return ncclSystemError;
    region->data = data;
    region->bytes = bytes;
    if (type == NCCL_PTR_CUDA) {
        region->shadow = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
        if (!region->shadow) {
            free(region);
            return ncclSystemError;
        }
    }
    if (region->shadow && adopt)
        adopt(0, region->shadow, bytes);
    region->is_host_behind = region->shadow && !behind_takes_gpu;
    result = net->regMr(comm, region->shadow ? region->shadow : data, bytes,
                        region->is_host_behind ? NCCL_PTR_HOST : type, &region->behind);
    *mhandle = region;
    return result;
}

static ncclResult_t double_deregister(void *comm, void *mhandle)
{
    struct region *region = mhandle;
    ncclResult_t result;

    if (!region)
        return ncclSuccess;
    pthread_mutex_lock(&lock);
    for (struct arrival *taken = take(region, 0), *next; taken; taken = next) { /* its memory goes away */
        next = taken->next;
        free(taken);
    }
    pthread_mutex_unlock(&lock);
    result = net->deregMr(comm, region->behind);
    if (region->shadow && disown)
        disown(region->shadow);
    free(region->shadow);
    free(region);
    return result;
}

/* Where the plugin behind finds the bytes of a buffer. */
static void *behind_of(const struct region *region, void *data)
{
    return region->shadow ? region->shadow + ((char *)data - region->data) : data;
}

/* Wraps what the plugin behind returned; a request that it refused stays NULL. */
static ncclResult_t wrap(ncclResult_t result, struct request *request, void **out)
{
    *out = NULL;
    if (result == ncclSuccess && request->behind)
        *out = request;
    else
        free(request);
    return result;
}

static ncclResult_t double_isend(void *comm, void *data, int bytes, int tag, void *mhandle, void **out)
{
    struct region *region = mhandle;
    struct request *request = calloc(1, sizeof *request);
    void *from = behind_of(region, data);

    if (!request)
        return ncclSystemError;
    if (region->shadow)
        memcpy(from, data, (size_t)bytes);
    return wrap(net->isend(comm, from, bytes, tag, region->behind, &request->behind), request, out);
}

static ncclResult_t double_irecv(void *comm, int n, void **data, int *sizes, int *tags, void **mhandles,
                                 void **out)
{
    struct request *request = calloc(1, sizeof *request);
    void *behind_data[GROUP_MAX], *behind_handles[GROUP_MAX];

    if (!request || n > GROUP_MAX)
        return ncclSystemError;
    request->count = n;
    for (int i = 0; i < n; i++) {
        request->regions[i] = mhandles[i];
        request->data[i] = data[i];
        behind_data[i] = behind_of(request->regions[i], data[i]);
        behind_handles[i] = request->regions[i]->behind;
    }
    return wrap(net->irecv(comm, n, behind_data, sizes, tags, behind_handles, &request->behind), request,
                out);
}

static void reveal_regions(int n, struct region *const *regions)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n; i++)
        reveal_all(take(regions[i], 0));
    pthread_mutex_unlock(&lock);
}

static ncclResult_t double_iflush(void *comm, int n, void **data, int *sizes, void **mhandles, void **out)
{
    struct request *request = calloc(1, sizeof *request);
    void *behind_data[GROUP_MAX], *behind_handles[GROUP_MAX];
    ncclResult_t result;

    *out = NULL;
    if (!request || n > GROUP_MAX)
        return ncclSystemError;
    if (planted == LOST_FLUSH) {
        free(request);
        return ncclSuccess;
    }
    if (n > 0 && ((struct region *)mhandles[0])->is_host_behind) {
        reveal_regions(n, (struct region **)mhandles);
        free(request);
        return ncclSuccess;
    }
    request->is_flush = 1;
    request->count = n;
    for (int i = 0; i < n; i++) {
        request->regions[i] = mhandles[i];
        behind_data[i] = behind_of(request->regions[i], data[i]);
        behind_handles[i] = request->regions[i]->behind;
    }
    result = net->iflush(comm, n, behind_data, sizes, behind_handles, &request->behind);
    if (result == ncclSuccess && !request->behind) /* nothing to wait for: all of it is visible */
        reveal_regions(n, request->regions);
    return wrap(result, request, out);
}

static void finish(const struct request *request, const int *sizes)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < request->count; i++) {
        struct region *region = request->regions[i];

        if (request->is_flush) {
            reveal_all(take(region, 0));
            continue;
        }
        if (region->shadow && sizes[i])
            arrived(region, request->data[i], (size_t)sizes[i]);
        if (planted == LATE_WRITE)
            write_late(behind_of(region, request->data[i]), (size_t)sizes[i]);
    }
    pthread_mutex_unlock(&lock);
}

static ncclResult_t double_test(void *handle, int *done, int *sizes)
{
    struct request *request = handle;
    int own_sizes[GROUP_MAX] = {0};
    ncclResult_t result = net->test(request->behind, done, request->is_flush ? NULL : own_sizes);

    if (result != ncclSuccess || !*done)
        return result;
    finish(request, own_sizes);
    if (sizes && request->count)
        memcpy(sizes, own_sizes, sizeof *sizes * (size_t)request->count);
    free(request);
    return result;
}

static void find_driver(void)
{
    const char *path = getenv("DETOUR_CUDA_LIB");
    void *driver = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!driver)
        return;
    adopt = (void (*)(int, void *, size_t))dlsym(driver, "fake_cuda_adopt");
    disown = (void (*)(void *))dlsym(driver, "fake_cuda_disown");
}

__attribute__((constructor)) static void fill(void)
{
    const char *bug = getenv("DETOUR_GPU_DOUBLE");
    pthread_t thread;

    net = forward_load();
    find_driver();
    planted = !bug                           ? NONE
              : !strcmp(bug, "late_write")   ? LATE_WRITE
              : !strcmp(bug, "lost_flush")   ? LOST_FLUSH
              : !strcmp(bug, "short_stores") ? SHORT_STORES
                                             : NONE;
    ncclNetPlugin_v8 = *net;
    ncclNetPlugin_v8.getProperties = double_properties;
    ncclNetPlugin_v8.regMr = double_register;
    ncclNetPlugin_v8.regMrDmaBuf = NULL;
    ncclNetPlugin_v8.deregMr = double_deregister;
    ncclNetPlugin_v8.isend = double_isend;
    ncclNetPlugin_v8.irecv = double_irecv;
    ncclNetPlugin_v8.iflush = double_iflush;
    ncclNetPlugin_v8.test = double_test;
    if (pthread_create(&thread, NULL, reveal_late, NULL))
        abort();
    pthread_detach(thread);
}
