/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that fail on command, scripted ones and the software RNIC: what happens, that it is counted, and
 * that nothing of it is left when the fault is gone. */
#include <gtest/gtest.h>

#include <poll.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "base/atomics.h"
#include "tests/harness/harness.h"
#include "tests/verbs/fake_verbs.h"
#include "tests/verbs/rig.h"
#include "verbs/fault.h"
#include "verbs/object.h"

namespace
{
using detour_test::ExpectWarning;
using rig::Buffer;
using rig::End;

struct Rnic {
    const char *name;
    std::unique_ptr<rig::Source> (*make)();
    dt_posting_kind posting;
};

class DeviceFault : public ::testing::TestWithParam<Rnic>
{
  protected:
    void SetUp() override
    {
        source = GetParam().make();
        size_t count = 0;
        ASSERT_EQ(DT_OK, dt_verbs_devices(source->verbs(), &list, &count));
        ASSERT_GE(count, 2u);
        a.reset(new End(source->verbs(), list[0], Options()));
        b.reset(new End(source->verbs(), list[1], Options()));
        rig::Connect(*a, *b);
        from.reset(new Buffer(a->device, 4096));
        to.reset(new Buffer(b->device, 4096));
        poll_cq = a->device->context->ops.poll_cq;
        post_send = a->device->context->ops.post_send;
        post_recv = a->device->context->ops.post_recv;
    }
    void TearDown() override
    {
        ClearFaults();
        from.reset();
        to.reset();
        a.reset();
        b.reset();
        dt_verbs_devices_free(list);
    }
    dt_qp_options Options() const
    {
        dt_qp_options options = {};
        options.sq_depth = 16;
        options.rq_depth = 16;
        options.posting = GetParam().posting;
        options.access = DT_MR_REMOTE_WRITE;
        return options;
    }

    /* Device a has this fault, as number `id`. */
    bool Set(dt_device_fault fault, uint32_t id = 1)
    {
        fault.id = id;
        fault.fired = &fired;
        return dt_device_set_faults(a->device, &fault, 1);
    }
    void SetDown(dt_device_fault_kind kind)
    {
        dt_device_fault fault = {};
        fault.kind = kind;
        EXPECT_TRUE(Set(fault));
        dt_device_break(a->device);
    }
    void ClearFaults()
    {
        EXPECT_FALSE(dt_device_set_faults(a->device, nullptr, 0));
        EXPECT_EQ(poll_cq, a->device->context->ops.poll_cq) << "the data path is the library's again";
        EXPECT_EQ(post_send, a->device->context->ops.post_send);
        EXPECT_EQ(post_recv, a->device->context->ops.post_recv);
    }
    uint64_t Fired()
    {
        return dt_load_relaxed(&fired);
    }
    dt_status Write(uint64_t wr_id)
    {
        dt_write write = {};
        write.local_addr = from->addr();
        write.remote_addr = to->addr();
        write.lkey = from->mr()->lkey;
        write.rkey = to->mr()->rkey;
        write.bytes = 64;
        write.wr_id = wr_id;
        write.flags = DT_POST_SIGNALED;
        dt_status status = dt_qp_post_write(a->qp, &write, 1);
        dt_qp_ring(a->qp);
        return status;
    }
    /* Writes once; the status of the completion. */
    uint32_t WriteStatus(uint64_t wr_id)
    {
        EXPECT_EQ(DT_OK, Write(wr_id));
        auto done = a->Poll(1);
        EXPECT_EQ(1u, done.size());
        EXPECT_TRUE(done.empty() || done[0].wr_id == wr_id);
        return done.empty() ? UINT32_MAX : done[0].status;
    }
    /* A new queue pair, and a queue for its sends, in the place of those that failed. */
    void Replace(End &end, bool is_probe = false)
    {
        dt_qp_options options = Options();
        options.is_probe = is_probe;
        dt_qp_destroy(end.qp);
        dt_cq_destroy(end.send_cq);
        EXPECT_EQ(DT_OK, dt_cq_create(end.device, 16, nullptr, &end.send_cq));
        options.send_cq = end.send_cq;
        options.recv_cq = end.recv_cq;
        EXPECT_EQ(DT_OK, dt_qp_create(end.device, &options, &end.qp));
    }
    /* The next event; OTHER if there is none. Its descriptor agrees. */
    dt_event_type Event()
    {
        dt_device_event event = {};
        pollfd polled = {dt_device_event_fd(a->device), POLLIN, 0};
        bool is_readable = poll(&polled, 1, 0) == 1 && polled.revents & POLLIN;
        bool has_one = dt_device_next_event(a->device, &event) == DT_OK;
        EXPECT_TRUE(is_readable || !has_one);
        return has_one ? event.type : DT_EVENT_OTHER;
    }

