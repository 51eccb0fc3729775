// SPDX-License-Identifier: Apache-2.0
// Everything that fails: status, vendor_err, which element, what the peer sees, flush order.
#include <cerrno>

#include "tests/softrnic/engine_fixture.h"

using namespace softrnic_test;

namespace
{
class EngineError : public Pair
{
  protected:
    // One failed completion at `a`, which went to ERR; returns it.
    dt_cqe OnlyFailure(ibv_wc_status status, dt_vendor_err vendor_err)
    {
        std::vector<dt_cqe> cqes = a->PollSend();
        EXPECT_EQ(1u, cqes.size());
        EXPECT_EQ(IBV_QPS_ERR, a->State());
        if (cqes.empty())
            return {};
        EXPECT_FAILED(cqes[0], status, vendor_err);
        return cqes[0];
    }
    void ExpectPeerUntouched()
    {
        EXPECT_EQ(IBV_QPS_RTS, b->State());
        EXPECT_TRUE(b->PollRecv().empty());
        EXPECT_TRUE(hb->events.empty());
    }
    uint32_t Register(End *end, uint64_t offset, uint64_t bytes, unsigned access, uint32_t pd = 1)
    {
        uint32_t key = 0;
        EXPECT_EQ(0, dt_rnic_mr_register(end->host->rnic, pd, end->buffer.data() + offset, bytes,
                                         end->Addr(offset), access, &key));
        return key;
    }
};

// ---- local errors ----

TEST_F(EngineError, LocalKeyProblems)
{
    uint32_t other_pd = Register(a, 0, 100, kAllAccess, 2);
    uint32_t gone = Register(a, 0, 100, kAllAccess);
    ASSERT_EQ(0, dt_rnic_mr_deregister(ha->rnic, gone));
    EXPECT_EQ(EINVAL, dt_rnic_mr_deregister(ha->rnic, gone));
    uint32_t own = a->key;
    const struct {
        dt_wqe_sge sge;
        dt_vendor_err vendor_err;
    } cases[] = {
        {{a->Addr(0), 10, 0}, DT_VENDOR_LOCAL_KEY},
        {{a->Addr(0), 10, 0xffffffff}, DT_VENDOR_LOCAL_KEY},
        {{a->Addr(0), 10, other_pd}, DT_VENDOR_LOCAL_KEY},
        {{a->Addr(0), 10, gone}, DT_VENDOR_LOCAL_KEY},
        {{a->Addr(0) - 1, 10, own}, DT_VENDOR_LOCAL_BOUNDS},
        {{a->Addr(0) + a->buffer.size() - 9, 10, own}, DT_VENDOR_LOCAL_BOUNDS},
        {{UINT64_MAX, 10, own}, DT_VENDOR_LOCAL_BOUNDS},
    };
    for (const auto &c : cases) {
        End local(ha, Attributes()), remote(hb, Attributes());
        local.ConnectTo(remote);
        remote.ConnectTo(local);
        uint16_t index = local.Put(local.Header(DT_WQE_WRITE, 0, &remote, 0), {c.sge});
        local.Ring();
        Run();
        std::vector<dt_cqe> cqes = local.PollSend();
        ASSERT_EQ(1u, cqes.size());
        EXPECT_FAILED(cqes[0], IBV_WC_LOC_PROT_ERR, c.vendor_err);
        EXPECT_EQ(index, cqes[0].wqe_counter);
        EXPECT_EQ(DT_CQE_WRITE, cqes[0].op);
        EXPECT_EQ(IBV_QPS_ERR, local.State());
        EXPECT_EQ(IBV_QPS_RTS, remote.State());
    }
    ASSERT_EQ(0, dt_rnic_mr_deregister(ha->rnic, other_pd));
}

TEST_F(EngineError, ReadingIntoMemoryThatMayNotBeWritten)
{
    uint32_t read_only = Register(a, 0, 100, 0);
    a->Put(a->Header(DT_WQE_READ, 0, b, 0), {{a->Addr(0), 10, read_only}});
    a->Ring();
    Run();
    OnlyFailure(IBV_WC_LOC_PROT_ERR, DT_VENDOR_LOCAL_RIGHT);
    ExpectPeerUntouched();
}

TEST_F(EngineError, SendingFromReadOnlyMemoryIsFine)
{
    uint32_t read_only = Register(a, 0, 100, 0);
    a->Put(a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED, b, 0), {{a->Addr(0), 10, read_only}});
    a->Ring();
    Run();
    EXPECT_EQ(1u, a->PollSend().size());
    EXPECT_EQ(IBV_QPS_RTS, a->State());
}

