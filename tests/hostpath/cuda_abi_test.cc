// SPDX-License-Identifier: Apache-2.0
// The driver's binary interface as hostpath/cuda_table.h declares it, against cuda.h where that is installed.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <type_traits>

#include "hostpath/cuda_table.h"

#ifdef DETOUR_HAS_CUDA_H
#include <cuda.h>
#if CUDA_VERSION < 12000 // its cuStreamWriteValue32 is an earlier one
#undef cuStreamWriteValue32
#define cuStreamWriteValue32 cuStreamWriteValue32_v2
#endif

namespace
{
// Passed in the same way: both pointers, or both numbers of one size.
template <class A, class B>
constexpr bool IsSame()
{
    return sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;
}

template <class ResultA, class... A, class ResultB, class... B>
constexpr bool IsSameCall(ResultA (*)(A...), ResultB (*)(B...))
{
    if constexpr (sizeof...(A) != sizeof...(B))
        return false;
    else
        return IsSame<ResultA, ResultB>() && (IsSame<A, B>() && ...);
}

const char *NameOf(const char *field)
{
#define NAME(name_of_field, name, is_needed, parameters) \
    if (strcmp(field, #name_of_field) == 0)              \
        return name;
    DT_CUDA_FUNCTIONS(NAME)
#undef NAME
    return "";
}

#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x) // after cuda.h's macros have chosen the version

#define PAIRS(X)                                                              \
    X(init, cuInit)                                                           \
    X(driver_get_version, cuDriverGetVersion)                                 \
    X(get_error_string, cuGetErrorString)                                     \
    X(device_get, cuDeviceGet)                                                \
    X(device_primary_ctx_retain, cuDevicePrimaryCtxRetain)                    \
    X(device_primary_ctx_release, cuDevicePrimaryCtxRelease)                  \
    X(ctx_push_current, cuCtxPushCurrent)                                     \
    X(ctx_pop_current, cuCtxPopCurrent)                                       \
    X(thread_exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode) \
    X(stream_create, cuStreamCreate)                                          \
    X(stream_destroy, cuStreamDestroy)                                        \
    X(stream_query, cuStreamQuery)                                            \
    X(stream_write_value32, cuStreamWriteValue32)                             \
    X(event_create, cuEventCreate)                                            \
    X(event_destroy, cuEventDestroy)                                          \
    X(event_record, cuEventRecord)                                            \
    X(event_query, cuEventQuery)                                              \
    X(mem_host_alloc, cuMemHostAlloc)                                         \
    X(mem_free_host, cuMemFreeHost)                                           \
    X(mem_host_get_device_pointer, cuMemHostGetDevicePointer)                 \
    X(mem_host_register, cuMemHostRegister)                                   \
    X(mem_host_unregister, cuMemHostUnregister)                               \
    X(memcpy_dtoh_async, cuMemcpyDtoHAsync)                                   \
    X(memcpy_htod_async, cuMemcpyHtoDAsync)                                   \
    X(memcpy_2d_async, cuMemcpy2DAsync)                                       \
    X(pointer_get_attribute, cuPointerGetAttribute)                           \
    X(device_get_attribute, cuDeviceGetAttribute)                             \
    X(flush_rdma_writes, cuFlushGPUDirectRDMAWrites)

TEST(CudaAbi, FunctionsHaveTheVersionsAndParametersOfTheHeader)
{
    size_t count = 0;

#define CHECK_PAIR(field, function)                                                                \
    static_assert(IsSameCall(decltype(&function){}, decltype(dt_cuda_table::field){}), #function); \
    EXPECT_STREQ(NameOf(#field), TEXT(function));                                                  \
    count++;
    PAIRS(CHECK_PAIR)
    EXPECT_EQ(count * sizeof(void *), sizeof(dt_cuda_table)) << "each function is compared";
}

TEST(CudaAbi, ValuesAreTheHeaders)
{
    static_assert(int{DT_CUDA_SUCCESS} == CUDA_SUCCESS);
    static_assert(int{DT_CUDA_INVALID_VALUE} == CUDA_ERROR_INVALID_VALUE);
    static_assert(int{DT_CUDA_NOT_READY} == CUDA_ERROR_NOT_READY);
    static_assert(int{DT_CUDA_HOST_MEMORY_ALREADY_REGISTERED} == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    static_assert(int{DT_CUDA_NOT_SUPPORTED} == CUDA_ERROR_NOT_SUPPORTED);
    static_assert(DT_CUDA_STREAM_NON_BLOCKING == CU_STREAM_NON_BLOCKING);
    static_assert(DT_CUDA_EVENT_DISABLE_TIMING == CU_EVENT_DISABLE_TIMING);
    static_assert(DT_CUDA_HOST_ALLOC_PORTABLE == CU_MEMHOSTALLOC_PORTABLE);
    static_assert(DT_CUDA_HOST_ALLOC_DEVICEMAP == CU_MEMHOSTALLOC_DEVICEMAP);
    static_assert(DT_CUDA_HOST_REGISTER_PORTABLE == CU_MEMHOSTREGISTER_PORTABLE);
    static_assert(DT_CUDA_STREAM_CAPTURE_RELAXED == CU_STREAM_CAPTURE_MODE_RELAXED);
    static_assert(DT_CUDA_POINTER_MEMORY_TYPE == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
    static_assert(DT_CUDA_POINTER_DEVICE_ORDINAL == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
    static_assert(DT_CUDA_MEMORY_HOST == CU_MEMORYTYPE_HOST);
    static_assert(DT_CUDA_MEMORY_DEVICE == CU_MEMORYTYPE_DEVICE);
    static_assert(DT_CUDA_RDMA_FLUSH_OPTIONS == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
    static_assert(DT_CUDA_RDMA_WRITES_ORDERING == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
    static_assert(DT_CUDA_RDMA_FLUSH_BY_HOST == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
    static_assert(DT_CUDA_RDMA_ORDERED_FOR_OWNER == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
    static_assert(DT_CUDA_RDMA_FLUSH_CONTEXT == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
    static_assert(DT_CUDA_RDMA_FLUSH_TO_OWNER == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
    static_assert(CU_STREAM_WRITE_VALUE_DEFAULT == 0);
    static_assert(sizeof(CUresult) == sizeof(int) && sizeof(CUmemorytype) == sizeof(int));
}

TEST(CudaAbi, TheStructIsLaidOutAsTheHeaders)
{
    static_assert(sizeof(dt_cuda_copy_2d) == sizeof(CUDA_MEMCPY2D));
#define CHECK_FIELD(ours, theirs) \
    static_assert(offsetof(dt_cuda_copy_2d, ours) == offsetof(CUDA_MEMCPY2D, theirs), #theirs)
    CHECK_FIELD(from_x_bytes, srcXInBytes);
    CHECK_FIELD(from_y, srcY);
    CHECK_FIELD(from_type, srcMemoryType);
    CHECK_FIELD(from_host, srcHost);
    CHECK_FIELD(from_device, srcDevice);
    CHECK_FIELD(from_array, srcArray);
    CHECK_FIELD(from_pitch, srcPitch);
    CHECK_FIELD(to_x_bytes, dstXInBytes);
    CHECK_FIELD(to_y, dstY);
    CHECK_FIELD(to_type, dstMemoryType);
    CHECK_FIELD(to_host, dstHost);
    CHECK_FIELD(to_device, dstDevice);
    CHECK_FIELD(to_array, dstArray);
    CHECK_FIELD(to_pitch, dstPitch);
    CHECK_FIELD(width_bytes, WidthInBytes);
    CHECK_FIELD(height, Height);
}
} // namespace
#else
TEST(CudaAbi, FunctionsHaveTheVersionsAndParametersOfTheHeader)
{
    GTEST_SKIP() << "cuda.h was not found when this was built (CUDA_HOME names the toolkit)";
}
#endif
