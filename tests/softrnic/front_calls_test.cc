// SPDX-License-Identifier: Apache-2.0
// The calls of libibverbs one by one, in one process: what they answer, right and wrong arguments.
#include <arpa/inet.h>
#include <endian.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>

#include "base/util.h"
#include "softrnic/wqe.h"
#include "tests/harness/harness.h"
#include "tests/softrnic/soft_end.h"

using namespace detour_test;

namespace
{
class Front : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        context = OpenDevice(0);
    }
    void TearDown() override
    {
        EXPECT_EQ(dt_soft_close_device(context), 0);
    }
    EndOptions Shared() const
    {
        EndOptions options;
        options.context = context;
        return options;
    }

    ibv_context *context = nullptr;
};

TEST_F(Front, DeviceList)
{
    int count = 0;
    ibv_device **list = dt_soft_get_device_list(&count);

    ASSERT_EQ(count, 2);
    EXPECT_STREQ(dt_soft_get_device_name(list[0]), "soft0");
    EXPECT_STREQ(dt_soft_get_device_name(list[1]), "soft1");
    EXPECT_EQ(dt_soft_get_device_index(list[1]), 1);
    EXPECT_NE(dt_soft_get_device_guid(list[0]), dt_soft_get_device_guid(list[1]));
    EXPECT_EQ(list[2], nullptr);
    dt_soft_free_device_list(list);
}

TEST_F(Front, ConfigureRefusesImpossibleOptions)
{
    dt_soft_options options = {};

    EXPECT_EQ(dt_soft_configure(&options), EINVAL);
    options.device_count = DT_SOFT_DEVICES_MAX + 1;
    EXPECT_EQ(dt_soft_configure(&options), EINVAL);
    options.device_count = 3;
    EXPECT_EQ(dt_soft_configure(&options), EBUSY) << "a device is open";
    options.device_count = 2;
    EXPECT_EQ(dt_soft_configure(&options), 0) << "nothing changes";
}

