/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends over the host path (DETOUR_HOSTPATH=on in CMakeLists.txt, with pools from one slot up): an isend is
 * done when its payload is staged, whatever the receiver and the link do, and arrives without a further call.
 */
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "base/atomics.h"
#include "base/clock.h"
#include "base/prng.h"
#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"
#include "hostpath/staged/eager.h"
#include "transport/message/send.h"
#include "transport/net_state.h"
#include "hostpath/staged/stage.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::CountWrong;
using detour_test::Fill;
using detour_test::Pair;
using detour_test::Until;

class Hostpath : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
    }
    /* One isend; NULL: not now. */
    void *TrySend(void *data, int bytes, int tag, void *mhandle)
    {
        void *request = reinterpret_cast<void *>(0x57a1e);
        EXPECT_EQ(ncclSuccess, pair.net->isend(pair.send, data, bytes, tag, mhandle, &request));
        return request;
    }
    /* One isend; NULL: the pool is full. */
    void *SendUnlessFull(Buffer &from, int bytes)
    {
        const dt_pool *pool = &net()->hostpath.pool;
        void *request = nullptr;
        Until([&] {
            request = TrySend(from.data(), bytes, 0, from.mhandle); /* Detour's thread may be at it */
            return request || dt_pool_taken(pool) == pool->granule_count || HasFailure();
        });
        return request;
    }
    /* Sends, waits until NCCL would have its buffer back, and overwrites it. */
    void SendAndScribble(Buffer &from, size_t at, int bytes, int tag, uint64_t sequence)
    {
        Fill(from.data() + at, bytes, sequence);
        pair.Wait(pair.Send(from.data() + at, bytes, tag, from.mhandle));
        memset(from.data() + at, 0xdd, bytes);
    }
    /* The last receive of the pair, of this many bytes of this sequence. */
    void ReceiveAndCheck(Buffer &to, int bytes, int tag, uint64_t sequence)
    {
        int received = -1;
        memset(to.data(), 0xee, bytes);
        pair.Wait(pair.Receive(to.data(), bytes, tag, to.mhandle), &received);
        ASSERT_EQ(bytes, received);
        ASSERT_EQ(0u, CountWrong(to.data(), bytes, sequence)) << "message " << sequence;
    }
    static bool HasSaid(const char *part)
    {
        for (const std::string &line : detour_test::LoggedLines())
            if (line.find(part) != std::string::npos)
                return true;
        return false;
    }
    dt_net *net() const
    {
        return dt_plugin_current()->net;
    }
    size_t PoolBytes() const
    {
        return net()->hostpath.pool.bytes;
    }

    Pair pair{&ncclNetPlugin_v8};
};

TEST_F(Hostpath, AnIsendIsDoneBeforeItsReceiveIsPosted)
{
    static const int bytes = 3000, count = 12;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    int staged = 0;
    for (; staged < count; staged++) {
        Fill(from.data(), bytes, staged);
        void *request = SendUnlessFull(from, bytes);
        if (!request)
            break;
        pair.Wait(request);
        memset(from.data(), 0xdd, bytes);
    }
    EXPECT_EQ((int)std::min<size_t>(count, PoolBytes() / net()->hostpath.pool.granule_bytes), staged);
    /* The sender is not called any more. */
    for (int i = 0; i < staged; i++)
        ReceiveAndCheck(to, bytes, 0, i);
}

TEST_F(Hostpath, LargeMessagesAreCopiedByDelegatesAndArriveWhole)
{
    for (int bytes : {65536, 65537, 1 << 20, (3 << 20) + 77}) {
        Pair one(&ncclNetPlugin_v8);
        one.Connect();
        Buffer &from = one.Register(one.send, bytes, 0);
        Buffer &to = one.Register(one.recv, bytes, 0);
        for (int i = 0; i < 5; i++) {
            Fill(from.data(), bytes, i);
            void *receive = one.Receive(to.data(), bytes, 0, to.mhandle);
            one.Wait(one.Send(from.data(), bytes, 0, from.mhandle));
            memset(from.data(), 0xdd, bytes);
            one.Wait(receive);
            ASSERT_EQ(0u, CountWrong(to.data(), bytes, i)) << bytes << " bytes, message " << i;
        }
    }
}

/*
 * Isends of several messages in advance, in any order of their tags; those of one tag in their order. With a
 * pool too small for them some go directly.
 */
