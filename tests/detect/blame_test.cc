// SPDX-License-Identifier: Apache-2.0
#include "detect/blame.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace
{
// Four NICs here, four at each of three peers, a connection for each pair of the same number and one
// crosswise.
class Blame : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        for (uint32_t peer = 0; peer < 3; peer++)
            for (uint32_t own = 0; own < 4; own++)
                for (uint32_t cross = 0; cross < 2; cross++) {
                    dt_blame_connection connection = {};
                    connection.own_nic = own;
                    connection.peer = connection.peer_host = peer;
                    connection.peer_nic = (own + cross) % 4;
                    connection.size_class = 20;
                    connection.seconds_a_byte = 1e-9 * (1 + 0.01 * own);
                    connections.push_back(connection);
                }
    }
    void Decide()
    {
        std::vector<dt_blame_connection *> order(connections.size());
        dt_blame_decide(connections.data(), static_cast<uint32_t>(connections.size()), order.data());
    }
    std::vector<dt_blame_connection> connections;
};

TEST_F(Blame, NoCauseWhenAllAreAlike)
{
    Decide();
    for (const auto &connection : connections) {
        EXPECT_EQ(connection.blame, DT_BLAME_NONE);
        EXPECT_NEAR(connection.of_median, 1, 0.03);
    }
}

TEST_F(Blame, TheOwnNicWhenAllItsConnectionsSuffer)
{
    for (auto &connection : connections)
        if (connection.own_nic == 2)
            connection.seconds_a_byte *= 1.5;
    Decide();
    for (const auto &connection : connections)
        EXPECT_EQ(connection.blame, connection.own_nic == 2 ? DT_BLAME_OWN_NIC : DT_BLAME_NONE);
}

TEST_F(Blame, ThePeersNicWhenAllThatLeadToItSuffer)
{
    for (auto &connection : connections)
        connection.is_slow = connection.peer == 1 && connection.peer_nic == 3;
    Decide();
    for (const auto &connection : connections)
        EXPECT_EQ(connection.blame, connection.is_slow ? DT_BLAME_PEER_NIC : DT_BLAME_NONE);
}

TEST_F(Blame, TheLinkWhenItIsAlone)
{
    connections[5].is_slow = true;
    Decide();
    for (size_t i = 0; i < connections.size(); i++)
        EXPECT_EQ(connections[i].blame, i == 5 ? DT_BLAME_LINK : DT_BLAME_NONE);
}

/* Before any comparison, and only of a connection that is slow. */
TEST_F(Blame, TheProcessorThatExplainsTheTimeBeforeALink)
{
    for (auto &connection : connections)
        connection.is_processor = true;
    connections[5].is_slow = true;
    Decide();
    for (size_t i = 0; i < connections.size(); i++)
        EXPECT_EQ(connections[i].blame, i == 5 ? DT_BLAME_OWN_PROCESSOR : DT_BLAME_NONE) << i;
    connections[5].is_processor = false;
    Decide();
    EXPECT_EQ(connections[5].blame, DT_BLAME_LINK);
}

TEST_F(Blame, APeerThatIsNotReadyIsNoSlowLink)
{
    connections[7].is_waiting = true;
    connections[8].is_waiting = connections[8].is_slow = true;
    Decide();
    EXPECT_EQ(connections[7].blame, DT_BLAME_PEER_NOT_READY);
    EXPECT_EQ(connections[8].blame, DT_BLAME_LINK);
}

TEST_F(Blame, SizesAreComparedWithTheirLikeAndFewWithNone)
{
    connections[0].size_class = connections[1].size_class = 3;
    connections[0].seconds_a_byte = 1e-6;
    connections[1].seconds_a_byte = 5e-6;
    connections[2].seconds_a_byte = 0;
    Decide();
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(connections[i].of_median, 0);
        EXPECT_EQ(connections[i].blame, DT_BLAME_NONE);
    }
    dt_blame_decide(nullptr, 0, nullptr);
}

TEST(BlameText, IsNeverNull)
{
    EXPECT_STREQ(dt_blame_text(DT_BLAME_NONE), "healthy");
    EXPECT_STREQ(dt_blame_text(static_cast<dt_blame>(77)), "unknown");
}
} // namespace
