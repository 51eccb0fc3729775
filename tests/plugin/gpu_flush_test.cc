// SPDX-License-Identifier: Apache-2.0
// GPU memory that a device wrote and then died, before NCCL's iflush or during it: CUDA's own flush, on the
// double of its driver. A program run per test, since a dead device stays dead.
#include <gtest/gtest.h>

#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/hostpath/fake_cuda.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::Pair;
using detour_test::Until;

constexpr int kBytes = 100000;
const char *const kFlush = "cuFlushGPUDirectRDMAWrites";

class GpuFlush : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
        memory_ = fake_cuda_alloc_for_rnic(0, kBytes);
        pair_.Connect(0, 2);
        ASSERT_EQ(ncclSuccess, pair_.net->regMr(pair_.recv, memory_, kBytes, NCCL_PTR_CUDA, &mhandle_));
        from_ = &pair_.Register(pair_.send, kBytes, 7);
        Receive(); // the loopback queue pair is there afterwards
        EXPECT_EQ(ncclSuccess, Flush());
    }

    void TearDown() override
    {
        EXPECT_EQ(ncclSuccess, pair_.net->deregMr(pair_.recv, mhandle_));
        pair_.Close();
        fake_cuda_free(memory_);
        auto faults = fake_cuda_count_faults();
        EXPECT_EQ(faults.forbidden_calls, 0u);
        EXPECT_EQ(faults.no_context_calls, 0u);
        EXPECT_EQ(faults.unsafe_calls, 0u);
    }

    void Receive()
    {
        void *receive = pair_.Receive(memory_, kBytes, 0, mhandle_);
        void *send = pair_.Send(from_->data(), kBytes, 0, from_->mhandle);

        pair_.Wait(receive);
        pair_.Wait(send);
    }

    // The final result of test() of an iflush.
    ncclResult_t Flush()
    {
        int bytes = kBytes, done = 0;
        void *request = nullptr;
        ncclResult_t result = pair_.net->iflush(pair_.recv, 1, &memory_, &bytes, &mhandle_, &request);

        EXPECT_EQ(ncclSuccess, result);
        if (!request)
            return result;
        Until([&] {
            result = pair_.net->test(request, &done, nullptr);
            return done || result != ncclSuccess;
        });
        return result;
    }

    void Kill(const char *device)
    {
        char answer[256];

        // The fence of a device whose event has not been read yet is refused.
        detour_test::AllowWarning("cannot go to ERR: Input/output error");
        detour_test::AllowWarning("DEVICE_FATAL");
        ASSERT_EQ(DT_OK,
                  dt_verbs_device_control(dt_plugin_current()->verbs, device, "fatal", answer, sizeof answer))
            << answer;
    }

    Pair pair_{&ncclNetPlugin_v8};
    void *memory_ = nullptr;
    void *mhandle_ = nullptr;
    Buffer *from_ = nullptr;
};

TEST_F(GpuFlush, OfADeviceThatLivesDoesNotNeedCuda)
{
    for (int i = 0; i < 20; i++) {
        Receive();
        ASSERT_EQ(ncclSuccess, Flush());
    }
    EXPECT_EQ(0u, fake_cuda_calls("cuInit"));
}

TEST_F(GpuFlush, OfADeviceThatDiedIsCudas)
{
    std::thread([&] {
        fake_cuda_forbid_thread(); // this is NCCL's progress thread
        Receive();
        Kill("soft2");
        ASSERT_EQ(ncclSuccess, Flush());
        EXPECT_GE(fake_cuda_calls(kFlush), 1u);
        for (int i = 0; i < 20; i++) { // and it goes on
            Receive();
            ASSERT_EQ(ncclSuccess, Flush());
        }
    }).join();
}

// Each flush of what only the living device brought is a read again, once CUDA has flushed the dead one's.
TEST_F(GpuFlush, IsAskedOfCudaOnlyForWritesOfTheDeadDevice)
{
    unsigned before;

    Receive();
    Kill("soft2");
    ASSERT_EQ(ncclSuccess, Flush());
    Until([&] {
        before = fake_cuda_calls(kFlush);
        Receive();
        EXPECT_EQ(ncclSuccess, Flush());
        return fake_cuda_calls(kFlush) == before || HasFailure();
    });
}

TEST_F(GpuFlush, IsNotNeededWhereTheGpuKeepsTheOrder)
{
    fake_cuda_set_rdma(0, 100);
    Receive();
    Kill("soft2");
    EXPECT_EQ(ncclSuccess, Flush());
    EXPECT_EQ(0u, fake_cuda_calls(kFlush));
}

TEST_F(GpuFlush, IsAnErrorWithItsCauseWhereTheGpuCannotDoIt)
{
    detour_test::ExpectWarning("cannot be made visible to the GPU");
    fake_cuda_set_rdma(0, 0);
    Receive();
    Kill("soft2");
    EXPECT_EQ(ncclSystemError, Flush());
}

TEST_F(GpuFlush, IsAnErrorWithItsCauseWhenItFails)
{
    detour_test::ExpectWarning("cuFlushGPUDirectRDMAWrites of GPU 0: fake error 700");
    fake_cuda_fail(kFlush, 0, 700);
    Receive();
    Kill("soft2");
    EXPECT_EQ(ncclSystemError, Flush());
}
} // namespace
