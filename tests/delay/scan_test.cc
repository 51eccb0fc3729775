/* SPDX-License-Identifier: Apache-2.0 */
#include "delay/scan.h"

#include <gtest/gtest.h>

#include <string>

namespace
{
/* A text at its beginning, and the first error of it. */
struct Scan : dt_scan {
    explicit Scan(const std::string &content) : dt_scan(), content_(content)
    {
        text = content_.data();
        bytes = content_.size();
        error = &first;
    }
    std::string content_;
    dt_delay_error first = {};
};

TEST(Scan, TakesWordsBlanksAndLines)
{
    Scan scan(" \tpost_send-2 = x\nnext");
    dt_scan_skip_blanks(&scan);
    EXPECT_EQ(11u, dt_scan_word(&scan));
    EXPECT_FALSE(dt_scan_take(&scan, '='));
    dt_scan_skip_blanks(&scan);
    EXPECT_TRUE(dt_scan_take(&scan, '='));
    EXPECT_EQ(0u, dt_scan_word(&scan));
    dt_scan_skip_line(&scan);
    EXPECT_EQ('\n', dt_scan_peek(&scan));
    EXPECT_TRUE(dt_scan_is_at_any(&scan, ";\n"));
    EXPECT_TRUE(dt_scan_take(&scan, '\n'));
    EXPECT_EQ(4u, dt_scan_word(&scan));
    EXPECT_TRUE(dt_scan_is_end(&scan));
    EXPECT_FALSE(dt_scan_is_at_any(&scan, "x")) << "nothing stands at the end";
    EXPECT_FALSE(dt_scan_take(&scan, '\0'));
}

TEST(Scan, AnErrorHasLineColumnAndTheTextAtThem)
{
    Scan scan("one\ntwo th\x01ree;four");
    uint64_t value;
    scan.at = 8;
    EXPECT_FALSE(dt_scan_number(&scan, 9, "a digit", &value));
    EXPECT_STREQ("line 2, column 5: expected a digit, got 'th?ree'", scan.first.text);
    EXPECT_EQ(2u, scan.first.line);
    EXPECT_EQ(5u, scan.first.column);
    EXPECT_EQ(8u, scan.at);
    scan.at = scan.bytes;
    EXPECT_FALSE(dt_scan_expected(&scan, "more"));
    EXPECT_STREQ("line 2, column 16: expected more", scan.first.text);
}

TEST(Scan, NumbersEndAtTheirLimit)
{
    uint64_t value = 0;
    Scan all("18446744073709551615");
    EXPECT_TRUE(dt_scan_number(&all, UINT64_MAX, "a number", &value));
    EXPECT_EQ(UINT64_MAX, value);
    Scan beyond("18446744073709551616");
    EXPECT_FALSE(dt_scan_number(&beyond, UINT64_MAX, "a number", &value));
    Scan limit("100"), above("101");
    EXPECT_TRUE(dt_scan_number(&limit, 100, "a number", &value));
    EXPECT_FALSE(dt_scan_number(&above, 100, "a number", &value));
    EXPECT_EQ(0u, above.at) << "the position is where the error is";
}

TEST(Scan, DecimalsAreBillionths)
{
    uint64_t value = 0;
    Scan half("1.5");
    EXPECT_TRUE(dt_scan_decimal(&half, 2000000000, "a number", &value));
    EXPECT_EQ(1500000000u, value);
    Scan fine("0.0000000019");
    EXPECT_TRUE(dt_scan_decimal(&fine, 2000000000, "a number", &value));
    EXPECT_EQ(1u, value) << "more digits are cut";
    Scan above("2.000000001"), open("2."), point(".5");
    EXPECT_FALSE(dt_scan_decimal(&above, 2000000000, "a number", &value));
    EXPECT_FALSE(dt_scan_decimal(&open, 2000000000, "a number", &value));
    EXPECT_FALSE(dt_scan_decimal(&point, 2000000000, "a number", &value));
}

TEST(Scan, TimesHaveAUnitAndALimit)
{
    const struct {
        const char *text;
        uint64_t ns;
    } good[] = {{"30ms", 30000000},     {"1.5us", 1500},         {"7ns", 7},
                {"2min", 120000000000}, {"0.5h", 1800000000000}, {"1000000s", DT_DELAY_TIME_NS_MAX}};
    uint64_t ns;
    for (const auto &row : good) {
        Scan scan(row.text);
        EXPECT_TRUE(dt_scan_time(&scan, &ns)) << row.text;
        EXPECT_EQ(row.ns, ns) << row.text;
        EXPECT_TRUE(dt_scan_is_end(&scan)) << row.text;
    }
    for (const char *bad :
         {"30", "30 ms", "30mss", "ms", "1000001s", "99999999999999999999h", "18446744073709551615h"}) {
        Scan scan(bad);
        EXPECT_FALSE(dt_scan_time(&scan, &ns)) << bad;
        EXPECT_EQ(0u, scan.at) << bad;
    }
}

TEST(Scan, SizesAndRatesHaveUnitsAndLimits)
{
    uint64_t value;
    uint32_t number;
    Scan size("64K"), large("2000000G"), rate("1.25GB"), zero("0bit"), most("4294967295"),
        beyond("4294967296");
    EXPECT_TRUE(dt_scan_bytes(&size, &value));
    EXPECT_EQ(65536u, value);
    EXPECT_FALSE(dt_scan_bytes(&large, &value));
    EXPECT_TRUE(dt_scan_rate(&rate, &value));
    EXPECT_EQ(10000000000u, value);
    EXPECT_FALSE(dt_scan_rate(&zero, &value));
    EXPECT_EQ(0u, zero.at);
    EXPECT_TRUE(dt_scan_u32(&most, "a number", &number));
    EXPECT_EQ(UINT32_MAX, number);
    EXPECT_FALSE(dt_scan_u32(&beyond, "a number", &number));
}

TEST(Scan, NamesAreBareOrQuotedAndFit)
{
    char name[6];
    Scan bare("mlx5;rest"), quoted("\"a; b\" rest"), cut("123456"), fits("12345"), open("\"abc\nd"),
        empty(";");
    EXPECT_TRUE(dt_scan_name(&bare, "a name", name, sizeof name));
    EXPECT_STREQ("mlx5", name);
    EXPECT_EQ(';', dt_scan_peek(&bare));
    EXPECT_TRUE(dt_scan_name(&quoted, "a name", name, sizeof name));
    EXPECT_STREQ("a; b", name);
    EXPECT_EQ(' ', dt_scan_peek(&quoted));
    EXPECT_TRUE(dt_scan_name(&fits, "a name", name, sizeof name));
    EXPECT_FALSE(dt_scan_name(&cut, "a name", name, sizeof name));
    EXPECT_FALSE(dt_scan_name(&open, "a name", name, sizeof name));
    EXPECT_FALSE(dt_scan_name(&empty, "a name", name, sizeof name));
}
} // namespace
