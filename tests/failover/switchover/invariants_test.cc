// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/invariants.h"

#include "tests/failover/switchover/pair.h"
#include "transport/path/queues.h"

namespace
{
class Invariants : public detour_test::Pair
{
  protected:
    void SetUp() override
    {
        GTEST_FLAG_SET(death_test_style, "fast");
        Pair::SetUp();
    }
};

TEST_F(Invariants, HoldAtBothEndsAfterTrafficAndAfterASwitchover)
{
    dt_switchover_check(sender);
    dt_switchover_check(receiver);
    dt_connection_suspect(sender, &sender->path[0], DT_FAULT_ADMIN);
    dt_store_release(&sender->path[0].nic->is_drained, 1u);
    Until([&] { return sender->path[0].machine.state == DT_SENDER_SETTLED; });
    dt_switchover_check(sender);
    dt_switchover_check(receiver);
    dt_store_release(&sender->path[0].nic->is_drained, 0u);
    Until([&] { return sender->path[0].state == DT_PATH_UP; });
    dt_switchover_check(sender);
}

TEST_F(Invariants, APathInUseIsPermittedByItsMachine)
{
    dt_path broken = sender->path[1];
    sender->path[1].machine.state = DT_SENDER_DOWN;
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*dt_path_machine_is_up");
    sender->path[1] = broken;
    sender->path[1].machine.epoch++;
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*epoch");
    sender->path[1] = broken;
}

TEST_F(Invariants, NothingUsesAnEpochThatIsBeingFenced)
{
    sender->path[1].fence.is_active = true;
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*is_active");
    sender->path[1].fence.is_active = false;
    dt_qp_set_add(&sender->path[1].fence.markers, DT_QPS_MAX - 1);
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*markers");
    dt_qp_set_remove(&sender->path[1].fence.markers, DT_QPS_MAX - 1);
}

TEST_F(Invariants, AnIdleControlThreadHoldsNoQueuePairs)
{
    dt_path_queues queues = {};
    sender->path[1].doomed = &queues;
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*doomed");
    sender->path[1].doomed = nullptr;
}

TEST_F(Invariants, RetiredQueuePairsAreOfEarlierEpochs)
{
    dt_path_queues queues = {};
    queues.epoch = sender->path[1].epoch;
    dt_list_push_back(&sender->path[1].retired, &queues.node);
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*queues->epoch");
    dt_list_remove(&queues.node);
}

TEST_F(Invariants, MessagesThatWaitAreAnnounced)
{
    dt_sender_of(sender)->again = 1;
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*AGAIN");
    dt_sender_of(sender)->again = 0;
    dt_path *current = sender->current;
    sender->current = nullptr;
    EXPECT_DEATH(dt_switchover_check(sender), "broken invariant .*current");
    sender->current = current;
    dt_switchover_check(sender);
}
} // namespace
