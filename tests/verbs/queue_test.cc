/* SPDX-License-Identifier: Apache-2.0 */
/* QPs and CQs: how they are made, connected, posted to and polled; each failure of the library is one
 * warning. */
#include "tests/verbs/device_fixture.h"

#include <cerrno>
#include <cstring>

#include "verbs/object.h"
#include "verbs/queue.h"

namespace
{
class Queue : public DeviceFixture
{
};

class Pair : public PairFixture
{
};

TEST_F(Queue, EveryFailureWhileMakingAQueuePairIsOneWarningAndLeavesNothing)
{
    dt_cq *cq;
    dt_qp *qp;

    Open();
    fake::Fail("create_cq", ENOMEM);
    detour_test::ExpectWarning("fake0: no CQ of 16 entries: Cannot allocate memory");
    EXPECT_EQ(DT_SYSTEM, dt_cq_create(device, 16, nullptr, &cq));
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
    dt_qp_options options = Options(cq);
    int live = fake::TheWorld().live;

    fake::Fail("create_qp", EINVAL);
    detour_test::ExpectWarning("fake0: no QP with 4 sends, 0 bytes inline, 4 receives: Invalid argument");
    EXPECT_EQ(DT_SYSTEM, dt_qp_create(device, &options, &qp));
    fake::Fail("modify_to_init", EIO);
    detour_test::ExpectWarning("cannot go to INIT: Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_qp_create(device, &options, &qp));
    EXPECT_EQ(live, fake::TheWorld().live);
    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        enum dt_status status = dt_qp_create(device, &options, &qp);
        if (!detour_test_alloc_failed()) {
            ASSERT_EQ(DT_OK, status);
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status);
        EXPECT_EQ(live, fake::TheWorld().live);
    }
    detour_test::ExpectWarning("cannot be destroyed: Device or resource busy");
    fake::Fail("destroy_qp", EBUSY);
    EXPECT_EQ(DT_SYSTEM, dt_qp_end(qp));
    fake::Fail("destroy_qp", EBUSY);
    EXPECT_EQ(DT_SYSTEM, dt_qp_end(qp)) << "which is not logged again";
    EXPECT_EQ(DT_OK, dt_qp_end(qp));
    dt_qp_destroy(qp);
    fake::Fail("destroy_cq", EIO);
    detour_test::ExpectWarning("a CQ cannot be destroyed: Input/output error");
    dt_cq_destroy(cq);
    dt_device_close(device);
}

TEST_F(Queue, ImpossibleSizesAreInvalid)
{
    dt_cq *cq;
    dt_qp *qp;

    Open();
    for (uint32_t entries : {0u, 65537u, 0x80000000u, 0xffffffffu}) {
        detour_test::ExpectWarning("a CQ of " + std::to_string(entries) + " entries was asked for");
        EXPECT_EQ(DT_INVALID, dt_cq_create(device, entries, nullptr, &cq));
    }
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
    detour_test::ExpectWarning("no QP has room for");
    for (uint32_t depth : {0u, 4097u, 0xffffffffu}) {
        dt_qp_options options = Options(cq);
        options.sq_depth = depth;
        EXPECT_EQ(DT_INVALID, dt_qp_create(device, &options, &qp));
        options.posting = DT_POSTING_DV;
        EXPECT_EQ(DT_INVALID, dt_qp_create(device, &options, &qp));
    }
    dt_qp_options options = Options(cq);
    options.rq_depth = 5000;
    EXPECT_EQ(DT_INVALID, dt_qp_create(device, &options, &qp));
    options = Options(cq);
    options.inline_bytes = 1u << 30;
    EXPECT_EQ(DT_INVALID, dt_qp_create(device, &options, &qp));
    dt_cq_destroy(cq);
    dt_device_close(device);
}

TEST_F(Queue, DvNeedsASendCqOfItsOwn)
{
    dt_cq *shared, *own;
    dt_qp *first, *second;

    Open();
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &shared));
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &own));
    dt_qp_options options = Options(shared);
    ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &first)); // std
    options.posting = DT_POSTING_DV;
    detour_test::ExpectWarning("a dv QP needs a send CQ that no other QP uses or has used");
    EXPECT_EQ(DT_INVALID, dt_qp_create(device, &options, &second));
    options.send_cq = options.recv_cq = own;
    detour_test::ExpectWarning("a CQ that belongs to the send queue of a dv QP was given to another one");
    EXPECT_EQ(DT_INVALID, dt_qp_create(device, &options, &second));
    dt_cq_destroy(own);
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &own));
    options.send_cq = own;
    options.recv_cq = shared;
    ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &second));
    dt_qp_destroy(second);
    EXPECT_EQ(DT_INVALID, dt_qp_create(device, &options, &second))
        << "its old completions may still be there";
    dt_qp_destroy(first);
    dt_cq_destroy(shared);
    dt_cq_destroy(own);
    dt_device_close(device);
}