TEST_F(Front, Queries)
{
    ibv_device_attr device;
    ibv_device_attr_ex device_ex;
    ibv_port_attr port, old_port = {};
    ibv_gid gid, other;
    ibv_gid_entry entry;
    uint16_t pkey;

    ASSERT_EQ(dt_soft_query_device(context, &device), 0);
    EXPECT_EQ(device.vendor_id, static_cast<uint32_t>(DT_SOFT_VENDOR_ID));
    EXPECT_EQ(device.phys_port_cnt, 1);
    ASSERT_EQ(ibv_query_device_ex(context, nullptr, &device_ex), 0);
    EXPECT_EQ(device_ex.orig_attr.max_qp, device.max_qp);
    ASSERT_EQ(ibv_query_port(context, 1, &port), 0);
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
    EXPECT_EQ(port.active_width, 2) << "4 lanes";
    EXPECT_EQ(port.active_speed, 32) << "of 25 Gbit/s";
    EXPECT_EQ(dt_soft_query_port(context, 1, reinterpret_cast<_compat_ibv_port_attr *>(&old_port)), 0);
    EXPECT_EQ(old_port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(ibv_query_port(context, 2, &port), EINVAL);
    ASSERT_EQ(dt_soft_query_gid(context, 1, 0, &gid), 0);
    EXPECT_EQ(gid.raw[0], 0xfd);
    EXPECT_EQ(dt_soft_query_gid(context, 1, 1, &other), -1);
    EXPECT_EQ(dt_soft_query_gid_ex(context, 1, 0, &entry, 0, sizeof entry), 0);
    EXPECT_EQ(memcmp(&entry.gid, &gid, sizeof gid), 0);
    EXPECT_EQ(dt_soft_query_gid_ex(context, 1, 1, &entry, 0, sizeof entry), ENODATA);
    EXPECT_EQ(dt_soft_query_gid_table(context, &entry, 1, 0, sizeof entry), 1);
    EXPECT_EQ(dt_soft_query_pkey(context, 1, 0, &pkey), 0);
    EXPECT_EQ(ntohs(pkey), 0xffff);
    EXPECT_EQ(dt_soft_query_pkey(context, 1, 1, &pkey), -1);
    EXPECT_EQ(dt_soft_get_pkey_index(context, 1, htons(0xffff)), 0);
    EXPECT_EQ(dt_soft_get_pkey_index(context, 1, htons(0x7fff)), -1);
}

// Every place of the tables that a program may call through holds a function, and what is not supported says
// so.
TEST_F(Front, NoPointerIsNull)
{
    verbs_context *verbs = verbs_get_ctx(context);
    ASSERT_NE(verbs, nullptr);
    EXPECT_EQ(verbs->sz, sizeof *verbs);
    auto *first = reinterpret_cast<void **>(verbs);
    size_t count = offsetof(verbs_context, _ABI_placeholder3) / sizeof(void *);
    size_t priv = offsetof(verbs_context, priv) / sizeof(void *);
    for (size_t i = 0; i < count; i++)
        EXPECT_TRUE(first[i] || i == priv) << "entry " << i << " of struct verbs_context";
    auto *ops = reinterpret_cast<void **>(&context->ops);
    for (size_t i = 0; i < sizeof context->ops / sizeof(void *); i++)
        EXPECT_NE(ops[i], nullptr) << "entry " << i << " of struct ibv_context_ops";

    EndOptions options = Shared();
    options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
    End end(options);
    ibv_qp_ex *ex = dt_soft_qp_to_qp_ex(end.qp);
    ASSERT_NE(ex, nullptr);
    auto *wr_first = reinterpret_cast<void **>(&ex->wr_atomic_cmp_swp);
    for (size_t i = 0;
         i <= (offsetof(ibv_qp_ex, wr_atomic_write) - offsetof(ibv_qp_ex, wr_atomic_cmp_swp)) / 8; i++)
        EXPECT_NE(wr_first[i], nullptr) << "entry " << i << " of struct ibv_qp_ex";
    ibv_cq_init_attr_ex init = {};
    init.cqe = 4;
    ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);
    ASSERT_NE(cq, nullptr);
    auto *cq_first = reinterpret_cast<void **>(&cq->start_poll);
    for (void **at = cq_first; at <= reinterpret_cast<void **>(&cq->read_completion_wallclock_ns); at++)
        EXPECT_NE(*at, nullptr);
    EXPECT_EQ(dt_soft_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(Front, UnsupportedCallsReportIt)
{
    ibv_pd *pd = dt_soft_alloc_pd(context);
    ibv_td_init_attr td = {};
    ibv_alloc_dm_attr dm = {};
    ibv_wq_init_attr wq = {};
    ibv_srq_init_attr srq = {};
    ibv_ah_attr ah = {};
    ibv_xrcd_init_attr xrcd = {};
    ibv_parent_domain_init_attr domain = {};
    ibv_qp_init_attr ud = {};
    ibv_values_ex values = {};

    auto refused = [](const void *object) { return object == nullptr && errno == EOPNOTSUPP; };
    EXPECT_TRUE(refused(ibv_alloc_mw(pd, IBV_MW_TYPE_1)));
    EXPECT_TRUE(refused(ibv_alloc_td(context, &td)));
    EXPECT_TRUE(refused(ibv_alloc_dm(context, &dm)));
    EXPECT_TRUE(refused(ibv_alloc_null_mr(pd)));
    EXPECT_TRUE(refused(ibv_create_wq(context, &wq)));
    EXPECT_TRUE(refused(ibv_open_xrcd(context, &xrcd)));
    EXPECT_TRUE(refused(ibv_alloc_parent_domain(context, &domain)));
    EXPECT_TRUE(refused(dt_soft_create_srq(pd, &srq)));
    EXPECT_TRUE(refused(dt_soft_create_ah(pd, &ah)));
    EXPECT_TRUE(refused(dt_soft_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0)));
    ud.qp_type = IBV_QPT_UD;
    EXPECT_TRUE(refused(dt_soft_create_qp(pd, &ud)));
    EXPECT_EQ(ibv_query_rt_values_ex(context, &values), EOPNOTSUPP);
    EXPECT_EQ(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, nullptr, 0), EOPNOTSUPP);
    EXPECT_EQ(dt_soft_fork_init(), 0);
    EXPECT_EQ(dt_soft_is_fork_initialized(), IBV_FORK_UNNEEDED);
    End end(Shared());
    EXPECT_EQ(dt_soft_resize_cq(end.cq, 8), EOPNOTSUPP);
    EXPECT_EQ(dt_soft_attach_mcast(end.qp, nullptr, 0), EOPNOTSUPP);
    EXPECT_EQ(dt_soft_rereg_mr(end.mr, 0, pd, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    ConnectEnds(end, end);
    ibv_send_wr wr = {}, *bad = nullptr;
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    EXPECT_EQ(ibv_post_send(end.qp, &wr, &bad), EOPNOTSUPP);
    EXPECT_EQ(bad, &wr);
    EXPECT_EQ(dt_soft_dealloc_pd(pd), 0);
}

TEST_F(Front, MemoryIsCheckedAtRegistration)
{
    ibv_pd *pd = dt_soft_alloc_pd(context);
    size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    auto *memory = static_cast<char *>(
        mmap(nullptr, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_EQ(munmap(memory + page, page), 0);
    ASSERT_EQ(mprotect(memory + 2 * page, page, PROT_READ), 0);

    auto answer = [&](void *addr, size_t bytes, int access) {
        errno = 0;
        ibv_mr *mr = dt_soft_reg_mr(pd, addr, bytes, access);
        return mr ? dt_soft_dereg_mr(mr) : errno;
    };
    EXPECT_EQ(answer(memory, page, IBV_ACCESS_LOCAL_WRITE), 0);
    EXPECT_EQ(answer(memory, page + 1, IBV_ACCESS_LOCAL_WRITE), EFAULT) << "a hole";
    EXPECT_EQ(answer(memory + 2 * page, 10, IBV_ACCESS_LOCAL_WRITE), EFAULT) << "read-only memory";
    EXPECT_EQ(answer(memory + 2 * page, 10, 0), 0);
    EXPECT_EQ(answer(memory, 0, 0), EINVAL);
    EXPECT_EQ(answer(memory, SIZE_MAX, 0), EINVAL);
    EXPECT_EQ(answer(nullptr, page, 0), EFAULT);
    EXPECT_EQ(answer(memory, page, IBV_ACCESS_REMOTE_WRITE), EINVAL) << "remote without local write";
    EXPECT_EQ(dt_soft_dealloc_pd(pd), 0);
    munmap(memory, page);
    munmap(memory + 2 * page, page);
}

TEST_F(Front, ObjectsInUseAreNotDestroyed)
{
    EndOptions options = Shared();
    options.with_channel = true;
    End end(options);

    EXPECT_EQ(dt_soft_dealloc_pd(end.pd), EBUSY);
    EXPECT_EQ(dt_soft_destroy_cq(end.cq), EBUSY);
    EXPECT_EQ(dt_soft_destroy_comp_channel(end.channel), EBUSY);
}

// As the kernel has it: programs leave objects behind, and nothing of them may live on.
TEST_F(Front, ClosingADeviceDestroysItsObjects)
{
    EndOptions options;
    options.with_channel = true;
    options.sq_sig_all = true;
    End left(options);
    End end(Shared());
    ConnectOptions quick;
    quick.timeout = 8;
    quick.retry_cnt = 1;
    ConnectEnds(left, end, quick);
    EndAddress address = left.Address();

    /* A completion and its event that are never read. */
    ASSERT_EQ(ibv_req_notify_cq(left.cq, 0), 0);
    ASSERT_EQ(left.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 0, 1), 0);
    ibv_cq *cq;
    void *cq_context;
    ASSERT_EQ(dt_soft_get_cq_event(left.channel, &cq, &cq_context), 0) << "given, and never acknowledged";
    ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE, 0, 64, address, 0, 2), 0);
    end.WaitOk();
    memset(left.buffer, 7, 64);

    EXPECT_EQ(dt_soft_close_device(left.context), 0);
    left.context = nullptr;
    left.pd = nullptr;
    left.channel = nullptr;
    left.cq = nullptr;
    left.qp = nullptr;
    left.mr = nullptr;
    ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE, 0, 64, address, 0, 3), 0);
    EXPECT_EQ(end.Wait().status, IBV_WC_RETRY_EXC_ERR);
    for (int i = 0; i < 64; i++)
        EXPECT_EQ(left.buffer[i], 7) << "byte " << i << " was written after the device had been closed";
}

