/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions of the CUDA driver that Detour calls, resolved at run time, so that neither building nor
 * running Detour requires CUDA. Types and values are the driver's public binary interface, declared here
 * under Detour's names; tests/hostpath/cuda_abi_test.cc compares every one with cuda.h where that is
 * installed.
 *
 * All functions return a CUresult: 0 is success. Pointers to opaque objects are void *.
 */
#ifndef DETOUR_HOSTPATH_CUDA_TABLE_H
#define DETOUR_HOSTPATH_CUDA_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* CUresult: the values that Detour distinguishes. */
enum dt_cuda_result {
    DT_CUDA_SUCCESS = 0,
    DT_CUDA_INVALID_VALUE = 1,
    DT_CUDA_OUT_OF_MEMORY = 2,
    DT_CUDA_NOT_INITIALIZED = 3,
    DT_CUDA_DEINITIALIZED = 4, /* the process is exiting */
    DT_CUDA_NO_DEVICE = 100,
    DT_CUDA_NOT_READY = 600, /* not an error */
    DT_CUDA_ILLEGAL_ADDRESS = 700,
    DT_CUDA_CONTEXT_IS_DESTROYED = 709,
    DT_CUDA_HOST_MEMORY_ALREADY_REGISTERED = 712,
    DT_CUDA_NOT_SUPPORTED = 801
};

/* Flags and names. */
#define DT_CUDA_STREAM_NON_BLOCKING    1u
#define DT_CUDA_EVENT_DISABLE_TIMING   2u
#define DT_CUDA_HOST_ALLOC_PORTABLE    1u
#define DT_CUDA_HOST_ALLOC_DEVICEMAP   2u
#define DT_CUDA_HOST_REGISTER_PORTABLE 1u
#define DT_CUDA_STREAM_CAPTURE_RELAXED 2
#define DT_CUDA_POINTER_MEMORY_TYPE    2
#define DT_CUDA_POINTER_DEVICE_ORDINAL 9
#define DT_CUDA_MEMORY_HOST            1
#define DT_CUDA_MEMORY_DEVICE          2
#define DT_CUDA_RDMA_FLUSH_OPTIONS     117 /* attribute of a GPU */
#define DT_CUDA_RDMA_WRITES_ORDERING   118 /* attribute of a GPU */
#define DT_CUDA_RDMA_FLUSH_BY_HOST     1
#define DT_CUDA_RDMA_ORDERED_FOR_OWNER 100
#define DT_CUDA_RDMA_FLUSH_CONTEXT     0
#define DT_CUDA_RDMA_FLUSH_TO_OWNER    100

/* CUDA_MEMCPY2D */
struct dt_cuda_copy_2d {
    size_t from_x_bytes;
    size_t from_y;
    int from_type; /* DT_CUDA_MEMORY_* */
    const void *from_host;
    uint64_t from_device;
    void *from_array;
    size_t from_pitch;
    size_t to_x_bytes;
    size_t to_y;
    int to_type;
    void *to_host;
    uint64_t to_device;
    void *to_array;
    size_t to_pitch;
    size_t width_bytes;
    size_t height;
};

/*
 * X(field, exported name, is it needed, parameters). The exported name carries the version of the signature,
 * as cuda.h's macros choose it.
 */
#define DT_CUDA_FUNCTIONS(X)                                                                               \
    X(init, "cuInit", 1, (unsigned flags))                                                                 \
    X(driver_get_version, "cuDriverGetVersion", 1, (int *version))                                         \
    X(get_error_string, "cuGetErrorString", 1, (int result, const char **text))                            \
    X(device_get, "cuDeviceGet", 1, (int *device, int ordinal))                                            \
    X(device_primary_ctx_retain, "cuDevicePrimaryCtxRetain", 1, (void **context, int device))              \
    X(device_primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", 1, (int device))                         \
    X(ctx_push_current, "cuCtxPushCurrent_v2", 1, (void *context))                                         \
    X(ctx_pop_current, "cuCtxPopCurrent_v2", 1, (void **context))                                          \
    X(thread_exchange_stream_capture_mode, "cuThreadExchangeStreamCaptureMode", 0, (int *mode))            \
    X(stream_create, "cuStreamCreate", 1, (void **stream, unsigned flags))                                 \
    X(stream_destroy, "cuStreamDestroy_v2", 1, (void *stream))                                             \
    X(stream_query, "cuStreamQuery", 1, (void *stream))                                                    \
    X(stream_write_value32, "cuStreamWriteValue32_v2", 0,                                                  \
      (void *stream, uint64_t address, uint32_t value, unsigned flags))                                    \
    X(event_create, "cuEventCreate", 1, (void **event, unsigned flags))                                    \
    X(event_destroy, "cuEventDestroy_v2", 1, (void *event))                                                \
    X(event_record, "cuEventRecord", 1, (void *event, void *stream))                                       \
    X(event_query, "cuEventQuery", 1, (void *event))                                                       \
    X(mem_host_alloc, "cuMemHostAlloc", 1, (void **memory, size_t bytes, unsigned flags))                  \
    X(mem_free_host, "cuMemFreeHost", 1, (void *memory))                                                   \
    X(mem_host_get_device_pointer, "cuMemHostGetDevicePointer_v2", 1,                                      \
      (uint64_t * address, void *memory, unsigned flags))                                                  \
    X(mem_host_register, "cuMemHostRegister_v2", 1, (void *memory, size_t bytes, unsigned flags))          \
    X(mem_host_unregister, "cuMemHostUnregister", 1, (void *memory))                                       \
    X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2", 1, (void *to, uint64_t from, size_t bytes, void *stream)) \
    X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2", 1,                                                        \
      (uint64_t to, const void *from, size_t bytes, void *stream))                                         \
    X(memcpy_2d_async, "cuMemcpy2DAsync_v2", 1, (const struct dt_cuda_copy_2d *copy, void *stream))        \
    X(pointer_get_attribute, "cuPointerGetAttribute", 1, (void *value, int attribute, uint64_t address))   \
    X(device_get_attribute, "cuDeviceGetAttribute", 0, (int *value, int attribute, int device))            \
    X(flush_rdma_writes, "cuFlushGPUDirectRDMAWrites", 0, (int target, int scope))

struct dt_cuda_table {
#define DT_CUDA_FIELD(field, name, is_needed, parameters) int(*field) parameters;
    DT_CUDA_FUNCTIONS(DT_CUDA_FIELD)
#undef DT_CUDA_FIELD
};

/*
 * Loads the library (a file name for dlopen, e.g. "libcuda.so.1") and finds the functions; optional ones that
 * it lacks are NULL. DT_NOT_FOUND when the library or a needed function is missing: one line for the user
 * goes to `reason`. The library stays loaded. May block; any thread.
 */
enum dt_status dt_cuda_table_load(const char *library, struct dt_cuda_table *table, char *reason,
                                  size_t reason_bytes);

#ifdef __cplusplus
}
#endif

#endif
