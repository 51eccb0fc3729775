// SPDX-License-Identifier: Apache-2.0
// The thread that copies GPU memory, on the double of the driver, in real time.
#include "hostpath/gpu.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "base/prng.h"
#include "tests/harness/harness.h"
#include "tests/hostpath/fake_cuda.h"

namespace
{
constexpr size_t kPoolBytes = 4 << 20;
constexpr size_t kGpuBytes = 4 << 20;

class GpusTest : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake_cuda_reset();
        memory_ = fake_cuda_alloc(0, kGpuBytes);
        bytes_ = static_cast<uint8_t *>(fake_cuda_alias(memory_));
        Open(true);
    }

    void TearDown() override
    {
        Close();
        auto faults = fake_cuda_count_faults();
        EXPECT_EQ(faults.unpinned_copies, 0u);
        EXPECT_EQ(faults.forbidden_calls, 0u);
        EXPECT_EQ(faults.no_context_calls, 0u);
        EXPECT_EQ(faults.wrong_context_calls, 0u);
        EXPECT_EQ(faults.unsafe_calls, 0u);
        fake_cuda_reset();
    }

    void Open(bool has_threads)
    {
        Close();
        dt_gpus_open(&gpus_, FAKE_CUDA_LIBRARY, pool_.data(), pool_.size(), has_threads);
        is_open_ = true;
    }

    void Close()
    {
        if (is_open_)
            dt_gpus_close(&gpus_);
        is_open_ = false;
    }

    dt_gpu_copy ToHost(dt_gpu *gpu, size_t to, size_t from, size_t bytes, uint32_t *left)
    {
        dt_gpu_copy copy = {};

        copy.gpu = gpu;
        copy.direction = DT_CUDA_TO_HOST;
        copy.to = &pool_[to];
        copy.from = static_cast<uint8_t *>(memory_) + from;
        copy.bytes = bytes;
        copy.left = left;
        return copy;
    }

    dt_gpu_copy ToGpu(dt_gpu *gpu, size_t to, size_t from, size_t bytes, uint32_t *left)
    {
        dt_gpu_copy copy = {};

        copy.gpu = gpu;
        copy.direction = DT_CUDA_TO_GPU;
        copy.to = static_cast<uint8_t *>(memory_) + to;
        copy.from = &pool_[from];
        copy.bytes = bytes;
        copy.flags = DT_COPY_POLLED;
        copy.left = left;
        return copy;
    }

    static void Wait(const uint32_t *left)
    {
        while (dt_load_acquire(left) > 0)
            std::this_thread::yield();
    }

    static size_t CountLines(const std::string &part)
    {
        size_t count = 0;

        for (const std::string &line : detour_test::LoggedLines())
            count += line.find(part) != std::string::npos;
        return count;
    }

    void *memory_ = nullptr;
    uint8_t *bytes_ = nullptr;
    std::vector<uint8_t> pool_ = std::vector<uint8_t>(kPoolBytes);
    dt_gpus gpus_;
    bool is_open_ = false;
};

TEST_F(GpusTest, NCCLsThreadNeverCallsTheDriver)
{
    dt_gpu *gpu = dt_gpus_find(&gpus_, memory_);

    ASSERT_NE(gpu, nullptr);
    memset(bytes_, 0x5a, kGpuBytes);
    fake_cuda_set_speed(20000, 0);
    std::thread([&] {
        uint32_t left = 3;
        dt_gpu_copy copy[3];

        fake_cuda_forbid_thread();
        for (size_t i = 0; i < 3; i++) {
            copy[i] = ToHost(gpu, i << 20, i << 20, 1 << 20, &left);
            dt_gpus_push(&gpus_, &copy[i]);
        }
        Wait(&left);
        for (const dt_gpu_copy &each : copy)
            EXPECT_FALSE(each.is_failed);
    }).join();
    EXPECT_EQ(memcmp(pool_.data(), bytes_, 3 << 20), 0);
}

TEST_F(GpusTest, ManyThreadsMayPush)
{
    dt_gpu *gpu = dt_gpus_find(&gpus_, memory_);
    constexpr size_t kThreads = 4, kEach = kPoolBytes / kThreads;

    ASSERT_NE(gpu, nullptr);
    fake_cuda_set_speed(2000, 0);
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kThreads; t++) {
        threads.emplace_back([&, t] {
            dt_prng prng;

            dt_prng_init(&prng, t + 1);
            for (int round = 0; round < 40; round++) {
                size_t bytes = dt_prng_below(&prng, kEach / 4 + 1), base = t * kEach, back = base + kEach / 2;
                uint32_t left = 1;
                dt_gpu_copy copy = ToGpu(gpu, base, base, bytes, &left);

                memset(&pool_[base], round + static_cast<int>(t), bytes);
                dt_gpus_push(&gpus_, &copy);
                Wait(&left);
                left = 1;
                copy = ToHost(gpu, back, base, bytes, &left);
                dt_gpus_push(&gpus_, &copy);
                Wait(&left);
                ASSERT_FALSE(copy.is_failed);
                ASSERT_EQ(memcmp(&pool_[base], &pool_[back], bytes), 0);
            }
        });
    }
    for (std::thread &thread : threads)
        thread.join();
}