TEST_F(Hostpath, GroupedReceivesAreMatchedByTagAndInOrder)
{
    static const int most = 5000, rounds = 300;
    dt_prng prng;
    dt_prng_init(&prng, 7);
    pair.Connect();
    Buffer &from = pair.Register(pair.send, DT_PARTS_MAX * most, 0);
    Buffer &to = pair.Register(pair.recv, DT_PARTS_MAX * most, 0);
    for (int round = 0; round < rounds; round++) {
        int n = (int)dt_prng_between(&prng, 1, DT_PARTS_MAX);
        void *data[DT_PARTS_MAX], *mhandles[DT_PARTS_MAX], *sends[DT_PARTS_MAX] = {}, *receive = nullptr;
        int capacity[DT_PARTS_MAX], tags[DT_PARTS_MAX], bytes[DT_PARTS_MAX], order[DT_PARTS_MAX];
        int received[DT_PARTS_MAX], left = n;
        bool posts_late = dt_prng_chance(&prng, 1, 2);
        for (int i = 0; i < n; i++) {
            capacity[i] = (int)dt_prng_between(&prng, 1, most);
            bytes[i] = (int)dt_prng_below(&prng, capacity[i] + 1);
            data[i] = to.data() + i * most;
            mhandles[i] = to.mhandle;
            tags[i] = i / 2; /* pairs of equal ones: their order counts */
            order[i] = i;
            Fill(from.data() + i * most, bytes[i], round * 8 + i);
        }
        for (int k = 0; k + 3 < n; k += 2)
            if (dt_prng_chance(&prng, 1, 2))
                std::swap_ranges(order + k, order + k + 2, order + k + 2);
        if (!posts_late)
            receive = pair.Receive(n, data, capacity, tags, mhandles);
        ASSERT_TRUE(Until([&] {
            for (int k = 0; k < n; k++) {
                int i = order[k];
                bool follows = i % 2 && !sends[i - 1]; /* the order within a tag */
                if (!sends[i] && !follows)
                    sends[i] = TrySend(from.data() + i * most, bytes[i], tags[i], from.mhandle);
            }
            if (!receive)
                receive = pair.Receive(n, data, capacity, tags, mhandles);
            return std::all_of(sends, sends + n, [](void *send) { return send != nullptr; });
        }));
        while (left > 0) {
            for (int i = 0; i < n; i++)
                if (sends[i] && pair.TestOnce(sends[i])) {
                    memset(from.data() + i * most, 0xdd, most);
                    sends[i] = nullptr;
                    left--;
                }
            ASSERT_FALSE(HasFailure());
        }
        pair.Wait(receive, received);
        for (int i = 0; i < n; i++) {
            ASSERT_EQ(bytes[i], received[i]) << "round " << round << ", part " << i;
            ASSERT_EQ(0u, CountWrong(to.data() + i * most, bytes[i], round * 8 + i)) << "round " << round;
        }
    }
}

TEST_F(Hostpath, OfTwoConnectionsOnOnePoolNeitherWaitsForTheOther)
{
    static const int bytes = 4096;
    Pair other(&ncclNetPlugin_v8);
    pair.Connect();
    other.Connect();
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    Buffer &other_from = other.Register(other.send, bytes, 0);
    Buffer &other_to = other.Register(other.recv, bytes, 0);
    int staged = 0;
    Fill(from.data(), bytes, 0);
    while (staged < 100) { /* all the pool, or a hundred: their receives are not posted */
        void *request = SendUnlessFull(from, bytes);
        if (!request)
            break;
        pair.Wait(request);
        staged++;
    }
    for (int i = 0; i < 50; i++) {
        Fill(other_from.data(), bytes, i);
        void *receive = other.Receive(other_to.data(), bytes, 0, other_to.mhandle);
        other.Wait(other.Send(other_from.data(), bytes, 0, other_from.mhandle));
        other.Wait(receive);
        ASSERT_EQ(0u, CountWrong(other_to.data(), bytes, i));
    }
    for (int i = 0; i < staged; i++)
        ReceiveAndCheck(to, bytes, 0, 0);
}

TEST_F(Hostpath, AllMemoryComesBack)
{
    static const int bytes = 2000;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    for (int i = 0; i < 200; i++) {
        SendAndScribble(from, 0, i % 3 ? bytes : 0, 0, i);
        ReceiveAndCheck(to, i % 3 ? bytes : 0, 0, i);
    }
    EXPECT_TRUE(Until([&] { return dt_pool_taken(&net()->hostpath.pool) == 0; }));
    for (int i = 0; i < 50 && SendUnlessFull(from, bytes); i++)
        continue; /* never received */
    pair.Close();
    EXPECT_TRUE(Until([&] { return dt_pool_taken(&net()->hostpath.pool) == 0; }));
}

