// SPDX-License-Identifier: Apache-2.0
#include "failover/switchover/replay.h"

#include "tests/failover/switchover/pair.h"

namespace
{
class Replay : public detour_test::Pair
{
  protected:
    /* Messages that are READY after having been posted on path 0, which is gone. */
    void Lose(int count, dt_send_slot **slots)
    {
        const uint64_t first = dt_sender_of(sender)->next;
        for (int i = 0; i < count; i++)
            PostReceive(i);
        for (int i = 0; i < 50; i++)
            Step();
        for (int i = 0; i < count; i++) {
            EXPECT_EQ(DT_OK, dt_isend(sender, from + i * kBytes, kBytes, 0, from_memory, &send[i]));
            slots[i] = SendSlot(first + i);
            slots[i]->state = DT_SEND_READY;
        }
        sender->path[0].state = DT_PATH_NONE;
        dt_connection_choose_path(sender);
    }
};

TEST_F(Replay, MessagesGoToTheOtherPathWhole)
{
    dt_send_slot *slots[kRequests];
    uint32_t engines;
    Lose(3, slots);
    memset(to, 0, sizeof to);
    EXPECT_EQ(0u, dt_switchover_replay(&sender->path[0], slots, 3, &engines));
    EXPECT_TRUE(engines == DT_SWITCHOVER_BY_WQE || engines == DT_SWITCHOVER_BY_REPOST);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(DT_SEND_POSTED, slots[i]->state);
        EXPECT_EQ(1u, slots[i]->path);
        EXPECT_EQ(sender->path[1].epoch, slots[i]->epoch);
    }
}

TEST_F(Replay, WithoutAnotherPathAllAreLeft)
{
    dt_send_slot *slots[kRequests];
    uint32_t engines = 77;
    Lose(2, slots);
    sender->path[1].state = DT_PATH_NONE;
    dt_connection_choose_path(sender);
    EXPECT_EQ(2u, dt_switchover_replay(&sender->path[0], slots, 2, &engines));
    EXPECT_EQ(0u, engines);
    EXPECT_EQ(DT_SEND_READY, slots[0]->state);
    sender->path[1].state = DT_PATH_UP;
    dt_connection_choose_path(sender);
}

TEST_F(Replay, AMessageWhoseBufferThePathDoesNotReachIsSkipped)
{
    dt_send_slot *slots[kRequests];
    uint32_t engines;
    Lose(1, slots);
    const uint32_t mask = from_memory->path_mask;
    from_memory->path_mask = 1; // the other device refused the buffer
    EXPECT_EQ(1u, dt_switchover_replay(&sender->path[0], slots, 1, &engines));
    EXPECT_EQ(DT_SEND_READY, slots[0]->state);
    from_memory->path_mask = mask;
    EXPECT_EQ(0u, dt_switchover_replay(&sender->path[0], slots, 1, &engines));
}
} // namespace