    std::unique_ptr<rig::Source> source;
    dt_device_info *list = nullptr;
    std::unique_ptr<End> a, b;
    std::unique_ptr<Buffer> from, to;
    uint64_t fired = 0;
    int (*poll_cq)(ibv_cq *, int, ibv_wc *);
    int (*post_send)(ibv_qp *, ibv_send_wr *, ibv_send_wr **);
    int (*post_recv)(ibv_qp *, ibv_recv_wr *, ibv_recv_wr **);
};

TEST_P(DeviceFault, NoneCostsNothing)
{
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, WriteStatus(1));
    ClearFaults(); // looks whose the operations are
}

TEST_P(DeviceFault, ADeviceThatIsDownFailsItsQueuePairsAndReportsIt)
{
    SetDown(DT_DEVICE_FAULT_DOWN);
    EXPECT_EQ(1u, Fired());
    EXPECT_EQ(DT_EVENT_PORT_ERROR, Event());
    EXPECT_NE((uint32_t)DT_WC_SUCCESS, WriteStatus(1));
    EXPECT_EQ(DT_AGAIN, dt_device_refresh(a->device));
    dt_device_break(a->device); // what was failed is not failed again
    EXPECT_EQ(1u, Fired());
    ClearFaults();
    EXPECT_EQ(DT_EVENT_PORT_ACTIVE, Event());
    EXPECT_EQ(DT_EVENT_OTHER, Event());
    EXPECT_EQ(DT_OK, dt_device_refresh(a->device));
}

TEST_P(DeviceFault, NothingIsConnectedWhileADeviceIsDownAndEverythingAfterwards)
{
    End fresh(source->verbs(), list[0], Options());
    dt_qp_address address;
    dt_qp_link_options link = rig::PatientLink();
    dt_device_fault fault = {};
    fault.kind = DT_DEVICE_FAULT_DOWN;
    fault.fired = &fired;
    dt_device_set_faults(fresh.device, &fault, 1);
    dt_qp_local_address(b->qp, &address);
    ExpectWarning("cannot go to RTR: Network is down");
    EXPECT_EQ(DT_SYSTEM, dt_qp_connect(fresh.qp, &address, &link));
    dt_device_set_faults(fresh.device, nullptr, 0);
    EXPECT_EQ(DT_OK, dt_qp_connect(fresh.qp, &address, &link));
}