TEST_F(Hostpath, StagedMessagesAreDeliveredAfterClose)
{
    static const int bytes = 3500;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    SendAndScribble(from, 0, bytes, 0, 5);
    pair.Deregister(from);
    ASSERT_EQ(ncclSuccess, pair.net->closeSend(pair.send));
    pair.send = nullptr;
    ReceiveAndCheck(to, bytes, 0, 5);
}

TEST_F(Hostpath, UnreceivedMessagesAreAbandonedAfterTheLingerTime)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 100, 0);
    SendAndScribble(from, 0, 100, 0, 5);
    detour_test::ExpectWarning("1 staged messages could not be delivered");
    pair.Deregister(from);
    ASSERT_EQ(ncclSuccess, pair.net->closeSend(pair.send));
    pair.send = nullptr;
    EXPECT_TRUE(Until([&] { return HasSaid("could not be delivered"); }));
}

TEST_F(Hostpath, AReceiverThatClosesFailsStagedMessages)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 100, 0);
    SendAndScribble(from, 0, 100, 0, 5);
    detour_test::ExpectWarning(
        " messages outstanding"); /* how many more were staged before it was noticed: chance */
    ASSERT_EQ(ncclSuccess, pair.net->closeRecv(pair.recv));
    pair.recv = nullptr;
    void *request = nullptr;
    int done = 0;
    EXPECT_TRUE(Until([&] { // staged and done, until the sender knows; from then on an error of its test
        if (!request) {
            EXPECT_EQ(ncclSuccess, pair.net->isend(pair.send, from.data(), 100, 0, from.mhandle, &request));
        }
        ncclResult_t result = request ? pair.net->test(request, &done, nullptr) : ncclSuccess;
        if (done)
            request = nullptr;
        return result == ncclRemoteError;
    }));
}

TEST_F(Hostpath, ClosingWithCopiesUnderWayReadsNothingAfterwards)
{
    static const int bytes = 8 << 20;
    for (int i = 0; i < 10; i++) {
        Pair one(&ncclNetPlugin_v8);
        one.Connect();
        auto *data = static_cast<uint8_t *>(calloc(1, bytes));
        void *mhandle, *request = nullptr;
        ASSERT_EQ(ncclSuccess, one.net->regMr(one.send, data, bytes, NCCL_PTR_HOST, &mhandle));
        ASSERT_EQ(ncclSuccess, one.net->isend(one.send, data, bytes, 0, mhandle, &request));
        ASSERT_EQ(ncclSuccess, one.net->deregMr(one.send, mhandle)); /* as an abort does */
        free(data);
        ASSERT_EQ(ncclSuccess, one.net->closeSend(one.send));
        one.send = nullptr;
    }
}

/* Messages that are at the receiver before it asks for them (hostpath/staged/eager.h). */
class Eager : public Hostpath
{
  protected:
    void TearDown() override
    {
        Command("clear"); /* the rules are the process's, and would be the next test's, too */
    }
    void Command(const char *text)
    {
        char answer[200];
        EXPECT_EQ(DT_OK, dt_net_inject_command(net(), text, answer, sizeof answer)) << answer;
    }
    dt_sender *sender() const
    {
        return dt_sender_of(static_cast<dt_connection *>(pair.send));
    }
    /* Payloads that the receiver's device has, by what the sender counts. */
    uint64_t Arrived() const
    {
        const dt_page_connection *row = sender()->connection.meter.row;
        uint64_t count = 0;
        for (const uint64_t &bucket : row->service_count)
            count += dt_load_relaxed(&bucket);
        return count;
    }
    /* The receiver grants memory, and the sender has seen that it takes messages from there. */
    void AwaitGrant(Buffer &from, Buffer &to)
    {
        const dt_eager *eager = &sender()->stage->eager;
        Until([&] { return dt_load_acquire(&eager->is_granted) || HasFailure(); });
        void *receive = pair.Receive(to.data(), 64, 0, to.mhandle);
        pair.Wait(pair.Send(from.data(), 64, 0, from.mhandle));
        pair.Wait(receive);
        Until([&] { return Arrived() == 1 || HasFailure(); });
    }
};

TEST_F(Eager, AMessageIsReceivedThoughTheLinkHasStoppedMeanwhile)
{
    static const std::vector<int> sizes = {0, 1, 3000, 65536, 65537, 500000};
    static const int most = 500000;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, most, 0);
    Buffer &to = pair.Register(pair.recv, most, 0);
    AwaitGrant(from, to);
    for (int bytes : sizes) {
        uint64_t arrived = Arrived();
        for (int i = 0; i < 3; i++)
            SendAndScribble(from, 0, bytes, 7, i);
        Until([&] { return Arrived() == arrived + 3 || HasFailure(); });
        Command("add latency=1h"); /* whatever is posted from now on does not come */
        for (int i = 0; i < 3; i++)
            ReceiveAndCheck(to, bytes, 7, i);
        Command("clear");
    }
}

