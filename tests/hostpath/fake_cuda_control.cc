// SPDX-License-Identifier: Apache-2.0
/* What tests ask of the double of the CUDA driver: memory of GPUs, failures, time, and counts. */
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/hostpath/fake_driver.h"

using namespace fake_driver;

extern "C" {
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

void fake_cuda_adopt(int ordinal, void *address, size_t bytes)
{
    LOCKED;
    driver.memory[reinterpret_cast<uintptr_t>(address)] = {bytes, static_cast<uint8_t *>(address), ordinal};
}

void fake_cuda_disown(void *address)
{
    LOCKED;
    driver.memory.erase(reinterpret_cast<uintptr_t>(address));
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
