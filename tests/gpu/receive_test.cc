// SPDX-License-Identifier: Apache-2.0
// Receives into GPU memory that no RNIC reaches: what arrives in the host's memory is copied to the GPU. The
// same cases run on a GPU and on the double of the CUDA driver (DETOUR_CUDA_LIB); software RNICs take no
// memory that the processor cannot touch. Skipped, with the reason, where there is no driver or no GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "hostpath/cuda.h"
#include "plugin/plugin.h"
#include "tests/gpu/driver.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::CountWrong;
using detour_test::CudaLibrary;
using detour_test::Fill;

const ncclNet_v8_t *const net = &ncclNetPlugin_v8;

constexpr uint8_t kUntouched = 0xee;
constexpr int kBytes = 2 << 20;

// The sender is on soft0, with soft1 behind it, the receiver on soft2, with soft3.
class GpuReceive : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        char reason[256] = "";
        dt_cuda *cuda = nullptr;

        if (dt_cuda_open(CudaLibrary(), &cuda, reason, sizeof reason) != DT_OK)
            GTEST_SKIP() << "no GPU here: " << reason;
        dt_cuda_close(cuda);
        ASSERT_TRUE(driver_.FindMemory(dlopen(CudaLibrary(), RTLD_NOW)));
        ASSERT_TRUE(driver_.Enter());
        ASSERT_EQ(0, driver_.alloc(&memory_, kBytes));
        ASSERT_EQ(ncclSuccess, net->init(nullptr));
        pair_.Connect(0, 2);
        from_ = &pair_.Register(pair_.send, kBytes, 0);
        for (const char *device : {"soft2", "soft3"})
            detour_test::ExpectWarning(device + (": cannot register " + std::to_string(kBytes)) + " bytes");
        ASSERT_EQ(ncclSuccess, net->regMr(pair_.recv, At(0), kBytes, NCCL_PTR_CUDA, &mhandle_));
        Clear();
    }

    void TearDown() override
    {
        if (mhandle_) {
            EXPECT_EQ(ncclSuccess, net->deregMr(pair_.recv, mhandle_));
        }
        pair_.Close();
        if (memory_)
            driver_.release(memory_);
    }

    void *At(size_t offset)
    {
        return reinterpret_cast<void *>(memory_ + offset);
    }

    void Clear()
    {
        EXPECT_EQ(0, driver_.set(memory_, kUntouched, kBytes));
        EXPECT_EQ(0, driver_.synchronize());
    }

    std::vector<uint8_t> Read(size_t offset, size_t bytes)
    {
        std::vector<uint8_t> seen(bytes);

        EXPECT_EQ(0, driver_.to_host(seen.data(), memory_ + offset, bytes));
        return seen;
    }

    void *Receive(size_t offset, int bytes)
    {
        return pair_.Receive(At(offset), bytes, 0, mhandle_);
    }

    void *Send(size_t offset, int bytes, uint64_t sequence, int tag = 0)
    {
        Fill(from_->data() + offset, static_cast<size_t>(bytes), sequence);
        return pair_.Send(from_->data() + offset, bytes, tag, from_->mhandle);
    }

    // Messages, eight at a time, each of which is looked at as soon as it is done.
    void MoveMany(int count)
    {
        constexpr int kOpen = 8, kEach = 40000;
        void *receive[kOpen], *send[kOpen];

        for (int done = 0, posted = 0; done < count && !HasFailure(); done++) {
            size_t at = static_cast<size_t>(done % kOpen) * kEach;

            for (; posted < std::min(count, done + kOpen); posted++) {
                size_t next = static_cast<size_t>(posted % kOpen) * kEach;

                receive[posted % kOpen] = Receive(next, kEach);
                send[posted % kOpen] = Send(next, kEach, sequence_ + static_cast<uint64_t>(posted));
            }
            pair_.Wait(receive[done % kOpen]);
            ASSERT_EQ(0u, CountWrong(Read(at, kEach).data(), kEach, sequence_ + static_cast<uint64_t>(done)));
            pair_.Wait(send[done % kOpen]);
        }
        sequence_ += static_cast<uint64_t>(count);
    }

    static void Order(const char *device, const char *action)
    {
        char answer[256];

        ASSERT_EQ(DT_OK,
                  dt_verbs_device_control(dt_plugin_current()->verbs, device, action, answer, sizeof answer))
            << answer;
    }

    detour_test::Driver driver_;
    detour_test::Pair pair_{net};
    Buffer *from_ = nullptr;
    uint64_t memory_ = 0;
    void *mhandle_ = nullptr;
    uint64_t sequence_ = 0;
};

TEST_F(GpuReceive, BringsAllSizesAndNothingBesideThem)
{
    for (int bytes : {1, 7, 8, 120, 128, 4097, 524288, 614400, 1 << 20}) {
        for (size_t at : {size_t{0}, size_t{8}, size_t{121}}) {
            size_t size = static_cast<size_t>(bytes);
            int received = -1;

            Clear();
            void *receive = Receive(at, bytes + 64); // there is room for more
            void *send = Send(0, bytes, ++sequence_);
            pair_.Wait(receive, &received);
            pair_.Wait(send);
            EXPECT_EQ(bytes, received);
            std::vector<uint8_t> seen = Read(0, at + size + 64);
            ASSERT_EQ(0u, CountWrong(seen.data() + at, size, sequence_)) << bytes << " at " << at;
            ASSERT_EQ(static_cast<ptrdiff_t>(at), std::count(seen.begin(), seen.begin() + at, kUntouched));
            ASSERT_EQ(64, std::count(seen.end() - 64, seen.end(), kUntouched)) << bytes << " at " << at;
        }
    }
}

TEST_F(GpuReceive, BringsEachMessageBeforeItIsDone)
{
    MoveMany(400);
}

TEST_F(GpuReceive, BringsMessagesOverAnotherDeviceWhenItsOwnFails)
{
    MoveMany(40);
    Order("soft2", "down");
    MoveMany(100);
    Order("soft2", "up");
    MoveMany(100);
}

// Two parts in the GPU's memory and one in the host's.
TEST_F(GpuReceive, BringsThePartsOfGroupsWhereTheyBelong)
{
    constexpr int kEach = 30000;
    Buffer &host = pair_.Register(pair_.recv, kEach, 0);

    for (uint64_t round = 0; round < 50; round++) {
        void *data[3] = {At(0), host.data(), At(1 << 20)};
        void *mhandles[3] = {mhandle_, host.mhandle, mhandle_};
        int sizes[3] = {kEach, kEach, kEach}, tags[3] = {0, 1, 2}, received[3];
        void *sends[3];
        void *receive = pair_.Receive(3, data, sizes, tags, mhandles);

        for (int i = 3; i-- > 0;)
            sends[i] = Send(static_cast<size_t>(i) * kEach, kEach, 3 * round + static_cast<uint64_t>(i), i);
        pair_.Wait(receive, received);
        for (int i = 0; i < 3; i++) {
            EXPECT_EQ(kEach, received[i]);
            pair_.Wait(sends[i]);
        }
        ASSERT_EQ(0u, CountWrong(Read(0, kEach).data(), kEach, 3 * round));
        ASSERT_EQ(0u, CountWrong(host.data(), kEach, 3 * round + 1));
        ASSERT_EQ(0u, CountWrong(Read(1 << 20, kEach).data(), kEach, 3 * round + 2));
    }
}
} // namespace