TEST_P(DeviceFault, ADeadDeviceMakesNothingAndChangesNothing)
{
    SetDown(DT_DEVICE_FAULT_DEAD);
    EXPECT_EQ(1u, Fired());
    EXPECT_EQ(DT_EVENT_DEVICE_FATAL, Event());
    ExpectWarning("cannot go to ERR: Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_qp_fail(a->qp));
    dt_cq *cq = nullptr;
    ExpectWarning("no CQ of 4 entries: Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_cq_create(a->device, 4, nullptr, &cq));
}

TEST_P(DeviceFault, CallsFailAsOftenAsWasAsked)
{
    dt_device_fault fault = {};
    dt_mr *mr = nullptr;
    static uint8_t memory[8192];
    fault.kind = DT_DEVICE_FAULT_FAIL;
    fault.call = DT_DEVICE_CALL_REG_MR;
    fault.error = ENOMEM;
    fault.limit = 1;
    Set(fault);
    ExpectWarning("cannot register 8192 bytes");
    EXPECT_EQ(DT_SYSTEM, dt_mr_register(a->device, memory, sizeof memory, DT_MR_LOCAL_WRITE, &mr));
    EXPECT_EQ(1u, Fired());
    Set(fault); // the same fault once more is no new one
    EXPECT_EQ(DT_OK, dt_mr_register(a->device, memory, sizeof memory, DT_MR_LOCAL_WRITE, &mr));
    EXPECT_EQ(1u, Fired());
    EXPECT_EQ(DT_OK, dt_mr_deregister(a->device, mr));

    fault.call = DT_DEVICE_CALL_CREATE_CQ;
    fault.limit = 0;
    Set(fault, 2);
    dt_cq *cq = nullptr;
    ExpectWarning("no CQ of 4 entries: Cannot allocate memory");
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(DT_SYSTEM, dt_cq_create(a->device, 4, nullptr, &cq));
    EXPECT_EQ(4u, Fired());

    fault.call = DT_DEVICE_CALL_MODIFY_QP;
    fault.error = EIO;
    Set(fault, 3);
    ExpectWarning("cannot go to ERR: Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_qp_fail(a->qp));
    EXPECT_EQ(5u, Fired());

    fault.call = DT_DEVICE_CALL_CREATE_QP;
    Set(fault, 4);
    dt_qp_options options = Options();
    dt_qp *qp = nullptr;
    options.send_cq = options.recv_cq = a->recv_cq;
    ExpectWarning("Input/output error");
    EXPECT_EQ(DT_SYSTEM, dt_qp_create(a->device, &options, &qp));
    EXPECT_EQ(6u, Fired());
    ClearFaults();
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, WriteStatus(1));
}

TEST_P(DeviceFault, PostsAreRefused)
{
    dt_device_fault fault = {};
    fault.kind = DT_DEVICE_FAULT_FAIL;
    fault.error = EINVAL;
    fault.limit = 1;
    if (GetParam().posting == DT_POSTING_STD) {
        fault.call = DT_DEVICE_CALL_POST_SEND;
        Set(fault, 1);
        EXPECT_NE(post_send, a->device->context->ops.post_send);
        ExpectWarning("refuses a work request: Invalid argument");
        EXPECT_EQ(DT_PATH_ERROR, Write(1));
        EXPECT_EQ(1u, Fired());
        EXPECT_EQ((uint32_t)DT_WC_SUCCESS, WriteStatus(2));
    }
    fired = 0;
    fault.call = DT_DEVICE_CALL_POST_RECV;
    fault.limit = 0;
    Set(fault, 2);
    a->qp->refused = false;
    ExpectWarning("refuses a receive: Invalid argument");
    EXPECT_EQ(DT_PATH_ERROR, dt_qp_post_empty_recvs(a->qp, 1));
    EXPECT_EQ(1u, Fired());
    ClearFaults();
    EXPECT_EQ(DT_OK, dt_qp_post_empty_recvs(a->qp, 1));
    fault.kind = DT_DEVICE_FAULT_PERSONALITY;
    fault.personality = DT_DEVICE_PERSONALITY_MANA; // refuses them in the error state alone
    Set(fault, 3);
    EXPECT_EQ(DT_OK, dt_qp_post_empty_recvs(a->qp, 1));
    EXPECT_EQ(DT_OK, dt_qp_fail(a->qp));
    EXPECT_EQ(DT_PATH_ERROR, dt_qp_post_empty_recvs(a->qp, 1));
    EXPECT_EQ(GetParam().posting == DT_POSTING_STD ? DT_PATH_ERROR : DT_OK, Write(3));
}

/* Probes and frames in band are no messages, which `count` of a rule counts. */
TEST_P(DeviceFault, ALimitCountsNothingOfAQueuePairOfProbes)
{
    dt_device_fault fault = {};
    Replace(*a, true);
    Replace(*b, true);
    rig::Connect(*a, *b);
    fault.limit = 1;
    fault.kind = DT_DEVICE_FAULT_FAIL;
    fault.error = EIO;
    fault.call = DT_DEVICE_CALL_POLL_CQ;
    Set(fault, 1);
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, WriteStatus(1));
    fault.call = DT_DEVICE_CALL_POST_SEND;
    if (GetParam().posting == DT_POSTING_STD)
        Set(fault, 2);
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, WriteStatus(2));
    fault.kind = DT_DEVICE_FAULT_STATUS;
    fault.status = DT_WC_RETRY_EXCEEDED;
    Set(fault, 3);
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, WriteStatus(3));
    EXPECT_EQ(0u, Fired());
    fault.limit = 0;
    Set(fault, 4);
    EXPECT_EQ((uint32_t)DT_WC_RETRY_EXCEEDED, WriteStatus(4));
    dt_device_set_faults(a->device, nullptr, 0);
    Replace(*a);
}

TEST_P(DeviceFault, ACqThatCannotBePolled)
{
    dt_device_fault fault = {};
    dt_completion completion;
    fault.kind = DT_DEVICE_FAULT_FAIL;
    fault.call = DT_DEVICE_CALL_POLL_CQ;
    fault.error = EIO;
    Set(fault);
    ExpectWarning("can no longer be polled");
    EXPECT_EQ(-1, dt_cq_poll(a->send_cq, &completion, 1));
    EXPECT_EQ(1u, Fired());
}

