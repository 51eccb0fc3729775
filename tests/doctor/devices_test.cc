/* SPDX-License-Identifier: Apache-2.0 */
// Findings of the doctor on machines as they occur.
#include "tests/doctor/examination.h"
#include "tests/harness/harness.h"
#include "tests/verbs/machine.h"

namespace
{
using detour_test::Examination;
using detour_test::LinkLocal;

class Doctor : public detour_test::Machine
{
  protected:
    void Examine()
    {
        exam.options.root = root.c_str();
        ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &verbs));
        dt_params params = exam.Params();
        verbs->has_gid_index = dt_params_gid_index(&params, &verbs->gid_index);
        dt_doctor_devices(&exam.options, &exam.report, verbs, &params);
    }
    void AddRail(int rail)
    {
        char pci[32];
        snprintf(pci, sizeof pci, "0000:%02x:00.0", 0x10 + rail);
        Add("mlx5_" + std::to_string(rail), pci, rail / 4, (uint8_t)(rail + 1)).ports[0].speed = 128;
    }
    const json_t *Device(size_t index)
    {
        return exam.Fact("devices", index);
    }
    const json_t *ChosenGid(size_t device)
    {
        size_t index;
        json_t *gid;
        json_array_foreach(json_object_get(Device(device), "gids"), index, gid)
        {
            if (json_is_true(json_object_get(gid, "is_used")))
                return gid;
        }
        return nullptr;
    }

    Examination exam;
};

TEST_F(Doctor, EightRoceNicsAreEightRailsThatBackEachOtherUpOnTheirNode)
{
    for (int rail = 7; rail >= 0; rail--)
        AddRail(rail);
    Examine();
    EXPECT_EQ("ok devices: 8 of 8 ports are used\n"
              "ok gpu: no NVIDIA driver is loaded: there is no GPU memory to reach\n",
              exam.Findings());
    for (int rail = 0; rail < 8; rail++) {
        const json_t *device = Device((size_t)rail);
        EXPECT_EQ("mlx5_" + std::to_string(rail), exam.Text(device, "name"));
        EXPECT_EQ("used", exam.Text(device, "use"));
        EXPECT_EQ(rail, exam.Number(device, "rail"));
        EXPECT_EQ(400000, exam.Number(device, "speed_mbps"));
        EXPECT_EQ("mlx5_" + std::to_string(rail / 4 * 4 + (rail + 1) % 4), exam.Words(device, "backups"));
        EXPECT_EQ("host", exam.Words(device, "memory"));
        EXPECT_EQ("RoCE v2, IPv4: the best kind that the port has", exam.Text(device, "gid_reason"));
        EXPECT_EQ(3, exam.Number(ChosenGid((size_t)rail), "index"));
        EXPECT_EQ("::ffff:10.0." + std::to_string(rail + 1) + ".1",
                  exam.Text(ChosenGid((size_t)rail), "gid"));
        EXPECT_EQ(4u, json_array_size(json_object_get(device, "gids")));
    }
}

TEST_F(Doctor, InfiniBandUsesEntryZero)
{
    fake::Port &port = Add("mlx5_0", "0000:0c:00.0", 0, 1).ports[0];
    port.link_layer = IBV_LINK_LAYER_INFINIBAND;
    port.lid = 117;
    port.gids = {LinkLocal(1, IBV_GID_TYPE_IB)};
    Examine();
    EXPECT_EQ("InfiniBand", exam.Text(Device(0), "link_layer"));
    EXPECT_EQ("InfiniBand uses entry 0", exam.Text(Device(0), "gid_reason"));
    EXPECT_EQ("InfiniBand", exam.Text(ChosenGid(0), "kind"));
    EXPECT_TRUE(exam.Has("warning backups: mlx5_0 is alone")) << exam.Findings();
    EXPECT_FALSE(exam.Has("link-local")) << "every GID of InfiniBand is: " << exam.Findings();
}

