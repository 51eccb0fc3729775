/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/eager_send.h"

#include "tests/hostpath/staged/staged_ends.h"

namespace
{
class EagerSend : public detour_test::StagedEnds
{
};

TEST_F(EagerSend, APayloadIsAtTheReceiverBeforeItsIrecv)
{
    AwaitGrant();
    for (uint32_t bytes : {0u, 1u, 3000u, 65536u}) {
        SendEagerly(bytes);
        /* No more from the sender until the receive is done. */
        dt_request *receive = Irecv(kBytes);
        int received = -1;
        for (int i = 0; i < 3 && received < 0; i++)
            IsDone(receive, &received);
        EXPECT_EQ((int)bytes, received);
        EXPECT_EQ(0, memcmp(from.data(), to.data(), bytes));
        AwaitDelivery();
    }
    EXPECT_EQ(0u, eager->held);
    EXPECT_EQ(0u, eager->discards);
}

TEST_F(EagerSend, NothingIsSentEagerlyUntilTheReceiverTakesIt)
{
    ASSERT_TRUE(Until([&] { return eager->is_granted != 0; }));
    Wait(Isend(100));
    for (int i = 0; i < 30; i++) {
        Step();
        dt_connection_progress(sender);
        dt_connection_progress(receiver);
    }
    EXPECT_EQ(0u, Arrivals());
    ASSERT_NE(nullptr, Irecv(100));
    AwaitDelivery();
}

TEST_F(EagerSend, AsManyAsThereArePlacesAreSent)
{
    AwaitGrant();
    for (uint32_t i = 0; i < DT_EAGER_PLACES; i++)
        SendEagerly(100 + i);
    Wait(Isend(100));
    for (int i = 0; i < 30; i++) {
        Step();
        dt_connection_progress(sender);
        dt_connection_progress(receiver);
    }
    EXPECT_EQ((uint32_t)DT_EAGER_PLACES, Arrivals());
    EXPECT_EQ(1u, eager->candidates);
    for (uint32_t i = 0; i <= DT_EAGER_PLACES; i++)
        ASSERT_NE(nullptr, Irecv(1000));
    AwaitDelivery();
    EXPECT_EQ(0u, Arrivals());
}
} // namespace
