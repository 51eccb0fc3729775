// SPDX-License-Identifier: Apache-2.0
#include "verbs/netdev.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace
{
namespace fs = std::filesystem;

class Netdev : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (fs::temp_directory_path() / "detour-netdev-XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(pattern.data()));
        root = pattern;
        fs::create_directories(Interface("eth2") / "device/infiniband/mlx5_0");
        fs::create_directories(Interface("ib0") / "device/infiniband/mlx5_1");
        fs::create_directories(Interface("eth0") / "device");
    }
    void TearDown() override
    {
        fs::remove_all(root);
    }
    fs::path Interface(const std::string &name)
    {
        return fs::path(root) / "sys/class/net" / name;
    }
    void Stack(const std::string &upper, const std::string &lower)
    {
        fs::create_directories(Interface(upper));
        fs::create_directory_symlink(Interface(lower), Interface(upper) / ("lower_" + lower));
    }
    bool IsOf(const char *interface, const char *device)
    {
        return dt_netdev_is_of(root.c_str(), interface, device);
    }
    std::string root;
};

TEST_F(Netdev, APortsInterfaceIsOfItsDeviceAlone)
{
    EXPECT_TRUE(IsOf("eth2", "mlx5_0"));
    EXPECT_FALSE(IsOf("eth2", "mlx5_1"));
    EXPECT_TRUE(IsOf("ib0", "mlx5_1")) << "IPoIB";
    EXPECT_FALSE(IsOf("eth0", "mlx5_0"));
    EXPECT_FALSE(IsOf("eth9", "mlx5_0")) << "there is none";
    EXPECT_FALSE(IsOf("", "mlx5_0"));
    EXPECT_FALSE(IsOf("eth2", ""));
}

TEST_F(Netdev, SoAreAVlanAndABondOverIt)
{
    Stack("bond0", "eth0");
    EXPECT_FALSE(IsOf("bond0", "mlx5_0"));
    Stack("bond0", "eth2");
    Stack("bond0.100", "bond0");
    EXPECT_TRUE(IsOf("bond0", "mlx5_0"));
    EXPECT_TRUE(IsOf("bond0.100", "mlx5_0"));
    EXPECT_FALSE(IsOf("bond0.100", "mlx5_1"));
}

TEST_F(Netdev, ALoopEnds)
{
    Stack("a", "b");
    Stack("b", "a");
    EXPECT_FALSE(IsOf("a", "mlx5_0"));
}
} // namespace