TEST_F(Doctor, ASecondPortWithoutALinkIsNamed)
{
    fake::DeviceScript &nic = Add("mlx4_0", "0000:41:00.0", 1, 1);
    nic.ports.push_back(nic.ports[0]);
    nic.ports[1].state = IBV_PORT_DOWN;
    Examine();
    EXPECT_TRUE(exam.Has("warning devices: mlx4_0:2 has no link")) << exam.Findings();
    EXPECT_TRUE(exam.Has("ok devices: 1 of 2 ports are used"));
    EXPECT_EQ("no link", exam.Text(Device(1), "use"));
    EXPECT_EQ(1, exam.Number(Device(1), "rail")) << "a rail with a link or without";
    EXPECT_EQ("", exam.Words(Device(1), "backups"));
}

TEST_F(Doctor, ABondIsOneDevice)
{
    Add("mlx5_bond_0", "0000:c1:00.0", 1, 1).ports[0].speed = 64;
    Examine();
    EXPECT_EQ("mlx5_bond_0", exam.Text(Device(0), "name"));
    EXPECT_EQ(200000, exam.Number(Device(0), "speed_mbps"));
    EXPECT_EQ(nullptr, Device(1));
}

TEST_F(Doctor, APortWithoutAnIpv4AddressIsWarnedOfAndOneWithoutAGidIsLeftOut)
{
    Add("mlx5_0", "0000:0c:00.0", 0, 1).ports[0].gids = {LinkLocal(1, IBV_GID_TYPE_ROCE_V1),
                                                         LinkLocal(1, IBV_GID_TYPE_ROCE_V2)};
    Add("mlx5_1", "0000:12:00.0", 0, 2).ports[0].gids = {{{}, IBV_GID_TYPE_ROCE_V2}};
    Add("mlx5_2", "0000:13:00.0", 0, 3).ports[0].gids = {detour_test::Ipv4(3, IBV_GID_TYPE_ROCE_V1)};
    Examine();
    EXPECT_TRUE(exam.Has("warning devices: mlx5_0 has a link-local GID only (index 1)")) << exam.Findings();
    EXPECT_TRUE(exam.Has("warning devices: [skip-no-gid] verbs: mlx5_1 port 1 is left out: it has no GID"))
        << exam.Findings();
    EXPECT_TRUE(exam.Has("warning devices: mlx5_2 uses RoCE v1 (index 0)")) << exam.Findings();
}

TEST_F(Doctor, ARequestedGidIndexIsShownWithItsSource)
{
    AddRail(0);
    AddRail(1);
    exam.environment = {{"NCCL_IB_GID_INDEX", "2"}};
    Examine();
    EXPECT_EQ("asked for by NCCL_IB_GID_INDEX", exam.Text(Device(0), "gid_reason"));
    EXPECT_EQ(2, exam.Number(ChosenGid(0), "index"));
}

TEST_F(Doctor, TheFilterIsThePluginsOwn)
{
    for (int rail = 0; rail < 3; rail++)
        AddRail(rail);
    exam.environment = {{"NCCL_IB_HCA", "^mlx5_1"}};
    Examine();
    EXPECT_EQ("not let through by DETOUR_HCA", exam.Text(Device(1), "use"));
    EXPECT_EQ(nullptr, json_object_get(Device(1), "rail"));
    EXPECT_EQ(1, exam.Number(Device(2), "rail"));
    EXPECT_EQ("mlx5_2", exam.Words(Device(0), "backups"));
}

TEST_F(Doctor, AFilterThatLeavesNothingIsAProblem)
{
    AddRail(0);
    exam.environment = {{"DETOUR_HCA", "bnxt"}};
    Examine();
    EXPECT_TRUE(exam.Has("problem devices: none of 1 ports can be used")) << exam.Findings();
}

