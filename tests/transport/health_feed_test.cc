/* SPDX-License-Identifier: Apache-2.0 */
/* The samples that a sender leaves in its ring, as the detection takes them. */
#include "tests/transport/health_senders.h"

namespace
{
using HealthFeed = detour_test::HealthSenders;

/* 30 ms on top of 0.1: three messages are enough, long before the monitor has learned anything. */
TEST_F(HealthFeed, ASurgeIsNoticedAtOnce)
{
    Add(0, "a:1", "soft0");
    Step(3); // twelve messages: what is usual is known
    senders[0].ns_a_message += 30 * DT_NS_PER_MS;
    Step(1);
    Look();
    EXPECT_TRUE(senders[0].sender->health->summary.is_slow);
    now_ns += DT_NS_PER_S;
    Look();
    ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
    EXPECT_NEAR(30e6, static_cast<double>(Of(0).delay_ns), 1e6);
    senders[0].ns_a_message -= 30 * DT_NS_PER_MS;
    Step(100);
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
}

/* No completion at all: the overdue message is reported. */
TEST_F(HealthFeed, AMessageThatDoesNotReturnIsASurge)
{
    Add(0, "a:1", "soft0");
    Step(5);
    dt_connection *c = &senders[0].sender->connection;
    dt_store_release(&c->open_requests, 1u); // complete, but NCCL has not asked
    for (int i = 0; i < 10; i++, now_ns += 100 * DT_NS_PER_MS)
        Look();
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
    dt_store_relaxed(&senders[0].sender->next, senders[0].sender->next + 1);
    now_ns += DT_NS_PER_S; // it may have begun just now: Detour's thread was kept waiting
    Look();
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
    now_ns += 90 * DT_NS_PER_MS;
    Look();
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
    now_ns += 30 * DT_NS_PER_MS;
    Look();
    EXPECT_TRUE(senders[0].sender->health->summary.is_slow);
    now_ns += 20 * DT_NS_PER_S;
    Look();
    EXPECT_GT(Of(0).delay_ns, 19 * DT_NS_PER_S) << "it grows while it is under way";
    dt_store_release(&c->open_requests, 0u);
}

/* Detour's thread may be late: then a sample stands for many messages, and none is missing. */
TEST_F(HealthFeed, AFullRingHasSamplesOfManyMessages)
{
    const uint64_t kCount = 100000;
    Add(0, "a:1", "soft0");
    dt_meter *meter = &senders[0].sender->connection.meter;
    uint64_t began_ns = now_ns;
    auto Send = [&] {
        uint64_t requested_ns = now_ns;
        now_ns += 10 * DT_NS_PER_US; // no clear-to-send
        uint64_t submitted_ns = now_ns;
        now_ns += 30 * DT_NS_PER_US;
        dt_meter_sent(meter, requested_ns, submitted_ns, 100);
        now_ns += 5 * DT_NS_PER_US; // nothing to send
    };
    for (uint64_t i = 0; i < kCount; i++)
        Send();
    dt_sample sum = {};
    uint64_t samples = 0;
    auto Take = [&] {
        for (const dt_sample *sample; (sample = dt_meter_sample(meter)); dt_meter_taken(meter), samples++) {
            uint64_t length_ns = sample->done - sample->submitted;
            sum.messages += sample->messages;
            sum.bytes += sample->bytes;
            sum.service += sample->messages > 1 ? sample->service : length_ns;
            sum.idle += sample->messages > 1 ? sample->idle : 0;
            sum.waited += sample->messages > 1 ? sample->waited : 0;
            sum.done += length_ns - (sample->messages > 1 ? sample->idle : 0);
            EXPECT_LE(sum.submitted, sample->submitted) << "in their order";
            sum.submitted = sample->done;
        }
    };
    Take();
    EXPECT_TRUE(meter->is_keeping);
    EXPECT_GT(sum.submitted, began_ns);
    Send(); // there is room now, for what was kept too
    Take();
    EXPECT_FALSE(meter->is_keeping);
    EXPECT_EQ(kCount + 1, sum.messages);
    EXPECT_EQ((kCount + 1) * 100, sum.bytes);
    EXPECT_EQ((kCount + 1) * 30 * DT_NS_PER_US, sum.service);
    EXPECT_EQ((kCount + 1) * 30 * DT_NS_PER_US, sum.done) << "under way, without what lies between";
    EXPECT_EQ(kCount + 1, meter->row->message_count);
    uint64_t merged = kCount + 1 - DT_METER_SAMPLES_EACH;
    EXPECT_EQ(merged, meter->merged);
    uint64_t of_many = samples - DT_METER_SAMPLES_EACH;
    EXPECT_EQ((merged - of_many) * 15 * DT_NS_PER_US, sum.idle);
    EXPECT_EQ((merged - of_many) * 10 * DT_NS_PER_US, sum.waited);
}

/* The messages between two pauses are one transfer, even if the watch divides it into pieces.
 */
TEST_F(HealthFeed, ALongTransferIsOne)
{
    Add(0, "a:1", "soft0");
    for (uint64_t round = 0; round < 300; round++) {
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t submitted_ns = now_ns;
            now_ns += (round < 150 ? 400 : 600) * DT_NS_PER_US + (i + round) % 3 * 1000;
            dt_meter_sent(&senders[0].sender->connection.meter, submitted_ns, submitted_ns, 1 << 20);
            if (i % 20 != 19)
                continue;
            Look();
            if (round < 290)
                continue;
            ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
            ASSERT_NEAR(1000.0, static_cast<double>(Of(0).transfer_bytes >> 20), 50) << i;
            ASSERT_NEAR(200.0, static_cast<double>(Of(0).delay_ns) / 1e6, 15) << i;
        }
        for (int i = 0; i < 2; i++, now_ns += 100 * DT_NS_PER_MS)
            Look();
    }
}

