/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/harness/harness.h"
#include "tests/verbs/discovery_fixture.h"
#include "verbs/device.h"
#include "verbs/object.h"
#include "verbs/verbs.h"

namespace
{
class Discover : public DiscoveryFixture
{
};

TEST_F(Discover, DescribesAPort)
{
    ASSERT_EQ(DT_OK, List());
    ASSERT_EQ(2u, count);
    EXPECT_STREQ("fake0", list[0].name);
    EXPECT_STREQ("fake1", list[1].name);
    EXPECT_EQ(0x1001u, list[0].guid);
    EXPECT_EQ(1u, list[0].port);
    EXPECT_EQ(100000u, list[0].speed_mbps);
    EXPECT_EQ(4096u, list[0].mtu_bytes);
    EXPECT_EQ(DT_LINK_ETHERNET, list[0].link_layer);
    EXPECT_EQ(-1, list[0].numa_node);
    EXPECT_STREQ("", list[0].pci_path);
    EXPECT_TRUE(list[0].is_active);
    EXPECT_FALSE(list[0].is_soft);
    EXPECT_EQ(uint32_t{DT_MEMORY_HOST}, list[0].capabilities);
    EXPECT_EQ(4096u, list[0].qp_wr_max);
}

/* libibverbs' vendor numbers: Linux' soft-RoCE has made up one of its own. */
TEST_F(Discover, TheVendorNamesTheProvider)
{
    for (auto [vendor_id, name] : {std::pair<uint32_t, const char *>(0x02c9, "mlx5"),
                                   {0xffffff, "rxe"},
                                   {0x8086, "other"},
                                   {0, "other"}}) {
        fake::TheWorld().devices[0]->vendor_id = vendor_id;
        ASSERT_EQ(DT_OK, List());
        EXPECT_STREQ(name, dt_provider_text(list[0].provider)) << vendor_id;
    }
    EXPECT_STREQ("other", dt_provider_text(DT_PROVIDER_COUNT));
}

TEST_F(Discover, ContextsThatAreOldAreAskedTheOldWay)
{
    fake::TheWorld().whole_contexts = false;
    ASSERT_EQ(DT_OK, List());
    ASSERT_EQ(2u, count);
    EXPECT_EQ(100000u, list[1].speed_mbps);
}

TEST_F(Discover, EveryPortIsAnEntryAndOnesThatAreDownAreMarked)
{
    fake::Port second = FirstPort();
    second.state = IBV_PORT_DOWN;
    fake::TheWorld().devices[0]->ports.push_back(second);
    ASSERT_EQ(DT_OK, List());
    ASSERT_EQ(3u, count);
    EXPECT_TRUE(list[0].is_active);
    EXPECT_EQ(2u, list[1].port);
    EXPECT_FALSE(list[1].is_active);
}

TEST_F(Discover, SpeedIsLanesTimesRate)
{
    const struct {
        uint8_t width, speed;
        uint32_t mbps;
    } rows[] = {{1, 1, 2500},    {2, 2, 20000},   {2, 4, 40000},   {2, 8, 40000},     {2, 16, 56000},
                {4, 32, 200000}, {2, 64, 200000}, {8, 32, 300000}, {16, 128, 200000}, {99, 99, 2500}};

    for (const auto &row : rows) {
        FirstPort().width = row.width;
        FirstPort().speed = row.speed;
        ASSERT_EQ(DT_OK, List());
        EXPECT_EQ(row.mbps, list[0].speed_mbps) << int{row.width} << " x " << int{row.speed};
    }
}

TEST_F(Discover, DevicesThatDoNotAnswerAreLeftOut)
{
    for (const char *call : {"create_context", "query_device", "query_port"}) {
        fake::Fail(call, EIO);
        ASSERT_EQ(DT_OK, List());
        ASSERT_EQ(1u, count) << call;
        EXPECT_STREQ("fake1", list[0].name);
        EXPECT_NE(std::string::npos, detour_test::LoggedLines().back().find("fake0")) << call;
    }
}

TEST_F(Discover, NoListIsAnErrorButAKernelWithoutRdmaIsAnEmptyList)
{
    fake::Fail("get_device_list", EMFILE);
    detour_test::ExpectWarning("verbs: no device list: Too many open files");
    EXPECT_EQ(DT_SYSTEM, List());
    fake::Fail("get_device_list", ENOSYS);
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ(0u, count);
    EXPECT_EQ(nullptr, list);
}

TEST_F(Discover, SurvivesEveryFailedAllocation)
{
    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        enum dt_status status = List();
        if (!detour_test_alloc_failed()) {
            ASSERT_EQ(DT_OK, status);
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status);
    }
}

TEST_F(Discover, SysfsGivesPathAndNumaNode)
{
    namespace fs = std::filesystem;
    std::string pattern = (fs::temp_directory_path() / "detour-sysfs-XXXXXX").string();
    ASSERT_NE(nullptr, mkdtemp(pattern.data()));
    fs::path root = fs::canonical(pattern);
    fs::create_directories(root / "devices/pci0000:10/0000:12:00.0");
    fs::create_directories(root / "class/infiniband/fake0");
    fs::create_directory_symlink(root / "devices/pci0000:10/0000:12:00.0",
                                 root / "class/infiniband/fake0/device");
    std::ofstream(root / "devices/pci0000:10/0000:12:00.0/numa_node") << "3\n";
    fake::TheWorld().devices[0]->ibdev_path = root / "class/infiniband/fake0";
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ((root / "devices/pci0000:10/0000:12:00.0").string(), list[0].pci_path);
    EXPECT_EQ(3, list[0].numa_node);
    fs::remove_all(root);
}
} // namespace
