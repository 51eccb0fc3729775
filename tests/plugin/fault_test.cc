/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices that fail under traffic: what was posted arrives over another path, once and whole, and nothing is
 * an error as long as one path lives. A program run per fault, since a dead device stays dead.
 */
#include <cstdlib>

#include "tests/plugin/fault_fixture.h"
#include "transport/message/memory.h"

namespace
{
using detour_test::AddRule;
using detour_test::Buffer;
using detour_test::CountLines;
using detour_test::CountWrong;
using detour_test::Fault;
using detour_test::Fill;
using detour_test::Fired;
using detour_test::Inject;
using detour_test::MoveOne;
using detour_test::net;
using detour_test::Order;
using detour_test::Pair;
using detour_test::Traffic;
using detour_test::Until;

TEST_F(Fault, LinkDownUnderASend)
{
    FailUnderTraffic("soft0", "down");
}

TEST_F(Fault, LinkDownUnderAReceive)
{
    FailUnderTraffic("soft2", "down");
}

TEST_F(Fault, DeviceFatalUnderASend)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    FailUnderTraffic("soft0", "fatal");
    EXPECT_EQ(1, CountLines("(device gone)"));
}

TEST_F(Fault, DeviceFatalUnderAReceive)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    FailUnderTraffic("soft2", "fatal");
    EXPECT_EQ(1, CountLines("(device gone)"));
}

/* Receives are published before the path fails, and the sender has not begun. */
TEST_F(Fault, OpenReceivesAreOfferedAgainOverAnotherPath)
{
    traffic->PostReceives(58);
    Order("soft2", "down");
    /* Until it is fenced the path still receives: STOP. */
    Until([&] { return CountLines("is settled") >= 1 || HasFailure(); });
    traffic->Move(100);
    AwaitReports(1);
    EXPECT_EQ(1, CountLines("8 open receives go over soft3"));
}

void Exchange(Pair &pair, Buffer &from, Buffer &to, uint64_t sequence)
{
    Fill(from.data(), from.bytes.size(), sequence);
    void *receive = pair.Receive(to.data(), (int)to.bytes.size(), 7, to.mhandle);
    void *send = pair.Send(from.data(), (int)from.bytes.size(), 7, from.mhandle);
    pair.Wait(receive);
    pair.Wait(send);
    EXPECT_EQ(0u, CountWrong(to.data(), to.bytes.size(), sequence));
}

uint32_t PathsOf(const Buffer &buffer)
{
    return dt_load_acquire(&static_cast<dt_memory *>(buffer.mhandle)->path_mask);
}

/* A backup that hangs in reg_mr: memory is used without it, and with it once it answers. */
TEST_F(Fault, RegMrDoesNotWaitForABackupThatHangs)
{
    Pair other(net), closed(net);
    other.Connect(0, 2);
    closed.Connect(0, 2);
    ASSERT_FALSE(HasFailure());
    std::string rule = AddRule("device=soft1 hang=reg_mr");
    Buffer *from = nullptr;
    Until([&] { /* a rule is in force soon, not at once */
                if (from)
                    other.Deregister(*from);
                from = &other.Register(other.send, 1 << 16, 1);
                return Fired(rule) > 0 || HasFailure();
    });
    ASSERT_EQ(1u, PathsOf(*from));
    Buffer &to = other.Register(other.recv, 1 << 16, 0);
    Exchange(other, *from, to, 1);
    for (int i = 0; i < 10; i++)
        closed.Register(closed.send, 1 << 16, 1);
    other.Deregister(other.Register(other.send, 1 << 16, 1));
    closed.Close();
    traffic->Move(100);

    Inject("remove " + rule);
    Until([&] { return PathsOf(*from) == 3; });
    Order("soft0", "down");
    Exchange(other, *from, to, 2);
    traffic->Move(100);
    AwaitReports(2);
}

/* Down and up again, many times, under traffic that never stops; each time it moves away and back. */
TEST_F(Fault, ARecoveredPathIsUsedAgain)
{
    for (int round = 1; round <= 3; round++) {
        const char *device = round % 2 ? "soft0" : "soft2";
        Order(device, "down");
        traffic->Move(100);
        Order(device, "up");
        Until([&] {
            traffic->Move(20);
            return CountLines("is in use again") >= 2 * round || HasFailure();
        });
        traffic->Move(50);
    }
    AwaitReports(3);
    ExpectReports(3);
}

