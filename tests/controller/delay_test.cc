// SPDX-License-Identifier: Apache-2.0
#include "controller/delay.h"

#include <gtest/gtest.h>

#include <vector>

namespace
{
dt_known_link Known(int32_t from, int32_t to, uint64_t connection, uint64_t service_ns)
{
    dt_known_link link = {};

    link.from_rank = from;
    link.to_rank = to;
    link.connection = connection;
    link.service_ns = service_ns;
    return link;
}

bool IsRefuted(const std::vector<dt_known_link> &links, uint64_t connection)
{
    const dt_decided_link link = {2, 3, 100};
    dt_situation situation = {};

    situation.links = links.data();
    situation.link_count = links.size();
    return dt_delay_is_refuted(&situation, &link, connection);
}

TEST(Delay, MessagesOfLessThanHalfOfItRefuteIt)
{
    EXPECT_FALSE(IsRefuted({}, 0)) << "nothing was measured";
    EXPECT_TRUE(IsRefuted({Known(2, 3, 7, 49)}, 0));
    EXPECT_FALSE(IsRefuted({Known(2, 3, 7, 50)}, 0));
    EXPECT_FALSE(IsRefuted({Known(3, 2, 7, 1)}, 0)) << "the other direction";
    EXPECT_FALSE(IsRefuted({Known(2, 3, 0, 1)}, 0)) << "an unused place";
    EXPECT_FALSE(IsRefuted({Known(2, 3, 7, 0)}, 0)) << "no message";
}

TEST(Delay, TheSlowestConnectionOfItsRanksCounts)
{
    const std::vector<dt_known_link> links = {Known(2, 3, 7, 1), Known(2, 3, 8, 60)};

    EXPECT_FALSE(IsRefuted(links, 0));
    EXPECT_TRUE(IsRefuted(links, 7)) << "of this connection alone";
    EXPECT_FALSE(IsRefuted(links, 8));
}

TEST(Delay, ADecisionNamesRanksAndTimesThatRecordsHave)
{
    dt_decided_link link = {};
    dt_slow_link slow = {2, 3, 1.5, DT_DELAY_MAX_NS, 1};

    ASSERT_TRUE(dt_delay_of(&slow, &link));
    EXPECT_EQ(link.from_rank, 2);
    EXPECT_EQ(link.to_rank, 3);
    EXPECT_EQ(link.delay_ns, DT_DELAY_MAX_NS);
    slow.delay_ns++;
    EXPECT_FALSE(dt_delay_of(&slow, &link));
    slow = {2, DT_JUDGE_UNKNOWN, 1.5, 1, 1};
    EXPECT_FALSE(dt_delay_of(&slow, &link));
    slow = {DT_RECORD_RANK_MAX + 1, 3, 1.5, 1, 1};
    EXPECT_FALSE(dt_delay_of(&slow, &link));
}
} // namespace
