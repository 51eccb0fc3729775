/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages through the plugin's entry points over software RNICs, in one process. The environment chooses the
 * posting back end and the number of queue pairs (CMakeLists.txt), so the same tests run on all of them.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>

#include "base/prng.h"
#include "plugin/plugin.h"
#include "tests/harness/harness.h"
#include "tests/plugin/pair.h"

extern "C" const ncclNet_v8_t ncclNetPlugin_v8;

namespace
{
using detour_test::Buffer;
using detour_test::CountWrong;
using detour_test::Fill;
using detour_test::Pair;
using detour_test::Until;

class Data : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.init(nullptr));
    }

    /* Sends `bytes` into a receive of `capacity`, and checks content, size and that nothing else changed. */
    void Transfer(Buffer &from, Buffer &to, size_t bytes, size_t capacity, uint64_t sequence)
    {
        Fill(from.data(), bytes, sequence);
        memset(to.data(), 0xee, capacity);
        void *receive = pair.Receive(to.data(), (int)capacity, 0, to.mhandle);
        void *send = pair.Send(from.data(), (int)bytes, 0, from.mhandle);
        int received = -1;
        pair.Wait(receive, &received);
        ASSERT_EQ((int)bytes, received);
        ASSERT_EQ(0u, CountWrong(to.data(), bytes, sequence)) << bytes << " bytes";
        for (size_t i = bytes; i < capacity; i++)
            ASSERT_EQ(0xee, to.data()[i]) << "byte " << i << " behind a message of " << bytes;
        pair.Wait(send);
    }

    Pair pair{&ncclNetPlugin_v8};
};

TEST_F(Data, SizesFromNothingToMegabytes)
{
    const size_t most = (4 << 20) + 64;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, most, 0);
    Buffer &to = pair.Register(pair.recv, most, 0);
    uint64_t sequence = 0;
    for (size_t bytes :
         {0, 1, 7, 8, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 4096, 65536, 100001, 1 << 20, 4 << 20})
        Transfer(from, to, bytes, bytes + 64, ++sequence);
    for (size_t bytes : {0, 1, 128, 65536})
        Transfer(from, to, bytes, bytes, ++sequence); // the capacity is met exactly
}

TEST_F(Data, ManyMessagesUseEverySlotAgainAndAgain)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 256, 0);
    Buffer &to = pair.Register(pair.recv, 256, 0);
    for (uint64_t i = 0; i < 1000; i++)
        Transfer(from, to, i % 200, 256, i);
}

TEST_F(Data, NothingIsSentBeforeItsReceiveIsPosted)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 8, 0);
    for (int i = 0; i < 1000; i++) {
        void *request = reinterpret_cast<void *>(0x57a1e);
        ASSERT_EQ(ncclSuccess, pair.net->isend(pair.send, from.data(), 8, 0, from.mhandle, &request));
        ASSERT_EQ(nullptr, request) << "NULL must be written, not left";
    }
}

TEST_F(Data, ThirtyTwoRequestsInFlight)
{
    const int count = 32, bytes = 3000;
    pair.Connect();
    Buffer &from = pair.Register(pair.send, count * bytes, 0);
    Buffer &to = pair.Register(pair.recv, count * bytes, 0);
    for (int round = 0; round < 20; round++) {
        std::vector<void *> receives, sends;
        for (int i = 0; i < count; i++) {
            Fill(from.data() + i * bytes, bytes, round * count + i);
            receives.push_back(pair.Receive(to.data() + i * bytes, bytes, 0, to.mhandle));
        }
        for (int i = 0; i < count; i++)
            sends.push_back(pair.Send(from.data() + i * bytes, bytes, 0, from.mhandle));
        // The newest first: what completes on the way is remembered until it is asked for.
        for (int i = count - 1; i >= 0; i--) {
            int received = -1;
            pair.Wait(receives[i], &received);
            ASSERT_EQ(bytes, received);
            ASSERT_EQ(0u, CountWrong(to.data() + i * bytes, bytes, round * count + i));
            pair.Wait(sends[i]);
        }
    }
}

