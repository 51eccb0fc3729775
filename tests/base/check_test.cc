/* SPDX-License-Identifier: Apache-2.0 */
#include "base/check.h"

#include <gtest/gtest.h>

namespace
{
class CheckDeathTest : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        GTEST_FLAG_SET(death_test_style, "fast");
    }
};

TEST_F(CheckDeathTest, ABrokenInvariantEndsTheProcessWithItsText)
{
    int count = 1;
    DT_CHECK(count == 1);
    EXPECT_DEATH(DT_CHECK(count == 2), "detour: broken invariant at .*check_test.cc:[0-9]+: count == 2");
}

TEST_F(CheckDeathTest, AnInvariantOfTheMessagePathIsEvaluatedInTestBuildsOnly)
{
    int evaluated = 0;
#ifdef DETOUR_HOT_CHECKS
    DT_CHECK_HOT(++evaluated == 1);
    EXPECT_EQ(1, evaluated);
    EXPECT_DEATH(DT_CHECK_HOT(evaluated == 2), "broken invariant at .*: evaluated == 2");
#else
    DT_CHECK_HOT(++evaluated == 2);
    EXPECT_EQ(0, evaluated);
#endif
}
} // namespace