TEST_F(Queue, AQueueThatDvCannotUseIsRefused)
{
    dt_cq *cq, *send_cq;
    dt_qp *qp;

    Open();
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &send_cq));
    dt_qp_options options = Options(cq);
    options.send_cq = send_cq;
    options.posting = DT_POSTING_DV;
    options.inline_bytes = 64; // two blocks and a half: three
    int live = fake::TheWorld().live;

    fake::Fail("own_send_queue", EOPNOTSUPP);
    detour_test::ExpectWarning("cannot be taken over: Operation not supported");
    EXPECT_EQ(DT_SYSTEM, dt_qp_create(device, &options, &qp));
    detour_test::ExpectWarning("blocks, too few for 4 work requests with 64 bytes inline");
    for (uint32_t blocks : {4u, 12u, 65536u}) {
        fake::TheWorld().dv_blocks = blocks;
        EXPECT_EQ(DT_SYSTEM, dt_qp_create(device, &options, &qp)) << blocks;
    }
    fake::TheWorld().dv_blocks = 16;
    EXPECT_EQ(live, fake::TheWorld().live);
    ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
    dt_qp_destroy(qp);
    dt_cq_destroy(cq);
    dt_cq_destroy(send_cq);
    dt_device_close(device);
}

TEST_F(Queue, DvWhereThereIsNoneIsUnsupported)
{
    dt_verbs_table table = *fake::Table();
    dt_verbs *plain;
    dt_cq *cq;
    dt_qp *qp;

    table.own_send_queue = nullptr;
    ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &plain));
    ASSERT_EQ(DT_OK, dt_device_open(plain, &list[0], &device));
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
    dt_qp_options options = Options(cq);
    options.posting = DT_POSTING_DV;
    detour_test::ExpectWarning("fake0: the dv posting back end does not exist for this device");
    EXPECT_EQ(DT_UNSUPPORTED, dt_qp_create(device, &options, &qp));
    dt_cq_destroy(cq);
    dt_device_close(device);
    dt_verbs_close(plain);
}

TEST_F(Pair, ConnectTakesThePathFromTheAddress)
{
    address_b.mtu_bytes = 1024; // ours is 4096
    link.traffic_class = 106;
    link.timeout_exponent = 17;
    Connect();
    const ibv_qp_attr &attr = fake::TheWorld().qps.at(dt_qp_number(a))->attr;
    EXPECT_EQ(dt_qp_number(b), attr.dest_qp_num);
    EXPECT_EQ(IBV_MTU_1024, attr.path_mtu);
    EXPECT_EQ(17, attr.timeout);
    EXPECT_EQ(1, attr.ah_attr.is_global);
    EXPECT_EQ(106, attr.ah_attr.grh.traffic_class);
    EXPECT_EQ(0, memcmp(attr.ah_attr.grh.dgid.raw, address_b.gid, 16));
}

