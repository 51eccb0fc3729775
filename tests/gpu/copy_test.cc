// SPDX-License-Identifier: Apache-2.0
// The host path's copies on a real GPU, with what a kernel sees that polls the memory they write. Skipped,
// with the reason, where there is no driver or no GPU.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/clock.h"
#include "base/prng.h"
#include "hostpath/cuda.h"
#include "tests/gpu/driver.h"
#include "tests/gpu/watch_lines.h"

namespace
{
using detour_test::CudaLibrary;

constexpr size_t kBytes = 64 << 20;

class GpuCopy : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        char reason[256] = "", name[128] = "";

        if (dt_cuda_open(CudaLibrary(), &cuda_, reason, sizeof reason) != DT_OK)
            GTEST_SKIP() << "no GPU here: " << reason;
        void *library = dlopen(CudaLibrary(), RTLD_NOW);
        if (!driver_.FindMemory(library) || !driver_.FindKernels(library))
            GTEST_SKIP() << "no GPU here: " << CudaLibrary() << " cannot run kernels";
        ASSERT_TRUE(driver_.Enter());
        ASSERT_EQ(driver_.alloc(&memory_, kBytes), 0);
        driver_.device_name(name, sizeof name, 0);
        printf("GPU 0: %s\n", name);
        ASSERT_EQ(dt_cuda_gpu_of(cuda_, Address(), &gpu_), DT_OK);
        ASSERT_EQ(dt_cuda_pin(gpu_, host_.data(), host_.size()), DT_OK);
        ASSERT_EQ(dt_cuda_lane_open(gpu_, DT_CUDA_TO_HOST, &to_host_), DT_OK);
        ASSERT_EQ(dt_cuda_lane_open(gpu_, DT_CUDA_TO_GPU, &to_gpu_), DT_OK);
    }

    void TearDown() override
    {
        dt_cuda_lane_close(to_host_);
        dt_cuda_lane_close(to_gpu_);
        if (gpu_)
            dt_cuda_unpin(gpu_, host_.data());
        if (memory_)
            driver_.release(memory_);
        dt_cuda_close(cuda_);
    }

    void *Address(size_t at = 0) const
    {
        return reinterpret_cast<void *>(memory_ + at);
    }

    static uint64_t Finish(dt_copy_lane *lane)
    {
        uint64_t begin_ns = dt_clock_now_ns();

        while (!dt_copy_lane_is_idle(lane))
            dt_copy_lane_progress(lane, dt_clock_now_ns());
        return dt_clock_now_ns() - begin_ns;
    }

    uint64_t Run(dt_copy_lane *lane, void *to, const void *from, size_t bytes, uint32_t flags)
    {
        dt_copy copy = {};

        dt_copy_start(&copy, lane, to, from, bytes, 512 << 10, flags);
        uint64_t ns = Finish(lane);
        EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
        return ns;
    }

    dt_cuda *cuda_ = nullptr;
    dt_cuda_gpu *gpu_ = nullptr;
    dt_copy_lane *to_host_ = nullptr, *to_gpu_ = nullptr;
    detour_test::Driver driver_;
    uint64_t memory_ = 0;
    std::vector<uint8_t> host_ = std::vector<uint8_t>(kBytes);
};