TEST_F(Eager, EachTagHasItsOwnOrder)
{
    static const int bytes = 1000;
    static const int tags[] = {5, 6, 5, 7, 6, 5};
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 6 * bytes, 0);
    Buffer &to = pair.Register(pair.recv, 6 * bytes, 0);
    AwaitGrant(from, to);
    for (int i = 0; i < 6; i++)
        SendAndScribble(from, i * bytes, bytes, tags[i], i);
    Until([&] { return Arrived() == 7 || HasFailure(); });
    Command("add latency=1h");
    for (int i : {3, 1, 0, 4, 2, 5}) /* another order of the tags, and the same in each */
        ReceiveAndCheck(to, bytes, tags[i], i);
}

/* A message that is too large, or finds no bounce buffer, waits at the sender. */
TEST_F(Eager, APayloadWithoutABufferComesWithItsCts)
{
    static const int bytes = 3000, large = DT_EAGER_BYTES_MAX + 1, count = DT_EAGER_PLACES + 3;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, large, 0);
    Buffer &to = pair.Register(pair.recv, large, 0);
    AwaitGrant(from, to);
    SendAndScribble(from, 0, large, 1, 99);
    for (int i = 0; i < count; i++)
        SendAndScribble(from, 0, bytes, 0, i);
    Until([&] { return Arrived() == 1 + DT_EAGER_PLACES || HasFailure(); });
    for (int i = 0; i < count; i++)
        ReceiveAndCheck(to, bytes, 0, i);
    ReceiveAndCheck(to, large, 1, 99);
    Until([&] { return Arrived() == 2u + count || HasFailure(); });
}

/* A grouped receive takes no eager payload: it is sent directly, and the bounce buffer is reused. */
TEST_F(Eager, ADeclinedPayloadIsSentDirectly)
{
    static const int bytes = 2000;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 2 * bytes, 0);
    Buffer &to = pair.Register(pair.recv, 2 * bytes, 0);
    AwaitGrant(from, to);
    for (uint32_t round = 0; round < 3 * DT_EAGER_PLACES; round++) {
        for (int part = 0; part < 2; part++)
            SendAndScribble(from, part * bytes, bytes, part, 2 * round + part);
        if (round == 0)
            Until([&] { return Arrived() == 3 || HasFailure(); });
        int received[2] = {-1, -1};
        void *data[2] = {to.data(), to.data() + bytes};
        int sizes[2] = {bytes, bytes}, tags[2] = {0, 1};
        void *mhandles[2] = {to.mhandle, to.mhandle};
        pair.Wait(pair.Receive(2, data, sizes, tags, mhandles), received);
        for (int part = 0; part < 2; part++) {
            ASSERT_EQ(bytes, received[part]);
            ASSERT_EQ(0u, CountWrong(to.data() + part * bytes, bytes, 2 * round + part)) << round;
        }
        SendAndScribble(from, 0, bytes, 3, 1000 + round);
        ReceiveAndCheck(to, bytes, 3, 1000 + round);
    }
    Until([&] { return dt_load_acquire(&sender()->stage->undelivered) == 0 || HasFailure(); });
    uint64_t arrived = Arrived();
    SendAndScribble(from, 0, bytes, 3, 5000);
    Until([&] { return Arrived() == arrived + 1 || HasFailure(); });
    ReceiveAndCheck(to, bytes, 3, 5000);
}

/* All messages of a receiver were sent eagerly, so it may close before the sender has learned of it. */
TEST_F(Eager, AReceiverThatHasAllItWantedMayClose)
{
    static const int bytes = 3000, count = 4;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    AwaitGrant(from, to);
    for (int i = 0; i < count; i++)
        SendAndScribble(from, 0, bytes, 0, i);
    Until([&] { return Arrived() == 1 + count || HasFailure(); });
    for (int i = 0; i < count; i++)
        ReceiveAndCheck(to, bytes, 0, i);
    pair.Deregister(to);
    ASSERT_EQ(ncclSuccess, pair.net->closeRecv(pair.recv));
    pair.recv = nullptr;
    Until([&] { return dt_load_acquire(&sender()->stage->undelivered) == 0 || HasFailure(); });
    EXPECT_FALSE(HasSaid("outstanding"));
}