/*
 * A driver reset or hot plug, at either end, again and again: the device is used again in the same process.
 * The receives that are open meanwhile were offered with keys of before; the other device then fails, so that
 * all of them go over the one that came back.
 */
TEST_F(Fault, ADeviceThatWasRemovedIsUsedAgainOnceItIsBack)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    for (int round = 0; round < 4 && !HasFailure(); round++) {
        const char *device = round % 2 ? "soft0" : "soft2", *other = round % 2 ? "soft1" : "soft3";
        traffic->Move(100);
        traffic->PostReceives(traffic->Received() + 8);
        int settled = CountLines("is settled"), used = CountLines("is in use again");
        Order(device, "fatal");
        Until([&] { return CountLines("is settled") > settled || HasFailure(); });
        Order(device, "plug");
        Until([&] { return CountLines("is in use again") >= used + 2 || HasFailure(); });
        used = CountLines("is in use again");
        Order(other, "down");
        traffic->Move(100);
        Order(other, "up");
        Until([&] {
            traffic->Move(20);
            return CountLines("is in use again") >= used + 2 || HasFailure();
        });
        traffic->Move(20);
    }
    EXPECT_EQ(4, CountLines("the device is back"));
}

/* Memory and a connection made while the device is away use it once it is back, also as the only path. */
TEST_F(Fault, MemoryRegisteredWithoutADeviceUsesItOnceItIsBack)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    Order("soft0", "fatal");
    AwaitReports(1);
    Pair late(net);
    late.Connect(0, 2);
    ASSERT_FALSE(HasFailure());
    Buffer &from = pair.Register(pair.send, 1 << 16, 1), &to = pair.Register(pair.recv, 1 << 16, 0);
    Buffer &from_late = late.Register(late.send, 1 << 16, 1), &to_late = late.Register(late.recv, 1 << 16, 0);
    EXPECT_EQ(2u, PathsOf(from));
    EXPECT_EQ(2u, PathsOf(from_late));
    Exchange(pair, from, to, 1);
    Exchange(late, from_late, to_late, 2);

    Order("soft0", "plug");
    Until([&] {
        return (PathsOf(from) == 3 && PathsOf(from_late) == 3 && CountLines("is in use again") >= 4) ||
               HasFailure();
    });
    Order("soft1", "down");
    Exchange(pair, from, to, 3);
    Exchange(late, from_late, to_late, 4);
    traffic->Move(100);
}

/* An access error would come on any path, so it is NCCL's to know. */
TEST_F(Fault, AnErrorOfTheCallersIsNotFailedOver)
{
    detour_test::ExpectWarning("another path would fail the same way");
    Buffer &from = pair.Register(pair.send, 1000, 1), &to = pair.Register(pair.recv, 1000, 0);
    std::string rule = AddRule("device=soft0 status=remote_access count=1");
    ncclResult_t result = ncclSuccess;

    while (result == ncclSuccess && !HasFailure()) { /* a rule is in force soon, not at once */
        void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
        void *send = pair.Send(from.data(), 1000, 0, from.mhandle);
        Until([&] {
            int done = 0;
            result = net->test(send, &done, nullptr);
            return done || result != ncclSuccess;
        });
        if (result == ncclSuccess)
            pair.Wait(receive);
    }
    EXPECT_EQ(ncclRemoteError, result);
    EXPECT_EQ(1u, Fired(rule));
    EXPECT_EQ(0, CountLines("is settled"));
}

/* A path whose device cannot register the memory does not carry it, and carries all other memory. */
TEST_F(Fault, MemoryThatTheBackupRefusesWaitsForItsOwnPath)
{
    detour_test::ExpectWarning("soft1: cannot register");
    std::string rule = AddRule("device=soft1 fail=reg_mr count=1");
    Buffer *refused = nullptr;
    Until([&] { /* a rule is in force soon, not at once */
                if (refused)
                    pair.Deregister(*refused);
                refused = &pair.Register(pair.send, 1000, 1);
                return Fired(rule) >= 1 || HasFailure();
    });
    Buffer &taken = pair.Register(pair.send, 1000, 1), &to = pair.Register(pair.recv, 1000, 0);

    EXPECT_EQ(1, CountLines("soft1 cannot register 1000 bytes"));
    Order("soft0", "down");
    for (int i = 0; i < 50; i++)
        MoveOne(pair, taken, to);
    void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
    void *send = pair.Send(refused->data(), 1000, 0, refused->mhandle);
    for (int i = 0; i < 1000; i++)
        ASSERT_FALSE(pair.TestOnce(send));
    Order("soft0", "up");
    pair.Wait(receive);
    pair.Wait(send);
    EXPECT_EQ(1, to.data()[999]);
}

