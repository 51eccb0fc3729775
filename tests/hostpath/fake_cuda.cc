// SPDX-License-Identifier: Apache-2.0
/* The functions of the CUDA driver, on the double's state. */
#include <cstdlib>
#include <cstring>
#include <vector>

#include "tests/hostpath/fake_driver.h"

using namespace fake_driver;

namespace fake_driver
{
Driver &driver = *new Driver; // a driver outlives the process' destructors
thread_local bool is_forbidden = false;
} // namespace fake_driver

namespace
{
constexpr int kInvalidContext = 201, kInvalidHandle = 400;

thread_local std::vector<Context *> contexts;
thread_local int capture_mode = 0; // CU_STREAM_CAPTURE_MODE_GLOBAL, the default

// Counts the call and decides whether it fails. Under the lock.
int Enter(const char *name)
{
    driver.calls[name]++;
    driver.faults.forbidden_calls += is_forbidden;
    auto failure = driver.failures.find(name);
    if (failure != driver.failures.end()) {
        if (failure->second.after == 0)
            return failure->second.result;
        failure->second.after--;
    }
    return driver.broken;
}

// The same of a call that needs a current context.
int EnterContext(const char *name)
{
    int result = Enter(name);

    driver.faults.unsafe_calls += capture_mode != DT_CUDA_STREAM_CAPTURE_RELAXED;
    if (result == DT_CUDA_SUCCESS && contexts.empty()) {
        driver.faults.no_context_calls++;
        return kInvalidContext;
    }
    return result;
}

int EnterStream(const char *name, void *handle, Stream **stream)
{
    int result = EnterContext(name);

    *stream = static_cast<Stream *>(handle);
    if (result != DT_CUDA_SUCCESS)
        return result;
    if (!driver.streams.count(*stream))
        return kInvalidHandle;
    if ((*stream)->context == contexts.back())
        return DT_CUDA_SUCCESS;
    driver.faults.wrong_context_calls++;
    return kInvalidHandle;
}

int Copy(Stream *stream, uint8_t *to, const uint8_t *from, size_t bytes, size_t pitch, size_t rows,
         const void *host)
{
    if (!to || !from)
        return DT_CUDA_INVALID_VALUE;
    driver.faults.unpinned_copies += !driver.IsPinned(host, pitch * (rows - 1) + bytes);
    driver.Enqueue(stream, bytes * rows, [=] {
        for (size_t row = 0; row < rows; row++)
            memcpy(to + row * pitch, from + row * pitch, bytes);
    });
    return DT_CUDA_SUCCESS;
}

#define ENTER(how)                   \
    LOCKED;                          \
    if (int result_ = how(__func__)) \
    return result_

} // namespace

