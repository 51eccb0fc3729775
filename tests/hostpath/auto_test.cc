// SPDX-License-Identifier: Apache-2.0
#include "hostpath/auto.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "base/clock.h"

namespace
{
const uint64_t ms = DT_NS_PER_MS, s = DT_NS_PER_S;

// A link as `auto` sees it: messages one after the other, or `depth` at a time, with noise.
struct Link {
    dt_auto decision;
    uint64_t now_ns = 0;
    uint64_t bytes;
    uint64_t depth;
    std::mt19937_64 random{1};
    std::vector<uint64_t> on_ns, off_ns;

    Link(uint64_t bytes_, uint64_t depth_ = 1) : bytes(bytes_), depth(depth_)
    {
        dt_auto_init(&decision);
    }
    // 2 GB/s and 30 us, 5 % noise with a tail of hiccups of some milliseconds.
    uint64_t Healthy()
    {
        double us = 30 + (double)bytes * (double)depth / 2000.0;
        std::normal_distribution<double> noise(1, 0.05);
        uint64_t ns = (uint64_t)(us * 1000 * std::max(0.8, noise(random)));

        return random() % 200 == 0 ? ns + random() % (6 * ms) : ns;
    }
    void Message(uint64_t delay_ns)
    {
        uint64_t service_ns = Healthy() + delay_ns;

        now_ns += service_ns / depth + 300 * DT_NS_PER_US; /* and something else in between */
        if (dt_auto_message(&decision, bytes * depth, service_ns, now_ns))
            (decision.is_on ? on_ns : off_ns).push_back(now_ns);
    }
    void Until(uint64_t end_ns, uint64_t delay_ns)
    {
        while (now_ns < end_ns)
            Message(delay_ns);
    }
};

struct Case {
    uint64_t bytes, depth;
};

class Auto : public ::testing::TestWithParam<Case>
{
};

// The issue's own case: 30 ms more from t=5 s to t=15 s.
TEST_P(Auto, NoticesThirtyMillisecondsAndTheirEndOnce)
{
    Link link(GetParam().bytes, GetParam().depth);

    link.Until(5 * s, 0);
    EXPECT_TRUE(link.on_ns.empty());
    uint64_t began_ns = link.now_ns;
    for (int i = 0; i < 3; i++)
        link.Message(30 * ms);
    EXPECT_TRUE(link.decision.is_on);
    link.Until(15 * s, 30 * ms);
    EXPECT_TRUE(link.decision.is_on);
    link.Until(25 * s, 0);
    EXPECT_FALSE(link.decision.is_on);
    ASSERT_EQ(1u, link.on_ns.size());
    ASSERT_EQ(1u, link.off_ns.size());
    EXPECT_LE(link.on_ns[0], began_ns + 3 * (30 * ms + 4 * link.Healthy() + ms));
    EXPECT_LE(link.off_ns[0], 15 * s + 2 * s);
}

TEST_P(Auto, IsOffOnAHealthyLink)
{
    Link link(GetParam().bytes, GetParam().depth);

    link.Until(20 * s, 0);
    EXPECT_FALSE(link.decision.is_on);
    EXPECT_TRUE(link.on_ns.empty());
}

INSTANTIATE_TEST_SUITE_P(Sizes, Auto,
                         ::testing::Values(Case{8, 1}, Case{1 << 10, 8}, Case{64 << 10, 4}, Case{1 << 20, 8},
                                           Case{4 << 20, 8}, Case{64 << 20, 1}));

TEST(AutoStart, ALinkThatIsSlowFromTheStartIsNoticed)
{
    Link link(64 << 10);

    for (int i = 0; i < 3; i++)
        link.Message(30 * ms);
    EXPECT_TRUE(link.decision.is_on);
}

// Larger messages take longer: that is no slow link.
TEST(AutoStart, ATrafficThatGrowsIsNotSlow)
{
    Link link(1024);

    for (uint64_t bytes = 1024; bytes <= 64 << 20; bytes *= 4) {
        link.bytes = bytes;
        for (int i = 0; i < 100; i++)
            link.Message(0);
    }
    link.bytes = 1024;
    for (int i = 0; i < 100; i++)
        link.Message(0);
    EXPECT_TRUE(link.on_ns.empty());
}

TEST(AutoFlap, ALinkThatComesAndGoesTurnsItOverLessAndLess)
{
    Link link(256 << 10);

    for (int i = 0; i < 100; i++) { /* a second slow, a second well, for 200 s */
        link.Until((uint64_t)(2 * i + 1) * s, 0);
        link.Until((uint64_t)(2 * i + 2) * s, 30 * ms);
    }
    EXPECT_LE(link.on_ns.size(), 4u);
    EXPECT_TRUE(link.decision.is_on);
    link.Until(400 * s, 0);
    EXPECT_FALSE(link.decision.is_on);
}
} // namespace