TEST_F(Fault, TheBackupFailsWhileTheSwitchToItIsUnderWay)
{
    bool is_ordered = false;
    traffic->Move(300, [&](int sent) {
        if (sent >= 100 && !is_ordered) {
            Order("soft0", "down");
            Order("soft3", "down");
            Order("soft0", "up");
        }
        is_ordered |= sent >= 100;
    });
    Order("soft3", "up");
    traffic->Move(100);
}

/*
 * What was posted on soft0 is posted again on soft1, and that fails there and then: `rule` acts on soft1
 * while nothing but the replay uses it. Then neither path is up; both come back.
 */
void FailTheReplay(Pair &pair, Traffic &traffic, const std::string &rule)
{
    std::string wanted = AddRule(rule), mark = AddRule("device=soft1 fail=reg_mr count=1");
    detour_test::ExpectWarning("soft1: cannot register");
    Until([&] { /* a rule is in force soon, not at once; when the later one is, both are */
                pair.Deregister(pair.Register(pair.send, 1 << 20, 1));
                return Fired(mark) >= 1 || ::testing::Test::HasFailure();
    });
    traffic.PostReceives(58);
    Order("soft0", "drop 100%"); // so that all of them have to be posted again
    Until([&] {
        traffic.PostSends(58);
        return traffic.HasBegun(58) || ::testing::Test::HasFailure();
    });
    Order("soft0", "down");
    Until([&] {
        traffic.Reap();
        return Fired(wanted) >= 1 || ::testing::Test::HasFailure();
    });
    Until([&] {
        traffic.Reap();
        return CountLines("path 1, soft1 to soft3, epoch 0 is settled") >= 1 || ::testing::Test::HasFailure();
    });
    Order("soft0", "drop 0%");
    Order("soft0", "up");
    Inject("clear");
    traffic.Move(100);
    Until([&] { /* a report comes when its switch is over */
                traffic.Move(10);
                return CountLines("path 0, soft0 to soft2, epoch 0 is settled") >= 1 ||
                       ::testing::Test::HasFailure();
    });
}

/* The first of the replay is refused by the queue pair (`std` posts by a call). */
TEST_F(Fault, AReplayThatIsRefusedIsReplayedAgain)
{
    detour_test::ExpectWarning(" refuses a work request: Input/output error");
    FailTheReplay(pair, *traffic, "device=soft1 fail=post_send");
}

/* It is posted, and its completions are errors. */
TEST_F(Fault, AReplayThatEndsWithAnErrorIsReplayedAgain)
{
    FailTheReplay(pair, *traffic, "device=soft1 status=retry_exceeded count=1");
}

/* Everything is dead for a while: nothing is an error, and it goes on when something is back. */
TEST_F(Fault, AllPathsFailAndOneComesBack)
{
    traffic->PostReceives(58);
    for (const char *device : {"soft0", "soft1", "soft2", "soft3"})
        Order(device, "down");
    auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    traffic->PostSends(58);
    while (std::chrono::steady_clock::now() < end)
        traffic->Reap();
    Order("soft1", "up");
    Order("soft3", "up");
    traffic->Move(100);
}

/* Nothing that leaves soft0 arrives, its port is up, and the RNIC's own retries take half an hour. */
TEST_F(Fault, ASilentPathIsLeft)
{
    traffic->PostReceives(58);
    Order("soft0", "drop 100%");
    traffic->Move(100);
    AwaitReports(1);
    EXPECT_GE(CountLines(", and a probe over it"),
              1); /* is not answered, or ended with an error if this takes seconds */
    Order("soft0", "drop 0%");
}

