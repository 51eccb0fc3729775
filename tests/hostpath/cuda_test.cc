// SPDX-License-Identifier: Apache-2.0
// GPU lanes on the double of the driver, in its virtual time.
#include "hostpath/cuda.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/prng.h"
#include "tests/harness/harness.h"
#include "tests/hostpath/fake_cuda.h"

namespace
{
constexpr size_t kBytes = 1 << 20;

class CudaTest : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake_cuda_reset();
        fake_cuda_set_time(now_ns_);
        ASSERT_EQ(dt_cuda_open(FAKE_CUDA_LIBRARY, &cuda_, reason_, sizeof reason_), DT_OK) << reason_;
        gpu_memory_ = fake_cuda_alloc(0, kBytes);
        gpu_bytes_ = static_cast<uint8_t *>(fake_cuda_alias(gpu_memory_));
        ASSERT_EQ(dt_cuda_gpu_of(cuda_, gpu_memory_, &gpu_), DT_OK);
        ASSERT_EQ(dt_cuda_pin(gpu_, host_.data(), host_.size()), DT_OK);
    }

    void TearDown() override
    {
        for (dt_copy_lane *lane : lanes_)
            dt_cuda_lane_close(lane);
        dt_cuda_unpin(gpu_, host_.data());
        dt_cuda_close(cuda_);
        EXPECT_EQ(fake_cuda_objects(), 0u) << "all is given back";
        auto faults = fake_cuda_count_faults();
        EXPECT_EQ(faults.unpinned_copies, 0u);
        EXPECT_EQ(faults.forbidden_calls, 0u);
        EXPECT_EQ(faults.no_context_calls, 0u);
        EXPECT_EQ(faults.wrong_context_calls, 0u);
        EXPECT_EQ(faults.unsafe_calls, 0u);
        fake_cuda_reset();
    }

    dt_copy_lane *Open(dt_cuda_direction direction)
    {
        dt_copy_lane *lane = nullptr;

        EXPECT_EQ(dt_cuda_lane_open(gpu_, direction, &lane), DT_OK);
        lanes_.push_back(lane);
        return lane;
    }

    void Advance(dt_copy_lane *lane, uint64_t ns)
    {
        now_ns_ += ns;
        fake_cuda_set_time(now_ns_);
        dt_copy_lane_progress(lane, now_ns_);
    }

    void Drain(dt_copy_lane *lane)
    {
        for (int i = 0; i < 100000 && !dt_copy_lane_is_idle(lane); i++)
            Advance(lane, 10000);
        ASSERT_TRUE(dt_copy_lane_is_idle(lane));
    }

    static void Fill(uint8_t *to, size_t bytes, uint64_t seed)
    {
        dt_prng prng;

        dt_prng_init(&prng, seed);
        for (size_t i = 0; i < bytes; i++)
            to[i] = static_cast<uint8_t>(dt_prng_next(&prng) >> 32);
    }

    dt_cuda *cuda_ = nullptr;
    dt_cuda_gpu *gpu_ = nullptr;
    char reason_[256] = "";
    void *gpu_memory_ = nullptr;
    uint8_t *gpu_bytes_ = nullptr; // the same, as the test sees it
    std::vector<uint8_t> host_ = std::vector<uint8_t>(kBytes + 1024);
    std::vector<dt_copy_lane *> lanes_;
    uint64_t now_ns_ = 1000000;
};

TEST(CudaLoad, AMachineWithoutTheLibraryIsReportedInOneLine)
{
    dt_cuda *cuda = nullptr;
    char reason[256] = "";

    EXPECT_EQ(dt_cuda_open("libcuda-that-is-not-there.so.1", &cuda, reason, sizeof reason), DT_NOT_FOUND);
    EXPECT_NE(std::string(reason).find("libcuda-that-is-not-there.so.1"), std::string::npos) << reason;
    EXPECT_EQ(std::string(reason).find('\n'), std::string::npos);
    EXPECT_EQ(cuda, nullptr);
}

TEST(CudaLoad, ALibraryThatIsNoDriverIsRefusedByTheFunctionItLacks)
{
    dt_cuda *cuda = nullptr;
    char reason[256] = "";

    EXPECT_EQ(dt_cuda_open("libc.so.6", &cuda, reason, sizeof reason), DT_NOT_FOUND);
    EXPECT_NE(std::string(reason).find("cuInit"), std::string::npos) << reason;
}

TEST(CudaLoad, AMachineWithoutAGpuIsReported)
{
    dt_cuda *cuda = nullptr;
    char reason[256] = "";

    fake_cuda_reset();
    fake_cuda_fail("cuInit", 0, DT_CUDA_NO_DEVICE);
    EXPECT_EQ(dt_cuda_open(FAKE_CUDA_LIBRARY, &cuda, reason, sizeof reason), DT_NOT_FOUND);
    EXPECT_NE(std::string(reason).find("fake error 100"), std::string::npos) << reason;
    fake_cuda_reset();
}

