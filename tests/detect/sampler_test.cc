// SPDX-License-Identifier: Apache-2.0
// A made-up training step: bursts of messages with computation between them.
#include "detect/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace
{
const uint64_t kMs = 1000000;

class Watch : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_sampler_init(&watch);
    }
    // A burst of two overlapping messages.
    void Burst(uint64_t bytes, double slowness, uint64_t waiting_ns)
    {
        for (int i = 0; i < 2; i++) {
            struct dt_sampler_message message = {};
            message.requested_ns = now_ns;
            message.submitted_ns = now_ns + waiting_ns;
            message.done_ns =
                message.submitted_ns + static_cast<uint64_t>(static_cast<double>(bytes) / 2 * (i + 1) *
                                                             slowness * std::exp(0.02 * noise(random)));
            message.bytes = bytes / 2;
            message.messages = 1;
            dt_sampler_add(&watch, &message);
        }
        now_ns = watch.busy_until_ns + 7 * kMs; // the GPU computes
        dt_sampler_idle(&watch, now_ns);
    }
    void Steps(int count, double slowness, uint64_t waiting_ns = 0)
    {
        for (int i = 0; i < count; i++)
            for (uint64_t bytes : {4000000, 4000000, 1000000, 16000000, 2000000})
                Burst(bytes, slowness, waiting_ns);
    }
    dt_sampler watch;
    uint64_t now_ns = 1000 * kMs;
    std::mt19937_64 random{5};
    std::normal_distribution<double> noise;
};

TEST_F(Watch, FindsTheStepAndASlowLinkInIt)
{
    Steps(80, 1);
    EXPECT_EQ(watch.period, 5u);
    dt_verdict verdict = dt_monitor_verdict(&watch.network);
    EXPECT_TRUE(verdict.is_known);
    EXPECT_FALSE(verdict.is_slow);
    Steps(10, 1.4);
    verdict = dt_monitor_verdict(&watch.network);
    EXPECT_TRUE(verdict.is_slow);
    EXPECT_NEAR(verdict.factor, 1.4, 0.05);
    EXPECT_FALSE(dt_monitor_verdict(&watch.waiting).is_slow);
}

TEST_F(Watch, APeerThatIsLateIsNoSlowLink)
{
    Steps(80, 1, 2 * kMs);
    Steps(20, 1, 5 * kMs);
    EXPECT_FALSE(dt_monitor_verdict(&watch.network).is_slow);
    EXPECT_TRUE(dt_monitor_verdict(&watch.waiting).is_slow);
}

TEST_F(Watch, OverlappingMessagesAreCountedOnce)
{
    struct dt_sampler_message message = {now_ns, now_ns, now_ns + 10 * kMs, 100, 1, 0, 0};
    dt_sampler_add(&watch, &message);
    message = {now_ns, now_ns + 5 * kMs, now_ns + 12 * kMs, 100, 1, 0, 0};
    dt_sampler_add(&watch, &message);
    message = {now_ns, now_ns + 6 * kMs, now_ns + 11 * kMs, 100, 1, 0, 0};
    dt_sampler_add(&watch, &message);
    EXPECT_EQ(watch.burst_network_ns, 12 * kMs);
    EXPECT_EQ(watch.burst_waiting_ns, 0u);
    EXPECT_EQ(watch.burst_bytes, 300u);
}

// A benchmark never pauses; nor does a link that is the bottleneck.
TEST_F(Watch, TrafficWithoutAPauseIsJudgedToo)
{
    auto Send = [&](int count, uint64_t ns_each) {
        for (int i = 0; i < count; i++) {
            dt_sampler_message message = {now_ns, now_ns, now_ns + ns_each, 65536, 1, 0, 0};
            now_ns += ns_each;
            dt_sampler_add(&watch, &message);
        }
    };
    Send(4096 * 100, 20000);
    EXPECT_EQ(watch.cut_messages, 4096u) << "pieces of 50 ms at least";
    EXPECT_EQ(watch.period, 1u);
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_known);
    EXPECT_FALSE(dt_monitor_verdict(&watch.network).is_slow);
    Send(4096 * 20, 30000);
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_slow);
    EXPECT_NEAR(dt_monitor_verdict(&watch.network).factor, 1.5, 0.01);
}

/*
 * Messages that are told of together make what they would have made one by one: the same pieces, though those
 * that a piece ends in go beyond its end.
 */
TEST_F(Watch, SeveralMessagesAreThoseThatTheyStandFor)
{
    uint64_t left = 4096 * 200, sent = 0;
    while (sent < left) {
        uint64_t each_ns = sent < 4096 * 100 ? 20000 : 30000, count = 1 + random() % 300;
        /* a fifth of the time nothing is under way, and half of that is waiting for clear-to-send */
        dt_sampler_message message = {now_ns,
                                      now_ns,
                                      now_ns + count * each_ns * 5 / 4,
                                      count * 65536,
                                      count,
                                      count * each_ns / 4,
                                      count * each_ns / 8};
        now_ns = message.done_ns;
        dt_sampler_add(&watch, &message);
        sent += count;
    }
    EXPECT_EQ(watch.period, 1u);
    dt_verdict verdict = dt_monitor_verdict(&watch.network);
    EXPECT_TRUE(verdict.is_slow);
    EXPECT_NEAR(verdict.factor, 1.5, 0.01);
    EXPECT_NEAR(std::exp(watch.network.level) * 65536, 30e-6, 1e-6);
}