/* Nothing that leaves soft0 arrives when another connection is set up: it begins on its other path. */
TEST_F(Fault, APathThatDoesNotAnswerAtSetUpIsUsedWhenItDoes)
{
    detour_test::ExpectWarning("path 0 is not used until it answers: soft0 (GID ");
    detour_test::ExpectWarning("path 0 is not used until it answers: soft2 (GID ");
    Order("soft0", "drop 100%");
    Pair late(net);
    late.Connect(0, 2);
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(1, CountLines("paths soft0-soft2 (down), soft1-soft3 ("));
    EXPECT_EQ(1, CountLines("paths soft2-soft0 (down), soft3-soft1 ("));
    Traffic more(late);
    more.Move(50);
    Order("soft0", "drop 0%");
    Until([&] {
        more.Move(20);
        return CountLines("path 0, soft0 to soft2, is in use again") +
                       CountLines("path 0, soft2 to soft0, is in use again") >=
                   2 ||
               HasFailure();
    });
    more.Move(50);
}

void Migrate(const char *device, bool is_drained)
{
    char answer[256];
    ASSERT_EQ(DT_OK, dt_net_drain(dt_plugin_current()->net, device, is_drained, answer, sizeof answer))
        << answer;
}

/* At either end; it stays away, however long, until it is given back. */
TEST_F(Fault, ADrainedDeviceIsLeftAndUsedAgain)
{
    int round = 0;
    for (const char *device : {"soft0", "soft2"}) {
        round++;
        Migrate(device, true);
        AwaitReports(round);
        auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
        while (std::chrono::steady_clock::now() < end && !HasFailure())
            traffic->Move(20);
        EXPECT_EQ(2 * (round - 1), CountLines("is in use again")) << "five times what is stable";
        Migrate(device, false);
        Until([&] {
            traffic->Move(20);
            return CountLines("is in use again") >= 2 * round || HasFailure();
        });
    }
    ExpectReports(2);
    EXPECT_EQ(1, CountLines("is settled: soft0 was drained by the operator"));
    EXPECT_EQ(1, CountLines("is fenced: soft2 was drained by the operator"));
    std::multiset<uint32_t> causes;
    for (const dt_event_record &event : detour_test::ReadSwitches())
        causes.insert(event.cause);
    EXPECT_EQ(2u, causes.count(DETOUR_STAT_CAUSE_DRAINED));
    EXPECT_EQ(2u, causes.count(DETOUR_STAT_CAUSE_PEER_LEFT)) << "the other end of each";
}

/* Its backup is down: it is left once the backup is there, and not before. */
TEST_F(Fault, ADrainedDeviceIsLeftOnceThereIsABackup)
{
    Order("soft1", "down");
    AwaitReports(1);
    Migrate("soft0", true);
    traffic->Move(100);
    EXPECT_EQ(1, CountLines("is settled"));
    Order("soft1", "up");
    AwaitReports(2);
    EXPECT_EQ(1, CountLines("is settled: soft0 was drained by the operator"));
    traffic->Move(100);
}

TEST_F(Fault, AnOrderForADeviceThatIsNotThereNamesThoseThatAre)
{
    char answer[256];
    EXPECT_EQ(DT_NOT_FOUND, dt_net_drain(dt_plugin_current()->net, "soft9", true, answer, sizeof answer));
    EXPECT_STREQ("no device named 'soft9' is in use; there are soft0 soft1 soft2 soft3", answer);
}

/* The backup alone: nothing that is in use notices. */
TEST_F(Fault, OfTheBackupDisturbsNoTraffic)
{
    FailUnderTraffic("soft3", "down");
    EXPECT_EQ(1, CountLines("0 messages again over soft0"));
}

/* One device, both ends on it: its next epoch is the second path. */
TEST(One, DeviceIsItsOwnBackup)
{
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    pair.Connect(0, 0);
    Traffic traffic(pair);
    traffic.Move(50);
    traffic.PostReceives(58);
    Order("soft0", "down");
    traffic.PostSends(58);
    Until([&] {
        traffic.Reap();
        return CountLines("epoch 0 is settled") >= 1; /* its retries are over: DETOUR_TIMEOUT is short here */
    });
    Order("soft0", "up");
    traffic.Move(200);
    EXPECT_EQ(2, CountLines("is in use again as epoch 1"));
}

/* A link that is back before the retries are over: nothing has happened. */
TEST(One, ShortLossOfTheOnlyLinkIsNothing)
{
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    pair.Connect(0, 0);
    Traffic traffic(pair);
    traffic.Move(50);
    traffic.PostReceives(58);
    Order("soft0", "down");
    traffic.PostSends(58);
    usleep(100000);
    Order("soft0", "up");
    traffic.Move(200);
    EXPECT_EQ(0, CountLines("is settled"));
    EXPECT_EQ(0, CountLines("is fenced"));
}

