// SPDX-License-Identifier: Apache-2.0
// What the drop-in library answers to programs that find it as NCCL does.
#include "tests/dropin/library.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <vector>

using detour_test::Rank;
using detour_test::Require;
using detour_test::RunRanks;
using detour_test::Verbs;

namespace
{
constexpr size_t kBytes = 1 << 20;

struct Address {
    ibv_gid gid;
    uint32_t qpn, rkey;
    uint64_t addr;
};

// One end of a queue pair, made by the library's calls only.
struct Side {
    explicit Side(const Verbs &library) : verbs(library), memory(kBytes)
    {
        ibv_qp_init_attr init = {};

        context = verbs.OpenFirst();
        pd = verbs.alloc_pd(context);
        channel = verbs.create_comp_channel(context);
        cq = verbs.create_cq(context, 64, this, channel, 0);
        init.send_cq = init.recv_cq = cq;
        init.qp_type = IBV_QPT_RC;
        init.cap = {32, 32, 1, 1, 0};
        init.sq_sig_all = 1;
        qp = verbs.create_qp(pd, &init);
        mr = verbs.reg_mr_iova2(pd, memory.data(), kBytes, reinterpret_cast<uintptr_t>(memory.data()),
                                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                    IBV_ACCESS_RELAXED_ORDERING);
        Require(pd && channel && cq && qp && mr, "an object is missing: %s", strerror(errno));
    }

    void Destroy()
    {
        Require(verbs.destroy_qp(qp) == 0, "destroy_qp");
        Require(verbs.dereg_mr(mr) == 0, "dereg_mr");
        Require(verbs.destroy_cq(cq) == 0, "destroy_cq");
        Require(verbs.destroy_comp_channel(channel) == 0, "destroy_comp_channel");
        Require(verbs.dealloc_pd(pd) == 0, "dealloc_pd");
        Require(verbs.close_device(context) == 0, "close_device");
    }

    Address Own() const
    {
        Address own = {};

        Require(verbs.query_gid(context, 1, 0, &own.gid) == 0, "query_gid");
        own.qpn = qp->qp_num;
        own.rkey = mr->rkey;
        own.addr = reinterpret_cast<uintptr_t>(memory.data());
        return own;
    }

    void Modify(ibv_qp_attr attr, int mask)
    {
        int error = verbs.modify_qp(qp, &attr, mask | IBV_QP_STATE);

        Require(error == 0, "to state %d: %s", attr.qp_state, strerror(error));
    }