/* Who is late is Detour's thread, not the peer. */
TEST_F(HealthFeed, SamplesOfManyMessagesBlockNoThread)
{
    Add(0, "a:1", "soft0");
    dt_meter *meter = &senders[0].sender->connection.meter;
    auto Send = [&](int count, uint64_t every_ns) {
        uint64_t look_ns = now_ns + every_ns;
        for (int i = 0; i < count; i++) {
            uint64_t requested_ns = now_ns, submitted_ns = now_ns + 250 * DT_NS_PER_US;
            now_ns = submitted_ns + 200 * DT_NS_PER_US;
            dt_meter_sent(meter, requested_ns, submitted_ns, 65536);
            if (now_ns >= look_ns) {
                Look();
                look_ns = now_ns + every_ns;
            }
        }
    };
    Send(128 * 200, 5 * DT_NS_PER_MS);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict);
    for (int i = 0; i < 20; i++) {
        Send(128 * 20, 75 * DT_NS_PER_MS);
        EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict) << i;
    }
    EXPECT_GT(meter->merged, 0u);
}

/* What is kept comes before a pause, so that the burst does not go on behind it. */
TEST_F(HealthFeed, SamplesOfManyMessagesEndAtAPause)
{
    Add(0, "a:1", "soft0");
    dt_health &health = *senders[0].sender->health;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < DT_METER_SAMPLES_EACH + 70; i++) { // the last 6 are kept
            dt_meter_sent(&senders[0].sender->connection.meter, now_ns, now_ns, 100);
            now_ns += DT_NS_PER_US;
        }
        Look();
        now_ns += 5 * DT_NS_PER_MS;
        Look(); // no end of the burst: not all of it has been seen
    }
    ASSERT_EQ(39u, health.watch.burst_count);
    for (int i = 1; i < 39; i++) // the first is cut, to learn how long pieces have to be
        EXPECT_EQ((DT_METER_SAMPLES_EACH + 70) * 100, health.watch.sizes[i]);
}
} // namespace