/* A neighbour whose hardware address is not resolved in time, for one. */
TEST_F(Pair, ARefusalThatMayBeRepeatedIsNoWarningAndTheNextCallGoesOn)
{
    link.repeat = DT_QP_REPEAT_TIMEOUT;
    fake::Fail("modify_to_rtr", ETIMEDOUT);
    EXPECT_EQ(DT_AGAIN, dt_qp_connect(a, &address_b, &link));
    EXPECT_EQ(IBV_QPS_INIT, fake::TheWorld().qps.at(dt_qp_number(a))->state);
    EXPECT_EQ(DT_OK, dt_qp_connect(a, &address_b, &link));
    EXPECT_EQ(IBV_QPS_RTS, fake::TheWorld().qps.at(dt_qp_number(a))->state);
    fake::Fail("modify_to_rtr", EIO, 0);
    EXPECT_EQ(DT_OK, dt_qp_connect(a, &address_b, &link)) << "it is connected: no verb is called";
    detour_test::ExpectWarning("cannot go to RTR: Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_qp_connect(b, &address_a, &link)) << "another error than a time-out";
    link.repeat = DT_QP_REPEAT_ALL;
    fake::Fail("modify_to_rts", EIO);
    EXPECT_EQ(DT_AGAIN, dt_qp_connect(b, &address_a, &link));
    EXPECT_EQ(IBV_QPS_RTR, fake::TheWorld().qps.at(dt_qp_number(b))->state);
    fake::Fail("modify_to_rtr", EIO);
    EXPECT_EQ(DT_OK, dt_qp_connect(b, &address_a, &link)) << "only the step that failed is repeated";
    EXPECT_EQ(IBV_QPS_RTS, fake::TheWorld().qps.at(dt_qp_number(b))->state);
    fake::TheWorld().failures.clear();
}

TEST_F(Queue, ADeviceWithLessRoomInlineGetsWhatItTakes)
{
    dt_cq *cq;
    dt_qp *qp;

    Open();
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
    dt_qp_options options = Options(cq);
    options.inline_bytes = 64;
    fake::Fail("create_qp", EINVAL);
    ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
    EXPECT_EQ(32u, dt_qp_inline_bytes(qp));
    EXPECT_EQ(32u, fake::TheWorld().qps.at(dt_qp_number(qp))->cap.max_inline_data);
    dt_qp_destroy(qp);
    options.inline_bytes = 15; // half of it is too little
    fake::Fail("create_qp", EINVAL);
    detour_test::ExpectWarning("15 bytes inline");
    EXPECT_EQ(DT_SYSTEM, dt_qp_create(device, &options, &qp));
    options.inline_bytes = 64;
    fake::Fail("create_qp", ENOMEM); // another reason
    detour_test::ExpectWarning("64 bytes inline");
    EXPECT_EQ(DT_SYSTEM, dt_qp_create(device, &options, &qp));
    dt_cq_destroy(cq);
    dt_device_close(device);
}

TEST_F(Queue, ThePartitionKeyIsTheOneThatWasAskedFor)
{
    dt_cq *cq;
    dt_qp *qp;

    verbs->pkey_index = 3;
    Open();
    ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
    dt_qp_options options = Options(cq);
    ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
    EXPECT_EQ(3, fake::TheWorld().qps.at(dt_qp_number(qp))->attr.pkey_index);
    dt_qp_destroy(qp);
    dt_cq_destroy(cq);
    dt_device_close(device);
}

/* Two queue pairs of InfiniBand ports, whose addresses a test may change. */
class InfiniBand : public PairFixture
{
  protected:
    static constexpr uint8_t kGid[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 1, 0, 2, 0xc9, 3, 0, 0x10, 0x20, 0x30};

    void Script() override
    {
        fake::Port &port = fake::TheWorld().devices[0]->ports[0];
        port.link_layer = IBV_LINK_LAYER_INFINIBAND;
        port.lid = 7;
        port.gids = {{{}, IBV_GID_TYPE_IB}};
        memcpy(port.gids[0].raw, kGid, sizeof kGid);
    }
    /* The way to this peer, as queue pair `a` gets it. */
    ibv_ah_attr Way(const dt_qp_address &peer)
    {
        EXPECT_EQ(DT_OK, dt_qp_connect(a, &peer, &link));
        return fake::TheWorld().qps.at(dt_qp_number(a))->attr.ah_attr;
    }
};

TEST_F(InfiniBand, APeerOfTheSameSubnetIsReachedByItsLid)
{
    address_b.lid = 9;
    address_b.gid[5] = 44; /* its FLID, which only other subnets use */
    ibv_ah_attr way = Way(address_b);
    EXPECT_EQ(9, way.dlid);
    EXPECT_EQ(0, way.is_global);
}

TEST_F(InfiniBand, APeerOfAnotherSubnetIsReachedByItsFlid)
{
    address_b.lid = 9;
    address_b.gid[7] = 2;
    address_b.gid[4] = 0x12;
    address_b.gid[5] = 0x34;
    ibv_ah_attr way = Way(address_b);
    EXPECT_EQ(0x1234, way.dlid);
    EXPECT_EQ(1, way.is_global);
    EXPECT_EQ(0, memcmp(address_b.gid, way.grh.dgid.raw, 16));
}

TEST_F(InfiniBand, WithoutAnFlidTheLidOfAnotherSubnetRemains)
{
    address_b.lid = 9;
    address_b.gid[7] = 2;
    ibv_ah_attr way = Way(address_b);
    EXPECT_EQ(9, way.dlid);
    EXPECT_EQ(1, way.is_global);
}

/* Virtual functions with virtual LIDs: the kernel refuses a path without a global header (EINVAL). */
TEST_F(InfiniBand, APortThatRequiresAGlobalHeaderGetsOne)
{
    fake::TheWorld().devices[0]->ports[0].flags = IBV_QPF_GRH_REQUIRED;
    ASSERT_EQ(DT_OK, dt_device_refresh(device));
    address_b.lid = 9;
    ibv_ah_attr way = Way(address_b);
    EXPECT_EQ(9, way.dlid);
    EXPECT_EQ(1, way.is_global);
}

TEST_F(Pair, AnAddressThatCannotBeIsRefused)
{
    const dt_qp_address good = address_b;

    detour_test::ExpectWarning("its QP number is not one");
    address_b.qpn = 0;
    EXPECT_EQ(DT_INVALID, dt_qp_connect(a, &address_b, &link));
    address_b.qpn = 1u << 24;
    EXPECT_EQ(DT_INVALID, dt_qp_connect(a, &address_b, &link));
    address_b = good;
    detour_test::ExpectWarning("its PSN has more than 24 bits");
    address_b.psn = 1u << 24;
    EXPECT_EQ(DT_INVALID, dt_qp_connect(a, &address_b, &link));
    address_b = good;
    detour_test::ExpectWarning("its MTU is not");
    for (uint32_t mtu : {0u, 128u, 1500u, 8192u, 0xffffffffu}) {
        address_b.mtu_bytes = mtu;
        EXPECT_EQ(DT_INVALID, dt_qp_connect(a, &address_b, &link)) << mtu;
    }
    address_b = good;
    detour_test::ExpectWarning("its LID has more than 16 bits");
    address_b.lid = 65536;
    EXPECT_EQ(DT_INVALID, dt_qp_connect(a, &address_b, &link));
    address_b = good;
    detour_test::ExpectWarning("its link layer is another one");
    address_b.link_layer = DT_LINK_INFINIBAND;
    EXPECT_EQ(DT_INVALID, dt_qp_connect(a, &address_b, &link));
}

TEST_F(Pair, LinkOptionsOutOfRangeAreRefused)
{
    const dt_qp_link_options good = link;

    detour_test::ExpectWarning("cannot be connected to the peer's QP");
    for (int field = 0; field < 8; field++) {
        link = good;
        uint32_t *fields[] = {&link.timeout_exponent, &link.timeout_exponent, &link.retry_count,
                              &link.rnr_retry_count,  &link.min_rnr_timer,    &link.traffic_class,
                              &link.service_level,    &link.rd_atomic};
        const uint32_t bad[] = {0, 32, 8, 8, 32, 256, 16, 256};
        *fields[field] = bad[field];
        EXPECT_EQ(DT_INVALID, dt_qp_connect(a, &address_b, &link)) << field;
    }
}

TEST_F(Pair, FailedStepsOfConnectNameTheStepAndBothAddresses)
{
    fake::Fail("modify_to_rtr", ETIMEDOUT);
    detour_test::ExpectWarning("cannot go to RTR: Connection timed out");
    EXPECT_EQ(DT_SYSTEM, dt_qp_connect(a, &address_b, &link));
    link.is_attempt = true; // which no warning follows
    fake::Fail("modify_to_rtr", ETIMEDOUT);
    EXPECT_EQ(DT_SYSTEM, dt_qp_connect(a, &address_b, &link));
    link.is_attempt = false;
    fake::Fail("modify_to_rts", EINVAL);
    detour_test::ExpectWarning("cannot go to RTS: Invalid argument");
    EXPECT_EQ(DT_SYSTEM, dt_qp_connect(a, &address_b, &link));
    EXPECT_NE(std::string::npos, detour_test::LoggedLines().back().find("::ffff:10.0.0.1"));
    fake::Fail("modify_to_err", EIO);
    detour_test::ExpectWarning("cannot go to ERR");
    EXPECT_EQ(DT_SYSTEM, dt_qp_fail(a));
}

TEST_F(Pair, ARefusalIsOneWarningAndAcceptedRequestsAreCounted)
{
    Connect();
    dt_write chain[] = {Nothing(1), Nothing(2), Nothing(3)};
    fake::TheWorld().hold = true;
    fake::Fail("post_send", EIO, 2);
    detour_test::ExpectWarning("refuses a work request: Input/output error");
    EXPECT_EQ(DT_PATH_ERROR, dt_qp_post_write(a, chain, 3));
    EXPECT_EQ(2u, dt_qp_sends_outstanding(a));
    fake::Fail("post_send", EIO);
    EXPECT_EQ(DT_PATH_ERROR, dt_qp_post_write(a, chain, 1));
    size_t warnings = 0;
    for (const std::string &line : detour_test::LoggedLines())
        warnings += line.find("refuses") != std::string::npos;
    EXPECT_EQ(1u, warnings);
    fake::TheWorld().hold = false;
    dt_completion done[8];
    EXPECT_EQ(2, dt_cq_poll(cq, done, 8));
}

TEST_F(Pair, ARefusedReceiveIsAPathError)
{
    fake::Fail("post_recv", ENOMEM, 3);
    detour_test::ExpectWarning("refuses a receive");
    EXPECT_EQ(DT_PATH_ERROR, dt_qp_post_empty_recvs(a, 4));
    EXPECT_EQ(3u, dt_qp_recvs_outstanding(a));
}

TEST_F(Pair, ReceivesOfQpsThatShareACqAreDistinguished)
{
    Connect();
    dt_completion done[8];
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(a, 1));
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(b, 1));
    dt_write to_b = Nothing(10, DT_POST_IMM), to_a = Nothing(11, DT_POST_IMM);
    ASSERT_EQ(DT_OK, dt_qp_post_write(a, &to_b, 1));
    ASSERT_EQ(DT_OK, dt_qp_post_write(b, &to_a, 1));
    ASSERT_EQ(2, dt_cq_poll(cq, done, 8));
    EXPECT_EQ(2u, done[0].wr_id);
    EXPECT_EQ(dt_qp_number(b), done[0].qpn);
    EXPECT_EQ(1u, done[1].wr_id);
    EXPECT_EQ(dt_qp_number(a), done[1].qpn);
}

