// SPDX-License-Identifier: Apache-2.0
// Sends of GPU memory over the host path (DETOUR_HOSTPATH=on in CMakeLists.txt), with the double of the CUDA
// driver. Code that reads its GPU memory as if it were the host's, as the software RNIC would, finds other
// bytes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>

#include "base/prng.h"
#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/hostpath/fake_cuda.h"
#include "tests/plugin/late.h"
#include "tests/plugin/pair.h"
#include "transport/net_state.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::CountWrong;
using detour_test::Fill;
using detour_test::Pair;
using detour_test::Until;

constexpr size_t kBytes = 8 << 20;

class GpuSend : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
        memory_ = fake_cuda_alloc_for_rnic(0, kBytes);
        bytes_ = static_cast<uint8_t *>(fake_cuda_alias(memory_));
        pair_.Connect();
        detour_test::SetLate(pair_.send, DT_NEVER_NS); // on a busy machine any copy may take long
        ASSERT_EQ(ncclSuccess, pair_.net->regMr(pair_.send, memory_, kBytes, NCCL_PTR_CUDA, &mhandle_));
        to_ = &pair_.Register(pair_.recv, kBytes, 0);
    }

    void TearDown() override
    {
        if (pair_.send)
            Deregister();
        pair_.Close();
        fake_cuda_free(memory_);
        fake_cuda_mend();
        fake_cuda_set_speed(0, 0);
        auto faults = fake_cuda_count_faults();
        EXPECT_EQ(faults.unpinned_copies, 0u);
        EXPECT_EQ(faults.forbidden_calls, 0u);
        EXPECT_EQ(faults.no_context_calls, 0u);
        EXPECT_EQ(faults.unsafe_calls, 0u);
    }

    void Deregister()
    {
        EXPECT_EQ(ncclSuccess, pair_.net->deregMr(pair_.send, mhandle_));
        mhandle_ = nullptr;
    }

    void *Send(size_t at, size_t bytes)
    {
        return pair_.Send(static_cast<uint8_t *>(memory_) + at, static_cast<int>(bytes), 0, mhandle_);
    }

    Pair pair_{&ncclNetPlugin_v8};
    void *memory_ = nullptr;
    uint8_t *bytes_ = nullptr; // the same, as the test sees it
    void *mhandle_ = nullptr;
    Buffer *to_ = nullptr;
};

TEST_F(GpuSend, MessagesOfAllSizesArriveThoughTheirMemoryIsUsedAgain)
{
    std::thread([&] {
        uint64_t sequence = 0;

        fake_cuda_forbid_thread(); // this is NCCL's progress thread
        fake_cuda_set_speed(20000, 4000000000);
        for (size_t bytes : {size_t{0}, size_t{1}, size_t{8}, size_t{4096}, size_t{65537}, size_t{614400},
                             (size_t{1} << 20) + 77, size_t{3} << 20}) {
            for (int i = 0; i < 2; i++, sequence++) {
                int received = -1;

                Fill(bytes_, bytes, sequence);
                memset(to_->data(), 0xee, bytes + 1);
                pair_.Wait(Send(0, bytes));
                memset(bytes_, 0xdd, bytes); // NCCL has its buffer back
                pair_.Wait(pair_.Receive(to_->data(), static_cast<int>(kBytes), 0, to_->mhandle), &received);
                ASSERT_EQ(static_cast<int>(bytes), received);
                ASSERT_EQ(0u, CountWrong(to_->data(), bytes, sequence)) << bytes;
                ASSERT_EQ(0xee, to_->data()[bytes]);
            }
        }
    }).join();
    EXPECT_GT(fake_cuda_calls("cuMemcpyDtoHAsync_v2"), 0u);
}

TEST_F(GpuSend, EightMessagesAreUnderWayAtOnceInTheirOrder)
{
    const size_t bytes = 150000;
    dt_prng prng;

    dt_prng_init(&prng, 3);
    fake_cuda_set_speed(100000, 10000000000);
    for (int round = 0; round < 10; round++) {
        void *sends[8], *receives[8];
        bool receives_first = dt_prng_chance(&prng, 1, 2);
        auto receive = [&] {
            for (int i = 0; i < 8; i++)
                receives[i] = pair_.Receive(to_->data() + i * bytes, bytes, 0, to_->mhandle);
        };

        if (receives_first)
            receive();
        for (int i = 0; i < 8; i++) {
            Fill(bytes_ + i * bytes, bytes, round * 8 + i);
            sends[i] = Send(i * bytes, bytes);
        }
        for (int i = 0; i < 8; i++) {
            pair_.Wait(sends[i]);
            memset(bytes_ + i * bytes, 0xdd, bytes);
        }
        if (!receives_first)
            receive();
        for (int i = 0; i < 8; i++) {
            pair_.Wait(receives[i]);
            ASSERT_EQ(0u, CountWrong(to_->data() + i * bytes, bytes, round * 8 + i));
        }
    }
}

TEST_F(GpuSend, AnIsendIsNotDoneWhileItsMemoryIsRead)
{
    bool is_done = false;
    unsigned copies = fake_cuda_calls("cuMemcpyDtoHAsync_v2");

    fake_cuda_set_speed(20000000, 0); // 20 ms
    Fill(bytes_, 1000, 1);
    void *receive = pair_.Receive(to_->data(), 1000, 0, to_->mhandle);
    void *send = Send(0, 1000);
    while (fake_cuda_calls("cuMemcpyDtoHAsync_v2") == copies)
        usleep(100);
    while (!is_done) {
        bool was_on_way = fake_cuda_on_way() > 1; // the copy, and behind it what tells of it

        is_done = pair_.TestOnce(send);
        ASSERT_FALSE(is_done && was_on_way && fake_cuda_on_way() > 1);
    }
    pair_.Wait(receive);
    EXPECT_EQ(0u, CountWrong(to_->data(), 1000, 1));
}

