/* SPDX-License-Identifier: Apache-2.0 */
// Machines as they are met, each as a sysfs tree under a root of its own and devices with the tables that
// such drivers fill: what discovery makes of them.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/harness/harness.h"
#include "tests/verbs/machine.h"

namespace
{
namespace fs = std::filesystem;
using detour_test::Ipv4;
using detour_test::LinkLocal;
using detour_test::RoceGids;

class Fixture : public detour_test::Machine
{
};

TEST_F(Fixture, EightRoceNicsComeInTheOrderOfTheirSlots)
{
    // The library lists them in the order in which the kernel found them.
    const struct {
        const char *name, *pci;
        int numa;
    } nics[] = {{"mlx5_2", "0000:9a:00.0", 1}, {"mlx5_0", "0000:0c:00.0", 0}, {"mlx5_7", "0000:ce:00.0", 1},
                {"mlx5_1", "0000:12:00.0", 0}, {"mlx5_6", "0000:c0:00.0", 1}, {"mlx5_3", "0000:18:00.0", 0},
                {"mlx5_5", "0000:5e:00.0", 0}, {"mlx5_4", "0000:aa:00.0", 1}};
    const char *const expected[] = {"mlx5_0", "mlx5_1", "mlx5_3", "mlx5_5",
                                    "mlx5_2", "mlx5_4", "mlx5_6", "mlx5_7"};
    uint8_t number = 1;

    for (const auto &nic : nics)
        Add(nic.name, nic.pci, nic.numa, number++).ports[0].speed = 128; // NDR
    Discover();
    ASSERT_EQ(8u, count);
    for (size_t i = 0; i < 8; i++) {
        EXPECT_STREQ(expected[i], list[i].name) << i;
        EXPECT_EQ(i < 4 ? 0 : 1, list[i].numa_node) << i;
        EXPECT_EQ(3u, list[i].gid_index) << "RoCE v2 with the IPv4 address";
        EXPECT_EQ(400000u, list[i].speed_mbps);
        EXPECT_EQ(uint32_t{DT_MEMORY_HOST}, list[i].capabilities);
    }
    EXPECT_STREQ("/sys/devices/pci0000:0c/0000:0c:00.0", list[0].pci_path);
}

TEST_F(Fixture, SoftwareDevicesComeAfterHardwareInTheLibrarysOrder)
{
    for (const char *name : {"rxe1", "rxe0"}) {
        auto script = std::make_unique<fake::DeviceScript>(fake::RoceDevice(name, 1));
        fake::TheWorld().devices.push_back(std::move(script));
    }
    Add("mlx5_0", "0000:0c:00.0", 0, 1);
    Discover();
    ASSERT_EQ(3u, count);
    EXPECT_STREQ("mlx5_0", list[0].name);
    EXPECT_STREQ("rxe1", list[1].name);
    EXPECT_STREQ("rxe0", list[2].name);
    EXPECT_STREQ("", list[1].pci_path);
}

TEST_F(Fixture, InfiniBandHasALidAndItsPortGid)
{
    fake::Port &port = Add("mlx5_0", "0000:0c:00.0", 0, 1).ports[0];
    port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    port.lid = 117;
    port.speed = 64;
    port.gids = {LinkLocal(1, IBV_GID_TYPE_IB), {{}, IBV_GID_TYPE_IB}};
    Discover();
    ASSERT_EQ(1u, count);
    EXPECT_EQ(DT_LINK_INFINIBAND, list[0].link_layer);
    EXPECT_EQ(117u, list[0].lid);
    EXPECT_EQ(0u, list[0].gid_index);
    EXPECT_EQ(200000u, list[0].speed_mbps);
}

TEST_F(Fixture, ADualPortDeviceIsTwoEntriesInOrderAndEachPortHasItsOwnLink)
{
    fake::DeviceScript &nic = Add("mlx4_0", "0000:41:00.0", 1, 1);
    nic.ports.push_back(nic.ports[0]);
    nic.ports[1].gids = RoceGids(2);
    nic.ports[1].state = IBV_PORT_DOWN;
    Add("mlx5_0", "0000:0c:00.0", 0, 3);
    Discover();
    ASSERT_EQ(3u, count);
    EXPECT_STREQ("mlx5_0", list[0].name);
    for (uint32_t port : {1u, 2u}) {
        EXPECT_STREQ("mlx4_0", list[port].name);
        EXPECT_EQ(port, list[port].port);
        EXPECT_EQ(list[1].guid, list[port].guid);
        EXPECT_EQ(2 * port - 1, list[port].card_port) << "no two alike";
        EXPECT_EQ(list[1].pci_path, std::string(list[port].pci_path));
    }
    EXPECT_TRUE(list[1].is_active);
    EXPECT_FALSE(list[2].is_active);
}

// As NCCL's own transport reports them, so that it counts the bandwidth of the slot once.
TEST_F(Fixture, PortsAndVirtualFunctionsOfACardAreToldTogether)
{
    Add("mlx5_0", "0000:12:00.0", 0, 1).image_guid = 0x77;
    Add("mlx5_1", "0000:12:00.1", 0, 2).image_guid = 0x77;
    Add("mlx5_2", "0000:12:08.3", 0, 3).image_guid = 0x77; // a virtual function
    Add("mlx5_3", "0000:13:00.0", 0, 4).image_guid = 0x88;
    Discover();
    ASSERT_EQ(4u, count);
    for (uint32_t i = 0; i < 3; i++) {
        EXPECT_STREQ("/sys/devices/pci0000:12/0000:12:00.0", list[i].card_path) << i;
        EXPECT_EQ(0x77u, list[i].image_guid);
        EXPECT_EQ(1 + i, list[i].card_port) << "each is a port of its own";
        EXPECT_EQ(1u, list[i].port) << "for the library";
    }
    EXPECT_STREQ("/sys/devices/pci0000:12/0000:12:08.3", list[2].pci_path) << "itself";
    EXPECT_STREQ("/sys/devices/pci0000:13/0000:13:00.0", list[3].card_path);
    EXPECT_EQ(1u, list[3].card_port);
}

TEST_F(Fixture, DevicesOfOtherTransportsAreLeftOut)
{
    Add("efa_0", "0000:0c:00.0", 0, 1).transport = IBV_TRANSPORT_UNSPECIFIED;
    Add("iw_0", "0000:0d:00.0", 0, 2).transport = IBV_TRANSPORT_IWARP;
    Add("mlx5_0", "0000:0e:00.0", 0, 3);
    Discover();
    ASSERT_EQ(1u, count);
    EXPECT_STREQ("mlx5_0", list[0].name);
    EXPECT_EQ("[skip-link-layer] verbs: iw_0 is left out: it is neither InfiniBand nor RoCE",
              detour_test::LoggedLines().back());
}

TEST_F(Fixture, ABondIsOneDeviceAtItsFirstFunction)
{
    fake::Port &port = Add("mlx5_bond_0", "0000:c1:00.0", 1, 1).ports[0];
    port.speed = 64;
    Discover();
    ASSERT_EQ(1u, count);
    EXPECT_STREQ("mlx5_bond_0", list[0].name);
    EXPECT_STREQ("/sys/devices/pci0000:c1/0000:c1:00.0", list[0].pci_path);
    EXPECT_EQ(1, list[0].numa_node);
    EXPECT_EQ(200000u, list[0].speed_mbps);
}

TEST_F(Fixture, ANicWithoutAnIpv4AddressUsesWhatItHas)
{
    fake::Port &port = Add("mlx5_0", "0000:0c:00.0", 0, 1).ports[0];
    fake::Gid global = {{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}, IBV_GID_TYPE_ROCE_V2};

    port.gids = {LinkLocal(1, IBV_GID_TYPE_ROCE_V1), LinkLocal(1, IBV_GID_TYPE_ROCE_V2)};
    Discover();
    ASSERT_EQ(1u, count);
    EXPECT_EQ(1u, list[0].gid_index) << "link-local, but version 2";
    port.gids.push_back(global);
    Discover();
    EXPECT_EQ(2u, list[0].gid_index);
}

TEST_F(Fixture, TheUsersGidIndexIsTakenOrThePortIsLeftOut)
{
    Add("mlx5_0", "0000:0c:00.0", 0, 1);
    Add("mlx5_1", "0000:12:00.0", 0, 2).ports[0].gids.resize(2);
    Discover(2);
    ASSERT_EQ(1u, count);
    EXPECT_EQ(2u, list[0].gid_index);
    EXPECT_EQ(0, memcmp(list[0].gid, Ipv4(1, 0).raw, 16));
    EXPECT_EQ("[skip-gid-index] verbs: mlx5_1 port 1 is left out: GID index 2 was asked for, and it is not "
              "one of its GIDs",
              detour_test::LoggedLines().back());
    Discover(1);
    EXPECT_EQ(2u, count);
}

TEST_F(Fixture, AnEmptyEntryIsNoGidEvenWhenAskedFor)
{
    Add("mlx5_0", "0000:0c:00.0", 0, 1).ports[0].gids.push_back({{}, IBV_GID_TYPE_ROCE_V2});
    Discover(4);
    EXPECT_EQ(0u, count);
}

TEST_F(Fixture, XdrIsSeenWhereTheLibraryHasTheWiderMember)
{
    fake::Port &port = Add("mlx5_0", "0000:0c:00.0", 0, 1).ports[0];
    port.speed = 128; // as far as eight bits go
    port.speed_ex = 256;
    Discover();
    EXPECT_EQ(800000u, list[0].speed_mbps);
}

TEST_F(Fixture, PeerMemoryIsAModuleOfTheKernelUnderAnyOfItsNames)
{
    Add("mlx5_0", "0000:0c:00.0", 0, 1);
    for (const char *file :
         {"/sys/module/nvidia_peermem/version", "/sys/kernel/mm/memory_peers/nv_mem/version",
          "/sys/kernel/mm/memory_peers/nv_mem_nc/version"}) {
        AddFile(file);
        Discover();
        EXPECT_EQ(uint32_t{DT_MEMORY_HOST | DT_MEMORY_CUDA}, list[0].capabilities) << file;
        fs::remove(root + file);
        Discover();
        EXPECT_EQ(uint32_t{DT_MEMORY_HOST}, list[0].capabilities) << file;
    }
}

TEST_F(Fixture, DmabufNeedsDriverAndLibrary)
{
    Add("mlx5_0", "0000:0c:00.0", 0, 1);
    fake::TheWorld().knows_dmabuf = true;
    Discover();
    EXPECT_EQ(uint32_t{DT_MEMORY_HOST | DT_MEMORY_DMABUF}, list[0].capabilities);
    fake::Fail("create_pd", ENOMEM);
    Discover();
    EXPECT_EQ(uint32_t{DT_MEMORY_HOST}, list[0].capabilities) << "could not be found out";
    verbs->table.reg_dmabuf_mr = nullptr;
    Discover();
    EXPECT_EQ(uint32_t{DT_MEMORY_HOST}, list[0].capabilities);
}

TEST_F(Fixture, ADeviceWithoutHardwareReachesHostMemoryOnly)
{
    auto script = std::make_unique<fake::DeviceScript>(fake::RoceDevice("rxe0", 1));
    fake::TheWorld().devices.push_back(std::move(script));
    fake::TheWorld().knows_dmabuf = true;
    AddFile("/sys/module/nvidia_peermem/version");
    Discover();
    ASSERT_EQ(1u, count);
    EXPECT_EQ(uint32_t{DT_MEMORY_HOST}, list[0].capabilities);
}
} // namespace
