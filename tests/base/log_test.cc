/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>

#include "base/log.h"
#include "base/status.h"
#include "tests/harness/harness.h"

namespace
{
TEST(Log, KeepsErrnoAndReachesTheSinkWithItsId)
{
    detour_test::ExpectWarning("disk 7 is full");
    errno = EBUSY;
    dt_warn("disk-full", "disk %d is full", 7);
    EXPECT_EQ(EBUSY, errno);
    EXPECT_EQ("[disk-full] disk 7 is full", detour_test::LoggedLines().back());
}

TEST(Status, EveryValueHasAText)
{
#define EXPECT_TEXT(name, value, text) EXPECT_STREQ(text, dt_status_text(name));
    DT_STATUS_LIST(EXPECT_TEXT)
    EXPECT_STREQ("unknown status", dt_status_text(static_cast<dt_status>(4711)));
}

TEST(Harness, AllocationsFailOnceOnDemand)
{
    detour_test_fail_alloc(1);
    void *first = malloc(8), *second = malloc(8), *third = malloc(8);
    EXPECT_NE(nullptr, first);
    EXPECT_EQ(nullptr, second);
    EXPECT_NE(nullptr, third);
    EXPECT_TRUE(detour_test_alloc_failed());
    free(first);
    free(third);
}
} // namespace