TEST_F(Data, MoreReceivesThanSlotsAreRefusedForNowAndNeverLost)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 8, 0);
    Buffer &to = pair.Register(pair.recv, 8, 0);
    std::vector<void *> receives;
    for (;;) {
        void *data = to.data(), *request = nullptr;
        int size = 8, tag = 0;
        ASSERT_EQ(ncclSuccess, pair.net->irecv(pair.recv, 1, &data, &size, &tag, &to.mhandle, &request));
        if (!request)
            break;
        receives.push_back(request);
        ASSERT_LE(receives.size(), 1000u);
    }
    EXPECT_GE(receives.size(), (size_t)NCCL_NET_MAX_REQUESTS);
    std::vector<void *> sends;
    for (size_t i = 0; i < receives.size(); i++)
        sends.push_back(pair.Send(from.data(), 8, 0, from.mhandle));
    for (size_t i = 0; i < receives.size(); i++) {
        pair.Wait(receives[i]);
        pair.Wait(sends[i]);
    }
    Transfer(from, to, 8, 8, 1);
}

/* A grouped receive: tags in one order, isends in any other. */
TEST_F(Data, GroupedReceivesMatchTagsInAnyOrder)
{
    const int most = 5000;
    dt_prng prng;
    dt_prng_init(&prng, 2);
    pair.Connect();
    Buffer &from = pair.Register(pair.send, DT_PARTS_MAX * most, 0);
    Buffer &to = pair.Register(pair.recv, DT_PARTS_MAX * most, 0);
    for (int round = 0; round < 200; round++) {
        int n = (int)dt_prng_between(&prng, 1, DT_PARTS_MAX);
        void *data[DT_PARTS_MAX], *mhandles[DT_PARTS_MAX], *sends[DT_PARTS_MAX];
        int capacity[DT_PARTS_MAX], tags[DT_PARTS_MAX], bytes[DT_PARTS_MAX], order[DT_PARTS_MAX];
        memset(to.data(), 0xee, to.bytes.size());
        for (int i = 0; i < n; i++) {
            capacity[i] = (int)dt_prng_between(&prng, 1, most);
            bytes[i] = (int)dt_prng_below(&prng, capacity[i] + 1);
            data[i] = to.data() + i * most;
            mhandles[i] = to.mhandle;
            tags[i] = 100 - i * 7;
            order[i] = i;
            Fill(from.data() + i * most, bytes[i], round * 8 + i);
        }
        for (int i = n; i > 1; i--)
            std::swap(order[i - 1], order[dt_prng_below(&prng, i)]);
        void *receive = pair.Receive(n, data, capacity, tags, mhandles);
        for (int k = 0; k < n; k++) {
            int i = order[k];
            sends[i] = pair.Send(from.data() + i * most, bytes[i], tags[i], from.mhandle);
            if (k + 1 < n) { // the message goes when its last part is there, not before
                EXPECT_FALSE(pair.TestOnce(sends[i]));
                EXPECT_FALSE(pair.TestOnce(receive));
            }
        }
        int received[DT_PARTS_MAX];
        memset(received, 0xff, sizeof received);
        pair.Wait(receive, received);
        for (int i = 0; i < n; i++) {
            ASSERT_EQ(bytes[i], received[i]);
            ASSERT_EQ(0u, CountWrong(to.data() + i * most, bytes[i], round * 8 + i));
            for (int at = bytes[i]; at < most; at++)
                ASSERT_EQ(0xee, to.data()[i * most + at]);
            pair.Wait(sends[i]);
        }
    }
}

TEST_F(Data, AnIsendWhoseTagIsNotInTheMessageWaits)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 16, 0);
    Buffer &to = pair.Register(pair.recv, 16, 0);
    void *data[2] = {to.data(), to.data() + 8}, *mhandles[2] = {to.mhandle, to.mhandle};
    int sizes[2] = {8, 8}, tags[2] = {1, 2};
    void *receive = pair.Receive(2, data, sizes, tags, mhandles);
    void *first = pair.Send(from.data(), 8, 1, from.mhandle);
    for (int tag : {1, 3}) { // its part is taken; it has none
        void *request = reinterpret_cast<void *>(0x57a1e);
        ASSERT_EQ(ncclSuccess, pair.net->isend(pair.send, from.data(), 8, tag, from.mhandle, &request));
        EXPECT_EQ(nullptr, request) << tag;
    }
    void *second = pair.Send(from.data() + 8, 8, 2, from.mhandle);
    pair.Wait(receive);
    pair.Wait(first);
    pair.Wait(second);
}