// ------------------------------------------------------------------------------------------------------------
// The driver's functions, by their exported names
extern "C" {
#define DRIVER FAKE_CUDA_API int

DRIVER cuInit(unsigned)
{
    ENTER(Enter);
    return DT_CUDA_SUCCESS;
}

DRIVER cuDriverGetVersion(int *version)
{
    ENTER(Enter);
    *version = 12080;
    return DT_CUDA_SUCCESS;
}

DRIVER cuGetErrorString(int result, const char **text)
{
    static thread_local char buffer[32];

    snprintf(buffer, sizeof buffer, "fake error %d", result);
    *text = buffer;
    return DT_CUDA_SUCCESS;
}

DRIVER cuDeviceGet(int *device, int ordinal)
{
    ENTER(Enter);
    *device = ordinal + 100; // a handle, not an index
    return ordinal >= 0 && ordinal < kGpus ? DT_CUDA_SUCCESS : DT_CUDA_INVALID_VALUE;
}

DRIVER cuDevicePrimaryCtxRetain(void **context, int device)
{
    ENTER(Enter);
    driver.context[device - 100].retained++;
    *context = &driver.context[device - 100];
    return DT_CUDA_SUCCESS;
}

DRIVER cuDevicePrimaryCtxRelease_v2(int device)
{
    LOCKED;
    driver.context[device - 100].retained--;
    return Enter(__func__);
}

DRIVER cuCtxPushCurrent_v2(void *context)
{
    ENTER(Enter);
    contexts.push_back(static_cast<Context *>(context));
    return DT_CUDA_SUCCESS;
}

DRIVER cuCtxPopCurrent_v2(void **context)
{
    LOCKED;
    if (contexts.empty())
        return kInvalidContext;
    *context = contexts.back();
    contexts.pop_back();
    return Enter(__func__);
}

DRIVER cuThreadExchangeStreamCaptureMode(int *mode)
{
    LOCKED;
    std::swap(*mode, capture_mode);
    return Enter(__func__);
}

DRIVER cuStreamCreate(void **stream, unsigned flags)
{
    ENTER(EnterContext);
    if (flags != DT_CUDA_STREAM_NON_BLOCKING)
        return DT_CUDA_INVALID_VALUE; // Detour's streams wait for no other stream
    *stream = *driver.streams.insert(new Stream{contexts.back(), 0, {}}).first;
    return DT_CUDA_SUCCESS;
}

DRIVER cuStreamDestroy_v2(void *handle)
{
    LOCKED;
    Stream *stream = static_cast<Stream *>(handle);

    if (!driver.streams.erase(stream))
        return kInvalidHandle;
    delete stream;
    return EnterContext(__func__);
}

DRIVER cuStreamQuery(void *handle)
{
    LOCKED;
    Stream *stream;
    int result = EnterStream(__func__, handle, &stream);

    if (result != DT_CUDA_SUCCESS)
        return result;
    driver.Advance();
    return stream->operations.empty() ? DT_CUDA_SUCCESS : DT_CUDA_NOT_READY;
}

DRIVER cuStreamWriteValue32_v2(void *handle, uint64_t address, uint32_t value, unsigned)
{
    LOCKED;
    Stream *stream;
    int result = EnterStream(__func__, handle, &stream);

    if (result != DT_CUDA_SUCCESS)
        return result;
    if (!driver.has_write_value)
        return DT_CUDA_NOT_SUPPORTED;
    if (!driver.IsPinned(reinterpret_cast<void *>(address), 4))
        return DT_CUDA_INVALID_VALUE;
    driver.Enqueue(stream, 0,
                   [=] { __atomic_store_n(reinterpret_cast<uint32_t *>(address), value, __ATOMIC_RELEASE); });
    return DT_CUDA_SUCCESS;
}

DRIVER cuEventCreate(void **event, unsigned)
{
    ENTER(EnterContext);
    *event = *driver.events.insert(new Event).first;
    return DT_CUDA_SUCCESS;
}

DRIVER cuEventDestroy_v2(void *handle)
{
    LOCKED;
    Event *event = static_cast<Event *>(handle);

    if (!driver.events.erase(event))
        return kInvalidHandle;
    delete event;
    return EnterContext(__func__);
}

DRIVER cuEventRecord(void *handle, void *stream_handle)
{
    LOCKED;
    Stream *stream;
    Event *event = static_cast<Event *>(handle);
    int result = EnterStream(__func__, stream_handle, &stream);

    if (result != DT_CUDA_SUCCESS)
        return result;
    event->is_pending = true;
    driver.Enqueue(stream, 0, [=] { event->is_pending = false; });
    return DT_CUDA_SUCCESS;
}

DRIVER cuEventQuery(void *event)
{
    ENTER(EnterContext);
    driver.Advance();
    return static_cast<Event *>(event)->is_pending ? DT_CUDA_NOT_READY : DT_CUDA_SUCCESS;
}

DRIVER cuMemHostAlloc(void **memory, size_t bytes, unsigned)
{
    ENTER(EnterContext);
    *memory = calloc(1, bytes);
    driver.allocated.insert(*memory);
    driver.pinned[reinterpret_cast<uintptr_t>(*memory)] = bytes;
    return DT_CUDA_SUCCESS;
}

DRIVER cuMemFreeHost(void *memory)
{
    LOCKED;
    if (!driver.allocated.erase(memory))
        return DT_CUDA_INVALID_VALUE;
    driver.pinned.erase(reinterpret_cast<uintptr_t>(memory));
    free(memory);
    return EnterContext(__func__);
}

DRIVER cuMemHostGetDevicePointer_v2(uint64_t *address, void *memory, unsigned)
{
    ENTER(EnterContext);
    *address = reinterpret_cast<uintptr_t>(memory);
    return driver.IsPinned(memory, 1) ? DT_CUDA_SUCCESS : DT_CUDA_INVALID_VALUE;
}

DRIVER cuMemHostRegister_v2(void *memory, size_t bytes, unsigned)
{
    ENTER(EnterContext);
    return driver.pinned.emplace(reinterpret_cast<uintptr_t>(memory), bytes).second
               ? DT_CUDA_SUCCESS
               : DT_CUDA_HOST_MEMORY_ALREADY_REGISTERED;
}

DRIVER cuMemHostUnregister(void *memory)
{
    LOCKED;
    if (!driver.pinned.erase(reinterpret_cast<uintptr_t>(memory)))
        return DT_CUDA_INVALID_VALUE;
    return EnterContext(__func__);
}

// Detour does not call the next five; tests that also run on a GPU do (tests/gpu/driver.h).
DRIVER cuCtxSynchronize(void)
{
    return DT_CUDA_SUCCESS;
}

DRIVER cuMemAlloc_v2(uint64_t *address, size_t bytes)
{
    *address = reinterpret_cast<uint64_t>(fake_cuda_alloc(0, bytes));
    return DT_CUDA_SUCCESS;
}

DRIVER cuMemFree_v2(uint64_t address)
{
    fake_cuda_free(reinterpret_cast<void *>(address));
    return DT_CUDA_SUCCESS;
}

DRIVER cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    LOCKED;
    memcpy(to, driver.Alias(from, bytes), bytes);
    return DT_CUDA_SUCCESS;
}

