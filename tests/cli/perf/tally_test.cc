/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/tally.h"

#include <gtest/gtest.h>

#include <string>

namespace
{
TEST(PerfTally, CountsByKindAndKeepsTheFirstPlace)
{
    dt_perf_tally tally = {};
    dt_perf_tally_add(&tally, DT_PERF_WRONG_LATE, 0, "nothing");
    EXPECT_EQ(0u, dt_perf_tally_total(&tally));
    EXPECT_STREQ("", tally.first);
    dt_perf_tally_add(&tally, DT_PERF_WRONG_RESULT, 3, "rank %d", 7);
    dt_perf_tally_add(&tally, DT_PERF_WRONG_SIZE, 1, "later");
    dt_perf_tally_add(&tally, DT_PERF_WRONG_RESULT, 2, "later");
    EXPECT_EQ(5u, tally.count[DT_PERF_WRONG_RESULT]);
    EXPECT_EQ(1u, tally.count[DT_PERF_WRONG_SIZE]);
    EXPECT_EQ(0u, tally.count[DT_PERF_WRONG_BEYOND]);
    EXPECT_EQ(6u, dt_perf_tally_total(&tally));
    EXPECT_STREQ("rank 7", tally.first);
}

TEST(PerfTally, ALongPlaceIsCut)
{
    dt_perf_tally tally = {};
    dt_perf_tally_add(&tally, DT_PERF_WRONG_RESULT, 1, "%s", std::string(500, 'x').c_str());
    EXPECT_EQ(std::string(sizeof tally.first - 1, 'x'), tally.first);
}
} // namespace