TEST_F(Pair, CompletionsOfADestroyedQpAreLeftOut)
{
    Connect();
    dt_write writes[] = {Nothing(1), Nothing(2), Nothing(3)};
    dt_completion done[8];
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(a, 4));
    ASSERT_EQ(DT_OK, dt_qp_post_write(a, writes, 3));
    ASSERT_EQ(DT_OK, dt_qp_fail(a));
    fake::Run(); // 7 completions in the CQ
    dt_qp_destroy(a);
    a = MakeQp(9); // takes the same entry of the CQ
    ASSERT_EQ(DT_OK, dt_qp_connect(a, &address_b, &link));
    dt_write fresh = Nothing(42);
    dt_qp_local_address(a, &address_a);
    ASSERT_EQ(DT_OK, dt_qp_connect(b, &address_a, &link));
    ASSERT_EQ(DT_OK, dt_qp_post_write(a, &fresh, 1));
    ASSERT_EQ(1, dt_cq_poll(cq, done, 8));
    EXPECT_EQ(42u, done[0].wr_id);
    EXPECT_EQ(0u, dt_qp_recvs_outstanding(a));
}

// A full batch of another QP's completions must not look like an empty CQ.
TEST_F(Pair, PollingGoesOnPastAFullBatchOfLeftOvers)
{
    dt_completion done[4];
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(a, 4));
    ASSERT_EQ(DT_OK, dt_qp_fail(a));
    fake::Run();
    dt_qp_destroy(a);
    a = MakeQp(9);
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(a, 1));
    ASSERT_EQ(DT_OK, dt_qp_fail(a));
    fake::Run();
    ASSERT_EQ(1, dt_cq_poll(cq, done, 2));
    EXPECT_EQ(9u, done[0].wr_id);
    EXPECT_EQ(0, dt_cq_poll(cq, done, 2));
    EXPECT_EQ(0, dt_cq_poll(cq, done, 0));
}

