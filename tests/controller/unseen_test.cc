// SPDX-License-Identifier: Apache-2.0
#include "controller/unseen.h"

#include <gtest/gtest.h>

namespace
{
TEST(Unseen, StaysUntilItsTimeIsOver)
{
    dt_unseen unseen = dt_unseen_adopt(false, 100, 50);

    EXPECT_TRUE(dt_unseen_stays(unseen, 149));
    EXPECT_FALSE(dt_unseen_is_over(unseen, 149));
    EXPECT_FALSE(dt_unseen_stays(unseen, 150));
    EXPECT_TRUE(dt_unseen_is_over(unseen, 150));
}

TEST(Unseen, WhatIsSeenOrAControllersOwnNeitherStaysNorIsOver)
{
    for (const dt_unseen &unseen : {dt_unseen{}, dt_unseen_adopt(true, 100, 50)}) {
        EXPECT_FALSE(dt_unseen_stays(unseen, 100));
        EXPECT_FALSE(dt_unseen_is_over(unseen, UINT64_MAX));
    }
}
} // namespace
