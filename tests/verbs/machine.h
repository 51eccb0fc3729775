/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A machine as it is met: a sysfs tree under a root of its own, and devices with the tables that such drivers
 * fill.
 */
#ifndef DETOUR_TESTS_VERBS_MACHINE_H
#define DETOUR_TESTS_VERBS_MACHINE_H

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "tests/verbs/fake_verbs.h"
#include "verbs/object.h"
#include "verbs/verbs.h"

namespace detour_test
{
namespace fs = std::filesystem;

inline fake::Gid LinkLocal(uint8_t number, uint32_t type)
{
    return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0xff, 0xfe, 0, 0, number}, type};
}

inline fake::Gid Ipv4(uint8_t number, uint32_t type)
{
    return {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, number, 1}, type};
}

// As the kernel fills it for an interface with an IPv4 address: link-local first, version 1 before version 2.
inline std::vector<fake::Gid> RoceGids(uint8_t number)
{
    return {LinkLocal(number, IBV_GID_TYPE_ROCE_V1), LinkLocal(number, IBV_GID_TYPE_ROCE_V2),
            Ipv4(number, IBV_GID_TYPE_ROCE_V1), Ipv4(number, IBV_GID_TYPE_ROCE_V2)};
}

class Machine : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (fs::temp_directory_path() / "detour-machine-XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(pattern.data()));
        root = fs::canonical(pattern).string();
        fake::Reset();
        fake::TheWorld().devices.clear();
        table = *fake::Table();
        table.root = root.c_str();
    }

    void TearDown() override
    {
        dt_verbs_devices_free(list);
        if (verbs)
            dt_verbs_close(verbs);
        EXPECT_EQ(0, fake::TheWorld().live);
        fs::remove_all(root);
    }

    // A device at a PCI address ("0000:0c:00.0"), on a NUMA node. Its ports may be changed afterwards.
    fake::DeviceScript &Add(const std::string &name, const std::string &pci, int numa, uint8_t number)
    {
        std::string folder = "/sys/devices/pci" + pci.substr(0, 7) + "/" + pci;
        std::string link = "/sys/class/infiniband/" + name;
        auto script = std::make_unique<fake::DeviceScript>(fake::RoceDevice(name, number));

        fs::create_directories(root + folder);
        fs::create_directories(root + link);
        fs::create_directory_symlink(root + folder, root + link + "/device");
        std::ofstream(root + folder + "/numa_node") << numa << "\n";
        script->ibdev_path = link;
        script->ports[0].gids = RoceGids(number);
        fake::TheWorld().devices.push_back(std::move(script));
        return *fake::TheWorld().devices.back();
    }

    void AddFile(const std::string &path)
    {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << "1\n";
    }

    void Discover(int gid_index = -1)
    {
        if (!verbs) {
            ASSERT_EQ(DT_OK, dt_verbs_open_table(&table, &verbs));
        }
        verbs->has_gid_index = gid_index >= 0;
        verbs->gid_index = static_cast<uint32_t>(gid_index);
        dt_verbs_devices_free(list);
        list = nullptr;
        ASSERT_EQ(DT_OK, dt_verbs_devices(verbs, &list, &count));
    }

    std::string root;
    dt_verbs_table table;
    dt_verbs *verbs = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;
};
} // namespace detour_test

#endif