TEST_F(Front, PostRefusesInvalidRequests)
{
    EndOptions options = Shared();
    options.inline_bytes = 16;
    options.sge = 2;
    options.send_wr = 4;
    End end(options);
    ibv_sge sges[3] = {};
    ibv_send_wr wr = {}, *bad = nullptr;
    uint32_t inline_max;
    ibv_qp_attr attr;
    ibv_qp_init_attr init;

    EXPECT_EQ(ibv_post_send(end.qp, &wr, &bad), EINVAL) << "in RESET";
    ConnectEnds(end, end);
    ASSERT_EQ(dt_soft_query_qp(end.qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_GE(init.cap.max_send_wr, 4u);
    inline_max = init.cap.max_inline_data;
    wr.sg_list = sges;
    wr.num_sge = 3;
    EXPECT_EQ(ibv_post_send(end.qp, &wr, &bad), EINVAL) << "too many places";
    wr.num_sge = 1;
    sges[0] = {reinterpret_cast<uintptr_t>(end.buffer), inline_max + 1, 0};
    wr.send_flags = IBV_SEND_INLINE;
    EXPECT_EQ(ibv_post_send(end.qp, &wr, &bad), EINVAL) << "too long to be inline";
    wr.send_flags = 0;
    sges[0].length = 0x80000000u;
    EXPECT_EQ(ibv_post_send(end.qp, &wr, &bad), EINVAL) << "2 GiB";
    wr.opcode = static_cast<ibv_wr_opcode>(99);
    EXPECT_EQ(ibv_post_send(end.qp, &wr, &bad), EINVAL) << "no such operation";
    EXPECT_EQ(ibv_poll_cq(end.cq, -1, nullptr), -EINVAL);
    // As many as were granted, unsignaled; then no more until one completes.
    for (uint32_t i = 0; i < init.cap.max_send_wr; i++)
        ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, i, 0), 0) << i;
    EXPECT_EQ(end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, 1), ENOMEM);
}

