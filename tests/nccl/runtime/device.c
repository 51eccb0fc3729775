/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one device of the host runtime: what NCCL asks about it. It claims compute capability 8.0 (no NVLS, no
 * thread block clusters) and driver 12.0 (newer ones switch on copy engine collectives and cuMem host memory,
 * which need virtual memory management). The PCI address is invented; NCCL takes its defaults where sysfs has
 * nothing about it.
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/nccl/runtime/log.h"

enum { DRIVER_VERSION = 12000, MAJOR = 8, MINOR = 0, MULTIPROCESSORS = 108 };

/* Numbers of cudaDeviceAttr and CUdevice_attribute (the same list). */
enum {
    ATTRIBUTE_THREADS_PER_BLOCK = 1,
    ATTRIBUTE_WARP_SIZE = 10,
    ATTRIBUTE_MULTIPROCESSORS = 16,
    ATTRIBUTE_MAJOR = 75,
    ATTRIBUTE_MINOR = 76,
    ATTRIBUTE_SHARED_MEMORY_OPTIN = 97,
    ATTRIBUTE_GPU_DIRECT_RDMA = 116,
};

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device == 0 ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = DRIVER_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    return cudaDriverGetVersion(version);
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error)
{
    switch (error) {
    case cudaSuccess:
        return "no error";
    case cudaErrorInvalidValue:
        return "invalid value";
    case cudaErrorMemoryAllocation:
        return "out of memory";
    case cudaErrorInvalidDevice:
        return "invalid device";
    case cudaErrorNotReady:
        return "not ready";
    case cudaErrorNotSupported:
        return "not supported by the host runtime of tests/nccl";
    default:
        return "unknown error";
    }
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int bytes, int device)
{
    (void)device;
    snprintf(text, (size_t)bytes, "0000:0b:00.0");
    return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    (void)device, (void)peer;
    *can = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceSetLimit(int limit, size_t value)
{
    (void)limit, (void)value;
    return cudaSuccess;
}

static int attribute_of(int attribute)
{
    switch (attribute) {
    case ATTRIBUTE_THREADS_PER_BLOCK:
        return 1024;
    case ATTRIBUTE_WARP_SIZE:
        return 32;
    case ATTRIBUTE_MULTIPROCESSORS:
        return MULTIPROCESSORS;
    case ATTRIBUTE_MAJOR:
        return MAJOR;
    case ATTRIBUTE_MINOR:
        return MINOR;
    case ATTRIBUTE_SHARED_MEMORY_OPTIN:
        return 163 << 10;
    case ATTRIBUTE_GPU_DIRECT_RDMA: /* the pointers of the GPU are addresses of this process: any NIC reaches
                                       them */
        return getenv("DETOUR_NCCL_HOST_GDR") != NULL;
    default:
        return 0;
    }
}

cudaError_t cudaDeviceGetAttribute(int *value, int attribute, int device)
{
    (void)device;
    *value = attribute_of(attribute);
    nh_log(1, "attribute %d is %d", attribute, *value);
    return cudaSuccess;
}

/* Places in cudaDeviceProp that have not moved since CUDA 11. */
enum { PROPERTIES_BYTES = 728, AT_MEMORY_BYTES = 288, AT_WARP_SIZE = 308, AT_MAJOR = 360, AT_MINOR = 364 };

cudaError_t cudaGetDeviceProperties(char *properties, int device)
{
    static const size_t memory_bytes = (size_t)80 << 30;
    static const int warp_size = 32, major = MAJOR, minor = MINOR;

    (void)device;
    memset(properties, 0, PROPERTIES_BYTES);
    strcpy(properties, "host memory");
    memcpy(properties + AT_MEMORY_BYTES, &memory_bytes, sizeof memory_bytes);
    memcpy(properties + AT_WARP_SIZE, &warp_size, sizeof warp_size);
    memcpy(properties + AT_MAJOR, &major, sizeof major);
    memcpy(properties + AT_MINOR, &minor, sizeof minor);
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties_v2(char *properties, int device)
{
    return cudaGetDeviceProperties(properties, device);
}

cudaError_t cudaFuncGetAttributes(size_t *attributes, const void *function)
{
    (void)function;
    memset(attributes, 0, 3 * sizeof *attributes); /* shared, constant and local memory in bytes */
    return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return cudaSuccess;
}