TEST_F(EngineError, ALocalErrorWaitsForTheElementsBeforeIt)
{
    a->Fill(0, 5000, 1);
    a->Put(a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED, b, 0), {a->Sge(0, 5000)});
    a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), {{a->Addr(0), 10, 0}});
    a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), {a->Sge(0, 10)});
    a->Ring();
    EXPECT_TRUE(a->PollSend().empty());
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(3u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_FAILED(cqes[1], IBV_WC_LOC_PROT_ERR, DT_VENDOR_LOCAL_KEY);
    EXPECT_FAILED(cqes[2], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
    EXPECT_EQ(0, memcmp(a->buffer.data(), b->buffer.data(), 5000));
}

TEST_F(EngineError, MessagesLongerThanTheDeviceTakes)
{
    a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), {{a->Addr(0), (1u << 30) + 1, a->key}});
    a->Ring();
    OnlyFailure(IBV_WC_LOC_LEN_ERR, DT_VENDOR_LENGTH);
    ExpectPeerUntouched();
}

TEST_F(EngineError, ElementsThatAreNoElements)
{
    const struct {
        void (*spoil)(uint32_t *words);
        dt_vendor_err vendor_err;
    } cases[] = {
        {[](uint32_t *words) { words[0] ^= htobe32(0xff); }, DT_VENDOR_BAD_ELEMENT},
        {[](uint32_t *words) { words[1] &= htobe32(0xffffff00); }, DT_VENDOR_BAD_ELEMENT},
        {[](uint32_t *words) { words[1] |= htobe32(60); }, DT_VENDOR_BAD_ELEMENT}, // longer than announced
        {[](uint32_t *words) { words[0] ^= htobe32(1 << 8); }, DT_VENDOR_BAD_INDEX},
        {[](uint32_t *words) { words[1] ^= htobe32(1 << 8); }, DT_VENDOR_BAD_INDEX},
    };
    for (const auto &c : cases) {
        Build(Quiet(), Attributes());
        a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), {a->Sge(0, 10)});
        c.spoil(static_cast<uint32_t *>(a->sq.buffer));
        a->Ring();
        OnlyFailure(IBV_WC_LOC_QP_OP_ERR, c.vendor_err);
        ExpectPeerUntouched();
    }
}

TEST_F(EngineError, AReadOnAQueuePairSetUpForNone)
{
    Attributes attributes;
    attributes.max_rd_atomic = 0;
    Build(Quiet(), attributes);
    a->Read(*b, 0, 0, 10);
    OnlyFailure(IBV_WC_LOC_QP_OP_ERR, DT_VENDOR_BAD_OPCODE);
}

TEST_F(EngineError, AnOverrunOfTheSendQueueIsFatalForTheQueuePair)
{
    for (uint32_t announced : {257u, 65535u}) {
        Build(Quiet(), Attributes());
        a->producer = static_cast<uint16_t>(announced);
        a->Ring();
        EXPECT_EQ(IBV_QPS_ERR, a->State());
        EXPECT_EQ(1, ha->CountEvents(IBV_EVENT_QP_FATAL));
        EXPECT_TRUE(a->PollSend().empty());
        ASSERT_EQ(0, a->MoveTo(IBV_QPS_RESET));
    }
}

// ---- remote errors: WRITE and READ ----