// A chain stops at the first bad request; what was before it is done.
TEST_F(Front, ChainStopsAtTheBadOne)
{
    End end(Shared());
    ConnectEnds(end, end);
    end.Fill(1, 0, 100);
    ibv_sge sge = {reinterpret_cast<uintptr_t>(end.buffer), 100, end.mr->lkey};
    ibv_send_wr wrs[3] = {}, *bad = nullptr;

    for (int i = 0; i < 3; i++) {
        wrs[i].wr_id = static_cast<uint64_t>(i);
        wrs[i].sg_list = &sge;
        wrs[i].num_sge = 1;
        wrs[i].opcode = IBV_WR_RDMA_WRITE;
        wrs[i].send_flags = IBV_SEND_SIGNALED;
        wrs[i].wr.rdma.remote_addr = end.Address().addr + 1000 * (static_cast<uint64_t>(i) + 1);
        wrs[i].wr.rdma.rkey = end.mr->rkey;
        wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
    }
    wrs[1].opcode = IBV_WR_LOCAL_INV;
    EXPECT_EQ(ibv_post_send(end.qp, wrs, &bad), EOPNOTSUPP);
    EXPECT_EQ(bad, &wrs[1]);
    EXPECT_EQ(end.WaitOk().wr_id, 0u);
    end.Check(1, 1000, 100, "before the bad one");
    EXPECT_EQ(end.buffer[3000], 0) << "after the bad one";
}

