/* SPDX-License-Identifier: Apache-2.0 */
/* When a device that died is opened again, and what follows. */
#include "transport/reopen.h"

#include <algorithm>

#include "failover/recovery.h"
#include "softrnic/softrnic.h"
#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"
#include "transport/device_events.h"
#include "transport/message/connection.h"
#include "transport/net_state.h"

namespace
{
/* The test is the threads of the receiver's process. */
class Reopen : public detour_test::TwoNets
{
  protected:
    void SetUp() override
    {
        Listen();
        Establish();
        detour_test::AllowWarning("cannot go to ERR"); // at the close
        nic = receiver->path[1].nic;
        old = nic->device;
        EXPECT_EQ(DT_NEVER_NS, dt_reopen_progress(nic, now_ns)) << "it lives";
        ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_FATAL, 0));
        dt_device_events_read(nic, now_ns);
        ASSERT_TRUE(dt_load_relaxed(&nic->is_dead));
        dt_store_relaxed(&receiver->faults, 0u);
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
    EXPECT_EQ(now_ns + DT_REOPEN_OLD_NS, dt_reopen_progress(nic, now_ns)) << "to close the old one";
    EXPECT_NE(old, nic->device);
    EXPECT_EQ(1u, dt_device_generation(nic->device));
    EXPECT_EQ(nic->device, nic->service->inject.device) << "that rules act on";
    EXPECT_FALSE(dt_load_relaxed(&nic->is_dead));
    EXPECT_EQ(1u << 1, dt_load_relaxed(&receiver->hints));
    EXPECT_EQ(0u, dt_load_relaxed(&receiver->faults));
}

/* Whenever it returns. The control thread's own time comes on top. */
TEST_F(Reopen, ADeviceIsOpenedWithinOnePeriodOfItsReturn)
{
    const uint64_t step_ns = DT_REOPEN_PERIOD_NS / 5;
    detour_test::ExpectWarning("DEVICE_FATAL");
    Leave();
    for (uint64_t away_ns = 0; away_ns < 3 * DT_REOPEN_PERIOD_NS; away_ns += step_ns) {
        uint64_t returned_ns = now_ns + away_ns;
        bool is_back = false;
        for (uint64_t until_ns = returned_ns + DT_REOPEN_PERIOD_NS; dt_load_relaxed(&nic->is_dead);
             now_ns += step_ns) {
            ASSERT_LE(now_ns, until_ns) << "away for " << away_ns;
            if (now_ns >= returned_ns && !is_back) {
                ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_PLUG, 0));
                is_back = true;
            }
            dt_reopen_progress(nic, now_ns);
            dt_executor_run(&nic->executor);
            dt_reopen_progress(nic, now_ns);
        }
        dt_executor_run(&nic->executor);
        ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_FATAL, 0));
        dt_device_events_read(nic, now_ns);
        ASSERT_TRUE(dt_load_relaxed(&nic->is_dead));
    }
}

/*
 * From the return of a device to its use: one period of this module, and of recovery no wait but that for the
 * stable time, which is none for the only path. Messages of the protocol and verbs come on top.
 */
TEST(ReopenWaits, AreLessThanASecond)
{
    dt_params defaults;
    char error[256];
    ASSERT_EQ(DT_OK, dt_params_load(&defaults, detour_test::NoEnvironment, nullptr, error, sizeof error));
    for (uint64_t stable_ns : {uint64_t{0}, uint64_t{defaults.stable_ms * DT_NS_PER_MS}}) {
        const uint64_t failed_ns = DT_NS_PER_S, returned_ns = 60 * DT_NS_PER_S;
        uint64_t now_ns = failed_ns;
        dt_recovery recovery;
        dt_recovery_init(&recovery);
        dt_recovery_up(&recovery, 0);
        dt_recovery_path_failed(&recovery, now_ns);
        for (; now_ns < returned_ns; now_ns += DT_NS_PER_MS) {
            if (dt_recovery_is_due(&recovery, now_ns))
                dt_recovery_attempt_failed(&recovery, now_ns);
        }
        now_ns = returned_ns + DT_REOPEN_PERIOD_NS;
        dt_recovery_hint(&recovery, now_ns);
        ASSERT_TRUE(dt_recovery_is_due(&recovery, now_ns)) << "the hint ends the pause";
        dt_recovery_start_probing(&recovery, stable_ns, now_ns);
        while (!dt_recovery_is_stable(&recovery)) {
            now_ns = std::max(now_ns, dt_recovery_probe_deadline_ns(&recovery));
            ASSERT_NE(DT_PROBE_NONE, dt_recovery_probe(&recovery, now_ns));
            dt_recovery_probe_answered(&recovery, now_ns);
        }
        EXPECT_EQ(returned_ns + DT_REOPEN_PERIOD_NS + stable_ns, now_ns);
        EXPECT_LT(now_ns - returned_ns, DT_NS_PER_S);
    }
}

/* Its queue pairs are destroyed with the connection. */
TEST_F(Reopen, TheContextOfBeforeIsClosedOnceNothingIsOnIt)
{
    detour_test::ExpectWarning("DEVICE_FATAL");
    ASSERT_EQ(0, dt_soft_device_control("soft1", DT_SOFT_CONTROL_PLUG, 0));
    Leave();
    EXPECT_TRUE(Progress());
    EXPECT_EQ(now_ns + DT_REOPEN_OLD_NS, dt_reopen_progress(nic, now_ns));
    EXPECT_FALSE(Progress()) << "not so soon";
    now_ns += DT_REOPEN_OLD_NS;
    EXPECT_TRUE(Progress());
    EXPECT_EQ(now_ns + DT_REOPEN_OLD_NS, dt_reopen_progress(nic, now_ns)) << "it has queue pairs";
    dt_net_close(sender);
    dt_net_close(receiver);
    sender = nullptr;
    receiver = nullptr;
    ASSERT_TRUE(StepUntil([&] {
        return dt_list_is_empty(&here.net->nic[0].service->connections) &&
               dt_list_is_empty(&there.net->nic[0].service->connections);
    }));
    dt_executor_run(&nic->executor);
    now_ns += DT_REOPEN_OLD_NS;
    EXPECT_TRUE(Progress());
    EXPECT_EQ(DT_NEVER_NS, dt_reopen_progress(nic, now_ns));
    EXPECT_FALSE(Progress());
    EXPECT_EQ(0u, dt_device_close_old(nic->device));
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
} // namespace
