/* SPDX-License-Identifier: Apache-2.0 */
/* A device that was removed and comes back: found, opened beside the old one, and its memory registered. */
#include "tests/verbs/device_fixture.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <vector>

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
    /* The folder of before stays, so that its inode is not used again at once. */
    void Flap()
    {
        Remove();
        fs::remove_all(sysfs / "older");
        fs::rename(sysfs / "old", sysfs / "older");
        gone.push_back(std::move(away));
        fake::TheWorld().devices.insert(fake::TheWorld().devices.begin(),
                                        std::make_unique<fake::DeviceScript>(*gone.back()));
        fs::create_directory(sysfs / "fake0");
        Replace();
    }
    void Replace()
    {
        dt_device *next = nullptr;
        ASSERT_EQ(DT_OK, dt_device_reopen(device, &next));
        device = next;
    }

    fs::path sysfs;
    std::unique_ptr<fake::DeviceScript> away, back;
    std::vector<std::unique_ptr<fake::DeviceScript>> gone; /* contexts of before refer to them */
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

TEST_F(Reopen, MemoryThatItDoesNotTakeWhileItIsAwayIsOneLine)
{
    dt_mr *mr;
    Remove();
    for (int i = 0; i < 3; i++) {
        fake::Fail("create_mr", ENODEV);
        EXPECT_EQ(DT_NOT_FOUND, dt_mr_register(device, memory, sizeof memory, DT_MR_REMOTE_WRITE, &mr));
    }
    int lines = 0;
    for (const std::string &line : detour_test::LoggedLines())
        lines += line.find("fake0 has left the system: memory is registered with it once it is back") !=
                 std::string::npos;
    EXPECT_EQ(1, lines);
    Return("fake0");
    Replace();
    ASSERT_EQ(DT_OK, dt_mr_register(device, memory, sizeof memory, DT_MR_REMOTE_WRITE, &mr));
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, mr));
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

/* With a queue pair and memory each time, and closed in the end: nothing is left. Before that, as much as of
 * two devices, however often. */
TEST_F(Reopen, ItMayComeBackAnyNumberOfTimes)
{
    dt_cq *cq;
    dt_qp *qp;
    dt_mr *mr;
    int live = 0;
    ASSERT_EQ(DT_OK, dt_mr_register(device, memory, sizeof memory, DT_MR_REMOTE_WRITE, &mr));
    for (uint32_t i = 1; i <= 300 && !HasFailure(); i++) {
        ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &cq));
        dt_qp_options options = Options(cq);
        ASSERT_EQ(DT_OK, dt_qp_create(device, &options, &qp));
        Flap();
        EXPECT_EQ(i, dt_device_generation(device));
        EXPECT_EQ(1u, dt_device_close_old(device)) << "its queue pair is there";
        dt_qp_destroy(qp);
        EXPECT_EQ(1u, dt_device_close_old(device)) << "its completion queue is there";
        dt_cq_destroy(cq);
        EXPECT_EQ(0u, dt_device_close_old(device));
        live = i == 1 ? fake::TheWorld().live.load() : live;
        EXPECT_EQ(live, fake::TheWorld().live) << i;
    }
    EXPECT_EQ(DT_OK, dt_mr_deregister(device, mr));
}

/* Those in the middle are freed before the first one, which answers for memory until the end. */
TEST_F(Reopen, OldContextsAreClosedInAnyOrder)
{
    dt_device *first = device;
    dt_cq *cq[3];
    dt_mr *mr;
    for (dt_cq *&one : cq) {
        ASSERT_EQ(DT_OK, dt_cq_create(device, 16, nullptr, &one));
        Flap();
    }
    EXPECT_EQ(3u, dt_device_close_old(device));
    dt_cq_destroy(cq[1]);
    EXPECT_EQ(2u, dt_device_close_old(device));
    dt_cq_destroy(cq[0]);
    EXPECT_EQ(1u, dt_device_close_old(device));
    ASSERT_EQ(DT_OK, dt_mr_register(first, memory, sizeof memory, DT_MR_REMOTE_WRITE, &mr));
    EXPECT_EQ(device->pd, fake::TheWorld().mrs.at(mr->lkey)->pd);
    EXPECT_EQ(DT_OK, dt_mr_deregister(first, mr));
    dt_cq_destroy(cq[2]);
    EXPECT_EQ(0u, dt_device_close_old(device));
    EXPECT_EQ(first, device->before);
    EXPECT_EQ(nullptr, first->before);
}

/* The kernel has freed all of it; that the library cannot is no news. */
TEST_F(Reopen, ARemovedDeviceRefusesItsTearDownInSilence)
{
    Remove();
    Return("fake0");
    Replace();
    fake::Fail("destroy_pd", EIO);
    EXPECT_EQ(0u, dt_device_close_old(device));
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
