/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/harness/harness.h"
#include "tests/verbs/fake_verbs.h"
#include "verbs/device.h"
#include "verbs/verbs.h"

namespace
{
const fake::Gid kLinkLocalV1 = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1},
                                IBV_GID_TYPE_ROCE_V1};
const fake::Gid kLinkLocalV2 = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, 1},
                                IBV_GID_TYPE_ROCE_V2};
const fake::Gid kIpv4V1 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}, IBV_GID_TYPE_ROCE_V1};
const fake::Gid kIpv4V2 = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 1, 2, 3}, IBV_GID_TYPE_ROCE_V2};
const fake::Gid kIpv6V2 = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, IBV_GID_TYPE_ROCE_V2};
const fake::Gid kEmpty = {{}, IBV_GID_TYPE_ROCE_V2};
const fake::Gid kInfiniBand = {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0x10, 0x20, 0x30},
                               IBV_GID_TYPE_IB};

class Discover : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake::Reset();
        ASSERT_EQ(DT_OK, dt_verbs_open_table(fake::Table(), &verbs));
    }

    void TearDown() override
    {
        dt_verbs_devices_free(list);
        dt_verbs_close(verbs);
        EXPECT_EQ(0, fake::TheWorld().live);
    }

    enum dt_status List()
    {
        dt_verbs_devices_free(list);
        list = nullptr;
        return dt_verbs_devices(verbs, &list, &count);
    }

    fake::Port &FirstPort()
    {
        return fake::TheWorld().devices[0]->ports[0];
    }

    dt_verbs *verbs = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;
};

TEST_F(Discover, SaysWhatAPortIs)
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

TEST_F(Discover, RoceGidsAreChosenByTypeAndFamily)
{
    const struct {
        std::vector<fake::Gid> gids;
        uint32_t chosen;
    } tables[] = {
        {{kLinkLocalV1, kLinkLocalV2, kIpv4V1, kIpv4V2, kIpv6V2}, 3},
        {{kIpv6V2, kIpv4V2}, 1},
        {{kIpv4V2, kIpv4V2}, 0},
        {{kLinkLocalV1, kLinkLocalV2, kIpv6V2}, 2},
        {{kLinkLocalV1, kLinkLocalV2, kIpv4V1}, 2},
        {{kLinkLocalV1, kLinkLocalV2}, 1},
        {{kEmpty, kEmpty, kLinkLocalV1}, 2},
    };

    for (const auto &table : tables) {
        FirstPort().gids = table.gids;
        ASSERT_EQ(DT_OK, List());
        ASSERT_EQ(2u, count);
        EXPECT_EQ(table.chosen, list[0].gid_index);
        EXPECT_EQ(0, memcmp(list[0].gid, table.gids[table.chosen].raw, 16));
    }
}

/* Where a port gets its link back the order of its GIDs may be another; peers know it by the value. */
TEST_F(Discover, AGidIsLookedUpAgainByItsValue)
{
    dt_device *device;

    FirstPort().gids = {kIpv4V2, kLinkLocalV2};
    ASSERT_EQ(DT_OK, List());
    ASSERT_EQ(DT_OK, dt_device_open(verbs, &list[0], &device));
    EXPECT_EQ(0u, dt_device_get_info(device)->gid_index);
    FirstPort().gids = {kLinkLocalV2, kEmpty, kIpv4V1, kIpv4V2};
    ASSERT_EQ(DT_OK, dt_device_refresh(device));
    EXPECT_EQ(3u, dt_device_get_info(device)->gid_index);
    EXPECT_EQ(0, memcmp(list[0].gid, dt_device_get_info(device)->gid, sizeof list[0].gid));
    FirstPort().gids = {kEmpty};
    EXPECT_EQ(DT_NOT_FOUND, dt_device_refresh(device));
    dt_device_close(device);
}

TEST_F(Discover, APortWithoutAGidIsLeftOut)
{
    FirstPort().gids = {kEmpty};
    ASSERT_EQ(DT_OK, List());
    ASSERT_EQ(1u, count);
    EXPECT_STREQ("fake1", list[0].name);
    EXPECT_EQ("verbs: fake0 port 1 is left out: it has no GID", detour_test::LoggedLines().back());
}

