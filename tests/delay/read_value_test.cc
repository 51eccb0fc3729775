/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/read_value.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

namespace
{
constexpr uint64_t kMs = DT_NS_PER_MS;

/* A text, read from its beginning. */
class ReadValue : public ::testing::Test
{
  protected:
    dt_scan *From(const std::string &from)
    {
        text = from;
        error = {};
        scan = {text.data(), text.size(), 0, &error};
        return &scan;
    }
    /* The value, and nothing behind it. */
    dt_delay_value Value(const std::string &from)
    {
        dt_delay_value value = {};
        EXPECT_TRUE(dt_delay_read_value(From(from), &value)) << error.text;
        EXPECT_TRUE(dt_scan_is_end(&scan)) << from;
        return value;
    }
    std::string text;
    dt_delay_error error = {};
    dt_scan scan = {};
};

TEST_F(ReadValue, ReadsTimesAndDistributions)
{
    dt_delay_value value = Value("normal(30ms, 10ms)");
    EXPECT_EQ(DT_DELAY_NORMAL, value.shape);
    EXPECT_EQ(30 * kMs, value.a);
    EXPECT_EQ(10 * kMs, value.b);
    EXPECT_EQ(DT_DELAY_EXPONENTIAL, Value("exponential(5ms)").shape);
    EXPECT_EQ(1500u, Value("pareto(1ms,1.5)").b);
    EXPECT_EQ(2 * kMs, Value("constant(2ms)").a);
    EXPECT_EQ(DT_DELAY_CONSTANT, Value("2ms").shape);
    dt_delay_rule rule = {};
    EXPECT_TRUE(dt_delay_read_every(From("uniform( 50ms,100ms )"), &rule));
    EXPECT_TRUE(rule.has_every);
    EXPECT_EQ(DT_DELAY_UNIFORM, rule.every.shape);
    EXPECT_EQ(100 * kMs, rule.every.b);
}

TEST_F(ReadValue, RefusesTimesThatNoMessageCouldHave)
{
    dt_delay_value value = {};
    for (const char *bad : {"2h", "uniform(2ms,1ms)", "pareto(0ms,1)", "pareto(1ms,0)", "pareto(1ms)",
                            "gauss(1ms)", "normal(1ms,2ms", "normal 1ms", ""})
        EXPECT_FALSE(dt_delay_read_value(From(bad), &value)) << bad;
    dt_delay_rule rule = {};
    EXPECT_FALSE(dt_delay_read_every(From("1us"), &rule));
    EXPECT_STREQ("line 1, column 1: every= must be at least 1ms", error.text);
    EXPECT_FALSE(dt_delay_read_flap(From("0s/1s"), &rule));
    EXPECT_FALSE(dt_delay_read_flap(From("1s"), &rule));
    EXPECT_FALSE(dt_delay_read_hold(From("0s"), &rule));
    EXPECT_FALSE(dt_delay_read_hold(From("601s"), &rule));
}

TEST_F(ReadValue, ReadsTheTimesOfALinkAndOfAHold)
{
    dt_delay_rule rule = {};
    EXPECT_TRUE(dt_delay_read_flap(From("1s/9s"), &rule));
    EXPECT_EQ(DT_NS_PER_S, rule.down_ns);
    EXPECT_EQ(9 * DT_NS_PER_S, rule.up_ns);
    EXPECT_TRUE(dt_delay_read_hold(From("1.5s"), &rule));
    EXPECT_EQ(DT_DELAY_HOLD, rule.effect);
    EXPECT_EQ(1500 * kMs, rule.to_ns);
}

TEST_F(ReadValue, EitherSizeMayBeLeftOut)
{
    dt_delay_scope scope = {};
    EXPECT_TRUE(dt_delay_read_sizes(From("64K..1M"), &scope));
    EXPECT_EQ(64u << 10, scope.bytes_min);
    EXPECT_EQ(1u << 20, scope.bytes_max);
    EXPECT_TRUE(dt_delay_read_sizes(From("..7"), &scope));
    EXPECT_EQ(0u, scope.bytes_min);
    EXPECT_TRUE(dt_delay_read_sizes(From("7.."), &scope));
    EXPECT_EQ(UINT64_MAX, scope.bytes_max);
    EXPECT_FALSE(dt_delay_read_sizes(From("2..1"), &scope));
    EXPECT_FALSE(dt_delay_read_sizes(From("5"), &scope));
}

TEST_F(ReadValue, AnIdHas16Digits)
{
    uint64_t id = 0;
    EXPECT_TRUE(dt_delay_read_id(From("00ff00000000000A"), &id));
    EXPECT_EQ(0x00ff00000000000aull, id);
    for (const char *bad : {"123", "0123456789abcdeg", "0123456789abcdef0"}) {
        EXPECT_FALSE(dt_delay_read_id(From(bad), &id)) << bad;
        EXPECT_EQ(0u, scan.at) << "the error is at the beginning of the value";
    }
}

TEST_F(ReadValue, KeywordsAndCounts)
{
    int value = 0;
    EXPECT_TRUE(dt_delay_read_keyword(From("ENOMEM"), &dt_delay_errors, &value));
    EXPECT_EQ(ENOMEM, value);
    EXPECT_TRUE(dt_delay_read_keyword(From("bnxt"), &dt_delay_personalities, &value));
    EXPECT_EQ(DT_DELAY_PERSONALITY_BNXT, value);
    EXPECT_FALSE(dt_delay_read_keyword(From("irdma"), &dt_delay_personalities, &value));
    EXPECT_EQ(0u, scan.at);
    uint64_t count = 0;
    EXPECT_TRUE(dt_delay_read_count(From("3"), &count));
    EXPECT_EQ(3u, count);
    EXPECT_FALSE(dt_delay_read_count(From("0"), &count));
}
} // namespace