TEST_F(CudaTest, AddressesTellTheirGpu)
{
    void *other = fake_cuda_alloc(1, 4096);
    dt_cuda_gpu *gpu = nullptr, *again = nullptr;

    EXPECT_EQ(dt_cuda_gpu_ordinal(gpu_), 0);
    ASSERT_EQ(dt_cuda_gpu_of(cuda_, static_cast<char *>(other) + 100, &gpu), DT_OK);
    EXPECT_EQ(dt_cuda_gpu_ordinal(gpu), 1);
    ASSERT_EQ(dt_cuda_gpu_of(cuda_, other, &again), DT_OK);
    EXPECT_EQ(again, gpu) << "its context is retained once";
    EXPECT_EQ(fake_cuda_calls("cuDevicePrimaryCtxRetain"), 2u);
    EXPECT_EQ(dt_cuda_gpu_of(cuda_, host_.data(), &gpu), DT_INVALID) << "pinned, but the host's";
    EXPECT_EQ(dt_cuda_gpu_of(cuda_, &gpu, &gpu), DT_INVALID);
}

TEST_F(CudaTest, AContextThatCannotBeHadIsAnErrorOfThatGpuAlone)
{
    void *other = fake_cuda_alloc(1, 4096);
    dt_cuda_gpu *gpu = nullptr;

    fake_cuda_fail("cuDevicePrimaryCtxRetain", 0, DT_CUDA_OUT_OF_MEMORY);
    detour_test::ExpectWarning("primary context of GPU 1: fake error 2");
    EXPECT_EQ(dt_cuda_gpu_of(cuda_, other, &gpu), DT_SYSTEM);
    EXPECT_EQ(dt_cuda_gpu_of(cuda_, gpu_memory_, &gpu), DT_OK);
    fake_cuda_mend();
    EXPECT_EQ(dt_cuda_gpu_of(cuda_, other, &gpu), DT_OK) << "asked again";
}

TEST_F(CudaTest, PinningThatFailsIsReported)
{
    std::vector<uint8_t> more(4096);

    fake_cuda_fail("cuMemHostRegister_v2", 0, DT_CUDA_OUT_OF_MEMORY);
    detour_test::ExpectWarning("cannot pin 4096 bytes of host memory for GPU 0: fake error 2");
    EXPECT_EQ(dt_cuda_pin(gpu_, more.data(), more.size()), DT_SYSTEM);
}

// With a flag that the stream writes, and with events.
class CudaLaneTest : public CudaTest, public ::testing::WithParamInterface<bool>
{
  protected:
    void SetUp() override
    {
        CudaTest::SetUp();
        if (!GetParam())
            fake_cuda_without_write_value();
    }

    const char *MarkCall() const
    {
        return GetParam() ? "cuStreamWriteValue32_v2" : "cuEventRecord";
    }
};

INSTANTIATE_TEST_SUITE_P(Completion, CudaLaneTest, ::testing::Bool(),
                         [](const auto &test) { return test.param ? "ByFlag" : "ByEvent"; });

TEST_P(CudaLaneTest, BytesComeFromTheGpuInOrderAndOverlap)
{
    dt_copy_lane *lane = Open(DT_CUDA_TO_HOST);
    dt_copy copy = {};

    fake_cuda_set_speed(1000, 1000000000); // 1 us, and a byte per ns
    Fill(gpu_bytes_, 300000, 1);
    dt_copy_start(&copy, lane, host_.data(), gpu_memory_, 300000, 100000, 0);
    Advance(lane, 0);
    EXPECT_GE(fake_cuda_on_way(), 4u) << "several chunks are on their way at once";
    Advance(lane, 100000);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 0u);
    Advance(lane, 3000);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 100000u) << "can be sent on while the rest is copied";
    EXPECT_EQ(memcmp(host_.data(), gpu_bytes_, 100000), 0);
    Drain(lane);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
    EXPECT_EQ(memcmp(host_.data(), gpu_bytes_, 300000), 0);
}