DRIVER cuMemsetD8_v2(uint64_t to, unsigned char value, size_t bytes)
{
    LOCKED;
    memset(driver.Alias(to, bytes), value, bytes);
    return DT_CUDA_SUCCESS;
}

DRIVER cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, void *handle)
{
    LOCKED;
    Stream *stream;
    int result = EnterStream(__func__, handle, &stream);

    return result ? result
                  : Copy(stream, static_cast<uint8_t *>(to), driver.Alias(from, bytes), bytes, 0, 1, to);
}

DRIVER cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, void *handle)
{
    LOCKED;
    Stream *stream;
    int result = EnterStream(__func__, handle, &stream);

    return result
               ? result
               : Copy(stream, driver.Alias(to, bytes), static_cast<const uint8_t *>(from), bytes, 0, 1, from);
}

DRIVER cuMemcpy2DAsync_v2(const dt_cuda_copy_2d *copy, void *handle)
{
    LOCKED;
    Stream *stream;
    int result = EnterStream(__func__, handle, &stream);

    if (result != DT_CUDA_SUCCESS)
        return result;
    if (copy->from_type != DT_CUDA_MEMORY_HOST || copy->to_type != DT_CUDA_MEMORY_DEVICE ||
        copy->from_pitch != copy->to_pitch || copy->height == 0)
        return DT_CUDA_INVALID_VALUE; // all that Detour asks for
    return Copy(stream,
                driver.Alias(copy->to_device, copy->to_pitch * (copy->height - 1) + copy->width_bytes),
                static_cast<const uint8_t *>(copy->from_host), copy->width_bytes, copy->to_pitch,
                copy->height, copy->from_host);
}

DRIVER cuPointerGetAttribute(void *value, int attribute, uint64_t address)
{
    ENTER(Enter);
    auto after = driver.memory.upper_bound(address);
    bool is_gpu = driver.Alias(address, 1) != nullptr;

    if (!is_gpu && !driver.IsPinned(reinterpret_cast<void *>(address), 1))
        return DT_CUDA_INVALID_VALUE;
    if (attribute == DT_CUDA_POINTER_MEMORY_TYPE)
        *static_cast<unsigned *>(value) = is_gpu ? DT_CUDA_MEMORY_DEVICE : DT_CUDA_MEMORY_HOST;
    else if (attribute == DT_CUDA_POINTER_DEVICE_ORDINAL)
        *static_cast<int *>(value) = is_gpu ? std::prev(after)->second.ordinal : 0;
    else
        return DT_CUDA_INVALID_VALUE;
    return DT_CUDA_SUCCESS;
}

DRIVER cuDeviceGetAttribute(int *value, int attribute, int)
{
    ENTER(Enter);
    if (attribute == DT_CUDA_RDMA_FLUSH_OPTIONS)
        *value = driver.rdma_options;
    else if (attribute == DT_CUDA_RDMA_WRITES_ORDERING)
        *value = driver.rdma_ordering;
    else
        return DT_CUDA_INVALID_VALUE;
    return DT_CUDA_SUCCESS;
}

DRIVER cuFlushGPUDirectRDMAWrites(int target, int scope)
{
    ENTER(EnterContext);
    if (target != DT_CUDA_RDMA_FLUSH_CONTEXT || scope != DT_CUDA_RDMA_FLUSH_TO_OWNER)
        return DT_CUDA_INVALID_VALUE;
    return driver.rdma_options & DT_CUDA_RDMA_FLUSH_BY_HOST ? DT_CUDA_SUCCESS : DT_CUDA_NOT_SUPPORTED;
}
} // extern "C"
