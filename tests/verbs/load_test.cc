/* SPDX-License-Identifier: Apache-2.0 */
/* The system's libibverbs: missing, incomplete, and as it is installed here. */
#include <gtest/gtest.h>

#include <string>

#include "tests/harness/harness.h"
#include "verbs/table.h"

namespace
{
TEST(Load, AMissingLibraryIsOneLine)
{
    char reason[300];
    dt_verbs_table table;

    EXPECT_EQ(DT_NOT_FOUND, dt_table_load("libno-such-verbs.so.9", &table, reason, sizeof reason));
    EXPECT_STREQ(
        "verbs: cannot load the verbs library: libno-such-verbs.so.9: cannot open shared object file: "
        "No such file or directory",
        reason);
}

TEST(Load, ALibraryThatIsNotLibibverbsIsNamedWithItsMissingFunctions)
{
    char reason[300];
    dt_verbs_table table;

    EXPECT_EQ(DT_NOT_FOUND, dt_table_load("libm.so.6", &table, reason, sizeof reason));
    EXPECT_STREQ("verbs: libm.so.6 has no function ibv_get_device_list, so it is not a usable libibverbs",
                 reason);
}

TEST(Load, TheSystemLibraryIsFoundAndItsDevicesAreListed)
{
    char reason[300];
    char answer[200];
    dt_verbs_table table;
    dt_verbs *verbs;
    dt_device_info *list = nullptr;
    size_t count = 0;

    if (dt_table_load("libibverbs.so.1", &table, reason, sizeof reason) != DT_OK)
        GTEST_SKIP() << reason;
    EXPECT_NE(std::string::npos, detour_test::LoggedLines().at(0).find("libibverbs.so.1: 29 functions"))
        << detour_test::LoggedLines().at(0);
    ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &verbs));
    EXPECT_EQ(DT_OK, dt_verbs_devices(verbs, &list, &count));
    for (size_t i = 0; i < count; i++)
        EXPECT_FALSE(list[i].is_soft);
    EXPECT_EQ(DT_UNSUPPORTED, dt_verbs_device_control(verbs, "mlx5_0", "down", answer, sizeof answer));
    EXPECT_STREQ("'mlx5_0' cannot be acted on: this process uses real RNICs", answer);
    dt_verbs_devices_free(list);
    dt_verbs_close(verbs);
}
} // namespace