TEST_P(CudaLaneTest, BytesOfAnySizeGoToTheGpu)
{
    dt_copy_lane *lane = Open(DT_CUDA_TO_GPU);

    fake_cuda_set_speed(100, 0);
    for (uint32_t flags : {0u, static_cast<uint32_t>(DT_COPY_POLLED)}) {
        for (size_t bytes : {1u, 7u, 8u, 16u, 120u, 121u, 128u, 129u, 255u, 4096u, 100003u}) {
            for (size_t at : {0u, 4u, 8u, 112u, 120u, 125u, 127u, 128u}) {
                dt_copy copy = {};

                Fill(host_.data(), bytes, bytes + at);
                memset(gpu_bytes_, 0xee, bytes + 512);
                dt_copy_start(&copy, lane, static_cast<uint8_t *>(gpu_memory_) + at, host_.data(), bytes,
                              8192, flags);
                Drain(lane);
                ASSERT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
                ASSERT_EQ(memcmp(gpu_bytes_ + at, host_.data(), bytes), 0) << bytes << " bytes at " << at;
                for (size_t i = 0; i < at; i++)
                    ASSERT_EQ(gpu_bytes_[i], 0xee);
                for (size_t i = at + bytes; i < at + bytes + 256; i++)
                    ASSERT_EQ(gpu_bytes_[i], 0xee) << "never more than was sent";
            }
        }
    }
}

// What a GPU that runs LL128 sees: after each operation that arrives, a line whose last word is new is new as
// a whole.
TEST_P(CudaLaneTest, TheLastWordOfALineArrivesAfterTheRest)
{
    dt_copy_lane *lane = Open(DT_CUDA_TO_GPU);

    fake_cuda_set_speed(100, 0); // operations arrive one by one
    for (size_t at : {0u, 16u, 64u, 120u}) {
        const size_t bytes = 10000;
        dt_copy copy = {};
        bool was_partial = false;

        memset(gpu_bytes_, 0, kBytes);
        memset(host_.data(), 0xff, bytes);
        dt_copy_start(&copy, lane, static_cast<uint8_t *>(gpu_memory_) + at, host_.data(), bytes, 4096,
                      DT_COPY_POLLED);
        while (!dt_copy_is_finished(&copy)) {
            Advance(lane, 10);
            for (size_t line = 0; line + 128 <= at + bytes; line += 128) {
                size_t begin = std::max(line, at);

                was_partial = was_partial || (gpu_bytes_[begin] == 0xff && gpu_bytes_[line + 127] == 0);
                if (gpu_bytes_[line + 127] != 0xff && gpu_bytes_[line + 120] != 0xff)
                    continue;
                for (size_t i = begin; i < line + 128; i++)
                    ASSERT_EQ(gpu_bytes_[i], 0xff)
                        << "byte " << i - line << " of a line that is reported as arrived";
            }
        }
        EXPECT_TRUE(was_partial) << "the test looked often enough to see lines without their last word";
    }
}

TEST_P(CudaLaneTest, TheSteadyStateAllocatesNothing)
{
    dt_copy_lane *to_host = Open(DT_CUDA_TO_HOST), *to_gpu = Open(DT_CUDA_TO_GPU);
    unsigned objects = fake_cuda_objects();
    const char *const calls[] = {"cuMemHostAlloc", "cuMemHostRegister_v2", "cuEventCreate", "cuStreamCreate",
                                 "cuDevicePrimaryCtxRetain"};
    std::vector<unsigned> before;

    for (const char *call : calls)
        before.push_back(fake_cuda_calls(call));
    for (int round = 0; round < 100; round++) {
        dt_copy out = {}, in = {};

        dt_copy_start(&out, to_host, host_.data(), gpu_memory_, 100000, 30000, 0);
        dt_copy_start(&in, to_gpu, static_cast<uint8_t *>(gpu_memory_) + 200000, host_.data(), 100000, 30000,
                      0);
        Drain(to_host);
        Drain(to_gpu);
    }
    for (size_t i = 0; i < before.size(); i++)
        EXPECT_EQ(fake_cuda_calls(calls[i]), before[i]) << calls[i];
    EXPECT_EQ(fake_cuda_objects(), objects);
}

TEST_P(CudaLaneTest, ARefusedCopyFailsAloneAfterThoseInFlight)
{
    dt_copy_lane *lane = Open(DT_CUDA_TO_HOST);
    dt_copy copy = {}, next = {};

    fake_cuda_set_speed(1000, 0);
    Fill(gpu_bytes_, 40000, 3);
    fake_cuda_fail("cuMemcpyDtoHAsync_v2", 2, DT_CUDA_INVALID_VALUE);
    detour_test::ExpectWarning("copying from GPU 0: the driver refused: fake error 1");
    dt_copy_start(&copy, lane, host_.data(), gpu_memory_, 40000, 10000, 0);
    Advance(lane, 0);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILING);
    Advance(lane, 1000000);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILED);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 20000u);
    EXPECT_EQ(memcmp(host_.data(), gpu_bytes_, 20000), 0);
    fake_cuda_mend();
    dt_copy_start(&next, lane, host_.data(), gpu_memory_, 40000, 10000, 0);
    Drain(lane);
    EXPECT_EQ(dt_copy_state(&next), DT_COPY_DONE);
}

