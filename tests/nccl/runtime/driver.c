/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver functions that NCCL takes from the runtime by name, and kernel launches. A function that is
 * exported here is found, every other one is reported as missing, which NCCL takes for an older driver.
 */
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/nccl/kernels/kernel.h"
#include "tests/nccl/runtime/log.h"
#include "tests/nccl/runtime/memory.h"
#include "tests/nccl/runtime/stream.h"
#include "tests/nccl/seam/seam.h"

enum { SYMBOL_FOUND = 0, SYMBOL_NOT_FOUND = 1, ERROR_NOT_FOUND = 500 };

cudaError_t cudaGetDriverEntryPoint(const char *name, void **function, unsigned long long flags, int *status)
{
    (void)flags;
    *function = nh_own_function(name);
    if (status)
        *status = *function ? SYMBOL_FOUND : SYMBOL_NOT_FOUND;
    if (!*function)
        nh_log(1, "driver function %s: none", name);
    return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                             unsigned long long flags, int *status)
{
    (void)version;
    return cudaGetDriverEntryPoint(name, function, flags, status);
}

/* NCCL up to 2.21 takes these three from libcuda.so itself. */
int cuInit(unsigned flags)
{
    (void)flags;
    return 0;
}

cudaError_t cudaDriverGetVersion(int *version);

int cuDriverGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

int cuGetProcAddress(const char *name, void **function, int version, uint64_t flags)
{
    (void)version, (void)flags;
    *function = nh_own_function(name);
    return *function ? 0 : ERROR_NOT_FOUND;
}

int cuGetErrorString(int error, const char **text)
{
    *text = cudaGetErrorString(error);
    return 0;
}

int cuGetErrorName(int error, const char **text)
{
    return cuGetErrorString(error, text);
}

int cuDeviceGet(int *device, int ordinal)
{
    *device = ordinal;
    return ordinal ? cudaErrorInvalidDevice : 0;
}

cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device);

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    return cudaDeviceGetAttribute(value, attribute, device);
}

/* NCCL compares the ids of the ranks' devices: each process has its own. */
int cuDeviceGetUuid(char *uuid, int device)
{
    int pid = (int)getpid();

    (void)device;
    memset(uuid, 0, 16);
    memcpy(uuid, &pid, sizeof pid);
    return 0;
}

static int the_context; /* its address names the one context */

int cuCtxGetCurrent(void **context)
{
    *context = &the_context;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    (void)context;
    return 0;
}

int cuCtxGetDevice(int *device)
{
    return cuDeviceGet(device, 0);
}

int cuMemGetAddressRange(void **base, size_t *bytes, void *pointer)
{
    return nh_memory_of(pointer, base, bytes) == NH_PAGEABLE ? cudaErrorInvalidValue : 0;
}

/* ---- Launches ---- */

struct launch {
    const void *function;
    unsigned blocks;
    size_t bytes;
    _Alignas(16) unsigned char arguments[];
};

static void launch_task(void *argument)
{
    struct launch *launch = argument;

    nh_run_kernel(nh_symbol_at(launch->function), launch->arguments, launch->bytes, launch->blocks);
    free(launch);
}

/* The values of `extra`: an array of keys and pointers that ends with 0. */
#define EXTRA_END    ((void *)0)
#define EXTRA_BUFFER ((void *)1)
#define EXTRA_SIZE   ((void *)2)

/* As in CUDA, the arguments are copied before the call returns. */
static int launch(const void *function, unsigned blocks, void *stream, void **extra)
{
    const void *arguments = NULL;
    struct launch *launch;
    size_t bytes = 0;

    for (int i = 0; extra && extra[i] != EXTRA_END; i += 2) {
        if (extra[i] == EXTRA_BUFFER)
            arguments = extra[i + 1];
        if (extra[i] == EXTRA_SIZE)
            bytes = *(const size_t *)extra[i + 1];
    }
    if (!arguments)
        nh_die("%s is launched without a buffer of arguments", nh_symbol_at(function));
    launch = aligned_alloc(16, (sizeof *launch + bytes + 15) / 16 * 16);
    if (!launch)
        return cudaErrorMemoryAllocation;
    *launch = (struct launch){.function = function, .blocks = blocks, .bytes = bytes};
    memcpy(launch->arguments, arguments, bytes);
    nh_stream_push(nh_stream_of(stream), launch_task, launch);
    return 0;
}

/* CUlaunchConfig of the API reference. */
struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream, *attributes;
    unsigned attribute_count;
};

int cuLaunchKernelEx(const struct launch_config *config, const void *function, void **parameters,
                     void **extra)
{
    (void)parameters;
    return launch(function, config->grid[0], config->stream, extra);
}

int cuLaunchKernel(const void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **parameters,
                   void **extra)
{
    (void)grid_y, (void)grid_z, (void)block_x, (void)block_y, (void)block_z, (void)shared_bytes,
        (void)parameters;
    return launch(function, grid_x, stream, extra);
}

/* A kernel's handle is the address of its host symbol. */
cudaError_t cudaGetFuncBySymbol(const void **function, const void *symbol)
{
    *function = symbol;
    return cudaSuccess;
}
