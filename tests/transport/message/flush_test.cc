/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/flush.h"

#include <array>

#include "tests/hostpath/fake_cuda.h"
#include "tests/transport/message/ends.h"
#include "transport/net.h"

namespace
{
class Flush : public detour_test::Ends
{
  protected:
    explicit Flush(const char *cuda_library = "")
        : Ends([cuda_library](dt_params &params, dt_net_options &) {
              strcpy(params.cuda_library, cuda_library);
          })
    {
    }

    dt_request *Iflush(uint32_t bytes)
    {
        void *data = to.data();
        dt_request *request = nullptr;
        EXPECT_EQ(DT_OK, dt_iflush(receiver, 1, &data, &bytes, &to_memory, &request));
        return request;
    }
    void ExpectNothingOutstanding()
    {
        EXPECT_EQ(0u, r->flush_open);
        EXPECT_EQ(0u, r->side_open);
        EXPECT_EQ(0u, receiver->open_requests);
        EXPECT_EQ(0u, receiver->path[0].flush_outstanding);
        EXPECT_EQ(0u, to_memory->open);
    }
    /* The loopback queue pair of path 0 exists, and no read is outstanding. */
    void FlushOnce()
    {
        Transfer(100);
        Wait(Iflush(100));
        ExpectNothingOutstanding();
        ASSERT_NE(nullptr, receiver->path[0].flush);
    }
    /* A read that is submitted and not complete. */
    dt_request *Outstanding()
    {
        FlushOnce();
        dt_request *request = Iflush(100);
        EXPECT_EQ(1u, receiver->path[0].flush_outstanding);
        return request;
    }
};

TEST_F(Flush, MemoryThatWasNeverWrittenNeedsNoRead)
{
    EXPECT_EQ(nullptr, Iflush(100));
    Transfer(100);
    EXPECT_EQ(nullptr, Iflush(0));
    ExpectNothingOutstanding();
    EXPECT_EQ(0u, receiver->meter.row->flush_count);
}

/* It may come over a path whose device has not registered the memory. */
TEST_F(Flush, AnEmptyMessageHasWrittenNothing)
{
    Transfer(0);
    EXPECT_EQ(0u, to_memory->written_mask);
    EXPECT_EQ(nullptr, Iflush(100));
}

TEST_F(Flush, OfASenderIsInvalid)
{
    void *data = from.data();
    uint32_t bytes = 1;
    dt_request *request = nullptr;
    EXPECT_EQ(DT_INVALID, dt_iflush(sender, 1, &data, &bytes, &from_memory, &request));
}

TEST_F(Flush, TheFirstOneAwaitsItsLoopbackQueuePair)
{
    Transfer(100);
    dt_request *request = Iflush(100);
    ASSERT_NE(nullptr, request);
    EXPECT_EQ(1u, r->flush_wanted_mask);
    EXPECT_EQ(1u, r->flush[0].unsubmitted_mask);
    EXPECT_EQ(1u, r->flush[0].left_mask);
    EXPECT_EQ(1u, r->flush_open);
    EXPECT_EQ(1u, r->side_open);
    EXPECT_EQ(1u, to_memory->open);
    EXPECT_FALSE(IsDone(request));
    Wait(request);
    ExpectNothingOutstanding();
    EXPECT_EQ(1u, receiver->meter.row->flush_count);
}

TEST_F(Flush, LaterOnesAreSubmittedAtOnceAndCompleteInAnyNumber)
{
    FlushOnce();
    std::array<dt_request *, DT_FLUSHES_MAX> requests;
    for (auto &request : requests)
        request = Iflush(100);
    EXPECT_EQ((uint32_t)DT_FLUSHES_MAX, r->flush_open);
    for (auto *request : requests)
        Wait(request);
    ExpectNothingOutstanding();
}

TEST_F(Flush, MoreThanTheMaximumOutstandingEndsTheConnection)
{
    FlushOnce();
    for (int i = 0; i < DT_FLUSHES_MAX; i++)
        ASSERT_NE(nullptr, Iflush(100));
    void *data = to.data();
    uint32_t bytes = 100;
    dt_request *request = nullptr;
    detour_test::ExpectWarning("more than 64 flushes outstanding");
    EXPECT_EQ(DT_INVALID, dt_iflush(receiver, 1, &data, &bytes, &to_memory, &request));
    EXPECT_EQ(nullptr, request);
    EXPECT_EQ((uint32_t)DT_FLUSHES_MAX, r->flush_open);
}

TEST_F(Flush, ARequestThatIsNotOpenCannotBeTested)
{
    FlushOnce();
    int done = 0;
    EXPECT_EQ(DT_INVALID, dt_flush_test(&r->flush[0].request, &done, nullptr));
    EXPECT_EQ(0, done);
}

TEST_F(Flush, HostMemoryIsCompleteWhenItsPathIsLost)
{
    dt_request *request = Outstanding();
    dt_receiver_flush_lose(r, &receiver->path[0]);
    EXPECT_TRUE(receiver->path[0].is_flush_broken);
    EXPECT_TRUE(request->is_done);
    EXPECT_TRUE(IsDone(request));
    ExpectNothingOutstanding();
}

TEST_F(Flush, GpuMemoryOfALostPathIsNotCompleteUntilCudaFlushesIt)
{
    dt_request *request = Outstanding();
    to_memory->is_host = false;
    dt_receiver_flush_lose(r, &receiver->path[0]);
    EXPECT_FALSE(request->is_done);
    EXPECT_EQ(1u, r->flush[request->slot].lost_mask);
    EXPECT_EQ(0u, receiver->path[0].flush_outstanding);
    EXPECT_EQ(1u, to_memory->open);
    dt_receiver_flush_progress(r);
    EXPECT_TRUE(r->lost.is_busy);
    EXPECT_EQ(1u, r->lost.path_mask);
    EXPECT_FALSE(request->is_done);
    detour_test::ExpectWarning("to GPU memory");
    EXPECT_TRUE(Until([&] {
        int done = 0;
        EXPECT_EQ(0, done);
        return dt_test(request, &done, nullptr) == DT_SYSTEM;
    })) << "without CUDA the request must fail and never complete";
}

TEST_F(Flush, OnADeadDeviceNoReadIsSubmitted)
{
    FlushOnce();
    dt_store_relaxed(&receiver->path[0].nic->is_dead, 1u);
    dt_request *host = Iflush(100);
    EXPECT_TRUE(host->is_done);
    EXPECT_TRUE(IsDone(host));
    to_memory->is_host = false;
    dt_request *gpu = Iflush(100);
    EXPECT_FALSE(gpu->is_done);
    EXPECT_EQ(0u, r->flush[gpu->slot].unsubmitted_mask);
    EXPECT_EQ(1u, r->flush[gpu->slot].lost_mask);
    EXPECT_EQ(0u, receiver->path[0].flush_outstanding);
    dt_store_relaxed(&receiver->path[0].nic->is_dead, 0u);
}

TEST_F(Flush, ANewLoopbackQueuePairReadsAgain)
{
    dt_request *request = Outstanding();
    dt_path *path = &receiver->path[0];
    ASSERT_TRUE(Until([&] { /* the read of the earlier queue pair completes, and is not polled */
                            dt_completion completion;
                            return dt_flush_poll(path->flush, &completion, 1) == 1;
    }));
    path->is_flush_broken = true;
    EXPECT_TRUE(dt_receiver_flush_renew(r, path));
    EXPECT_FALSE(path->is_flush_broken);
    EXPECT_EQ(0u, path->flush_outstanding);
    EXPECT_EQ(1u, r->flush[request->slot].unsubmitted_mask);
    Wait(request);
    ExpectNothingOutstanding();
    EXPECT_FALSE(dt_receiver_flush_renew(r, path)) << "no request is open";
}

TEST_F(Flush, ALoopbackQueuePairThatTheDeviceRefusesPutsThePathAside)
{
    Transfer(100);
    dt_request *request = Iflush(100);
    dt_path *path = &receiver->path[0];
    dt_store_release(&path->is_flush_refused, 1u);
    dt_receiver_flush_progress(r);
    EXPECT_TRUE(path->is_flush_broken);
    EXPECT_EQ((uint32_t)DT_PATH_NONE, path->state);
    EXPECT_STREQ("refused the loopback queue pair of a flush", path->refusal);
    EXPECT_TRUE(request->is_done) << "the memory is the host's";
    EXPECT_TRUE(IsDone(request));
    ExpectNothingOutstanding();
}

class FlushByCuda : public Flush
{
  protected:
    FlushByCuda() : Flush(FAKE_CUDA_LIBRARY) {}
    void SetUp() override
    {
        fake_cuda_reset();
        fake_cuda_adopt(0, to.data(), to.size());
        Flush::SetUp();
    }
    void TearDown() override
    {
        Flush::TearDown();
        dt_gpu_flusher_close(&here.net->environment.flusher);
        fake_cuda_reset();
    }
};

TEST_F(FlushByCuda, CompletesOneRequestAfterTheOther)
{
    dt_request *first = Outstanding();
    dt_request *second = Iflush(100);
    to_memory->is_host = false;
    dt_receiver_flush_lose(r, &receiver->path[0]);
    dt_receiver_flush_progress(r);
    EXPECT_EQ(&r->flush[first->slot], r->lost.slot);
    EXPECT_EQ(0u, r->flush[second->slot].left_mask & ~r->flush[second->slot].lost_mask);
    Wait(first);
    Wait(second);
    EXPECT_EQ(2u, fake_cuda_calls("cuFlushGPUDirectRDMAWrites"));
    EXPECT_FALSE(r->lost.is_busy);
    to_memory->is_host = true;
    ExpectNothingOutstanding();
}
} // namespace
