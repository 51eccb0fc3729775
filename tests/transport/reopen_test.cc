/* SPDX-License-Identifier: Apache-2.0 */
/* When a device that died is opened again, and what follows. */
#include "transport/reopen.h"

#include "softrnic/softrnic.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/device_events.h"
#include "transport/message/connection.h"

namespace
{
/* The receiver's process has threads, as far as this module can see; the test is them. */
class Reopen : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
        detour_test::AllowWarning("cannot go to ERR"); // at the close
        nic = receiver->path[1].nic;
        nic->environment->has_threads = true;
        old = nic->device;
        EXPECT_EQ(DT_NEVER_NS, dt_reopen_progress(nic, now_ns)) << "it lives";
        ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_FATAL, 0));
        dt_device_events_read(nic, now_ns);
        ASSERT_TRUE(dt_load_relaxed(&nic->is_dead));
        dt_store_relaxed(&receiver->faults, 0u);
    }
    void TearDown() override
    {
        nic->environment->has_threads = false;
        TwoNets::TearDown();
    }
    /* Its paths have left the queue pairs. */
    void Leave()
    {
        receiver->path[1].state = DT_PATH_NONE;
    }
    /* One period later. Whether the control thread was asked. */
    bool Progress()
    {
        now_ns += DT_REOPEN_PERIOD_NS;
        dt_reopen_progress(nic, now_ns);
        return dt_executor_run(&nic->executor) > 0;
    }
    dt_nic *nic = nullptr;
    dt_device *old = nullptr;
};

TEST_F(Reopen, WaitsForThePathsAndForTheDevice)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_PLUG, 0));
    EXPECT_FALSE(Progress()) << "its queue pairs are in use";
    Leave();
    receiver->path[1].fence.is_active = true;
    EXPECT_FALSE(Progress()) << "their fence needs a proof";
    receiver->path[1].fence.is_active = false;
    EXPECT_EQ(now_ns + DT_REOPEN_PERIOD_NS, dt_reopen_progress(nic, now_ns)) << "not at once again";
    EXPECT_TRUE(Progress());
    EXPECT_EQ(old, nic->device) << "not before the device thread takes it";
    EXPECT_TRUE(dt_load_relaxed(&nic->is_dead));
    dt_store_relaxed(&receiver->hints, 0u);
    EXPECT_EQ(DT_NEVER_NS, dt_reopen_progress(nic, now_ns));
    EXPECT_NE(old, nic->device);
    EXPECT_EQ(1u, dt_device_generation(nic->device));
    EXPECT_FALSE(dt_load_relaxed(&nic->is_dead));
    EXPECT_EQ(1u << 1, dt_load_relaxed(&receiver->hints));
    EXPECT_EQ(0u, dt_load_relaxed(&receiver->faults));
}

TEST_F(Reopen, LooksAgainForADeviceThatIsAway)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    Leave();
    for (int i = 0; i < 3; i++) {
        EXPECT_TRUE(Progress());
        EXPECT_FALSE(Progress()) << "the answer is taken, then there is a pause";
        EXPECT_EQ(old, nic->device);
    }
}

/* Taken by nothing when the net ends: closed all the same. */
TEST_F(Reopen, AnOpenedDeviceThatIsNotTakenIsClosedWithTheNet)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    Leave();
    ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_PLUG, 0));
    EXPECT_TRUE(Progress());
    EXPECT_NE(nullptr, nic->service->reopen.opened);
}

TEST_F(Reopen, InASimulationItIsNot)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    Leave();
    ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_PLUG, 0));
    nic->environment->has_threads = false;
    EXPECT_FALSE(Progress());
}
} // namespace
