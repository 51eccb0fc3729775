/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <string>

#include "delay/trace.h"
#include "tests/harness/harness.h"

namespace
{
constexpr uint64_t kMs = DT_NS_PER_MS;
constexpr uint64_t kS = DT_NS_PER_S;

class DelayTrace : public ::testing::Test
{
  protected:
    void TearDown() override
    {
        dt_delay_trace_destroy(trace);
    }
    dt_status Parse(const std::string &text, const char *link = "", uint64_t iteration_ns = 0)
    {
        dt_delay_trace_destroy(trace);
        trace = nullptr;
        error = {};
        EXPECT_EQ(DT_OK, dt_delay_trace_create(link, &trace));
        return dt_delay_trace_parse(trace, text.data(), text.size(), iteration_ns, &error);
    }
    dt_delay_trace *trace = nullptr;
    dt_delay_error error = {};
};

TEST_F(DelayTrace, ReadsTimesLinksAndLatencies)
{
    ASSERT_EQ(DT_OK,
              Parse("time,link,latency\n# comment\n0.5,a,0.03\n\n1s, b ,10ms # other\r\n2000ms,a,0\n", "a"))
        << error.text;
    EXPECT_EQ(2u, dt_delay_trace_count(trace));
    EXPECT_EQ(0u, dt_delay_trace_at(trace, 0));
    EXPECT_EQ(0u, dt_delay_trace_at(trace, 500 * kMs - 1));
    EXPECT_EQ(30 * kMs, dt_delay_trace_at(trace, 500 * kMs));
    EXPECT_EQ(30 * kMs, dt_delay_trace_at(trace, 2 * kS - 1));
    EXPECT_EQ(0u, dt_delay_trace_at(trace, 2 * kS));
    EXPECT_EQ(DT_NEVER_NS, dt_delay_trace_crash_ns(trace));
}

TEST_F(DelayTrace, ReadsTheIterationForm)
{
    const std::string text = "15;2_3;0.03\n85;2_3;0.00\n120;0_1,5_6;0.04\n190;0_1,2_3;0.01,0.02\n230;;inf";
    ASSERT_EQ(DT_OK, Parse(text, "2_3", 400 * kMs)) << error.text;
    EXPECT_EQ(0u, dt_delay_trace_at(trace, 15 * 400 * kMs - 1));
    EXPECT_EQ(30 * kMs, dt_delay_trace_at(trace, 15 * 400 * kMs));
    EXPECT_EQ(0u, dt_delay_trace_at(trace, 85 * 400 * kMs));
    EXPECT_EQ(20 * kMs, dt_delay_trace_at(trace, 190 * 400 * kMs));
    EXPECT_EQ(230 * 400 * kMs, dt_delay_trace_crash_ns(trace));
    EXPECT_EQ(DT_DELAY_CRASH, dt_delay_trace_at(trace, 1000 * kS));
    ASSERT_EQ(DT_OK, Parse(text, "0_1", 400 * kMs));
    EXPECT_EQ(40 * kMs, dt_delay_trace_at(trace, 150 * 400 * kMs));
    EXPECT_EQ(10 * kMs, dt_delay_trace_at(trace, 200 * 400 * kMs));
    ASSERT_EQ(DT_OK, Parse("0.25;0_1;0.06")) << "in seconds, with its only link";
    EXPECT_EQ(60 * kMs, dt_delay_trace_at(trace, 250 * kMs));
}

TEST_F(DelayTrace, ALinkThatALineDoesNotNameHasNoLatencyFromThenOn)
{
    ASSERT_EQ(DT_OK, Parse("1;a;0.03\n2;b;0.04", "a"));
    EXPECT_EQ(30 * kMs, dt_delay_trace_at(trace, 1 * kS));
    EXPECT_EQ(0u, dt_delay_trace_at(trace, 2 * kS));
}

TEST_F(DelayTrace, OnlyTheCrashedLinkCrashes)
{
    ASSERT_EQ(DT_OK, Parse("1;a;inf", "b"));
    EXPECT_EQ(DT_NEVER_NS, dt_delay_trace_crash_ns(trace));
    ASSERT_EQ(DT_OK, Parse("1,a,inf", "a"));
    EXPECT_EQ(1 * kS, dt_delay_trace_crash_ns(trace));
}

TEST_F(DelayTrace, ACrashWithoutALinkIsEveryLinks)
{
    ASSERT_EQ(DT_OK, Parse("230;;inf"));
    EXPECT_EQ(230 * kS, dt_delay_trace_crash_ns(trace));
    EXPECT_EQ(1u, dt_delay_trace_count(trace));
    ASSERT_EQ(DT_OK, Parse("1;;inf\n2;a;0.03")) << "before any link is named";
    EXPECT_EQ(1 * kS, dt_delay_trace_crash_ns(trace));
    ASSERT_EQ(DT_OK, Parse("1;a;0.03\n2;;inf", "b"));
    EXPECT_EQ(2 * kS, dt_delay_trace_crash_ns(trace));
}

TEST_F(DelayTrace, ReportsWhereTheErrorIs)
{
    EXPECT_EQ(DT_INVALID, Parse("1,a,1ms\n2,b,1ms"));
    EXPECT_STREQ("line 2, column 1: the trace has several links; choose one with link=NAME", error.text);
    EXPECT_EQ(DT_INVALID, Parse("2,a,1ms\n1,a,1ms"));
    EXPECT_STREQ("line 2, column 1: times must not go back", error.text);
    EXPECT_EQ(DT_INVALID, Parse("1,a,1ms x"));
    EXPECT_STREQ("line 1, column 9: expected the end of the line, got 'x'", error.text);
    EXPECT_EQ(DT_INVALID, Parse("1;a,b;1,2,3"));
    EXPECT_STREQ("line 1, column 1: 3 latencies for 2 links: one for all, or one each", error.text);
    EXPECT_EQ(DT_INVALID, Parse("1;;0.5"));
    EXPECT_STREQ("line 1, column 1: no link is named; only the latency `inf` can do without", error.text);
    EXPECT_EQ(DT_INVALID, Parse("1,a,2h"));
    EXPECT_STREQ("line 1, column 1: a latency of more than one hour is not possible", error.text);
    for (const char *text : {"x", "1", "1,", "1,a", "1,a,", "1;a", "1;a;", "1;a,;1", "1;a;1,", "1.,a,1ms",
                             "99999999,a,1", "1x,a,1"})
        EXPECT_EQ(DT_INVALID, Parse(text)) << text;
}

TEST_F(DelayTrace, MemoryThatIsShortIsReported)
{
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, dt_delay_trace_create("", &trace));
    ASSERT_EQ(DT_OK, dt_delay_trace_create("", &trace));
    const char *reason;
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, dt_delay_trace_add(trace, 0, "a", 1, &reason));
    EXPECT_EQ(DT_OK, dt_delay_trace_add(trace, 0, "a", 1, &reason));
}
} // namespace