TEST_F(Data, EqualTagsInOneMessageAreTakenInOrder)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 16, 0);
    Buffer &to = pair.Register(pair.recv, 16, 0);
    Fill(from.data(), 8, 1);
    Fill(from.data() + 8, 8, 2);
    void *data[2] = {to.data(), to.data() + 8}, *mhandles[2] = {to.mhandle, to.mhandle};
    int sizes[2] = {8, 8}, tags[2] = {9, 9};
    void *receive = pair.Receive(2, data, sizes, tags, mhandles);
    void *first = pair.Send(from.data(), 8, 9, from.mhandle);
    void *second = pair.Send(from.data() + 8, 8, 9, from.mhandle);
    pair.Wait(receive);
    EXPECT_EQ(0u, CountWrong(to.data(), 8, 1));
    EXPECT_EQ(0u, CountWrong(to.data() + 8, 8, 2));
    pair.Wait(first);
    pair.Wait(second);
}

TEST_F(Data, ZeroByteMessagesNeedNoMemoryAndConsumeAReceiveEach)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 8, 0);
    Buffer &to = pair.Register(pair.recv, 8, 0);
    for (int i = 0; i < 100; i++) {
        void *receive = pair.Receive(nullptr, 0, 0, nullptr);
        void *send = pair.Send(nullptr, 0, 0, nullptr);
        int received = -1;
        pair.Wait(receive, &received);
        EXPECT_EQ(0, received);
        pair.Wait(send);
    }
    Transfer(from, to, 8, 8, 3);
}

TEST_F(Data, MoreBytesThanPostedIsAnErrorOfBothSizesAndNeverTruncation)
{
    detour_test::ExpectWarning("isend of 9 bytes (tag 0) for an irecv of 8 bytes");
    detour_test::ExpectWarning("the sender closed with 1 messages outstanding"); // logged at the receiver
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 16, 1);
    Buffer &to = pair.Register(pair.recv, 16, 0xee);
    void *receive = pair.Receive(to.data(), 8, 0, to.mhandle);
    void *request = nullptr;
    ncclResult_t result = ncclSuccess;
    Until([&] {
        request = reinterpret_cast<void *>(0x57a1e);
        result = pair.net->isend(pair.send, from.data(), 9, 0, from.mhandle, &request);
        return result != ncclSuccess || request;
    });
    EXPECT_EQ(ncclInvalidUsage, result);
    EXPECT_EQ(nullptr, request);
    for (int i = 0; i < 16; i++)
        EXPECT_EQ(0xee, to.data()[i]);
    // The receiver gets the error.
    Until([&] {
        int done = 0;
        return pair.net->test(receive, &done, nullptr) == ncclRemoteError;
    });
    // From then on every call of the sender returns the same error.
    Until([&] {
        return pair.net->isend(pair.send, from.data(), 8, 0, from.mhandle, &request) == ncclInvalidUsage;
    });
}

TEST_F(Data, BadArgumentsAreErrorsWithOneLineEach)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 8, 0);
    Buffer &to = pair.Register(pair.recv, 8, 0);
    void *data[9], *mhandles[9], *request;
    int sizes[9], tags[9] = {};
    for (int i = 0; i < 9; i++) {
        data[i] = to.data();
        mhandles[i] = to.mhandle;
        sizes[i] = 8;
    }
    detour_test::ExpectWarning("isend: ");
    detour_test::ExpectWarning("irecv: ");
    const ncclNet_v8_t *net = pair.net;
    EXPECT_EQ(ncclInvalidArgument, net->isend(pair.send, from.data(), -1, 0, from.mhandle, &request));
    EXPECT_EQ(ncclInvalidArgument, net->isend(pair.send, from.data(), 8, 0, nullptr, &request));
    EXPECT_EQ(ncclInvalidUsage, net->isend(pair.recv, from.data(), 8, 0, from.mhandle, &request));
    EXPECT_EQ(ncclInvalidArgument, net->irecv(pair.recv, 0, data, sizes, tags, mhandles, &request));
    EXPECT_EQ(ncclInvalidArgument, net->irecv(pair.recv, 9, data, sizes, tags, mhandles, &request));
    EXPECT_EQ(ncclInvalidUsage, net->irecv(pair.send, 1, data, sizes, tags, mhandles, &request));
    sizes[0] = -1;
    EXPECT_EQ(ncclInvalidArgument, net->irecv(pair.recv, 1, data, sizes, tags, mhandles, &request));
    sizes[0] = 8;
    mhandles[0] = nullptr;
    EXPECT_EQ(ncclInvalidArgument, net->irecv(pair.recv, 1, data, sizes, tags, mhandles, &request));
    EXPECT_EQ(nullptr, request);
    Transfer(from, to, 8, 8, 4); // none of it has hurt the connection
}