/*
 * The driver holds every copy back, as while an application's thread in cudaFree waits for a kernel that
 * waits for this message. The RNIC reads other bytes at these addresses than the driver does, so the bytes
 * that arrive show which of them has read.
 */
TEST_F(GpuSend, ACopyThatTheDriverHoldsBackIsNotWaitedFor)
{
    const size_t bytes = 100000;
    uint8_t *direct = static_cast<uint8_t *>(memory_);

    detour_test::SetLate(pair_.send, DT_STAGE_LATE_NS);
    fake_cuda_let(0);
    Fill(direct, bytes, 1);
    Fill(direct + bytes, bytes, 2);
    void *first = pair_.Receive(to_->data(), bytes, 0, to_->mhandle);
    void *second = pair_.Receive(to_->data() + bytes, bytes, 0, to_->mhandle);
    void *sends[2] = {Send(0, bytes), Send(bytes, bytes)};
    EXPECT_FALSE(pair_.TestOnce(sends[0]));
    pair_.Wait(first);
    pair_.Wait(second);
    pair_.Wait(sends[0]);
    pair_.Wait(sends[1]);
    EXPECT_EQ(0u, CountWrong(to_->data(), bytes, 1));
    EXPECT_EQ(0u, CountWrong(to_->data() + bytes, bytes, 2));

    unsigned copies = fake_cuda_calls("cuMemcpyDtoHAsync_v2");
    Fill(direct, bytes, 3);
    void *third = pair_.Receive(to_->data(), bytes, 0, to_->mhandle);
    pair_.Wait(Send(0, bytes));
    pair_.Wait(third);
    EXPECT_EQ(0u, CountWrong(to_->data(), bytes, 3));
    EXPECT_EQ(copies, fake_cuda_calls("cuMemcpyDtoHAsync_v2")) << "while a copy is late nothing is staged";

    /* The late copies end, and disturb no message that is staged afterwards. */
    detour_test::SetLate(pair_.send, DT_NEVER_NS);
    fake_cuda_let(UINT_MAX);
    for (int i = 4; i < 40; i++) {
        Fill(bytes_, bytes, i);
        Fill(direct, bytes, i);
        void *receive = pair_.Receive(to_->data(), bytes, 0, to_->mhandle);
        pair_.Wait(Send(0, bytes));
        pair_.Wait(receive);
        ASSERT_EQ(0u, CountWrong(to_->data(), bytes, i));
    }
    Until([&] {
        void *receive = pair_.Receive(to_->data(), bytes, 0, to_->mhandle);
        pair_.Wait(Send(0, bytes));
        pair_.Wait(receive);
        return fake_cuda_calls("cuMemcpyDtoHAsync_v2") > copies;
    });
}

/* The first chunks are copied, posted, and partly there already; the rest comes from the GPU itself. */
TEST_F(GpuSend, TheRestOfAMessageIsSentDirectlyWhenItsCopyStops)
{
    const size_t bytes = 3 << 20, chunk = DT_GPU_CHUNK_BYTES;

    detour_test::SetLate(pair_.send, DT_STAGE_LATE_NS);
    fake_cuda_let(2); // a chunk, and what tells of it
    Fill(bytes_, bytes, 1);
    Fill(static_cast<uint8_t *>(memory_), bytes, 2);
    memset(to_->data(), 0, bytes);
    void *receive = pair_.Receive(to_->data(), bytes, 0, to_->mhandle);
    void *send = Send(0, bytes);
    pair_.Wait(receive);
    pair_.Wait(send);
    EXPECT_EQ(0, memcmp(to_->data() + chunk, static_cast<uint8_t *>(memory_) + chunk, bytes - chunk));
    EXPECT_EQ(0, memcmp(to_->data(), bytes_, 128 << 10)) << "what was posted from the pool";
    fake_cuda_let(UINT_MAX);
}

TEST_F(GpuSend, MemoryIsNotReadAfterItIsDeregistered)
{
    fake_cuda_set_speed(20000000, 0);
    Send(0, 1000000);
    Deregister(); // an abort
    EXPECT_EQ(0u, fake_cuda_on_way());
}

TEST_F(GpuSend, ACopyThatFailsIsAnErrorAndNeverAMessage)
{
    int done = 0;
    ncclResult_t result = ncclSuccess;

    fake_cuda_fail("cuMemcpyDtoHAsync_v2", 0, DT_CUDA_ILLEGAL_ADDRESS);
    detour_test::ExpectWarning("copying from GPU 0: the driver refused: fake error 700");
    detour_test::ExpectWarning("a message of 1000 bytes could not be copied out of the GPU's memory");
    void *receive = pair_.Receive(to_->data(), 1000, 0, to_->mhandle);
    void *send = Send(0, 1000);
    Until([&] {
        result = pair_.net->test(send, &done, nullptr);
        EXPECT_EQ(0, done);
        return result != ncclSuccess;
    });
    EXPECT_EQ(ncclSystemError, result);
    Deregister();
    EXPECT_EQ(ncclSuccess, pair_.net->closeSend(pair_.send));
    pair_.send = nullptr;
    detour_test::ExpectWarning("1 messages outstanding");
    Until([&] {
        result = pair_.net->test(receive, &done, nullptr);
        EXPECT_EQ(0, done);
        return result != ncclSuccess;
    });
    EXPECT_EQ(ncclRemoteError, result);
}
} // namespace