TEST_F(Front, WorkRequestsPieceByPiece)
{
    EndOptions options = Shared();
    options.send_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                       IBV_QP_EX_WITH_RDMA_READ;
    End end(options);
    ConnectEnds(end, end);
    ibv_qp_ex *ex = dt_soft_qp_to_qp_ex(end.qp);
    uint64_t base = reinterpret_cast<uintptr_t>(end.buffer);
    char text[] = "inline data of two pieces";
    ibv_data_buf pieces[2] = {{text, 7}, {text + 7, sizeof text - 7}};
    ibv_sge sges[2] = {{base, 50, end.mr->lkey}, {base + 50, 50, end.mr->lkey}};

    end.Fill(3, 0, 100);
    ASSERT_EQ(end.PostRecv(5), 0);
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, end.mr->rkey, base + 1000);
    ibv_wr_set_sge_list(ex, 2, sges);
    ex->wr_id = 2;
    ibv_wr_rdma_write(ex, end.mr->rkey, base + 2000);
    ibv_wr_set_inline_data_list(ex, 2, pieces);
    memset(text, 0, 7); // copied already
    ex->wr_id = 3;
    ibv_wr_rdma_write_imm(ex, end.mr->rkey, base, htonl(9)); // without data
    ex->wr_id = 4;
    ibv_wr_rdma_read(ex, end.mr->rkey, base);
    ibv_wr_set_sge(ex, end.mr->lkey, base + 3000, 100);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    std::vector<uint64_t> sent;
    for (int i = 0; i < 5; i++) {
        ibv_wc wc = end.WaitOk();
        if (wc.wr_id == 5) {
            EXPECT_EQ(ntohl(wc.imm_data), 9u);
        } else {
            sent.push_back(wc.wr_id);
        }
    }
    EXPECT_EQ(sent, (std::vector<uint64_t>{1, 2, 3, 4}));
    end.Check(3, 1000, 100, "list");
    EXPECT_STREQ(reinterpret_cast<char *>(end.buffer) + 2000, "inline data of two pieces");
    end.Check(3, 3000, 100, "read");

    // Refused as a whole, or taken back: nothing is sent.
    memset(end.buffer + 1000, 0, 100);
    ibv_wr_start(ex);
    ibv_wr_rdma_write(ex, end.mr->rkey, base + 1000);
    ibv_wr_set_sge(ex, end.mr->lkey, base, 100);
    ibv_wr_atomic_fetch_add(ex, end.mr->rkey, base, 1);
    EXPECT_EQ(ibv_wr_complete(ex), EOPNOTSUPP);
    ibv_wr_start(ex);
    ibv_wr_send_imm(ex, 0);
    EXPECT_EQ(ibv_wr_complete(ex), EINVAL) << "SEND_WITH_IMM was not asked for at creation";
    ibv_wr_start(ex);
    ibv_wr_rdma_write(ex, end.mr->rkey, base + 1000);
    ibv_wr_set_sge(ex, end.mr->lkey, base, 100);
    ibv_wr_abort(ex);
    ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE, 0, 1, end.Address(), 5000, 6), 0);
    EXPECT_EQ(end.WaitOk().wr_id, 6u);
    EXPECT_EQ(end.buffer[1000], 0);
}