TEST_F(GpuCopy, BytesGoThereAndBack)
{
    std::vector<uint8_t> expected(8 << 20), seen(8 << 20);

    for (size_t i = 0; i < expected.size(); i++)
        expected[i] = static_cast<uint8_t>(i * 131 + (i >> 8) * 7 + (i >> 16));
    for (uint32_t flags : {0u, static_cast<uint32_t>(DT_COPY_POLLED)}) {
        for (size_t bytes : {size_t{1}, size_t{7}, size_t{8}, size_t{120}, size_t{128}, size_t{4097},
                             size_t{614400}, size_t{1 << 20}, expected.size() - 128}) {
            for (size_t at : {size_t{0}, size_t{8}, size_t{121}}) {
                ASSERT_EQ(driver_.set(memory_, 0xee, bytes + 256), 0);
                ASSERT_EQ(driver_.synchronize(), 0);
                memcpy(host_.data(), expected.data(), bytes);
                Run(to_gpu_, Address(at), host_.data(), bytes, flags);
                ASSERT_EQ(driver_.to_host(seen.data(), memory_, bytes + at + 1), 0);
                ASSERT_EQ(memcmp(seen.data() + at, expected.data(), bytes), 0) << bytes << " at " << at;
                ASSERT_EQ(seen[at + bytes], 0xee);
                memset(host_.data(), 0, bytes);
                Run(to_host_, host_.data(), Address(at), bytes, 0);
                ASSERT_EQ(memcmp(host_.data(), expected.data(), bytes), 0) << bytes << " at " << at;
            }
        }
    }
}

// A kernel with a thread for every line, as LL128's receivers: when the last word is there, are the others?
TEST_F(GpuCopy, AKernelThatPollsSeesNoLineInParts)
{
    const uint32_t lines = 4800; // LL128's largest message by default
    void *module = nullptr, *watch = nullptr;
    uint64_t counters = 0;

    ASSERT_EQ(driver_.module_load(&module, kWatchLines), 0);
    ASSERT_EQ(driver_.module_function(&watch, module, "watch_lines"), 0);
    ASSERT_EQ(driver_.alloc(&counters, 8), 0);
    memset(host_.data(), 0xff, lines * 128);
    for (int round = 0; round < 200; round++) {
        uint32_t seen[2] = {};
        uint64_t wrong_at = counters + 4;
        uint32_t count = lines;
        void *parameters[] = {&memory_, &count, &counters, &wrong_at};

        ASSERT_EQ(driver_.set(memory_, 0, lines * 128), 0);
        ASSERT_EQ(driver_.set(counters, 0, 8), 0);
        ASSERT_EQ(driver_.synchronize(), 0);
        ASSERT_EQ(
            driver_.launch(watch, (lines + 127) / 128, 1, 1, 128, 1, 1, 0, nullptr, parameters, nullptr), 0);
        Run(to_gpu_, Address(), host_.data(), lines * 128, DT_COPY_POLLED);
        ASSERT_EQ(driver_.synchronize(), 0);
        ASSERT_EQ(driver_.to_host(seen, counters, 8), 0);
        ASSERT_EQ(seen[0], lines) << "each line was seen";
        ASSERT_EQ(seen[1], 0u) << "lines whose last word came first";
    }
    driver_.release(counters);
}

// No verdict: what to write down, with the GPU's name.
TEST_F(GpuCopy, Rates)
{
    for (size_t bytes : {size_t{4 << 10}, size_t{64 << 10}, size_t{1 << 20}, size_t{16 << 20}, kBytes}) {
        double best[3] = {1e18, 1e18, 1e18};

        for (int round = 0; round < 20; round++) {
            best[0] =
                std::min(best[0], static_cast<double>(Run(to_host_, host_.data(), Address(), bytes, 0)));
            best[1] = std::min(best[1], static_cast<double>(Run(to_gpu_, Address(), host_.data(), bytes, 0)));
            best[2] = std::min(
                best[2], static_cast<double>(Run(to_gpu_, Address(), host_.data(), bytes, DT_COPY_POLLED)));
        }
        printf("%9zu bytes: to host %8.1f us, %6.2f GB/s; to GPU %8.1f us, %6.2f GB/s; to GPU, polled %8.1f "
               "us, %6.2f GB/s\n",
               bytes, best[0] / 1e3, static_cast<double>(bytes) / best[0], best[1] / 1e3,
               static_cast<double>(bytes) / best[1], best[2] / 1e3, static_cast<double>(bytes) / best[2]);
    }
}
} // namespace