/* DETOUR_HOSTPATH=auto */
class Auto : public Hostpath
{
  protected:
    void TearDown() override
    {
        char answer[200]; /* the rules are the process's, and would be the next test's, too */
        EXPECT_EQ(DT_OK, dt_net_inject_command(net(), "clear", answer, sizeof answer)) << answer;
    }
    void Message(Buffer &from, Buffer &to)
    {
        void *receive = pair.Receive(to.data(), bytes, 0, to.mhandle);
        pair.Wait(pair.Send(from.data(), bytes, 0, from.mhandle));
        pair.Wait(receive);
    }
    static const int bytes = 3000;

    /* How often it was turned on and off. */
    struct Turns {
        size_t on = 0, off = 0;
        std::string last; // the line of the last turn
    };
    static Turns CountTurns()
    {
        Turns turns;
        for (const std::string &line : detour_test::LoggedLines()) {
            bool is_on = line.find("sends go over the host path") != std::string::npos;
            bool is_off = line.find("sends go directly") != std::string::npos;
            turns.on += is_on;
            turns.off += is_off;
            if (is_on || is_off)
                turns.last = line;
        }
        return turns;
    }
    static double SecondsSince(uint64_t began_ns)
    {
        return (double)(dt_clock_now_ns() - began_ns) / 1e9;
    }
};

TEST_F(Auto, ASlowLinkTurnsItOn)
{
    char error[200];
    pair.Connect();
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    EXPECT_EQ(nullptr, TrySend(from.data(), bytes, 0, from.mhandle)); /* direct: there is no receive */
    for (int i = 0; i < 50; i++)
        Message(from, to);
    ASSERT_EQ(DT_OK, dt_net_inject(net(), "latency=30ms", error, sizeof error)) << error;
    ASSERT_TRUE(Until([&] {
        Message(from, to);
        return HasSaid("sends go over the host path") || HasFailure();
    }));
    SendAndScribble(from, 0, bytes, 0, 77); /* done, though there is no receive */
    ReceiveAndCheck(to, bytes, 0, 77);
}

/* A message is judged by how long it took, not by when NCCL sends the next one: with the test that says done
 * it is no longer under way. */
TEST_F(Auto, JudgesAMessageWhenItIsDone)
{
    pair.Connect();
    const dt_sender *sender = dt_sender_of(static_cast<dt_connection *>(pair.send));
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    for (int i = 0; i < 200; i++) {
        Message(from, to);
        ASSERT_TRUE(sender->stage->decision.is_on || sender->stage->inflight_bytes == 0) << "message " << i;
    }
}

/*
 * The rule comes and goes while messages do. What is asked for is an order of events: off before the
 * rule, on by the third message under it, on for as long as it is there, off after it. When is printed. (The
 * same with times, in virtual time: tests/sim/auto_test.cc.)
 */
TEST_F(Auto, ComesAndGoesWithARuleAndDoesNotFlap)
{
    const int messages_under_the_rule = 30;
    char error[200];
    pair.Connect();
    Buffer &from = pair.Register(pair.send, bytes, 0);
    Buffer &to = pair.Register(pair.recv, bytes, 0);
    /* A machine that is busy with other work can make three messages late by itself, before a usual time is
     * known; that ends. */
    for (int i = 0; i < 100 || CountTurns().on > CountTurns().off; i++)
        Message(from, to);
    Turns before = CountTurns();

    ASSERT_EQ(DT_OK, dt_net_inject(net(), "serial=30ms", error, sizeof error)) << error;
    uint64_t began_ns = dt_clock_now_ns(), on_ns = 0;
    int needed = 0;
    for (int i = 1; i <= messages_under_the_rule; i++) {
        Message(from, to);
        Turns now = CountTurns();
        if (!needed && now.on > before.on) {
            needed = i;
            on_ns = dt_clock_now_ns();
        }
        ASSERT_TRUE(needed || i < 3) << "not noticed after " << i << " messages of 30 ms";
        ASSERT_EQ(before.on + (needed > 0), now.on) << now.last;
        ASSERT_EQ(before.off, now.off) << "after " << i << " messages of 30 ms; " << now.last;
    }
    printf("%s\non after %d messages, %.3f s\n", CountTurns().last.c_str(), needed,
           (double)(on_ns - began_ns) / 1e9);

    ASSERT_EQ(DT_OK, dt_net_inject_command(net(), "clear", error, sizeof error)) << error;
    began_ns = dt_clock_now_ns();
    long count = 0;
    for (; CountTurns().off == before.off && !HasFailure(); count++)
        Message(from, to);
    EXPECT_EQ(before.on + 1, CountTurns().on);
    EXPECT_EQ(before.off + 1, CountTurns().off);
    printf("off after %ld more messages, %.3f s\n", count, SecondsSince(began_ns));
}

} // namespace