TEST_F(Front, ExtendedQueueReadsField)
{
    ibv_cq_init_attr_ex init = {};
    init.cqe = 16;
    init.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM;
    ibv_cq_ex *cq = ibv_create_cq_ex(context, &init);
    ASSERT_NE(cq, nullptr);
    init.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    EXPECT_EQ(ibv_create_cq_ex(context, &init), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);

    End end(Shared());
    dt_soft_destroy_qp(end.qp);
    ibv_qp_init_attr qp = {};
    qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(cq);
    qp.qp_type = IBV_QPT_RC;
    qp.cap = {8, 8, 1, 1, 0};
    end.qp = dt_soft_create_qp(end.pd, &qp);
    ASSERT_NE(end.qp, nullptr);
    ConnectEnds(end, end);
    ibv_poll_cq_attr attr = {};
    EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
    ASSERT_EQ(end.PostRecv(1), 0);
    ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 321, end.Address(), 4096, 2, IBV_SEND_SIGNALED, 7), 0);
    int seen = 0;
    double limit = Seconds() + 10;
    while (seen < 2 && Seconds() < limit) {
        if (ibv_start_poll(cq, &attr))
            continue;
        do {
            seen++;
            EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
            EXPECT_EQ(ibv_wc_read_qp_num(cq), end.qp->qp_num);
            if (ibv_wc_read_opcode(cq) == IBV_WC_RECV_RDMA_WITH_IMM) {
                EXPECT_EQ(cq->wr_id, 1u);
                EXPECT_EQ(ibv_wc_read_byte_len(cq), 321u);
                EXPECT_EQ(ntohl(ibv_wc_read_imm_data(cq)), 7u);
                EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned>(IBV_WC_WITH_IMM));
            } else {
                EXPECT_EQ(cq->wr_id, 2u);
            }
        } while (ibv_next_poll(cq) == 0);
        ibv_end_poll(cq);
    }
    EXPECT_EQ(seen, 2);
    EXPECT_EQ(dt_soft_destroy_qp(end.qp), 0);
    end.qp = nullptr;
    EXPECT_EQ(dt_soft_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

// Destroying a QP takes its unread completions with it, and those of another one stay.
TEST_F(Front, DestroyedQueuePairLeavesNoCompletions)
{
    End a(Shared()), b(Shared());
    dt_soft_destroy_qp(b.qp);
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = a.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {8, 8, 1, 1, 0};
    b.qp = dt_soft_create_qp(b.pd, &init);
    ASSERT_NE(b.qp, nullptr);
    ConnectEnds(a, a);
    ConnectEnds(b, b);
    for (uint64_t i = 0; i < 3; i++) {
        ASSERT_EQ(a.Post(IBV_WR_RDMA_WRITE, 0, 8, a.Address(), 64, i), 0);
        ASSERT_EQ(b.Post(IBV_WR_RDMA_WRITE, 0, 8, b.Address(), 64, 100 + i), 0);
    }
    EXPECT_EQ(a.ToError(), 0);
    EXPECT_EQ(dt_soft_destroy_qp(b.qp), 0);
    b.qp = nullptr;
    ibv_wc wc;
    for (uint64_t i = 0; i < 3; i++)
        EXPECT_EQ(a.Wait().wr_id, i);
    EXPECT_FALSE(a.Poll(&wc));
}

TEST_F(Front, ResetForgetsEverything)
{
    End end(Shared());
    ibv_qp_attr attr = {};
    ibv_wc wc;

    for (int round = 0; round < 3; round++) {
        ConnectEnds(end, end);
        ASSERT_EQ(end.PostRecv(1), 0);
        ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE_WITH_IMM, 0, 8, end.Address(), 64, 2), 0);
        if (round == 1)
            end.ToError();
        attr.qp_state = IBV_QPS_RESET;
        ASSERT_EQ(dt_soft_modify_qp(end.qp, &attr, IBV_QP_STATE), 0);
        EXPECT_FALSE(end.Poll(&wc));
    }
    ConnectEnds(end, end);
    for (uint64_t i = 0; i < 200; i++) { // more than a lap of the send queue
        ASSERT_EQ(end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, i), 0);
        EXPECT_EQ(end.WaitOk().wr_id, i);
    }
}

