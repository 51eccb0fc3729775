/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/staged.h"

#include "tests/hostpath/staged/staged_ends.h"
#include "transport/message/receive_end.h"
#include "transport/message/send_again.h"

namespace
{
class Staged : public detour_test::StagedEnds
{
};

class Direct : public detour_test::Ends
{
};

TEST_F(Direct, WithoutTheHostPathBothEndsKeepTheirOwnOperations)
{
    EXPECT_EQ(&dt_sender_ops, sender->ops);
    EXPECT_EQ(&dt_receiver_ops, receiver->ops);
    EXPECT_FALSE(sender->notices & DT_NOTICE_STAGED);
    EXPECT_FALSE(receiver->notices & DT_NOTICE_STAGED);
    EXPECT_EQ(nullptr, s->stage);
    EXPECT_EQ(nullptr, r->eager);
    EXPECT_EQ(0u, sender->group.staged.bytes);
}

TEST_F(Staged, WithTheHostPathCallsComeHere)
{
    EXPECT_NE(&dt_sender_ops, sender->ops);
    EXPECT_NE(&dt_receiver_ops, receiver->ops);
    EXPECT_TRUE(sender->attended & DT_NOTICE_STAGED);
    EXPECT_TRUE(receiver->attended & DT_NOTICE_STAGED);
    EXPECT_EQ(there.net->hostpath.pool.base, sender->group.staged.base);
    EXPECT_STREQ("to", sender->ops->direction);
    EXPECT_STREQ("from", receiver->ops->direction);
}

TEST_F(Staged, OnlyASenderWhoseRequestsAreAllReportedMayLinger)
{
    dt_request *send = Isend(100);

    EXPECT_FALSE(sender->ops->may_linger(sender));
    EXPECT_EQ(1u, sender->ops->undelivered(sender));
    Wait(send);
    EXPECT_TRUE(sender->ops->may_linger(sender));
    EXPECT_EQ(1u, sender->ops->undelivered(sender));
    ASSERT_NE(nullptr, Irecv(100));
    AwaitDelivery();
    EXPECT_EQ(0u, sender->ops->undelivered(sender));
    EXPECT_FALSE(receiver->ops->may_linger(receiver));
}

TEST_F(Staged, MemoryOfNoGpuIsLeftAsItIs)
{
    dt_staged_add_gpu_memory(sender, from_memory, 0);
    EXPECT_EQ(nullptr, from_memory->gpu);
    dt_staged_add_gpu_memory(receiver, to_memory, 2);
    EXPECT_EQ(nullptr, to_memory->bounce);
    EXPECT_EQ(nullptr, r->gpu_bounce);
}

TEST_F(Staged, ASlotThatWasReportedBeforeItsTakeIsPolledForByTheNextIrecv)
{
    AwaitGrant();
    for (uint32_t i = 0; i < 2 * receiver->slots; i++) {
        dt_request *receive = nullptr;
        int bytes = 0;
        SendEagerly(100);
        ASSERT_TRUE(Until([&] { return (receive = Irecv(100)) != nullptr; })) << i;
        ASSERT_TRUE(Until([&] { return IsDone(receive, &bytes); })) << i;
        EXPECT_EQ(100, bytes);
        dt_connection_progress(sender);
    }
    AwaitDelivery();
}
} // namespace
