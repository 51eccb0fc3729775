// SPDX-License-Identifier: Apache-2.0
// A staged message goes out while it is copied (transport/message/send_partial.c). The copies stand still
// where a test says so: those of the double of the CUDA driver by fake_cuda_let(), the delegates' since they
// never begin. A program run per test, since devices fail in them.
#include <gtest/gtest.h>

#include <climits>
#include <mutex>

#include "base/atomics.h"
#include "hostpath/delegate.h"
#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/hostpath/fake_cuda.h"
#include "tests/plugin/late.h"
#include "tests/plugin/pair.h"
#include "transport/message/send.h"
#include "transport/net_state.h"
#include "hostpath/staged/stage.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

// A delegate's first step is held up for as long as a test holds this.
static std::mutex delegates;

extern "C" void __real_dt_numa_run_on(int node);
extern "C" void __wrap_dt_numa_run_on(int node)
{
    std::lock_guard<std::mutex> lock(delegates);

    __real_dt_numa_run_on(node);
}

namespace
{
using detour_test::Buffer;
using detour_test::CountWrong;
using detour_test::Fill;
using detour_test::Pair;
using detour_test::Pattern;
using detour_test::Until;

const ncclNet_v8_t *const net = &ncclNetPlugin_v8;

constexpr size_t kBytes = 4 << 20;
constexpr size_t kChunk = 512 << 10; // a GPU's
constexpr unsigned kOperations = 2;  // of the driver for a chunk: the copy, and what tells of it

constexpr int kReceiver = 2; // its devices are soft2 and soft3, the sender's soft0 and soft1

void Order(const char *device, const char *action)
{
    char answer[256];
    ASSERT_EQ(DT_OK,
              dt_verbs_device_control(dt_plugin_current()->verbs, device, action, answer, sizeof answer))
        << answer;
}

bool WasLogged(const std::string &part)
{
    for (const std::string &line : detour_test::LoggedLines()) {
        if (line.find(part) != std::string::npos)
            return true;
    }
    return false;
}

class Overlap : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, net->init(nullptr));
        pair_.Connect(0, kReceiver);
        detour_test::SetLate(pair_.send, DT_NEVER_NS); // copies are held back
        to_ = &pair_.Register(pair_.recv, kBytes, 0);
    }

    void TearDown() override
    {
        pair_.Close();
        if (gpu_)
            fake_cuda_free(gpu_);
    }

    // Receives, and sends from a GPU's memory, of which only this many chunks can be copied.
    void StartFromGpu(unsigned chunks)
    {
        gpu_ = fake_cuda_alloc_for_rnic(0, kBytes);
        Fill(static_cast<uint8_t *>(fake_cuda_alias(gpu_)), kBytes, 1);
        ASSERT_EQ(ncclSuccess, net->regMr(pair_.send, gpu_, kBytes, NCCL_PTR_CUDA, &mhandle_));
        receive_ = pair_.Receive(to_->data(), kBytes, 0, to_->mhandle);
        Until([] { return fake_cuda_on_way() == 0; }); // what opened the streams
        fake_cuda_let(chunks * kOperations);
        send_ = pair_.Send(gpu_, kBytes, 0, mhandle_);
    }

    void DeregisterGpu()
    {
        EXPECT_EQ(ncclSuccess, net->deregMr(pair_.send, mhandle_));
    }

    // The receiver's memory around `at`, which the RNIC may be writing to.
    bool IsThere(size_t at)
    {
        uint8_t expected[sizeof(uint64_t)];
        uint64_t word =
            dt_load_acquire(reinterpret_cast<const uint64_t *>(to_->data() + at - at % sizeof(uint64_t)));

        for (size_t i = 0; i < sizeof expected; i++)
            expected[i] = Pattern(1, at - at % sizeof(uint64_t) + i);
        return memcmp(&word, expected, sizeof word) == 0;
    }

    // Waits until the first `bytes` are there, while nothing else can be. Nothing is done yet.
    void WaitForBegin(size_t bytes)
    {
        Until([&] {
            EXPECT_FALSE(pair_.TestOnce(receive_));
            return IsThere(bytes - 1) || HasFailure();
        });
        EXPECT_EQ(0u, CountWrong(to_->data(), bytes, 1));
        EXPECT_FALSE(IsThere(bytes));
        EXPECT_FALSE(IsThere(kBytes - 1));
    }

    void Finish()
    {
        int received = -1;

        pair_.Wait(send_);
        pair_.Wait(receive_, &received);
        EXPECT_EQ(static_cast<int>(kBytes), received);
        EXPECT_EQ(0u, CountWrong(to_->data(), kBytes, 1));
    }

    // Tests the request until it fails; it must never be done.
    ncclResult_t Failure(void *request)
    {
        ncclResult_t result = ncclSuccess;
        int done = 0;

        Until([&] {
            result = net->test(request, &done, nullptr);
            EXPECT_EQ(0, done);
            return result != ncclSuccess || done;
        });
        return result;
    }

    Pair pair_{net};
    Buffer *to_ = nullptr;
    void *gpu_ = nullptr;
    void *mhandle_ = nullptr;
    void *send_ = nullptr;
    void *receive_ = nullptr;
};

