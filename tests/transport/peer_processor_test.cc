/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/peer_processor.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/message/receiver.h"
#include "transport/message/send.h"

namespace
{
/* The receiver's threads ran for a tenth of the time and waited for four tenths. */
class PeerProcessor : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
        Register(from, to, sizeof from);
        dt_busy &busy = receiver->net->health.busy;
        busy.read_arg = this;
        busy.read = [](void *arg, int32_t, dt_processor_times *times) {
            uint64_t time_ns = static_cast<PeerProcessor *>(arg)->now_ns;
            *times = {time_ns / 10, 4 * time_ns / 10};
            return true;
        };
    }

    void Transfer()
    {
        dt_request *receive = Irecv(to, sizeof to), *send = nullptr;
        ASSERT_TRUE(StepUntil([&] { return send || (send = Isend(from, sizeof from)); }));
        ASSERT_TRUE(StepUntil([&] { return IsDone(&receive); }));
        ASSERT_TRUE(StepUntil([&] { return IsDone(&send); }));
    }

    std::array<uint8_t, DT_CTS_PROCESSOR_BYTES> OfPeer()
    {
        std::array<uint8_t, DT_CTS_PROCESSOR_BYTES> bytes;
        uint32_t word = dt_load_relaxed(&dt_sender_of(sender)->peer_processor);
        memcpy(bytes.data(), &word, sizeof word);
        return bytes;
    }

    char from[8] = "payload", to[8] = {};
};

TEST_F(PeerProcessor, TravelsWithTheClearToSends)
{
    Transfer();
    Step(); // the first reading; the thread is known by its first message
    Transfer();
    EXPECT_EQ(0, OfPeer()[1]) << "no time has passed between two readings";
    now_ns += DT_NS_PER_S;
    Step();
    Transfer();
    auto bytes = OfPeer();
    EXPECT_NEAR(0.1 * 255, bytes[0], 1);
    EXPECT_NEAR(0.4 * 255, bytes[1], 1);
}

TEST(PeerProcessorBytes, ArePartsOfASecond)
{
    const uint8_t bytes[] = {51, 255, 0, 102};
    uint32_t word;
    dt_processor_thread threads[DT_PROCESSOR_ENDS_THREADS];
    memcpy(&word, bytes, sizeof word);
    dt_peer_processor_read(word, threads);
    EXPECT_DOUBLE_EQ(0.2, threads[0].run_s);
    EXPECT_DOUBLE_EQ(1, threads[0].wait_s);
    EXPECT_DOUBLE_EQ(0, threads[1].run_s);
    EXPECT_DOUBLE_EQ(0.4, threads[1].wait_s);
    EXPECT_DOUBLE_EQ(1, threads[1].window_s);
}
} // namespace
