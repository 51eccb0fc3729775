// SPDX-License-Identifier: Apache-2.0
#include "tests/sched/sched_test.h"

#include "detour/sched_format.h"

using namespace sched_test;

namespace
{
/* Four stages, one per device, 10 ms latency and 1 ms serial on every link. */
struct Delays {
    Arena arena;
    Profile profile = Profile::Uniform(4, 4, 10 * kMs, 10 * kMs, 10 * kMs);
    struct detour_error error = {};
    struct detour_profile *measured = nullptr;

    Delays()
    {
        for (struct detour_link &link : profile.links)
            link = {10 * kMs, 10 * kMs, kMs, kMs};
    }

    bool Read(const std::string &links, const std::vector<int32_t> &ranks = {})
    {
        std::string text = "{\"version\": 1, \"links\": [" + links + "]}";
        struct detour_ranks given = {static_cast<int32_t>(ranks.size()), ranks.data()};
        return detour_delays_from_json(arena, profile.get(), ranks.empty() ? nullptr : &given, "d.json",
                                       text.data(), text.size(), &measured, &error) == DETOUR_OK;
    }

    /* Latencies in milliseconds: forward and backward of each link. */
    std::string Latencies() const
    {
        std::string text;
        for (int i = 0; i < 3; i++)
            text += std::to_string(measured->links[i].forward_ns / kMs) + "/" +
                    std::to_string(measured->links[i].backward_ns / kMs) + " ";
        return text;
    }
};

TEST(Delays, OfALinkAreAddedInTheNamedDirection)
{
    Delays d;
    ASSERT_TRUE(d.Read(R"({"link": 0, "delay_ms": 20}, {"link": 2, "direction": "backward", "delay_ms": 5})"))
        << d.error.text;
    EXPECT_EQ(d.Latencies(), "30/30 10/10 10/15 ");
    EXPECT_EQ(d.profile.links[0].forward_ns, 10 * kMs) << "the healthy profile is not changed";
}

TEST(Delays, AFactorMultipliesAllTimesOfTheLink)
{
    Delays d;
    ASSERT_TRUE(d.Read(R"({"link": 1, "factor": 3}, {"link": 0, "factor": 0.5})")) << d.error.text;
    EXPECT_EQ(d.Latencies(), "10/10 30/30 10/10 ");
    EXPECT_EQ(d.measured->links[1].forward_serial_ns, 3 * kMs);
}

TEST(Delays, TheSlowestEntryOfADirectionCounts)
{
    Delays d;
    ASSERT_TRUE(
        d.Read(R"({"link": 0, "delay_ms": 20}, {"link": 0, "delay_ms": 7}, {"link": 0, "factor": 2})"));
    EXPECT_EQ(d.Latencies(), "30/30 10/10 10/10 ");
}

TEST(Delays, RanksAreMappedToDevices)
{
    Delays d;
    ASSERT_TRUE(d.Read(R"({"from": 2, "to": 4, "delay_ms": 5}, {"from": 0, "to": 1, "delay_ms": 9})",
                       {0, 0, 1, 1, 2, 2, 3, 3}))
        << d.error.text;
    EXPECT_EQ(d.Latencies(), "10/10 15/10 10/10 ") << "ranks 0 and 1 are on one device";
    ASSERT_TRUE(d.Read(R"({"from": 3, "to": 2, "delay_ms": 5})"));
    EXPECT_EQ(d.Latencies(), "10/10 10/10 10/15 ");
}

TEST(Delays, HealthyEntriesAndUnknownMembersChangeNothing)
{
    Delays d;
    ASSERT_TRUE(
        d.Read(R"({"link": 0, "delay_ms": 20, "verdict": "healthy"}, {"from": 0, "to": 3, "delay_ms": 9},
                          {"link": 1, "delay_ms": 2, "verdict": "slow", "samples": 12, "direction": null})"))
        << d.error.text;
    EXPECT_EQ(d.Latencies(), "10/10 12/12 10/10 ");
}

TEST(Delays, ABadEntryIsOneLineWithItsPath)
{
    const char *const bad[] = {
        R"({"link": 3, "delay_ms": 1})",  R"({"link": 0})",
        R"({"link": 0, "delay_ms": -1})", R"({"link": 0, "delay_ms": 1, "direction": "up"})",
        R"({"from": 0, "delay_ms": 1})",  R"({"from": 0, "to": 99, "delay_ms": 1})",
        R"({"link": 0, "factor": "2"})"};
    for (const char *entry : bad) {
        Delays d;
        EXPECT_FALSE(d.Read(entry)) << entry;
        EXPECT_EQ(std::string(d.error.text).rfind("d.json: links[0]", 0), 0u) << d.error.text;
    }
}
} // namespace
