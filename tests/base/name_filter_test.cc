/* SPDX-License-Identifier: Apache-2.0 */
#include "base/name_filter.h"

#include <gtest/gtest.h>

namespace
{
TEST(NameFilter, FollowsNcclsRules)
{
    EXPECT_TRUE(dt_name_filter_match("", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match("eth", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match("ib,eth", "eth0", 0));
    EXPECT_FALSE(dt_name_filter_match("ib", "eth0", 0));
    EXPECT_FALSE(dt_name_filter_match("eth00", "eth0", 0));
    EXPECT_FALSE(dt_name_filter_match("=eth", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match("=eth0", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match("=ib0,eth0", "eth0", 0)) << "exact for all of the list";
    EXPECT_FALSE(dt_name_filter_match("^eth", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match("^docker,lo", "eth0", 0));
    EXPECT_FALSE(dt_name_filter_match("^docker,lo", "lo", 0));
    EXPECT_TRUE(dt_name_filter_match("^=lo", "lo0", 0));
    EXPECT_FALSE(dt_name_filter_match("^=lo", "lo", 0));
}

TEST(NameFilter, PicksPorts)
{
    EXPECT_TRUE(dt_name_filter_match("mlx5_0", "mlx5_0", 2));
    EXPECT_TRUE(dt_name_filter_match("mlx5_0:2", "mlx5_0", 2));
    EXPECT_FALSE(dt_name_filter_match("mlx5_0:1", "mlx5_0", 2));
    EXPECT_FALSE(dt_name_filter_match("^mlx5_0:2", "mlx5_0", 2));
    EXPECT_TRUE(dt_name_filter_match("^mlx5_0:1", "mlx5_0", 2));
    EXPECT_FALSE(dt_name_filter_match("=mlx5_1:1", "mlx5_10", 1));
    EXPECT_TRUE(dt_name_filter_match("mlx5_1:1", "mlx5_10", 1)) << "a prefix";
    EXPECT_FALSE(dt_name_filter_match("mlx5_0:x", "mlx5_0", 1));
    EXPECT_TRUE(dt_name_filter_match("mlx5_0:", "mlx5_0", 1)) << "any, as NCCL reads it";
}

TEST(NameFilter, RailAndPlaneChooseNoRnic)
{
    EXPECT_TRUE(dt_name_filter_match("mlx5_0:1:3:0", "mlx5_0", 1));
    EXPECT_FALSE(dt_name_filter_match("mlx5_0:1:3:0", "mlx5_0", 2));
    EXPECT_TRUE(dt_name_filter_match("mlx5_0::3:0", "mlx5_0", 2)) << "any port";
    EXPECT_TRUE(dt_name_filter_match("=mlx5_1:1:0,mlx5_2:1:1", "mlx5_2", 1));
    EXPECT_FALSE(dt_name_filter_match("=mlx5_1:1:0,mlx5_2:x:1", "mlx5_2", 1));
    EXPECT_FALSE(dt_name_filter_match("^=mlx5_0:1:2:3", "mlx5_0", 1));
}

TEST(NameFilter, EmptyItemsMeanNothing)
{
    EXPECT_TRUE(dt_name_filter_match(",", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match("^", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match("=", "eth0", 0));
    EXPECT_FALSE(dt_name_filter_match(",ib,", "eth0", 0));
    EXPECT_TRUE(dt_name_filter_match(",,eth", "eth0", 0));
}
} // namespace
