/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: every call of the library fails once: one warning, everything released in reverse order, and no
 * crash. */
#include "tests/verbs/device_fixture.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "verbs/device.h"
#include "verbs/object.h"

namespace
{
class Device : public DeviceFixture
{
};

TEST_F(Device, EveryFailureWhileOpeningIsOneWarningAndLeavesNothing)
{
    const struct {
        const char *call;
        int error;
        const char *warning;
    } failures[] = {
        {"get_device_list", EIO, "fake0: the device cannot be opened: Input/output error"},
        {"create_context", EMFILE, "fake0: the device cannot be opened: Too many open files"},
        {"query_device", EIO, "fake0: the device cannot be queried: Input/output error"},
        {"query_port", EIO, "fake0: port 1 cannot be used any more"},
        {"create_pd", EIO, "fake0: no protection domain: Input/output error"},
    };

    for (const auto &failure : failures) {
        fake::TheWorld().log.clear();
        fake::Fail(failure.call, failure.error);
        detour_test::ExpectWarning(failure.warning);
        EXPECT_EQ(DT_SYSTEM, dt_device_open(verbs, &list[0], &device)) << failure.call;
        EXPECT_EQ(0, fake::TheWorld().live) << failure.call;
        ExpectReverseRelease();
    }
}

TEST_F(Device, ADeviceThatIsGoneIsNotFound)
{
    fake::TheWorld().devices.erase(fake::TheWorld().devices.begin());
    detour_test::ExpectWarning("fake0: the device cannot be opened: No such device");
    EXPECT_EQ(DT_NOT_FOUND, dt_device_open(verbs, &list[0], &device));
}

/* The folder of a device that comes back has another inode, also under the same name. */
TEST_F(Device, IsRemovedOnceItsFolderInSysfsIsGoneOrAnothers)
{
    namespace fs = std::filesystem;
    std::string pattern = (fs::temp_directory_path() / "detour-sysfs-XXXXXX").string();
    ASSERT_NE(nullptr, mkdtemp(pattern.data()));
    fs::path folder = fs::path(pattern) / "fake0";
    fs::create_directory(folder);
    fake::TheWorld().devices[0]->ibdev_path = folder;
    Open();
    EXPECT_FALSE(dt_device_is_removed(device));
    fs::rename(folder, fs::path(pattern) / "old"); // keeps its inode from being used again
    EXPECT_TRUE(dt_device_is_removed(device));
    fs::create_directory(folder);
    EXPECT_TRUE(dt_device_is_removed(device));
    dt_device_close(device);
    fs::remove_all(pattern);
    fake::TheWorld().devices[0]->ibdev_path = "";
    Open();
    EXPECT_FALSE(dt_device_is_removed(device)) << "without sysfs nothing is known";
    dt_device_close(device);
}

TEST_F(Device, OpeningSurvivesEveryFailedAllocation)
{
    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        enum dt_status status = dt_device_open(verbs, &list[0], &device);
        if (!detour_test_alloc_failed()) {
            ASSERT_EQ(DT_OK, status);
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status);
        EXPECT_EQ(0, fake::TheWorld().live);
    }
    dt_device_close(device);
}

TEST_F(Device, HasItsNameAndPort)
{
    Open();
    EXPECT_STREQ("fake0", device->info.name);
    EXPECT_EQ(1u, device->info.port);
    dt_device_close(device);
    ExpectReverseRelease();
}

TEST_F(Device, FailuresWhileClosingAreReportedAndClosingGoesOn)
{
    Open();
    fake::Fail("destroy_pd", EBUSY);
    fake::Fail("destroy_context", EBUSY);
    detour_test::ExpectWarning("its protection domain cannot be freed");
    detour_test::ExpectWarning("the device cannot be closed");
    dt_device_close(device);
}

TEST_F(Device, RegionsLeftAtCloseAreDeregisteredWithAWarning)
{
    static char memory[100];
    dt_mr *mr;

    Open();
    ASSERT_EQ(DT_OK, dt_mr_register(device, memory, sizeof memory, DT_MR_REMOTE_READ, &mr));
    detour_test::ExpectWarning("fake0: closed with 1 memory regions still registered");
    dt_device_close(device);
}
} // namespace
