// SPDX-License-Identifier: Apache-2.0
#include "fake_cuda.h"

#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "hostpath/cuda_table.h"

namespace
{
constexpr int kGpus = 2;
constexpr int kInvalidContext = 201, kInvalidHandle = 400;

struct Context {
    int ordinal;
    int retained;
};

struct Operation {
    uint64_t due_ns;
    std::function<void()> run;
};

struct Stream {
    Context *context;
    uint64_t busy_until_ns = 0;
    std::deque<Operation> operations;
};

struct Event {
    bool is_pending = false;
};

struct Region {
    size_t bytes;
    uint8_t *alias;
    int ordinal;
};

struct Failure {
    unsigned after;
    int result;
};

// The driver's whole state, under one lock.
struct Driver {
    std::mutex mutex;
    std::condition_variable wake;
    std::thread worker;
    bool has_worker = false, is_stopping = false;
    bool is_virtual = false;
    uint64_t virtual_ns = 0;
    unsigned operations_left = UINT_MAX;
    uint64_t latency_ns = 0, bytes_per_s = 0;
    int broken = 0;
    bool has_write_value = true;
    int rdma_options = DT_CUDA_RDMA_FLUSH_BY_HOST;
    int rdma_ordering = 0;
    Context context[kGpus] = {{0, 0}, {1, 0}};
    std::set<Stream *> streams;
    std::set<Event *> events;
    std::map<uintptr_t, Region> memory; // of GPUs
    std::map<uintptr_t, size_t> pinned; // host memory
    std::set<void *> allocated;         // of `pinned`: by cuMemHostAlloc
    std::map<std::string, Failure> failures;
    std::map<std::string, unsigned> calls;
    fake_cuda_faults faults = {};

    ~Driver()
    {
        StopWorker();
    }

    uint64_t Now() const
    {
        if (is_virtual)
            return virtual_ns;
        return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    }

    unsigned OnWay() const
    {
        size_t count = 0;

        for (const Stream *stream : streams)
            count += stream->operations.size();
        return static_cast<unsigned>(count);
    }

    // What is due, in the order of its time.
    void Advance()
    {
        for (;;) {
            Stream *first = nullptr;

            for (Stream *stream : streams) {
                if (!stream->operations.empty() && stream->operations.front().due_ns <= Now() &&
                    (!first || stream->operations.front().due_ns < first->operations.front().due_ns))
                    first = stream;
            }
            if (!first || operations_left == 0)
                return;
            operations_left -= operations_left != UINT_MAX;
            first->operations.front().run();
            first->operations.pop_front();
        }
    }

    void Enqueue(Stream *stream, size_t bytes, std::function<void()> run)
    {
        uint64_t begin = std::max(Now(), stream->busy_until_ns);

        stream->busy_until_ns =
            begin + latency_ns +
            (bytes_per_s
                 ? static_cast<uint64_t>(1e9 * static_cast<double>(bytes) / static_cast<double>(bytes_per_s))
                 : 0);
        stream->operations.push_back({stream->busy_until_ns, std::move(run)});
        if (is_virtual)
            return;
        if (!has_worker) {
            has_worker = true;
            worker = std::thread([this] { Work(); });
        }
        wake.notify_one();
    }

    void Work()
    {
        std::unique_lock<std::mutex> lock(mutex);

        while (!is_stopping) {
            Advance();
            if (OnWay() > 0)
                wake.wait_for(lock, std::chrono::microseconds(20));
            else
                wake.wait(lock);
        }
    }

    void StopWorker()
    {
        if (!has_worker)
            return;
        {
            std::lock_guard<std::mutex> lock(mutex);
            is_stopping = true;
        }
        wake.notify_one();
        worker.join();
        has_worker = is_stopping = false;
    }

    // Where the driver itself finds the bytes of a GPU's address range; NULL: they are not one GPU's.
    uint8_t *Alias(uint64_t address, size_t bytes)
    {
        auto after = memory.upper_bound(address);

        if (after == memory.begin())
            return nullptr;
        auto &[base, region] = *std::prev(after);
        return address - base <= region.bytes && bytes <= region.bytes - (address - base)
                   ? region.alias + (address - base)
                   : nullptr;
    }