    void Connect(const Address &peer)
    {
        ibv_qp_attr attr = {};

        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
        Modify(attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_4096;
        attr.dest_qp_num = peer.qpn;
        attr.max_dest_rd_atomic = 1;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.dgid = peer.gid;
        attr.ah_attr.grh.hop_limit = 255;
        Modify(attr, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 7;
        attr.rnr_retry = 7;
        attr.max_rd_atomic = 1;
        Modify(attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                         IBV_QP_MAX_QP_RD_ATOMIC);
    }

    void Receive(uint64_t wr_id, size_t offset, uint32_t bytes)
    {
        ibv_sge sge = {reinterpret_cast<uintptr_t>(memory.data()) + offset, bytes, mr->lkey};
        ibv_recv_wr wr = {}, *bad;

        wr.wr_id = wr_id;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        Require(ibv_post_recv(qp, &wr, &bad) == 0, "post_recv");
    }

    int Post(ibv_wr_opcode opcode, uint64_t wr_id, size_t offset, uint32_t bytes, const Address &peer)
    {
        ibv_sge sge = {reinterpret_cast<uintptr_t>(memory.data()) + offset, bytes, mr->lkey};
        ibv_send_wr wr = {}, *bad;

        wr.wr_id = wr_id;
        wr.opcode = opcode;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.imm_data = 0x12345678;
        wr.wr.rdma.remote_addr = peer.addr + offset;
        wr.wr.rdma.rkey = peer.rkey;
        return ibv_post_send(qp, &wr, &bad);
    }

    // The next completion, by the channel, as `ibv_rc_pingpong -e` waits for it.
    ibv_wc WaitByEvent()
    {
        ibv_wc wc = {};
        ibv_cq *which;
        void *cq_context;

        for (;;) {
            Require(ibv_req_notify_cq(cq, 0) == 0, "req_notify_cq");
            if (ibv_poll_cq(cq, 1, &wc) == 1)
                return wc;
            Require(verbs.get_cq_event(channel, &which, &cq_context) == 0 && which == cq &&
                        cq_context == this,
                    "get_cq_event");
            verbs.ack_cq_events(cq, 1);
        }
    }

    ibv_wc WaitOk(uint64_t wr_id)
    {
        ibv_wc wc = WaitByEvent();

        Require(wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id, "wr_id %d: status %d", (int)wc.wr_id,
                wc.status);
        return wc;
    }

    void Fill(uint8_t seed, size_t offset, size_t bytes)
    {
        for (size_t i = offset; i < offset + bytes; i++)
            memory[i] = static_cast<uint8_t>(seed + i * 31 + i / 251);
    }

    void Check(uint8_t seed, size_t offset, size_t bytes, const char *what) const
    {
        for (size_t i = offset; i < offset + bytes; i++)
            Require(memory[i] == static_cast<uint8_t>(seed + i * 31 + i / 251), "%s: byte %zu", what, i);
    }

    const Verbs &verbs;
    std::vector<uint8_t> memory;
    ibv_context *context;
    ibv_pd *pd;
    ibv_comp_channel *channel;
    ibv_cq *cq;
    ibv_qp *qp;
    ibv_mr *mr;
};

constexpr size_t kQuarter = kBytes / 4;

void WriteSendRead(const Rank &rank, Side &side, const Address &peer)
{
    side.Post(IBV_WR_RDMA_WRITE, 1, 0, kQuarter, peer);
    side.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 2, kQuarter, kQuarter, peer);
    side.Post(IBV_WR_SEND, 3, 2 * kQuarter, kQuarter, peer);
    for (uint64_t wr_id : {1, 2, 3})
        side.WaitOk(wr_id);
    rank.Barrier(1);
    side.Post(IBV_WR_RDMA_READ, 4, 3 * kQuarter, kQuarter, peer);
    side.WaitOk(4);
    side.Check(9, 3 * kQuarter, kQuarter, "read");
}

void TakeAndAnswer(const Rank &rank, Side &side)
{
    ibv_wc wc = side.WaitOk(10);

    Require(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == kQuarter && wc.imm_data == 0x12345678,
            "immediate");
    wc = side.WaitOk(11);
    Require(wc.opcode == IBV_WC_RECV && wc.byte_len == kQuarter, "receive");
    side.Check(5, 0, 3 * kQuarter, "written and sent");
    rank.Barrier(0);
}

TEST(Dropin, BytesMoveAsNcclWouldMoveThem)
{
    RunRanks(2, [](const Rank &rank) {
        Verbs verbs;
        Require(verbs.fork_init() == 0, "fork_init");
        Side side(verbs);
        Address peer = rank.Exchange(1 - rank.number(), side.Own());

        side.Connect(peer);
        if (rank.number() == 0) {
            side.Fill(5, 0, kBytes);
        } else {
            side.Fill(9, 0, kBytes);
            side.Receive(10, 0, 0);
            side.Receive(11, 2 * kQuarter, kQuarter);
        }
        rank.Barrier(1 - rank.number());
        if (rank.number() == 0)
            WriteSendRead(rank, side, peer);
        else
            TakeAndAnswer(rank, side);
        rank.Barrier(1 - rank.number());
        side.Destroy();
    });
}

TEST(Dropin, CallsItDoesNotHaveReturnUnsupported)
{
    RunRanks(1, [](const Rank &) {
        Verbs verbs;
        Side side(verbs);
        ibv_ece ece = {};
        int (*resize_cq)(ibv_cq *, int);
        ibv_srq *(*create_srq)(ibv_pd *, ibv_srq_init_attr *);
        void *(*old_list)(int *);
        ibv_srq_init_attr srq = {};

        verbs.Find(&resize_cq, "ibv_resize_cq");
        verbs.Find(&create_srq, "ibv_create_srq");
        verbs.Find(&old_list, "ibv_get_device_list", "IBVERBS_1.0");
        errno = 0;
        Require(verbs.query_ece(side.qp, &ece) == EOPNOTSUPP && errno == EOPNOTSUPP, "query_ece");
        errno = 0;
        Require(resize_cq(side.cq, 8) == EOPNOTSUPP && errno == EOPNOTSUPP, "resize_cq");
        errno = 0;
        Require(!create_srq(side.pd, &srq) && errno == EOPNOTSUPP, "create_srq");
        errno = 0;
        Require(!verbs.reg_dmabuf_mr(side.pd, 0, 4096, 0, 0, 0) && errno == EOPNOTSUPP, "reg_dmabuf_mr");
        errno = 0;
        Require(!old_list(nullptr) && errno == EOPNOTSUPP, "IBVERBS_1.0");
        errno = 0;
        Require(!verbs.reg_mr(side.pd, nullptr, 4096, IBV_ACCESS_LOCAL_WRITE) && errno == EFAULT, "reg_mr");
        Require(side.Post(IBV_WR_RDMA_WRITE, 1, 0, 8, side.Own()) == EINVAL, "post in RESET");
        side.Destroy();
    });
}

TEST(Dropin, BadSettingsGiveNoDevicesAndAreReported)
{
    RunRanks(1, [](const Rank &) {
        Verbs verbs;
        int count = 7;

        setenv("DETOUR_SOFT_DEVICES", "many", 1);
        errno = 0;
        Require(!verbs.get_device_list(&count) && count == 0 && errno == EINVAL, "list of %d", count);
    });
}

// exit() runs while the helper thread does, and everything is still there.
TEST(Dropin, ExitWithoutDestroyEndsTheProcess)
{
    static Side *left;
    pid_t child = fork();

    if (child == 0) {
        static Verbs verbs;
        left = new Side(verbs);
        left->Connect(left->Own());
        left->Post(IBV_WR_RDMA_WRITE, 1, 0, kBytes, left->Own());
        exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

// A library that has been closed must not take its thread's code away.
TEST(Dropin, ClosingTheLibraryIsHarmless)
{
    RunRanks(1, [](const Rank &) {
        Verbs verbs;
        Side side(verbs);

        dlclose(verbs.library);
        side.Connect(side.Own());
        side.Fill(3, 0, kBytes);
        Require(side.Post(IBV_WR_RDMA_WRITE, 1, 0, kBytes, side.Own()) == 0, "post");
        side.WaitOk(1);
        side.Destroy();
    });
}
} // namespace
