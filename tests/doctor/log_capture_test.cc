/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <string>

#include "base/log.h"
#include "tests/doctor/examination.h"
#include "tests/harness/harness.h"

namespace
{
std::string Finding(const detour_test::Examination &e, size_t index, const char *key)
{
    return detour_test::Examination::Text(e.Fact("findings", index), key);
}

TEST(LogCapture, WarningsAndDevicesThatAreLeftOutBecomeFindings)
{
    detour_test::Examination e;
    dt_doctor_capture_log(&e.report, "devices", DT_LEVEL_PROBLEM);
    dt_warn("a", "mlx5_0: broken");
    dt_info("b", "mlx5_1: 4 queue pairs");
    dt_info("c", "mlx5_2: left out, as it has no port");
    dt_doctor_release_log();
    dt_info("d", "mlx5_3: left out after the end");
    EXPECT_EQ(1u, e.report.counts[DT_LEVEL_PROBLEM]);
    EXPECT_EQ(1u, e.report.counts[DT_LEVEL_WARNING]);
    EXPECT_EQ(0u, e.report.counts[DT_LEVEL_OK]);
    EXPECT_EQ("[a] mlx5_0: broken", Finding(e, 0, "text"));
    EXPECT_EQ("problem", Finding(e, 0, "level"));
    EXPECT_EQ("devices", Finding(e, 0, "topic"));
    EXPECT_EQ("[c] mlx5_2: left out, as it has no port", Finding(e, 1, "text"));
    EXPECT_EQ("warning", Finding(e, 1, "level"));
}

TEST(LogCapture, TheSinkBeforeIsBackAfterwards)
{
    detour_test::Examination e;
    dt_doctor_capture_log(&e.report, "devices", DT_LEVEL_WARNING);
    dt_warn("e", "captured");
    dt_doctor_release_log();
    detour_test::ExpectWarning("for the harness again");
    dt_warn("f", "for the harness again");
    EXPECT_EQ(1u, detour_test::WarningCount());
}
} // namespace