    bool IsPinned(const void *data, size_t bytes) const
    {
        uintptr_t address = reinterpret_cast<uintptr_t>(data);
        auto after = pinned.upper_bound(address);

        if (after == pinned.begin())
            return false;
        auto [base, length] = *std::prev(after);
        return address - base <= length && bytes <= length - (address - base);
    }
};

Driver &driver = *new Driver; // a driver outlives the process' destructors
thread_local std::vector<Context *> contexts;
thread_local int capture_mode = 0; // CU_STREAM_CAPTURE_MODE_GLOBAL, the default
thread_local bool is_forbidden = false;

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

#define LOCKED std::lock_guard<std::mutex> locked(driver.mutex)
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
        return DT_CUDA_INVALID_VALUE; // Detour's streams wait for nobody
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

// ------------------------------------------------------------------------------------------------------------
// What tests do with it
void fake_cuda_reset(void)
{
    driver.StopWorker();
    LOCKED;
    for (auto &[address, region] : driver.memory) {
        munmap(reinterpret_cast<void *>(address), region.bytes);
        munmap(region.alias, region.bytes);
    }
    driver.memory.clear();
    for (Stream *stream : driver.streams)
        delete stream;
    for (Event *event : driver.events)
        delete event;
    for (void *memory : driver.allocated)
        free(memory);
    driver.streams.clear();
    driver.events.clear();
    driver.allocated.clear();
    driver.pinned.clear();
    for (Context &context : driver.context)
        context.retained = 0;
    driver.failures.clear();
    driver.calls.clear();
    driver.faults = {};
    driver.broken = 0;
    driver.has_write_value = true;
    driver.rdma_options = DT_CUDA_RDMA_FLUSH_BY_HOST;
    driver.rdma_ordering = 0;
    driver.is_virtual = false;
    driver.operations_left = UINT_MAX;
    driver.latency_ns = driver.bytes_per_s = 0;
}

void *fake_cuda_alloc_for_rnic(int ordinal, size_t bytes)
{
    void *address = fake_cuda_alloc(ordinal, bytes);

    if (mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
        address)
        memset(address, 0xbd, bytes);
    return address;
}

void *fake_cuda_alloc(int ordinal, size_t bytes)
{
    LOCKED;
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t rounded = (bytes + page - 1) / page * page;
    int fd = memfd_create("fake_cuda", MFD_CLOEXEC);
    void *address = MAP_FAILED, *alias = MAP_FAILED;

    if (fd >= 0 && !ftruncate(fd, static_cast<off_t>(rounded))) {
        address = mmap(nullptr, rounded, PROT_NONE, MAP_SHARED, fd, 0);
        alias = mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (address == MAP_FAILED || alias == MAP_FAILED) {
        fprintf(stderr, "fake_cuda: no memory\n");
        abort();
    }
    close(fd);
    driver.memory[reinterpret_cast<uintptr_t>(address)] = {rounded, static_cast<uint8_t *>(alias), ordinal};
    return address;
}

void fake_cuda_free(void *address)
{
    LOCKED;
    auto at = driver.memory.find(reinterpret_cast<uintptr_t>(address));

    if (at == driver.memory.end())
        return;
    munmap(address, at->second.bytes);
    munmap(at->second.alias, at->second.bytes);
    driver.memory.erase(at);
}

void *fake_cuda_alias(void *address)
{
    LOCKED;
    return driver.Alias(reinterpret_cast<uintptr_t>(address), 1);
}

void fake_cuda_set_speed(uint64_t latency_ns, uint64_t bytes_per_s)
{
    LOCKED;
    driver.latency_ns = latency_ns;
    driver.bytes_per_s = bytes_per_s;
}

void fake_cuda_set_time(uint64_t now_ns)
{
    LOCKED;
    driver.is_virtual = true;
    driver.virtual_ns = now_ns;
    driver.Advance();
}

void fake_cuda_let(unsigned operations)
{
    LOCKED;
    driver.operations_left = operations;
    driver.Advance();
}

void fake_cuda_fail(const char *name, unsigned after, int result)
{
    LOCKED;
    driver.failures[name] = {after, result};
}

void fake_cuda_mend(void)
{
    LOCKED;
    driver.failures.clear();
    driver.broken = 0;
}

void fake_cuda_break(int result)
{
    LOCKED;
    driver.broken = result;
    for (Stream *stream : driver.streams)
        stream->operations.clear();
}

void fake_cuda_without_write_value(void)
{
    LOCKED;
    driver.has_write_value = false;
}

void fake_cuda_set_rdma(int flush_options, int writes_ordering)
{
    LOCKED;
    driver.rdma_options = flush_options;
    driver.rdma_ordering = writes_ordering;
}

void fake_cuda_forbid_thread(void)
{
    is_forbidden = true;
}

struct fake_cuda_faults fake_cuda_count_faults(void)
{
    LOCKED;
    return driver.faults;
}

unsigned fake_cuda_calls(const char *name)
{
    LOCKED;
    return driver.calls[name];
}

unsigned fake_cuda_objects(void)
{
    LOCKED;
    size_t count = driver.streams.size() + driver.events.size() + driver.pinned.size();

    for (const Context &context : driver.context)
        count += static_cast<size_t>(context.retained);
    return static_cast<unsigned>(count);
}

unsigned fake_cuda_on_way(void)
{
    LOCKED;
    return driver.OnWay();
}
} // extern "C"