TEST_F(Doctor, SlowPortsAndSmallMtusAreWarnedOf)
{
    AddRail(0);
    AddRail(1);
    fake::TheWorld().devices[1]->ports[0].speed = 32;
    fake::TheWorld().devices[1]->ports[0].mtu = IBV_MTU_1024;
    Examine();
    EXPECT_TRUE(exam.Has("warning devices: mlx5_1 runs at 100 Gbit/s and mlx5_0 at 400 Gbit/s"))
        << exam.Findings();
    EXPECT_TRUE(exam.Has("warning devices: mlx5_1 has an RDMA MTU of 1024")) << exam.Findings();
}

TEST_F(Doctor, BackupsAreThoseThatTheUserChose)
{
    for (int rail = 0; rail < 4; rail++)
        AddRail(rail);
    exam.environment = {{"DETOUR_BACKUP", "mlx5_0=mlx5_3"}};
    Examine();
    EXPECT_EQ("mlx5_3", exam.Words(Device(0), "backups"));
    EXPECT_EQ("mlx5_2", exam.Words(Device(1), "backups"));
}

TEST_F(Doctor, ABackupThatIsNoneIsAProblem)
{
    AddRail(0);
    AddRail(1);
    exam.environment = {{"DETOUR_BACKUP", "mlx5_0=mlx5_9"}};
    Examine();
    EXPECT_TRUE(exam.Has("problem backups: ")) << exam.Findings();
    EXPECT_TRUE(exam.Has("mlx5_9")) << exam.Findings();
}

TEST_F(Doctor, ABackupWithoutALinkIsAWarning)
{
    for (int rail = 0; rail < 3; rail++)
        AddRail(rail);
    fake::TheWorld().devices[2]->ports[0].state = IBV_PORT_DOWN;
    exam.environment = {{"DETOUR_BACKUP", "mlx5_0=mlx5_2"}};
    Examine();
    EXPECT_TRUE(exam.Has("warning backups: a device that cannot be used backs up nothing: "))
        << exam.Findings();
    EXPECT_FALSE(exam.Has("problem")) << exam.Findings();
}

TEST_F(Doctor, OnePathIsNoFailover)
{
    AddRail(0);
    AddRail(1);
    exam.environment = {{"DETOUR_PATHS", "1"}};
    Examine();
    EXPECT_TRUE(exam.Has("warning backups: DETOUR_PATHS=1")) << exam.Findings();
    EXPECT_EQ("", exam.Words(Device(0), "backups"));
}

TEST_F(Doctor, GpuMemoryIsReachableIfAllDevicesReachIt)
{
    AddRail(0);
    AddRail(1);
    AddFile("/sys/module/nvidia_peermem/version");
    AddFile("/proc/driver/nvidia/version");
    fake::TheWorld().knows_dmabuf = true;
    Examine();
    EXPECT_EQ("host CUDA dma-buf", exam.Words(Device(0), "memory"));
    EXPECT_TRUE(exam.Has("ok gpu: the RNICs reach GPU memory by nvidia-peermem and by dma-buf"))
        << exam.Findings();
}

TEST_F(Doctor, NoDeviceIsExplainedByTheKernelsDevices)
{
    Examine();
    EXPECT_TRUE(exam.Has("problem devices: the kernel has no RDMA device")) << exam.Findings();
    AddFile("/sys/class/infiniband/mlx5_0/node_type");
    dt_doctor_no_devices(&exam.options, &exam.report);
    EXPECT_TRUE(exam.Has("the kernel has 1 RDMA devices, and /dev/infiniband/uverbs* is not there"));
    AddFile("/dev/infiniband/uverbs0");
    dt_doctor_no_devices(&exam.options, &exam.report);
    EXPECT_TRUE(exam.Has("the kernel has 1 RDMA devices, and libibverbs shows none"));
}

TEST_F(Doctor, ADeviceThatCannotBeOpenedIsReported)
{
    AddRail(0);
    fake::Fail("create_context", EACCES);
    Examine();
    EXPECT_TRUE(exam.Has("verbs: mlx5_0 is left out: it cannot be opened: Permission denied"))
        << exam.Findings();
}
} // namespace
