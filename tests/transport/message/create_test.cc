/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/create.h"

#include "tests/transport/message/ends.h"
#include "transport/message/receive_end.h"
#include "transport/message/send_again.h"

namespace
{
TEST(Create, GivesEachKindOfEndItsOperationsAndOneReference)
{
    detour_test::Net net(1);

    for (bool is_sender : {true, false}) {
        dt_connection *c = dt_connection_create(&net.net->nic[0], is_sender);
        ASSERT_NE(nullptr, c);
        EXPECT_EQ(is_sender, c->is_sender);
        EXPECT_EQ(is_sender ? &dt_sender_ops : &dt_receiver_ops, c->ops);
        EXPECT_STREQ(is_sender ? "to" : "from", c->ops->direction);
        EXPECT_EQ(1u, c->group.references);
        EXPECT_EQ(0u, c->ops->undelivered(c));
        EXPECT_FALSE(c->ops->may_linger(c));
        EXPECT_EQ(0u, c->ops->count_again(c));
        EXPECT_EQ(0u, c->ops->close_sequence(c));
        dt_path_group_release(&c->group);
    }
}

TEST(Create, AConnectionIsFreedWithItsLastReferenceOnly)
{
    detour_test::Net net(1);
    dt_connection *c = dt_connection_create(&net.net->nic[0], true);

    ASSERT_NE(nullptr, c);
    c->group.references = 2;
    dt_path_group_release(&c->group);
    EXPECT_EQ(1u, c->group.references);
    dt_path_group_release(&c->group);
}
} // namespace
