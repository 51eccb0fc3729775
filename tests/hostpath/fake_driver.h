// SPDX-License-Identifier: Apache-2.0
/*
 * The state of the double of the CUDA driver, for fake_cuda.cc (the driver's functions) and
 * fake_cuda_control.cc (what tests ask of the double). One lock guards all of it.
 */
#ifndef DETOUR_TESTS_HOSTPATH_FAKE_DRIVER_H
#define DETOUR_TESTS_HOSTPATH_FAKE_DRIVER_H

#include <algorithm>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "hostpath/cuda_table.h"
#include "tests/hostpath/fake_cuda.h"

namespace fake_driver
{
constexpr int kGpus = 2;

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

extern Driver &driver;
extern thread_local bool is_forbidden; // by fake_cuda_forbid_thread()

#define LOCKED std::lock_guard<std::mutex> locked(driver.mutex)
} // namespace fake_driver

#endif
