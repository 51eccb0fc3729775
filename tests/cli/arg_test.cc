/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arg.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>

namespace
{
/* What a call writes to standard error; it must return `expected`. */
std::string Line(int expected, const std::function<int()> &call)
{
    testing::internal::CaptureStderr();
    int error = call();
    std::string text = testing::internal::GetCapturedStderr();
    EXPECT_EQ(expected, error) << text;
    return text;
}

TEST(Arg, CountsAreWholeNumbersInTheirRange)
{
    uint64_t value = 0;
    for (const char *good : {"2", "7"})
        EXPECT_EQ("", Line(0, [&] { return dt_arg_count("detour x", "-n", good, 2, 7, &value); }));
    EXPECT_EQ(7u, value);
    for (const char *bad : {"", "1", "8", "-3", "2.5", "2K", " 2", "99999999999999999999"})
        EXPECT_EQ(std::string("detour x: -n ") + bad + ": expected a whole number from 2 to 7\n",
                  Line(EINVAL, [&] { return dt_arg_count("detour x", "-n", bad, 2, 7, &value); }));
}

TEST(Arg, NarrowValuesAreLeftAloneByAnError)
{
    int32_t number = 5;
    unsigned size = 6;
    EXPECT_EQ("", Line(0, [&] { return dt_arg_int("d", "-a", "2147483647", 0, INT32_MAX, &number); }));
    EXPECT_EQ(INT32_MAX, number);
    Line(EINVAL, [&] { return dt_arg_int("d", "-a", "2147483648", 0, INT32_MAX, &number); });
    EXPECT_EQ(INT32_MAX, number);
    EXPECT_EQ("", Line(0, [&] { return dt_arg_unsigned("d", "-a", "4294967295", 0, UINT32_MAX, &size); }));
    Line(EINVAL, [&] { return dt_arg_unsigned("d", "-a", "4294967296", 0, UINT32_MAX, &size); });
    EXPECT_EQ(UINT32_MAX, size);
}

TEST(Arg, BytesTakeSuffixes)
{
    uint64_t value = 0;
    EXPECT_EQ("", Line(0, [&] { return dt_arg_bytes("d", "-b", "64K", 1, UINT64_MAX, &value); }));
    EXPECT_EQ(65536u, value);
    EXPECT_EQ("", Line(0, [&] { return dt_arg_bytes("d", "-b", "0", 0, 8, &value); }));
    EXPECT_EQ("d: -b 0: expected a size in bytes such as 8, 64K, 4M or 1G, at least 1\n",
              Line(EINVAL, [&] { return dt_arg_bytes("d", "-b", "0", 1, 8, &value); }));
    EXPECT_EQ("d: -b 9X: expected a size in bytes such as 8, 64K, 4M or 1G\n",
              Line(EINVAL, [&] { return dt_arg_bytes("d", "-b", "9X", 0, 8, &value); }));
}

TEST(Arg, DecimalsAreNeitherNegativeNorInfiniteNorNumbersOfNothing)
{
    double value = 0;
    EXPECT_EQ("", Line(0, [&] { return dt_arg_decimal("d", "-x", "2.5", 10, &value); }));
    EXPECT_EQ(2.5, value);
    for (const char *bad : {"", "x", "-1", "nan", "inf", "10.5", "2.5s"})
        EXPECT_EQ(std::string("d: -x ") + bad + ": expected a number from 0 to 10\n",
                  Line(EINVAL, [&] { return dt_arg_decimal("d", "-x", bad, 10, &value); }));
}

TEST(Arg, MillisecondsBecomeTheNearestNanosecond)
{
    int64_t time_ns = 0;
    EXPECT_EQ("", Line(0, [&] { return dt_arg_ms("d", "-t", "0.0000016", &time_ns); }));
    EXPECT_EQ(2, time_ns);
    EXPECT_EQ("", Line(0, [&] { return dt_arg_ms("d", "-t", "100000", &time_ns); }));
    EXPECT_EQ(100000000000, time_ns);
    EXPECT_NE("", Line(EINVAL, [&] { return dt_arg_ms("d", "-t", "100000.1", &time_ns); }));
}
} // namespace