TEST_P(DeviceFault, CompletionsHeldByASilentDeviceComeLater)
{
    dt_device_fault fault = {};
    dt_completion completion;
    fault.kind = DT_DEVICE_FAULT_SILENT;
    Set(fault);
    EXPECT_EQ(DT_OK, Write(7));
    for (int i = 0; i < 5; i++)
        EXPECT_EQ(0, dt_cq_poll(a->send_cq, &completion, 1));
    EXPECT_EQ(5u, Fired());
    ClearFaults();
    auto done = a->Poll(1);
    ASSERT_EQ(1u, done.size());
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, done[0].status);
    EXPECT_EQ(7u, done[0].wr_id);
}

TEST_P(DeviceFault, ASuccessIsTurnedIntoAnErrorAndNoneFollowsOnThatQueuePair)
{
    dt_device_fault fault = {};
    fault.kind = DT_DEVICE_FAULT_STATUS;
    fault.status = DT_WC_RETRY_EXCEEDED;
    fault.limit = 1;
    source->Hold();
    EXPECT_EQ(DT_OK, Write(1));
    EXPECT_EQ(DT_OK, Write(2));
    Set(fault);
    source->Resume();
    auto done = a->Poll(2);
    ASSERT_EQ(2u, done.size());
    EXPECT_EQ(1u, done[0].wr_id);
    EXPECT_EQ((uint32_t)DT_WC_RETRY_EXCEEDED, done[0].status);
    EXPECT_EQ((uint32_t)DT_WC_FLUSHED, done[1].status);
    EXPECT_EQ(1u, Fired());
    EXPECT_EQ((uint32_t)DT_WC_FLUSHED, WriteStatus(3)) << "really in the error state";
    // A queue pair that had an error stays one without success until it is destroyed.
    dt_device_set_faults(a->device, nullptr, 0);
    EXPECT_NE(poll_cq, a->device->context->ops.poll_cq);
    Replace(*a);
    EXPECT_EQ(poll_cq, a->device->context->ops.poll_cq);
}

/* A device that fails had not acknowledged what it then says is an error. */
TEST_P(DeviceFault, ACompletedReceiveStaysCompleted)
{
    dt_device_fault fault = {};
    dt_write to_a = {};
    fault.kind = DT_DEVICE_FAULT_STATUS;
    fault.status = DT_WC_RETRY_EXCEEDED;
    fault.limit = 1;
    to_a.flags = DT_POST_SIGNALED | DT_POST_IMM;
    EXPECT_EQ(DT_OK, dt_qp_post_empty_recvs(a->qp, 3));
    for (uint32_t imm : {70u, 71u}) {
        to_a.imm = imm;
        EXPECT_EQ(DT_OK, dt_qp_post_write(b->qp, &to_a, 1));
        dt_qp_ring(b->qp);
        auto sent = b->Poll(1);
        ASSERT_EQ(1u, sent.size());
        EXPECT_EQ((uint32_t)DT_WC_SUCCESS, sent[0].status) << "its sender forgets it";
    }
    dt_completion received = {}, failed = {};
    Set(fault);
    EXPECT_EQ(1, dt_cq_poll(a->recv_cq, &received, 1));
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, received.status);
    EXPECT_EQ(70u, received.imm);
    EXPECT_EQ(DT_OK, Write(1));
    while (dt_cq_poll(a->send_cq, &failed, 1) == 0)
        ;
    EXPECT_EQ((uint32_t)DT_WC_RETRY_EXCEEDED, failed.status);
    EXPECT_EQ(1, dt_cq_poll(a->recv_cq, &received, 1));
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, received.status) << "nor does it go with its queue pair";
    EXPECT_EQ(71u, received.imm);
    auto flushed = a->Poll(1);
    ASSERT_EQ(1u, flushed.size());
    EXPECT_EQ((uint32_t)DT_WC_FLUSHED, flushed[0].status);
    dt_device_set_faults(a->device, nullptr, 0);
    Replace(*a);
}