TEST_P(CudaLaneTest, DestroyedContextsFailTheCopiesInFlight)
{
    dt_copy_lane *lane = Open(DT_CUDA_TO_HOST);
    dt_copy copy = {}, next = {};

    fake_cuda_set_speed(1000000, 0);
    dt_copy_start(&copy, lane, host_.data(), gpu_memory_, 40000, 10000, 0);
    Advance(lane, 0);
    fake_cuda_break(DT_CUDA_ILLEGAL_ADDRESS);
    detour_test::ExpectWarning("copying from GPU 0: the copy failed: fake error 700");
    Advance(lane, 2000000);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILED) << "also where no flag is ever written";
    dt_copy_start(&next, lane, host_.data(), gpu_memory_, 40000, 10000, 0);
    EXPECT_EQ(dt_copy_state(&next), DT_COPY_FAILED);
    fake_cuda_mend();
}

// The bytes are under way, but nothing tells of their arrival: their memory is not given back before the
// stream is done.
TEST_P(CudaLaneTest, AChunkWithoutANotificationIsWaitedFor)
{
    dt_copy_lane *lane = Open(DT_CUDA_TO_HOST);
    dt_copy copy = {};

    fake_cuda_set_speed(5000, 0);
    fake_cuda_fail(MarkCall(), 0, DT_CUDA_OUT_OF_MEMORY);
    detour_test::ExpectWarning("copying from GPU 0: the driver refused: fake error 2");
    dt_copy_start(&copy, lane, host_.data(), gpu_memory_, 1000, 1000, 0);
    Advance(lane, 0);
    EXPECT_FALSE(dt_copy_is_finished(&copy));
    Advance(lane, 4999);
    EXPECT_FALSE(dt_copy_is_finished(&copy));
    Advance(lane, 1);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILED);
}

TEST_P(CudaLaneTest, ALaneThatCannotBeOpenedGivesEverythingBack)
{
    const char *const calls[] = {"cuStreamCreate", GetParam() ? "cuCtxPushCurrent_v2" : "cuEventCreate"};

    detour_test::ExpectWarning("no stream: fake error 2");
    for (const char *call : calls) {
        dt_copy_lane *lane = nullptr;
        unsigned objects = fake_cuda_objects();

        fake_cuda_fail(call, 0, DT_CUDA_OUT_OF_MEMORY);
        EXPECT_EQ(dt_cuda_lane_open(gpu_, DT_CUDA_TO_HOST, &lane), DT_SYSTEM);
        EXPECT_EQ(lane, nullptr);
        fake_cuda_mend();
        EXPECT_EQ(fake_cuda_objects(), objects);
    }
}

TEST_F(CudaTest, WithoutMemoryForTheFlagThereAreEvents)
{
    fake_cuda_fail("cuMemHostAlloc", 0, DT_CUDA_OUT_OF_MEMORY);
    dt_copy_lane *lane = Open(DT_CUDA_TO_HOST);
    fake_cuda_mend();
    dt_copy copy = {};

    Fill(gpu_bytes_, 1000, 9);
    dt_copy_start(&copy, lane, host_.data(), gpu_memory_, 1000, 1000, 0);
    Drain(lane);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
    EXPECT_GT(fake_cuda_calls("cuEventRecord"), 0u);
}

TEST_F(CudaTest, AFlagThatStandsStillCostsOneQuestionAMillisecond)
{
    dt_copy_lane *lane = Open(DT_CUDA_TO_HOST);
    dt_copy copy = {};

    fake_cuda_set_speed(20000000, 0); // 20 ms
    dt_copy_start(&copy, lane, host_.data(), gpu_memory_, 1000, 1000, 0);
    for (int i = 0; i < 100; i++)
        Advance(lane, 100000);
    EXPECT_LE(fake_cuda_calls("cuStreamQuery"), 11u);
    EXPECT_GE(fake_cuda_calls("cuStreamQuery"), 9u);
    Drain(lane);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
}

TEST_F(CudaTest, EveryAllocationOfOursMayFail)
{
    for (int i = 0; i < 4; i++) {
        dt_cuda *cuda = nullptr;
        dt_cuda_gpu *gpu = nullptr;
        dt_copy_lane *lane = nullptr;
        char reason[64];

        detour_test_fail_alloc(i);
        dt_status status = dt_cuda_open(FAKE_CUDA_LIBRARY, &cuda, reason, sizeof reason);
        if (status == DT_OK)
            status = dt_cuda_gpu_of(cuda, gpu_memory_, &gpu);
        if (status == DT_OK)
            status = dt_cuda_lane_open(gpu, DT_CUDA_TO_GPU, &lane);
        bool has_failed = detour_test_alloc_failed();
        detour_test_fail_alloc(-1);
        if (has_failed)
            EXPECT_EQ(status, DT_NO_MEMORY) << i;
        else
            EXPECT_EQ(status, DT_OK);
        dt_cuda_lane_close(lane);
        dt_cuda_close(cuda);
    }
}
} // namespace