TEST_F(Data, FlushesThroughTheDeviceThatWrote)
{
    pair.Connect();
    Buffer &from = pair.Register(pair.send, 4096, 0);
    Buffer &to = pair.Register(pair.recv, 4096, 0);
    for (int i = 0; i < 100; i++) {
        Transfer(from, to, 4096, 4096, i);
        void *data[2] = {to.data(), to.data()}, *mhandles[2] = {to.mhandle, to.mhandle}, *flush = nullptr;
        int sizes[2] = {4096, 0};
        ASSERT_EQ(ncclSuccess, pair.net->iflush(pair.recv, 2, data, sizes, mhandles, &flush));
        ASSERT_NE(nullptr, flush);
        pair.Wait(flush);
    }
}

TEST_F(Data, FlushOfNothingIsNothingToWaitFor)
{
    pair.Connect();
    Buffer &to = pair.Register(pair.recv, 8, 0);
    void *data = to.data(), *request = reinterpret_cast<void *>(0x57a1e);
    int size = 0;
    ASSERT_EQ(ncclSuccess, pair.net->iflush(pair.recv, 1, &data, &size, &to.mhandle, &request));
    EXPECT_EQ(nullptr, request);
}

TEST_F(Data, CloseWithRequestsOutstandingReturnsAndNothingIsWrittenAfterwards)
{
    for (int round = 0; round < 10; round++) {
        Pair own{&ncclNetPlugin_v8};
        own.Connect();
        Buffer &from = own.Register(own.send, 1 << 20, 1);
        Buffer &to = own.Register(own.recv, 1 << 20, 0xee);
        void *unmatched = own.Receive(to.data(), 1 << 20, 0, to.mhandle);
        ASSERT_NE(nullptr, unmatched);
        for (int i = 0; i < 5; i++) {
            ASSERT_NE(nullptr, own.Receive(to.data(), 1 << 20, 0, to.mhandle));
            ASSERT_NE(nullptr, own.Send(from.data(), 1 << 20, 0, from.mhandle));
        }
        // As NCCL does on an abort: deregister, free, close; no request is ever tested.
        std::vector<uint8_t> memory;
        ASSERT_EQ(ncclSuccess, own.net->deregMr(own.recv, to.mhandle));
        to.mhandle = nullptr;
        std::vector<uint8_t> after = to.bytes;
        for (int i = 0; i < 20; i++)
            std::this_thread::yield();
        EXPECT_EQ(after, to.bytes);
    }
}

/* Both directions and several connections, one thread for each end, as fast as they go. */
TEST_F(Data, ManyConnectionsBothWays)
{
    const int connections = 6, messages = 300, window = 8, most = 40000;
    int devices = 0;
    ASSERT_EQ(ncclSuccess, ncclNetPlugin_v8.devices(&devices));
    std::vector<std::thread> threads;
    std::vector<std::unique_ptr<Pair>> pairs;
    for (int c = 0; c < connections; c++) {
        pairs.emplace_back(new Pair(&ncclNetPlugin_v8));
        pairs.back()->Connect(c % devices, c / 2 % devices);
    }
    for (int c = 0; c < connections; c++) {
        Pair &p = *pairs[c];
        Buffer &from = p.Register(p.send, window * most, 0);
        Buffer &to = p.Register(p.recv, window * most, 0);
        threads.emplace_back([&p, &from, c] {
            std::deque<void *> open;
            for (int i = 0; i < messages; i++) {
                if ((int)open.size() == window) {
                    p.Wait(open.front());
                    open.pop_front();
                }
                int bytes = (i * 977 + c) % most;
                Fill(from.data() + i % window * most, bytes, i * 10 + c);
                open.push_back(p.Send(from.data() + i % window * most, bytes, c, from.mhandle));
            }
            for (void *request : open)
                p.Wait(request);
        });
        threads.emplace_back([&p, &to, c] {
            std::deque<void *> open;
            auto finish = [&](int i) {
                int received = -1, bytes = (i * 977 + c) % most;
                p.Wait(open.front(), &received);
                open.pop_front();
                EXPECT_EQ(bytes, received);
                EXPECT_EQ(0u, CountWrong(to.data() + i % window * most, bytes, i * 10 + c));
            };
            for (int i = 0; i < messages; i++) {
                if ((int)open.size() == window)
                    finish(i - window);
                open.push_back(p.Receive(to.data() + i % window * most, most, c, to.mhandle));
            }
            for (int i = messages - window; i < messages; i++)
                finish(i);
        });
    }
    for (std::thread &thread : threads)
        thread.join();
}
} // namespace