/* One path, whose device no longer reports completions: the peer has the messages. */
TEST(Two, ASilentCompletionQueueIsDetectedByThePeersMessages)
{
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    pair.Connect(0, 1);
    Traffic traffic(pair);
    traffic.Move(50);
    std::string rule = AddRule("device=soft0 silent");
    Until([&] {
        traffic.PostReceives(1 << 20); /* until the rule is in force, and a little longer */
        traffic.PostSends(1 << 20);
        traffic.Reap();
        return CountLines("is settled: its completion queue is silent: the peer has had ") >= 1 ||
               HasFailure();
    });
    EXPECT_GE(Fired(rule), 1u);
    Inject("remove " + rule);
    traffic.Move(100);
    EXPECT_GE(CountLines("is in use again as epoch"), 2);
}

/*
 * The only path, and messages under way: the sender has the receiver's keys of before, and gets those of now
 * over the path itself. Twice, since the second time the keys of the first are old, and no message is
 * between.
 */
TEST(Two, MessagesUnderWayTakeTheKeysOfADeviceThatIsBack)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    pair.Connect(0, 1);
    Traffic traffic(pair);
    traffic.Move(50);
    traffic.PostReceives(58);
    Order("soft0", "drop 100%");
    Until([&] {
        traffic.PostSends(58);
        return traffic.HasBegun(58) || ::testing::Test::HasFailure();
    });
    for (int round = 1; round <= 2; round++) {
        Order("soft1", "fatal");
        Until([&] {
            traffic.Reap();
            return CountLines("DEVICE_FATAL (") >= round || ::testing::Test::HasFailure();
        });
        Order("soft1", "plug");
        Until([&] {
            traffic.Reap();
            return CountLines("the device is back") >= round || ::testing::Test::HasFailure();
        });
    }
    EXPECT_EQ(50, traffic.Received());
    Order("soft0", "drop 0%");
    traffic.Move(100);
    EXPECT_GE(CountLines("is in use again as epoch"), 2);
}

TEST(One, NoPathForTooLongIsOneErrorWithItsCause)
{
    detour_test::ExpectWarning("connection "); // the end that gives up first tells the other
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    Pair pair(net);
    pair.Connect(0, 0);
    Traffic traffic(pair);
    traffic.Move(50);
    Buffer &from = pair.Register(pair.send, 1000, 1), &to = pair.Register(pair.recv, 1000, 0);
    void *receive = pair.Receive(to.data(), 1000, 0, to.mhandle);
    void *send = pair.Send(from.data(), 1000, 0, from.mhandle);
    (void)send;
    Order("soft0", "down");
    void *second = pair.Receive(to.data(), 1000, 0, to.mhandle);
    auto error = [&](void *request) {
        ncclResult_t result = ncclSuccess;
        Until([&] {
            int done = 0;
            result = net->test(request, &done, nullptr);
            return result != ncclSuccess;
        });
        return result;
    };
    (void)receive;
    EXPECT_EQ(ncclRemoteError, error(second));
    void *request = nullptr;
    Until([&] { // refused by isend, or by test where the receiver gave up first and has closed
        ncclResult_t result = net->isend(pair.send, from.data(), 1000, 0, from.mhandle, &request);
        return result == ncclRemoteError || request;
    });
    if (request) {
        EXPECT_EQ(ncclRemoteError, error(request));
    }
    EXPECT_GE(CountLines("no path for"), 1); /* the end that gives up first; the other one is notified */
    EXPECT_GE(CountLines(", vendor_err 0x"), 1);
}

/* The default device does not work: the connection comes up on its second path, and works. */
TEST(Alone, ADeadDefaultDeviceIsNoReasonNotToConnect)
{
    detour_test::ExpectWarning("soft0");
    ASSERT_EQ(ncclSuccess, net->init(nullptr));
    {
        Pair opener(net); // devices are opened by the first connection
        opener.Connect(1, 1);
    }
    Order("soft0", "fatal");
    Pair pair(net);
    pair.Connect(0, 0); // its second path is soft1 at both ends
    ASSERT_FALSE(HasFailure());
    Buffer &from = pair.Register(pair.send, 1000, 1), &to = pair.Register(pair.recv, 1000, 0);
    for (int i = 0; i < 100; i++)
        MoveOne(pair, from, to);
    EXPECT_EQ(from.bytes, to.bytes);
}
} // namespace