// The send queue in the application's own hands: element, doorbell record, ring; completions name the
// element.
TEST_F(Front, OwnedSendQueue)
{
    End end(Shared()), used(Shared());
    dt_soft_dv_qp dv = {};
    ibv_wc wc;
    ConnectEnds(end, end);
    ConnectEnds(used, used);

    ASSERT_EQ(used.Post(IBV_WR_RDMA_WRITE, 0, 8, used.Address(), 64, 1), 0);
    used.WaitOk();
    EXPECT_EQ(dt_soft_query_qp_dv(used.qp, &dv), EBUSY) << "elements of the library's are in it";
    ASSERT_EQ(dt_soft_query_qp_dv(end.qp, &dv), 0);
    EXPECT_EQ(dt_soft_query_qp_dv(end.qp, &dv), 0) << "may be asked again";
    EXPECT_EQ(dv.sq_stride, 64u);
    EXPECT_TRUE(dt_is_power_of_two(dv.sq_wqe_count));
    EXPECT_EQ(end.Post(IBV_WR_RDMA_WRITE, 0, 8, end.Address(), 64, 1), EINVAL)
        << "it is not the library's any more";

    dt_wqe_ring ring = {static_cast<uint8_t *>(dv.sq_buf), dv.sq_wqe_count};
    dt_wqe_header header = {};
    header.qpn = end.qp->qp_num;
    header.opcode = DT_WQE_WRITE;
    header.flags = DT_WQE_SIGNALED;
    header.remote_addr = end.Address().addr + 4096;
    header.rkey = end.mr->rkey;
    dt_wqe_sge sge = {end.Address().addr, 1000, end.mr->lkey};
    end.Fill(6, 0, 1000);
    uint16_t index = 0;
    for (uint32_t i = 0; i < 3 * dv.sq_wqe_count; i++) {
        uint16_t first = index;
        index = static_cast<uint16_t>(index + dt_wqe_encode(&ring, index, &header, &sge, 1));
        EXPECT_FALSE(end.Poll(&wc)) << "nothing starts before the bell";
        __atomic_store_n(&dv.dbrec[1], htobe32(index), __ATOMIC_RELEASE);
        dv.ring(dv.ring_arg);
        wc = end.WaitOk();
        ASSERT_EQ(wc.wr_id, first);
    }
    end.Check(6, 4096, 1000, "written by hand");
}

TEST_F(Front, Words)
{
    EXPECT_STREQ(dt_soft_wc_status_str(IBV_WC_RETRY_EXC_ERR), "transport retry count exceeded");
    EXPECT_STREQ(dt_soft_wc_status_str(static_cast<ibv_wc_status>(-1)), "unknown");
    EXPECT_STREQ(dt_soft_event_type_str(IBV_EVENT_PORT_ERR), "port error");
    EXPECT_STREQ(dt_soft_event_type_str(static_cast<ibv_event_type>(1000)), "unknown");
    EXPECT_STREQ(dt_soft_port_state_str(IBV_PORT_ACTIVE), "active");
    EXPECT_STREQ(dt_soft_node_type_str(IBV_NODE_CA), "channel adapter");
    EXPECT_STREQ(dt_soft_node_type_str(IBV_NODE_UNKNOWN), "unknown");
}

TEST_F(Front, AllocationFailuresAreReported)
{
    // One more each time, until the whole of it succeeds.
    auto survives = [](const std::function<bool()> &create) {
        for (int index = 0; index < 20; index++) {
            detour_test_fail_alloc(index);
            bool done = create();
            bool failed = detour_test_alloc_failed();
            detour_test_fail_alloc(-1);
            EXPECT_NE(done, failed) << "allocation " << index;
            if (!failed)
                return index > 0;
        }
        return false;
    };
    End end(Shared());
    ibv_qp_init_attr init = {};
    init.send_cq = init.recv_cq = end.cq;
    init.qp_type = IBV_QPT_RC;
    init.cap = {8, 8, 1, 1, 0};
    EXPECT_TRUE(survives([&] {
        ibv_qp *qp = dt_soft_create_qp(end.pd, &init);
        return qp && dt_soft_destroy_qp(qp) == 0;
    }));
    EXPECT_TRUE(survives([&] {
        ibv_cq *cq = dt_soft_create_cq(context, 8, nullptr, nullptr, 0);
        return cq && dt_soft_destroy_cq(cq) == 0;
    }));
    EXPECT_TRUE(survives([&] {
        ibv_mr *mr = dt_soft_reg_mr(end.pd, end.buffer, 4096, 0);
        return mr && dt_soft_dereg_mr(mr) == 0;
    }));
    ibv_device **list = dt_soft_get_device_list(nullptr);
    EXPECT_TRUE(survives([&] {
        ibv_context *other = dt_soft_open_device(list[1]);
        return other && dt_soft_close_device(other) == 0;
    }));
    dt_soft_free_device_list(list);
}
} // namespace