TEST_F(EngineError, RemoteKeyProblems)
{
    for (uint8_t opcode : {DT_WQE_WRITE, DT_WQE_WRITE_IMM, DT_WQE_READ}) {
        for (int kind = 0; kind < 7; kind++) {
            Build(Quiet(), Attributes());
            uint32_t other_pd = Register(b, 0, 4000, kAllAccess, 2);
            uint32_t local_only = Register(b, 0, 4000, IBV_ACCESS_LOCAL_WRITE);
            uint32_t short_one = Register(b, 0, 4000, kAllAccess);
            uint32_t gone = Register(b, 0, 4000, kAllAccess);
            ASSERT_EQ(0, dt_rnic_mr_deregister(hb->rnic, gone));
            dt_wqe_header header = a->Header(opcode, 0, b, 0, 1);
            const uint32_t keys[] = {0, other_pd, local_only, gone, short_one, b->key, b->key};
            header.rkey = keys[kind];
            if (kind == 5)
                header.remote_addr = b->Addr(0) - 1;
            if (kind == 6)
                header.remote_addr = UINT64_MAX - 100;
            b->Recv(5);
            a->Write(*b, 100, 100, 10, 0); // succeeds, in silence
            uint16_t index = a->Put(header, {a->Sge(0, 4001)});
            a->Ring();
            Run();
            dt_cqe cqe = OnlyFailure(IBV_WC_REM_ACCESS_ERR, DT_VENDOR_REMOTE_ACCESS);
            EXPECT_EQ(index, cqe.wqe_counter);
            // The peer found it, so its queue pair is in ERR as well, with an event and its receive flushed.
            EXPECT_EQ(IBV_QPS_ERR, b->State());
            EXPECT_EQ(1, hb->CountEvents(IBV_EVENT_QP_ACCESS_ERR));
            std::vector<dt_cqe> cqes = b->PollRecv();
            ASSERT_EQ(1u, cqes.size());
            EXPECT_FAILED(cqes[0], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
            EXPECT_EQ(5u, cqes[0].wr_id);
            EXPECT_EQ(0, b->buffer[0]);
            EXPECT_EQ(1u, hb->Counters().naks_sent);
        }
    }
}

TEST_F(EngineError, AMessageOfNoBytesNeedsNoKey)
{
    dt_wqe_header header = a->Header(DT_WQE_WRITE, DT_WQE_SIGNALED, b, 0);
    header.rkey = 0;
    a->Put(header, {});
    header.opcode = DT_WQE_READ;
    a->Put(header, {});
    a->Ring();
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_TRUE(IsSuccess(cqes[1]));
}

TEST_F(EngineError, OperationsTheQueuePairDoesNotAllow)
{
    for (uint8_t opcode : {DT_WQE_WRITE, DT_WQE_READ}) {
        Attributes attributes;
        attributes.access = IBV_ACCESS_LOCAL_WRITE;
        Build(Quiet(), attributes);
        a->Put(a->Header(opcode, 0, b, 0), {a->Sge(0, 10)});
        a->Ring();
        Run();
        OnlyFailure(IBV_WC_REM_INV_REQ_ERR, DT_VENDOR_REMOTE_INVALID);
        EXPECT_EQ(IBV_QPS_ERR, b->State());
        EXPECT_EQ(1, hb->CountEvents(IBV_EVENT_QP_REQ_ERR));
    }
}

TEST_F(EngineError, MoreReadsThanTheResponderAgreedTo)
{
    // b answers one at a time and is held back by its rate, so that the second finds the first still open.
    Build(Quiet(), Attributes(), false);
    b->attributes.max_rd_atomic = 1;
    a->ConnectTo(*b);
    b->ConnectTo(*a);
    dt_rnic_set_rate(hb->rnic, 1000000);
    a->Read(*b, 0, 0, 5000);
    a->Read(*b, 0, 0, 5000);
    Run();
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_TRUE(IsSuccess(cqes[0]));
    EXPECT_FAILED(cqes[1], IBV_WC_REM_INV_REQ_ERR, DT_VENDOR_REMOTE_INVALID);
}

TEST_F(EngineError, ARegionGivenUpWhileItIsRead)
{
    dt_rnic_set_rate(hb->rnic, 1000000);
    uint32_t key = Register(b, 0, 100000, kAllAccess);
    dt_wqe_header header = a->Header(DT_WQE_READ, 0, b, 0);
    header.rkey = key;
    a->Put(header, {a->Sge(0, 100000)});
    a->Ring();
    dt_sim_run_until(sim, 20 * kMs);
    ASSERT_EQ(0, dt_rnic_mr_deregister(hb->rnic, key));
    Run();
    OnlyFailure(IBV_WC_REM_ACCESS_ERR, DT_VENDOR_REMOTE_ACCESS);
    EXPECT_EQ(1, hb->CountEvents(IBV_EVENT_QP_ACCESS_ERR));
}

TEST_F(EngineError, ARegionGivenUpWhileItIsWritten)
{
    dt_rnic_set_rate(ha->rnic, 1000000);
    uint32_t key = Register(b, 0, 100000, kAllAccess);
    dt_wqe_header header = a->Header(DT_WQE_WRITE, 0, b, 0);
    header.rkey = key;
    a->Fill(0, 100000, 1);
    a->Put(header, {a->Sge(0, 100000)});
    a->Ring();
    dt_sim_run_until(sim, 20 * kMs);
    ASSERT_EQ(0, dt_rnic_mr_deregister(hb->rnic, key));
    std::vector<uint8_t> then = b->buffer;
    EXPECT_NE(0, then[5000]);
    Run();
    EXPECT_EQ(then, b->buffer); // not one byte after deregister returned
    OnlyFailure(IBV_WC_REM_ACCESS_ERR, DT_VENDOR_REMOTE_ACCESS);
}

// ---- remote errors: SEND ----

TEST_F(EngineError, ASendLongerThanItsReceive)
{
    b->Recv(1, 0, 2000);
    b->Recv(2, 0, 2000);
    a->Send(0, 2001, 0);
    Run();
    OnlyFailure(IBV_WC_REM_INV_REQ_ERR, DT_VENDOR_REMOTE_INVALID);
    EXPECT_EQ(IBV_QPS_ERR, b->State());
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_EQ(1u, cqes[0].wr_id);
    EXPECT_FAILED(cqes[0], IBV_WC_LOC_LEN_ERR, DT_VENDOR_LENGTH);
    EXPECT_EQ(2u, cqes[1].wr_id);
    EXPECT_FAILED(cqes[1], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
    EXPECT_TRUE(hb->events.empty()); // the completion tells it all
}

TEST_F(EngineError, AReceiveIntoMemoryThatMayNotBeWritten)
{
    uint32_t read_only = Register(b, 0, 4000, 0);
    ibv_sge sge = {b->Addr(0), 4000, read_only};
    bool must_kick;
    ASSERT_EQ(0, dt_rnic_qp_post_recv(b->qp, 1, &sge, 1, &must_kick));
    a->Send(0, 2000, 0);
    Run();
    OnlyFailure(IBV_WC_REM_OP_ERR, DT_VENDOR_REMOTE_OP);
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_FAILED(cqes[0], IBV_WC_LOC_PROT_ERR, DT_VENDOR_LOCAL_RIGHT);
    EXPECT_EQ(IBV_QPS_ERR, b->State());
}

// ---- flush ----

TEST_F(EngineError, MovingToErrFlushesBothQueuesInOrder)
{
    dt_sim_cut(ha->port, hb->port, true);
    std::vector<uint16_t> posted;
    for (int i = 0; i < 5; i++)
        posted.push_back(a->Write(*b, 0, 0, 5000, i % 2 ? DT_WQE_SIGNALED : 0));
    posted.push_back(a->Read(*b, 0, 0, 100, 0));
    a->Recv(11);
    a->Recv(12);
    ASSERT_EQ(0, a->MoveTo(IBV_QPS_ERR));
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(posted.size(), cqes.size()); // unsignaled ones as well
    for (size_t i = 0; i < posted.size(); i++) {
        EXPECT_FAILED(cqes[i], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
        EXPECT_EQ(posted[i], cqes[i].wqe_counter);
    }
    EXPECT_EQ(DT_CQE_READ, cqes[5].op);
    cqes = a->PollRecv();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_EQ(11u, cqes[0].wr_id);
    EXPECT_EQ(12u, cqes[1].wr_id);
    EXPECT_TRUE(ha->events.empty());
    Run();
    ExpectPeerUntouched();
}

TEST_F(EngineError, WorkPostedInErrIsFlushedAtOnce)
{
    ASSERT_EQ(0, a->MoveTo(IBV_QPS_ERR));
    uint16_t index = a->Write(*b, 0, 0, 10);
    EXPECT_EQ(0, a->Recv(4));
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_FAILED(cqes[0], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
    EXPECT_EQ(index, cqes[0].wqe_counter);
    cqes = a->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_FAILED(cqes[0], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
}

TEST_F(EngineError, FlushingMayWrapTheRing)
{
    Attributes attributes;
    attributes.sq_blocks = 8;
    Build(Quiet(), attributes);
    for (int i = 0; i < 6; i++)
        a->Write(*b, 0, 0, 10, 0);
    Run();
    dt_sim_cut(ha->port, hb->port, true);
    // Three blocks each: at 6, and at 9, which wraps to 1.
    std::vector<dt_wqe_sge> many(9, a->Sge(0, 10));
    uint16_t first = a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), many);
    uint16_t second = a->Put(a->Header(DT_WQE_WRITE, 0, b, 0), many);
    a->Ring();
    ASSERT_EQ(0, a->MoveTo(IBV_QPS_ERR));
    std::vector<dt_cqe> cqes = a->PollSend();
    ASSERT_EQ(2u, cqes.size());
    EXPECT_EQ(first, cqes[0].wqe_counter);
    EXPECT_EQ(second, cqes[1].wqe_counter);
}

TEST_F(EngineError, AReceiveInUseIsFlushedToo)
{
    dt_rnic_set_rate(ha->rnic, 1000000);
    b->Recv(1, 0, 100000);
    a->Send(0, 100000);
    dt_sim_run_until(sim, 20 * kMs);
    EXPECT_GT(hb->Counters().payload_bytes_landed, 0u);
    ASSERT_EQ(0, b->MoveTo(IBV_QPS_ERR));
    std::vector<dt_cqe> cqes = b->PollRecv();
    ASSERT_EQ(1u, cqes.size());
    EXPECT_FAILED(cqes[0], IBV_WC_WR_FLUSH_ERR, DT_VENDOR_FLUSHED);
}
} // namespace