TEST_P(DeviceFault, ALostCompletionIsTheLastOfItsQueuePairWhichOnlyTheDeviceCanTell)
{
    dt_device_fault fault = {};
    dt_completion completion;
    fault.kind = DT_DEVICE_FAULT_STATUS;
    fault.status = DT_DEVICE_STATUS_LOST;
    fault.limit = 1;
    EXPECT_FALSE(dt_qp_is_in_error(a->qp));
    Set(fault);
    EXPECT_EQ(DT_OK, Write(1));
    while (Fired() == 0)
        ASSERT_EQ(0, dt_cq_poll(a->send_cq, &completion, 1));
    EXPECT_TRUE(dt_qp_is_in_error(a->qp));
    EXPECT_FALSE(dt_qp_is_in_error(b->qp)) << "its peer is not concerned";
    EXPECT_EQ(DT_OK, Write(2));
    for (int i = 0; i < 100; i++)
        ASSERT_EQ(0, dt_cq_poll(a->send_cq, &completion, 1)) << "nor is it flushed";
    EXPECT_EQ(1u, Fired());

    fault = {};
    fault.kind = DT_DEVICE_FAULT_FAIL;
    fault.call = DT_DEVICE_CALL_QUERY_QP;
    fault.error = EIO;
    Set(fault, 2);
    EXPECT_FALSE(dt_qp_is_in_error(a->qp)) << "the device does not report it";
    EXPECT_EQ(2u, Fired());
    dt_device_set_faults(a->device, nullptr, 0);
    EXPECT_TRUE(dt_qp_is_in_error(a->qp));
    Replace(*a);
}

TEST_P(DeviceFault, EventsAreRaisedOnce)
{
    dt_device_fault fault = {};
    uint32_t id = 0;
    fault.kind = DT_DEVICE_FAULT_EVENT;
    for (dt_event_type type : {DT_EVENT_PORT_ERROR, DT_EVENT_PORT_ACTIVE, DT_EVENT_GID_CHANGE,
                               DT_EVENT_DEVICE_FATAL, DT_EVENT_CQ_ERROR, DT_EVENT_QP_FATAL}) {
        fired = 0;
        fault.event = type;
        Set(fault, ++id);
        Set(fault, id);
        EXPECT_EQ(1u, Fired());
        EXPECT_EQ(type, Event()) << dt_event_type_text(type);
        EXPECT_EQ(DT_EVENT_OTHER, Event());
    }
    EXPECT_EQ((uint32_t)DT_WC_SUCCESS, WriteStatus(1)) << "an event is nothing but an event";
}

TEST_P(DeviceFault, AnEventDoesNotSpeakOfAQueuePairThatIsGone)
{
    dt_device_fault fault = {};
    fault.kind = DT_DEVICE_FAULT_EVENT;
    fault.event = DT_EVENT_QP_FATAL;
    fault.fired = &fired;
    {
        End fresh(source->verbs(), list[0], Options());
        dt_qp_address address;
        dt_qp_link_options link = rig::PatientLink();
        dt_qp_options options = Options();
        dt_cq *send_cq = nullptr;
        dt_device_event event = {};
        dt_qp_local_address(b->qp, &address);
        EXPECT_EQ(DT_OK, dt_qp_connect(fresh.qp, &address, &link));
        dt_device_set_faults(fresh.device, &fault, 1);
        EXPECT_EQ(1u, Fired());
        dt_qp_destroy(fresh.qp);
        EXPECT_EQ(DT_OK, dt_device_next_event(fresh.device, &event));
        EXPECT_EQ(DT_EVENT_OTHER, event.type);
        EXPECT_EQ(DT_OK, dt_cq_create(fresh.device, 16, nullptr, &send_cq));
        dt_cq_destroy(fresh.send_cq);
        fresh.send_cq = send_cq;
        options.send_cq = send_cq;
        options.recv_cq = fresh.recv_cq;
        EXPECT_EQ(DT_OK, dt_qp_create(fresh.device, &options, &fresh.qp));
    }
}

TEST_P(DeviceFault, ACallHangsUntilTheFaultIsGone)
{
    dt_device_fault fault = {};
    std::atomic<bool> has_returned{false};
    fault.kind = DT_DEVICE_FAULT_HANG;
    fault.call = DT_DEVICE_CALL_MODIFY_QP;
    Set(fault);
    std::thread caller([&] {
        EXPECT_EQ(DT_OK, dt_qp_fail(a->qp));
        has_returned = true;
    });
    while (Fired() == 0)
        std::this_thread::yield();
    Set(fault); // still there
    EXPECT_FALSE(has_returned);
    ClearFaults();
    caller.join();
    EXPECT_EQ(1u, Fired());
}

/* What a device in use is asked before queue pairs are made; what it was asked for the list of devices is
 * not. */