/* Longer pieces are no longer waits: no end has become late. */
TEST_F(Watch, WaitingIsOfAsManyMessagesAlways)
{
    auto Send = [&](uint64_t messages, uint64_t together) {
        for (uint64_t sent = 0; sent < messages; sent += together) {
            dt_sampler_message message = {
                now_ns,   now_ns + 80000,         now_ns + together * 140000, together * 65536,
                together, (together - 1) * 80000, (together - 1) * 80000};
            now_ns = message.done_ns;
            dt_sampler_add(&watch, &message);
        }
    };
    Send(512 * 100, 1);
    EXPECT_EQ(watch.cut_messages, 512u);
    ASSERT_TRUE(dt_monitor_verdict(&watch.waiting).is_known);
    Send(512 * 100, 300); // a piece of 512 has 600 now
    EXPECT_FALSE(dt_monitor_verdict(&watch.waiting).is_slow);
    EXPECT_NEAR(dt_monitor_verdict(&watch.waiting).factor, 1, 0.01);
}

/* A machine that has no processor for the sender now and then makes pauses that repeat in nothing. */
TEST_F(Watch, MessagesOfASizeAreJudgedThoughNothingRepeats)
{
    auto Send = [&](int count, double slowness) {
        for (int i = 0; i < count; i++) {
            for (uint64_t messages = 1 + random() % 100; messages > 0; messages--) {
                uint64_t ns = static_cast<uint64_t>(20000 * slowness * std::exp(0.02 * noise(random)));
                dt_sampler_message message = {now_ns, now_ns, now_ns + ns, 65536, 1, 0, 0};
                now_ns += ns;
                dt_sampler_add(&watch, &message);
            }
            now_ns += 3 * kMs;
        }
    };
    Send(1500, 1);
    EXPECT_EQ(0u, dt_sampler_found_period(&watch)) << "it does not change the results of others";
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_known);
    EXPECT_FALSE(dt_monitor_verdict(&watch.network).is_slow);
    Send(500, 1.4);
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_slow);
    EXPECT_NEAR(dt_monitor_verdict(&watch.network).factor, 1.4, 0.05);
    /* What other connections have found is not so here, and nothing is learned anew for it. */
    uint64_t samples = watch.network.sample_count;
    dt_sampler_set_period(&watch, 5);
    EXPECT_EQ(samples, watch.network.sample_count);
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_slow);
    /* Other messages take another time for each byte: a few of them are as nothing. */
    dt_sampler_message other = {now_ns, now_ns, now_ns + 30000, 1024, 1, 0, 0};
    dt_sampler_add(&watch, &other);
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_slow);
    Send(500, 1.4);
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_slow);
    EXPECT_NEAR(dt_monitor_verdict(&watch.network).factor, 1.4, 0.05);
    for (uint32_t i = 0; i < watch.cut_messages / 4 && watch.is_piecewise; i++)
        dt_sampler_add(&watch, &other);
    EXPECT_EQ(0u, watch.period);
    EXPECT_FALSE(dt_monitor_verdict(&watch.network).is_known);
    dt_sampler as_voted = watch;
    dt_sampler_set_period(&as_voted, 5);
    EXPECT_EQ(5u, as_voted.period) << "pieces are over";
    /* And what repeats is found all the same. */
    now_ns += 7 * kMs;
    Send(500, 1);
    Steps(100, 1);
    EXPECT_EQ(5u, watch.period);
    EXPECT_TRUE(dt_monitor_verdict(&watch.network).is_known);
}

TEST_F(Watch, TheVoteOverrulesAndAnImpossibleOneDoesNot)
{
    dt_sampler_set_period(&watch, 10);
    EXPECT_EQ(watch.period, 10u);
    Steps(80, 1);
    EXPECT_EQ(watch.period, 10u);
    EXPECT_EQ(watch.network.sample_count, 40u);
    dt_sampler_set_period(&watch, 0);
    dt_sampler_set_period(&watch, DT_SAMPLER_PERIOD_MAX + 1);
    EXPECT_EQ(watch.period, 10u);
}

TEST_F(Watch, TrafficWithoutAPatternIsNotJudged)
{
    for (int i = 0; i < 500; i++)
        Burst(1000 + random() % 1000000, 1, 0);
    EXPECT_EQ(watch.period, 0u);
    EXPECT_FALSE(dt_monitor_verdict(&watch.network).is_known);
}
} // namespace
