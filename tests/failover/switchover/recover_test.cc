// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/recover.h"

#include "tests/failover/switchover/pair.h"
#include "transport/path/queues.h"

namespace
{
class Recover : public detour_test::Pair
{
  protected:
    dt_path_event Await(dt_path *path, uint64_t limit_ns)
    {
        for (uint64_t end_ns = now_ns + limit_ns; now_ns < end_ns; now_ns += DT_NS_PER_MS) {
            dt_path_event event = dt_recover_progress(path, now_ns);
            if (event != DT_PATH_EVENT_COUNT)
                return event;
            struct timespec pause = {0, 20000}; // the software RNIC answers meanwhile
            nanosleep(&pause, nullptr);
        }
        return DT_PATH_EVENT_COUNT;
    }
};

TEST_F(Recover, ProbesThatAreAnsweredForLongEnoughMakeAPathStable)
{
    dt_path *path = &sender->path[1];
    const uint64_t stable_ns = there.net->environment.params.stable_ms * DT_NS_PER_MS;
    const uint64_t begun_ns = now_ns;
    path->machine.state = DT_SENDER_PROBING;
    path->state = DT_PATH_NONE;
    dt_recover_begin_probing(path, now_ns);
    EXPECT_EQ(DT_PATH_STABLE, Await(path, 10 * stable_ns + DT_NS_PER_S));
    EXPECT_GE(now_ns - begun_ns, stable_ns);
    path->machine.state = DT_SENDER_UP;
    path->state = DT_PATH_UP;
}

TEST_F(Recover, AProbeThatFailsFailsTheAttempt)
{
    dt_path *path = &sender->path[1];
    path->machine.state = DT_SENDER_PROBING;
    path->state = DT_PATH_NONE;
    ASSERT_EQ(DT_OK, dt_qp_fail(path->probe));
    dt_recover_begin_probing(path, now_ns);
    EXPECT_EQ(DT_PATH_FAILED, Await(path, 60 * DT_NS_PER_S));
    EXPECT_NE('\0', State(sender, 1)->why[0]);
    path->machine.state = DT_SENDER_UP;
    path->state = DT_PATH_UP;
}

TEST_F(Recover, AnAttemptBeginsWhenItIsDueAndNotOnADrainedDevice)
{
    dt_path *path = &sender->path[1];
    path->machine.state = DT_SENDER_SETTLED;
    State(sender, 1)->recovery.next_ns = now_ns + 5 * DT_NS_PER_MS;
    EXPECT_EQ(now_ns + 5 * DT_NS_PER_MS, dt_recover_deadline_ns(path, now_ns));
    EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_recover_progress(path, now_ns + 5 * DT_NS_PER_MS - 1));
    dt_store_release(&path->nic->is_drained, 1u);
    EXPECT_EQ(DT_PATH_EVENT_COUNT, dt_recover_progress(path, now_ns + 5 * DT_NS_PER_MS));
    EXPECT_EQ(DT_NEVER_NS, dt_recover_deadline_ns(path, now_ns));
    path->state = sender->path[0].state = DT_PATH_NONE; // the last resort
    EXPECT_EQ(now_ns + 5 * DT_NS_PER_MS, dt_recover_deadline_ns(path, now_ns));
    sender->path[0].state = DT_PATH_UP;
    dt_store_release(&path->nic->is_drained, 0u);
    EXPECT_EQ(DT_PATH_RECOVER, dt_recover_progress(path, now_ns + 5 * DT_NS_PER_MS));
    path->machine.state = DT_SENDER_UP;
    path->state = DT_PATH_UP;
}

TEST_F(Recover, ADrainedDeviceIsGivenUpWhenAnotherPathHasComeIntoUse)
{
    dt_path *path = &sender->path[1];
    path->machine.state = DT_SENDER_PROBING;
    path->state = DT_PATH_NONE;
    dt_recover_begin_probing(path, now_ns);
    dt_store_release(&path->nic->is_drained, 1u);
    EXPECT_EQ(DT_PATH_FAILED, dt_recover_progress(path, now_ns));
    dt_store_release(&path->nic->is_drained, 0u);
    path->machine.state = DT_SENDER_UP;
    path->state = DT_PATH_UP;
}

TEST_F(Recover, RetiredQueuePairsAreDestroyedWhenNoLatePacketCanCarryTheirNumbers)
{
    dt_path *path = &sender->path[1];
    const uint64_t late_ns = there.net->environment.params.late_ms * DT_NS_PER_MS;
    auto *old = static_cast<dt_path_queues *>(calloc(1, sizeof(dt_path_queues)));
    dt_list_init(&old->node);
    old->retired_ns = now_ns;
    dt_list_push_back(&path->retired, &old->node);
    EXPECT_EQ(now_ns + late_ns, dt_recover_deadline_ns(path, now_ns));
    dt_recover_retire(path, now_ns + late_ns - 1);
    EXPECT_FALSE(dt_list_is_empty(&path->retired));
    dt_recover_retire(path, now_ns + late_ns);
    EXPECT_TRUE(dt_list_is_empty(&path->retired));
    EXPECT_EQ(old, path->doomed);
    Until([&] { return dt_load_acquire(&path->op_state) != DT_PATH_OP_IS_BUSY; });
    EXPECT_EQ(nullptr, path->doomed);
}
} // namespace