TEST_P(DeviceFault, QueriesOfTheAddressFail)
{
    dt_device_info *again = nullptr;
    size_t count = 0;
    dt_device_fault fault = {};
    fault.kind = DT_DEVICE_FAULT_FAIL;
    fault.call = DT_DEVICE_CALL_QUERY_PORT;
    fault.error = EIO;
    Set(fault);
    EXPECT_EQ(DT_SYSTEM, dt_device_refresh(a->device));
    EXPECT_EQ(1u, Fired());
    fault.call = DT_DEVICE_CALL_QUERY_GID;
    Set(fault, 2);
    EXPECT_EQ(DT_NOT_FOUND, dt_device_refresh(a->device));
    uint64_t before = Fired();
    EXPECT_LT(1u, before);
    EXPECT_EQ(DT_OK, dt_verbs_devices(source->verbs(), &again, &count));
    EXPECT_LT(0u, count);
    dt_verbs_devices_free(again);
    EXPECT_EQ(before, Fired());
    ClearFaults();
    EXPECT_EQ(DT_OK, dt_device_refresh(a->device));
}

TEST_P(DeviceFault, AQueryOfTheAddressHangsUntilTheFaultIsGone)
{
    for (auto call : {DT_DEVICE_CALL_QUERY_PORT, DT_DEVICE_CALL_QUERY_GID}) {
        dt_device_fault fault = {};
        std::atomic<bool> has_returned{false};
        fault.kind = DT_DEVICE_FAULT_HANG;
        fault.call = call;
        uint64_t before = Fired();
        Set(fault, 1u + call);
        std::thread caller([&] {
            EXPECT_EQ(DT_OK, dt_device_refresh(a->device));
            has_returned = true;
        });
        while (Fired() == before)
            std::this_thread::yield();
        EXPECT_FALSE(has_returned);
        ClearFaults();
        caller.join();
    }
}

/* Who reads events is another thread than who makes and destroys queue pairs. For the sanitizers. */
TEST(DeviceFaultEvents, AreReadWhileTheirQueuePairGoes)
{
    auto source = rig::MakeSoft();
    dt_device_info *list = nullptr;
    size_t count = 0;
    dt_device *device = nullptr;
    std::atomic<bool> stop{false};
    std::atomic<int> seen{0};
    uint64_t fired = 0;

    ASSERT_EQ(DT_OK, dt_verbs_devices(source->verbs(), &list, &count));
    ASSERT_EQ(DT_OK, dt_device_open(source->verbs(), &list[0], &device));
    std::thread reader([&] {
        dt_device_fault fault = {};
        dt_device_event event;
        fault.kind = DT_DEVICE_FAULT_EVENT;
        fault.event = DT_EVENT_QP_FATAL;
        fault.fired = &fired;
        while (!stop) {
            fault.id++;
            dt_device_set_faults(device, &fault, 1);
            while (dt_device_next_event(device, &event) == DT_OK)
                seen++;
        }
    });
    for (int i = 0; i < 1000 || (seen == 0 && i < 100000); i++) {
        dt_qp_options options = {};
        dt_qp_link_options link = {};
        dt_qp_address self;
        dt_qp *qp;
        ASSERT_EQ(DT_OK, dt_cq_create(device, 8, nullptr, &options.send_cq));
        options.recv_cq = options.send_cq;
        options.sq_depth = options.rq_depth = 4;
        ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
        dt_qp_local_address(qp, &self);
        link.timeout_exponent = 14;
        ASSERT_EQ(DT_OK, dt_qp_connect(qp, &self, &link));
        dt_qp_destroy(qp);
        dt_cq_destroy(options.send_cq);
    }
    stop = true;
    reader.join();
    EXPECT_GT(seen, 0);
    dt_device_set_faults(device, nullptr, 0);
    dt_device_close(device);
    dt_verbs_devices_free(list);
}

const Rnic rnics[] = {{"scripted_std", rig::MakeFake, DT_POSTING_STD},
                      {"scripted_dv", rig::MakeFake, DT_POSTING_DV},
                      {"soft_std", rig::MakeSoft, DT_POSTING_STD},
                      {"soft_dv", rig::MakeSoft, DT_POSTING_DV}};

INSTANTIATE_TEST_SUITE_P(Rnics, DeviceFault, ::testing::ValuesIn(rnics),
                         [](const auto &instance) { return std::string(instance.param.name); });
} // namespace