TEST_F(Pair, GarbageFromTheLibraryIsLeftOut)
{
    Connect();
    auto *raw = static_cast<fake::Cq *>(fake::TheWorld().qps.at(dt_qp_number(a))->send_cq);
    for (uint64_t wr_id :
         {0ull, ~0ull, 1ull << 63, 0x0001000000000007ull, 0x0001003f00000000ull, 0xdeadbeefull}) {
        ibv_wc wc = {};
        wc.wr_id = wr_id;
        raw->queue.push_back(wc);
    }
    dt_completion done[8];
    EXPECT_EQ(0, dt_cq_poll(cq, done, 8));
    EXPECT_EQ(0u, dt_qp_sends_outstanding(a));
}

TEST_F(Pair, AFailedCqStaysFailedWithOneWarning)
{
    auto *raw = static_cast<fake::Cq *>(fake::TheWorld().qps.at(dt_qp_number(a))->send_cq);
    dt_completion done[8];

    raw->broken = true;
    detour_test::ExpectWarning("fake0: a CQ failed: it can no longer be polled");
    EXPECT_EQ(-1, dt_cq_poll(cq, done, 8));
    raw->broken = false;
    EXPECT_EQ(-1, dt_cq_poll(cq, done, 8));
}

TEST_F(Pair, ACqTakesNoMoreQpsThanItsTableHolds)
{
    std::vector<dt_qp *> qps;
    dt_qp *qp;
    dt_qp_options options = Options(cq);

    detour_test::ExpectWarning("more than 128 QPs on one CQ");
    while (qps.size() < 200 && dt_qp_create(device, &options, &qp) == DT_OK)
        qps.push_back(qp);
    EXPECT_EQ(62u, qps.size()); // two entries each, and the two of the fixture
    for (dt_qp *each : qps)
        dt_qp_destroy(each);
}
} // namespace
