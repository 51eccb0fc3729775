/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send_path.h"

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"

namespace
{
class SendPath : public detour_test::Ends
{
  protected:
    void SetUp() override
    {
        Ends::SetUp();
        ASSERT_EQ(2u, sender->path_count);
        receive = Irecv(100);
        ASSERT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
        slot->part[0].bytes = 100;
        slot->part[0].memory = from_memory;
    }
    void TearDown() override
    {
        slot->part[0].bytes = 0;
        for (uint32_t p = 0; p < 2; p++)
            sender->path[p].state = DT_PATH_UP;
        dt_connection_choose_path(sender);
        if (sender->failing == DT_OK) {
            Wait(Isend(100));
            Wait(receive);
        }
        Ends::TearDown();
    }
    dt_request *receive = nullptr;
    dt_send_slot *slot = nullptr;
};

TEST_F(SendPath, IsTheUsualOneWhereBothBuffersAreRegisteredThere)
{
    EXPECT_EQ(&sender->path[0], dt_sender_path_for(s, slot));
}

TEST_F(SendPath, IsAnotherOneWhereADeviceDoesNotTakeTheBuffer)
{
    slot->entry[0].path_mask = 2;
    EXPECT_EQ(&sender->path[1], dt_sender_path_for(s, slot));
    slot->entry[0].path_mask = 3;
    from_memory->path_mask = 2;
    EXPECT_EQ(&sender->path[1], dt_sender_path_for(s, slot));
    from_memory->path_mask = 3;
}

TEST_F(SendPath, IsNoneWhileTheOneThatReachesTheBuffersIsDown)
{
    slot->entry[0].path_mask = 2;
    sender->path[1].state = DT_PATH_NONE;
    EXPECT_EQ(nullptr, dt_sender_path_for(s, slot));
    EXPECT_EQ(DT_OK, (int)sender->failing);
    slot->entry[0].path_mask = 3;
}

TEST_F(SendPath, BuffersThatNoPathReachesFailTheConnection)
{
    slot->entry[0].path_mask = 1;
    from_memory->path_mask = 2;
    detour_test::ExpectWarning("no path reaches the buffers of message 0 at both ends");
    EXPECT_EQ(nullptr, dt_sender_path_for(s, slot));
    EXPECT_EQ(DT_SYSTEM, (int)sender->failing);
    from_memory->path_mask = 3;
    slot->state = DT_SEND_FREE;
}

TEST_F(SendPath, AMessageWithoutBytesGoesOverAnyPath)
{
    slot->part[0].bytes = 0;
    slot->entry[0].path_mask = 0;
    EXPECT_EQ(&sender->path[0], dt_sender_path_for(s, slot));
    slot->entry[0].path_mask = 3;
}

TEST_F(SendPath, RoomIsThatOfEveryQueuePair)
{
    uint32_t room = dt_qp_room(sender->path[0].qp[0]);
    EXPECT_TRUE(dt_sender_has_room(&sender->path[0], room));
    EXPECT_FALSE(dt_sender_has_room(&sender->path[0], room + 1));
}
} // namespace