TEST_F(GpusTest, SeesChunksWhileTheRestIsOnItsWay)
{
    Open(false);
    fake_cuda_set_time(1000000);
    fake_cuda_set_speed(0, 1000000000); // a byte per ns
    dt_gpu *gpu = dt_gpus_find(&gpus_, memory_);
    ASSERT_NE(gpu, nullptr);
    uint32_t left = 1;
    dt_gpu_copy copy = ToHost(gpu, 0, 0, 2 << 20, &left);

    dt_gpus_push(&gpus_, &copy);
    dt_gpus_run(&gpus_, 1000000);
    for (uint64_t chunk = 1; chunk <= 4; chunk++) {
        fake_cuda_set_time(1000000 + chunk * (512 << 10));
        dt_gpus_run(&gpus_, 1000000 + chunk * (512 << 10));
        EXPECT_EQ(dt_copy_done_bytes(&copy.copy), chunk * (512 << 10));
        EXPECT_EQ(left, chunk < 4 ? 1u : 0u);
    }
}

TEST_F(GpusTest, ACopyThatFailsIsCountedAndReported)
{
    dt_gpu *gpu = dt_gpus_find(&gpus_, memory_);
    uint32_t left = 1;

    ASSERT_NE(gpu, nullptr);
    fake_cuda_fail("cuMemcpyDtoHAsync_v2", 1, DT_CUDA_ILLEGAL_ADDRESS);
    detour_test::ExpectWarning("copying from GPU 0: the driver refused: fake error 700");
    dt_gpu_copy copy = ToHost(gpu, 0, 0, 2 << 20, &left);
    dt_gpus_push(&gpus_, &copy);
    Wait(&left);
    EXPECT_TRUE(copy.is_failed);
}

TEST_F(GpusTest, WithoutCudaThereIsNoGpuAndOneLineExplainsIt)
{
    Close();
    dt_gpus_open(&gpus_, "libcuda-that-is-not-there.so.1", pool_.data(), pool_.size(), true);
    is_open_ = true;
    EXPECT_EQ(dt_gpus_find(&gpus_, memory_), nullptr);
    EXPECT_EQ(dt_gpus_find(&gpus_, memory_), nullptr);
    EXPECT_EQ(CountLines("GPU memory is not staged: "), 1u);
}

TEST_F(GpusTest, HostMemoryIsNoGpus)
{
    EXPECT_EQ(dt_gpus_find(&gpus_, pool_.data()), nullptr);
    EXPECT_EQ(CountLines("GPU memory is not staged"), 0u);
}

TEST_F(GpusTest, AGpuThatCannotBeUsedIsFoundOutOnce)
{
    void *other = fake_cuda_alloc(1, 4096);

    fake_cuda_fail("cuMemHostRegister_v2", 0, DT_CUDA_OUT_OF_MEMORY);
    detour_test::ExpectWarning("bytes of host memory for GPU 0");
    EXPECT_EQ(dt_gpus_find(&gpus_, memory_), nullptr);
    EXPECT_EQ(dt_gpus_find(&gpus_, memory_), nullptr);
    EXPECT_EQ(CountLines("cannot pin"), 1u);
    fake_cuda_mend();
    EXPECT_NE(dt_gpus_find(&gpus_, other), nullptr) << "another GPU may do";
}

TEST_F(GpusTest, ClosingFinishesQueuedCopies)
{
    dt_gpu *gpu = dt_gpus_find(&gpus_, memory_);
    uint32_t left = 8;
    dt_gpu_copy copy[8];

    ASSERT_NE(gpu, nullptr);
    memset(bytes_, 0x77, kGpuBytes);
    fake_cuda_set_speed(300000, 0);
    for (size_t i = 0; i < 8; i++) {
        copy[i] = ToHost(gpu, i * 1000, i * 1000, 1000, &left);
        dt_gpus_push(&gpus_, &copy[i]);
    }
    Close();
    EXPECT_EQ(left, 0u);
    EXPECT_EQ(memcmp(pool_.data(), bytes_, 8000), 0);
    EXPECT_EQ(fake_cuda_objects(), 0u) << "all is given back";
}

TEST_F(GpusTest, ACopyThatComesAfterTheEndFails)
{
    dt_gpu *gpu = dt_gpus_find(&gpus_, memory_);
    uint32_t left = 1;

    ASSERT_NE(gpu, nullptr);
    dt_gpu_copy copy = ToHost(gpu, 0, 0, 1000, &left);
    dt_gpus_stop(&gpus_);
    dt_gpus_push(&gpus_, &copy);
    EXPECT_EQ(left, 0u);
    EXPECT_TRUE(copy.is_failed);
}

TEST_F(GpusTest, ClosingDoesNotWaitForAGpuThatHangs)
{
    static dt_gpu_copy copy; // stays for ever, as what hangs does
    static uint32_t left = 1;
    dt_gpu *gpu = dt_gpus_find(&gpus_, memory_);

    ASSERT_NE(gpu, nullptr);
    fake_cuda_set_time(1); // and it is not set again
    fake_cuda_set_speed(1000, 0);
    copy = ToHost(gpu, 0, 0, 1000, &left);
    dt_gpus_push(&gpus_, &copy);
    detour_test::ExpectWarning("a GPU has not finished its copies");
    Close();
    EXPECT_EQ(left, 1u);
    fake_cuda_break(DT_CUDA_DEINITIALIZED);
}
} // namespace
