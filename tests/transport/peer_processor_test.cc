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
            *times = {time_ns / 10, 4 * time_ns / 10 + static_cast<PeerProcessor *>(arg)->more_wait_ns};
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

    uint32_t PublishedAt(uint64_t time_ns)
    {
        now_ns = time_ns;
        dt_peer_processor_publish(&receiver->net->health, dt_receiver_of(receiver), now_ns);
        return dt_load_relaxed(&dt_receiver_of(receiver)->processor);
    }

    char from[8] = "payload", to[8] = {};
    uint64_t more_wait_ns = 0;
};

/* A mutex that reports who unlocks it without having locked it: a visit that locks it a second time and
 * unlocks it would do so for this thread, too. */
void CheckErrors(pthread_mutex_t *mutex)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    ASSERT_EQ(0, pthread_mutex_destroy(mutex));
    ASSERT_EQ(0, pthread_mutex_init(mutex, &attributes));
    pthread_mutexattr_destroy(&attributes);
}

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

TEST_F(PeerProcessor, TakesNoLockBeforeAValueCanChange)
{
    Transfer();
    pthread_mutex_t *mutex = &receiver->net->health.mutex;
    CheckErrors(mutex);
    const uint64_t first_ns = now_ns + DT_NS_PER_S;
    PublishedAt(first_ns);
    const uint32_t before = PublishedAt(first_ns + DT_BUSY_EVERY_NS);
    EXPECT_NE(0u, before);
    more_wait_ns = DT_BUSY_EVERY_NS / 2;
    ASSERT_EQ(0, pthread_mutex_lock(mutex));
    for (uint64_t part = 0; part < 10; part++)
        EXPECT_EQ(before, PublishedAt(first_ns + DT_BUSY_EVERY_NS + part * DT_BUSY_EVERY_NS / 10));
    ASSERT_EQ(0, pthread_mutex_unlock(mutex)) << "a visit has locked it, and unlocked it";
    EXPECT_NE(before, PublishedAt(first_ns + 2 * DT_BUSY_EVERY_NS));
}

/* The times of a thread are read once for all connections: the next value is there before this receiver has
 * waited for as long itself. */
TEST_F(PeerProcessor, IsDueWhenTheTimesThatItTookAreReadAgain)
{
    Transfer();
    dt_busy *busy = &receiver->net->health.busy;
    const dt_processor_thread *threads[DT_PROCESSOR_ENDS_THREADS];
    const uint64_t first_ns = now_ns + DT_NS_PER_S;
    PublishedAt(first_ns);
    now_ns = first_ns + DT_BUSY_EVERY_NS;
    ASSERT_EQ(1u, dt_processor_threads(busy, receiver, now_ns, threads)) << "of another connection";
    const uint32_t before = PublishedAt(first_ns + DT_BUSY_EVERY_NS * 3 / 2);
    more_wait_ns = DT_BUSY_EVERY_NS / 2;
    EXPECT_EQ(before, PublishedAt(first_ns + DT_BUSY_EVERY_NS * 2 - 1));
    EXPECT_NE(before, PublishedAt(first_ns + DT_BUSY_EVERY_NS * 2));
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