TEST_F(Discover, WithoutGidTypesTheFamilyDecides)
{
    dt_verbs_table table = *fake::Table();
    dt_verbs *old;

    table.query_gid_ex = nullptr;
    FirstPort().gids = {kLinkLocalV2, kIpv4V2};
    ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &old));
    ASSERT_EQ(DT_OK, dt_verbs_devices(old, &list, &count));
    EXPECT_EQ(1u, list[0].gid_index);
    dt_verbs_close(old);
}

TEST_F(Discover, InfiniBandUsesGidZeroAndItsLid)
{
    FirstPort().link_layer = IBV_LINK_LAYER_INFINIBAND;
    FirstPort().lid = 42;
    FirstPort().speed = 128;
    FirstPort().gids = {kInfiniBand};
    ASSERT_EQ(DT_OK, List());
    EXPECT_EQ(DT_LINK_INFINIBAND, list[0].link_layer);
    EXPECT_EQ(42u, list[0].lid);
    EXPECT_EQ(0u, list[0].gid_index);
    EXPECT_EQ(400000u, list[0].speed_mbps);
    EXPECT_EQ(0, memcmp(list[0].gid, kInfiniBand.raw, 16));
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

TEST(Load, ALibraryThatIsNotLibibverbsIsNamedWithWhatItLacks)
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
    EXPECT_NE(std::string::npos, detour_test::LoggedLines().at(0).find("libibverbs.so.1: 26 functions"))
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

/* ---- dt_verbs_device_control ---- */

struct Controlled {
    std::string device;
    dt_control control;
    uint64_t argument;
    int answer = 0;
} controlled;

int RecordControl(const char *device, dt_control control, uint64_t argument)
{
    controlled.device = device;
    controlled.control = control;
    controlled.argument = argument;
    return controlled.answer;
}

class Control : public Discover
{
  protected:
    enum dt_status Do(const char *action)
    {
        dt_verbs_table table = *fake::Table();
        dt_verbs *soft;
        enum dt_status status;

        table.control = RecordControl;
        EXPECT_EQ(DT_OK, dt_verbs_open_table(&table, &soft));
        status = dt_verbs_device_control(soft, "soft7", action, answer, sizeof answer);
        dt_verbs_close(soft);
        return status;
    }

    char answer[200];
};

TEST_F(Control, UnderstandsItsWords)
{
    const struct {
        const char *action;
        dt_control control;
        uint64_t argument;
    } rows[] = {{"down", DT_CONTROL_DOWN, 0},
                {"up", DT_CONTROL_UP, 0},
                {"fatal", DT_CONTROL_FATAL, 0},
                {"drop 5", DT_CONTROL_DROP_NEXT, 5},
                {"drop 0%", DT_CONTROL_DROP_PERCENT, 0},
                {"drop 100%", DT_CONTROL_DROP_PERCENT, 100}};

    for (const auto &row : rows) {
        controlled = {};
        EXPECT_EQ(DT_OK, Do(row.action)) << row.action;
        EXPECT_EQ("soft7", controlled.device);
        EXPECT_EQ(row.control, controlled.control) << row.action;
        EXPECT_EQ(row.argument, controlled.argument) << row.action;
        EXPECT_EQ("soft7: " + std::string(row.action), answer);
    }
}

TEST_F(Control, RefusesEverythingElse)
{
    controlled = {};
    for (const char *action : {"", "Down", "down ", "drop", "drop ", "drop %", "drop -1", "drop 101%",
                               "drop 5 %", "drop 1K", "drop 99999999999999999999999999999", "explode"}) {
        EXPECT_EQ(DT_INVALID, Do(action)) << action;
        EXPECT_EQ("'" + std::string(action) +
                      "' is no action: down, up, fatal, drop N, drop P%, rate R or verbs N",
                  answer);
    }
    EXPECT_EQ("", controlled.device);
}

TEST_F(Control, PassesOnWhatTheDeviceSays)
{
    controlled = {};
    controlled.answer = ENODEV;
    EXPECT_EQ(DT_NOT_FOUND, Do("down"));
    EXPECT_STREQ("no software RNIC named 'soft7' is open in this process", answer);
    controlled.answer = EINVAL;
    EXPECT_EQ(DT_INVALID, Do("up"));
    EXPECT_STREQ("soft7: up: Invalid argument", answer);
}
} // namespace