TEST_F(Overlap, TheFirstChunkOfAGpuArrivesBeforeTheLastIsCopied)
{
    StartFromGpu(1);
    WaitForBegin(kChunk);
    fake_cuda_let(2 * kOperations);
    WaitForBegin(3 * kChunk);
    fake_cuda_let(UINT_MAX);
    Finish();
    DeregisterGpu();
}

// The other paths' turn comes when the first is settled, and then the message comes as a whole.
TEST_F(Overlap, AMessageThatHasBegunBeginsAgainOnAnotherPath)
{
    StartFromGpu(3);
    WaitForBegin(3 * kChunk);
    memset(to_->data(), 0xee, kBytes); // nothing of it is on its way any more
    Order("soft0", "down");
    Until([&] {
        EXPECT_FALSE(pair_.TestOnce(send_));
        EXPECT_FALSE(pair_.TestOnce(receive_));
        return WasLogged("1 messages again") || HasFailure();
    });
    fake_cuda_let(2 * kOperations);
    WaitForBegin(5 * kChunk);
    fake_cuda_let(UINT_MAX);
    Finish();
    DeregisterGpu();
}

TEST_F(Overlap, ACopyThatFailsHalfWayIsAnErrorAndNeverAMessage)
{
    StartFromGpu(2);
    WaitForBegin(2 * kChunk);
    detour_test::ExpectWarning("copying from GPU 0: the copy failed: fake error 700");
    detour_test::ExpectWarning("a message of 4194304 bytes could not be copied out of the GPU's memory");
    fake_cuda_break(700);
    EXPECT_EQ(ncclSystemError, Failure(send_));
    DeregisterGpu();
    EXPECT_EQ(ncclSuccess, net->closeSend(pair_.send));
    pair_.send = nullptr;
    detour_test::ExpectWarning("1 messages outstanding");
    EXPECT_EQ(ncclRemoteError, Failure(receive_));
}

TEST_F(Overlap, AReceiverThatClosesMeanwhileIsAnError)
{
    StartFromGpu(2);
    WaitForBegin(2 * kChunk);
    detour_test::ExpectWarning("the receiver closed with 1 messages outstanding");
    pair_.Deregister(*to_);
    EXPECT_EQ(ncclSuccess, net->closeRecv(pair_.recv));
    pair_.recv = nullptr;
    EXPECT_EQ(ncclRemoteError, Failure(send_));
    fake_cuda_let(UINT_MAX);
    DeregisterGpu();
}

// Only the caller copies, a piece with each test.
class OverlapByHand : public Overlap
{
  protected:
    void SetUp() override
    {
        delegates.lock();
        Overlap::SetUp();
    }
    void TearDown() override
    {
        if (is_held_)
            delegates.unlock();
        Overlap::TearDown();
    }
    bool is_held_ = true;
};

TEST_F(OverlapByHand, TheFirstPiecesOfAHostArriveBeforeTheLastIsCopied)
{
    Buffer &from = pair_.Register(pair_.send, kBytes, 0);
    const size_t half = kBytes / 2;

    Fill(from.data(), kBytes, 1);
    receive_ = pair_.Receive(to_->data(), kBytes, 0, to_->mhandle);
    send_ = pair_.Send(from.data(), kBytes, 0, from.mhandle);
    const dt_connection *c = static_cast<dt_request *>(send_)->connection;
    const dt_host_copy *copy = &reinterpret_cast<const dt_sender *>(c)->stage->entry[0].host_copy;
    Until([&] { // a call that Detour's thread is in the way of copies nothing
        EXPECT_FALSE(pair_.TestOnce(send_));
        return dt_host_copy_done_bytes(copy) == half || HasFailure();
    });
    WaitForBegin(half);
    delegates.unlock();
    is_held_ = false;
    Finish();
}
} // namespace
