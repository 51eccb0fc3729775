/* SPDX-License-Identifier: Apache-2.0 */
/* A device that was removed and comes back: found, opened beside the old one, and its memory registered. */
#include "tests/verbs/device_fixture.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "verbs/device.h"
#include "verbs/object.h"

namespace
{
namespace fs = std::filesystem;

class Reopen : public DeviceFixture
{
  protected:
    void SetUp() override
    {
        std::string pattern = (fs::temp_directory_path() / "detour-sysfs-XXXXXX").string();
        ASSERT_NE(nullptr, mkdtemp(pattern.data()));
        sysfs = pattern;
        fs::create_directory(sysfs / "fake0");
        DeviceFixture::SetUp();
        Open();
    }
    void Script() override
    {
        fake::TheWorld().devices[0]->ibdev_path = sysfs / "fake0";
    }
    void TearDown() override
    {
        dt_device_close(device);
        DeviceFixture::TearDown();
        fs::remove_all(sysfs);
    }
    /* It takes the script with it. */
    void Remove()
    {
        away = std::move(fake::TheWorld().devices[0]);
        fake::TheWorld().devices.erase(fake::TheWorld().devices.begin());
        fs::rename(sysfs / "fake0", sysfs / "old"); // keeps its inode from being used again
    }
    void Return(const std::string &name)
    {
        back = std::make_unique<fake::DeviceScript>(*away);
        back->name = name;
        back->ibdev_path = sysfs / name;
        fs::create_directory(sysfs / name);
        fake::TheWorld().devices.push_back(std::move(back));
    }
    void Replace()
    {
        dt_device *next = nullptr;
        ASSERT_EQ(DT_OK, dt_device_reopen(device, &next));
        device = next;
    }

    fs::path sysfs;
    std::unique_ptr<fake::DeviceScript> away, back;
    char memory[8192];
};

TEST_F(Reopen, ADeviceThatIsThereOrIsAwayIsLeftAlone)
{
    dt_device *next = nullptr;
    EXPECT_EQ(DT_AGAIN, dt_device_reopen(device, &next));
    Remove();
    EXPECT_EQ(DT_AGAIN, dt_device_reopen(device, &next));
    EXPECT_EQ(0u, dt_device_generation(device));
}

TEST_F(Reopen, UnderAnotherNameItIsFoundByItsGuid)
{
    Remove();
    Return("fake7");
    Replace();
    EXPECT_STREQ("fake7", device->info.name);
    EXPECT_EQ(1u, dt_device_generation(device));
    EXPECT_FALSE(dt_device_is_removed(device));
    EXPECT_EQ(DT_OK, dt_device_refresh(device));
}

/* What was registered stays valid with keys of the new device; memory of either is the same. */
TEST_F(Reopen, ItsMemoryIsRegisteredAgainInPlace)
{
    dt_mr *mr, *again, *more;
    ASSERT_EQ(DT_OK, dt_mr_register(device, memory, sizeof memory, DT_MR_REMOTE_WRITE, &mr));
    uint32_t lkey = mr->lkey;
    dt_device *old = device;
    Remove();
    Return("fake0");
    Replace();
    EXPECT_NE(lkey, mr->lkey);
    EXPECT_EQ(0u, fake::TheWorld().mrs.count(lkey));
    EXPECT_EQ(1u, fake::TheWorld().mrs.count(mr->lkey));
    ASSERT_EQ(DT_OK, dt_mr_register(old, memory, 10, DT_MR_REMOTE_WRITE, &again));
    EXPECT_EQ(mr, again);
    ASSERT_EQ(DT_OK, dt_mr_register(old, memory, 10, DT_MR_REMOTE_READ, &more));
    EXPECT_EQ(device->pd, fake::TheWorld().mrs.at(more->lkey)->pd) << "not with what is gone";
    for (dt_mr *one : {mr, again, more})
        EXPECT_EQ(DT_OK, dt_mr_deregister(old, one));
}

/* Queue pairs and completion queues of the old one are destroyed when their users want to. */
TEST_F(Reopen, ObjectsOfTheOldOneLiveOnBesideThoseOfTheNew)
{
    dt_cq *cq[2];
    dt_qp *qp[2];
    for (int i = 0; i < 2; i++) {
        if (i == 1) {
            Remove();
            Return("fake0");
            Replace();
        }
        ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq[i]));
        dt_qp_options options = Options(cq[i]);
        ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &qp[i]));
    }
    for (int i = 0; i < 2; i++) {
        dt_qp_destroy(qp[i]);
        dt_cq_destroy(cq[i]);
    }
}

/* Twice, and closed in the end: nothing is left. */
TEST_F(Reopen, ItMayComeBackAnyNumberOfTimes)
{
    for (uint32_t i = 1; i <= 3; i++) {
        Remove();
        fs::remove_all(sysfs / "older");
        fs::rename(sysfs / "old", sysfs / "older");
        std::swap(fake::TheWorld().devices.front(), fake::TheWorld().devices.back());
        Return("fake0");
        std::swap(fake::TheWorld().devices.front(), fake::TheWorld().devices.back());
        Replace();
        EXPECT_EQ(i, dt_device_generation(device));
    }
}

TEST_F(Reopen, EveryFailureIsOneWarningAndLeavesTheOldOneAsItIs)
{
    const struct {
        const char *call;
        int error;
        const char *warning;
    } failures[] = {
        {"create_context", EMFILE, "fake0: the device is back, but cannot be opened: Too many open files"},
        {"get_device_list", EIO, "fake0: the device is back, but cannot be opened: Input/output error"},
        {"create_pd", EIO, "fake0: no protection domain: Input/output error"},
        {"create_mr", ENOMEM, "memory that it had registered is refused: Cannot allocate memory"},
    };
    dt_mr *mr;
    ASSERT_EQ(DT_OK, dt_mr_register(device, memory, sizeof memory, DT_MR_REMOTE_WRITE, &mr));
    const dt_mr before = *mr;
    Remove();
    Return("fake0");
    int live = fake::TheWorld().live;
    for (const auto &failure : failures) {
        dt_device *next = nullptr;
        fake::Fail(failure.call, failure.error);
        detour_test::ExpectWarning(failure.warning);
        EXPECT_EQ(DT_SYSTEM, dt_device_reopen(device, &next)) << failure.call;
        EXPECT_EQ(live, fake::TheWorld().live) << failure.call;
        EXPECT_EQ(before.rkey, mr->rkey) << failure.call;
    }
    for (int i = 0;; i++) {
        dt_device *next = nullptr;
        detour_test_fail_alloc(i);
        detour_test::AllowWarning("out of memory");
        detour_test::AllowWarning("is refused");
        enum dt_status status = dt_device_reopen(device, &next);
        if (!detour_test_alloc_failed()) {
            ASSERT_EQ(DT_OK, status);
            device = next;
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status);
        EXPECT_EQ(live, fake::TheWorld().live);
    }
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, mr));
}
} // namespace
