// SPDX-License-Identifier: Apache-2.0
// Exchanges of ranks: their text, the positions that follow, and where what is slow is afterwards.
#include "cli/pipeline/exchange.h"

#include <gtest/gtest.h>

#include <string>

namespace
{
struct dt_pipeline_exchanges Read(std::initializer_list<const char *> texts)
{
    struct dt_pipeline_exchanges exchanges = {};
    for (const char *text : texts)
        EXPECT_TRUE(dt_pipeline_exchanges_add(&exchanges, text)) << text;
    return exchanges;
}

TEST(Exchange, TextsAreReadAndWrongOnesRefused)
{
    struct dt_pipeline_exchanges exchanges = Read({"1-2@3,through=/a/b", "0-3@3", "2-1@7"});
    EXPECT_EQ(exchanges.count, 3u);
    EXPECT_EQ(exchanges.list[2].a, 2u);
    EXPECT_EQ(exchanges.list[2].b, 1u);
    EXPECT_EQ(exchanges.list[2].before, 7u);
    EXPECT_STREQ(exchanges.directory, "/a/b");
    for (const char *wrong : {"", "1", "1-2", "1-2@", "1-2@0", "1-1@3", "a-2@3", "-1-2@8", "1-2@8x",
                              "1-2@8,through=", "1-2@8,through=/c", "1-2@8,other=/c", "1-2@6", " 1-2@8"})
        EXPECT_FALSE(dt_pipeline_exchanges_add(&exchanges, wrong)) << wrong;
    EXPECT_EQ(exchanges.count, 3u);
    struct dt_pipeline_exchanges one = {};
    EXPECT_FALSE(dt_pipeline_exchanges_add(&one, ("1-2@8,through=/" + std::string(256, 'd')).c_str()));
    for (int i = 0; i < DT_PIPELINE_EXCHANGES_MAX; i++)
        EXPECT_TRUE(dt_pipeline_exchanges_add(&one, "1-2@8"));
    EXPECT_FALSE(dt_pipeline_exchanges_add(&one, "1-2@8"));
}

TEST(Exchange, NamesTheRanksThatMove)
{
    const struct dt_pipeline_exchanges exchanges = Read({"1-2@3", "2-5@4"});
    const bool names[] = {false, true, true, false, false, true};
    for (unsigned rank = 0; rank < 6; rank++)
        EXPECT_EQ(dt_pipeline_exchanges_name(&exchanges, rank), names[rank]) << rank;
}

TEST(Exchange, WhatDoesNotFitIsNamed)
{
    struct dt_pipeline_exchanges exchanges = Read({"1-2@3"});
    char text[DT_PIPELINE_EXCHANGE_TEXT_BYTES];
    EXPECT_FALSE(dt_pipeline_exchanges_find_wrong(&exchanges, 2, 2, 4, text));
    EXPECT_TRUE(dt_pipeline_exchanges_find_wrong(&exchanges, 4, 1, 4, text)); /* no replicas */
    EXPECT_TRUE(dt_pipeline_exchanges_find_wrong(&exchanges, 1, 2, 4, text)); /* no rank 2 */
    EXPECT_TRUE(dt_pipeline_exchanges_find_wrong(&exchanges, 2, 2, 3, text)); /* no iteration 3 */
    EXPECT_NE(std::string(text).find("1-2@3"), std::string::npos);
}

TEST(Exchange, PositionsFollowFromTheExchangesBefore)
{
    const struct dt_pipeline_exchanges exchanges = Read({"1-2@3", "2-5@4", "1-2@4"});
    EXPECT_FALSE(dt_pipeline_exchanges_has(&exchanges, 2));
    EXPECT_TRUE(dt_pipeline_exchanges_has(&exchanges, 4));
    /* rank 2 is at 1 from iteration 3 on; then 2 and 5 exchange, and 1 (at 2) takes the place of 2 (at 5) */
    const unsigned positions[3][6] = {{0, 1, 2, 3, 4, 5}, {0, 2, 1, 3, 4, 5}, {0, 5, 2, 3, 4, 1}};
    for (uint32_t iteration = 2; iteration < 6; iteration++)
        for (unsigned rank = 0; rank < 6; rank++) {
            const unsigned position = positions[iteration < 4 ? iteration - 2 : 2][rank];
            EXPECT_EQ(dt_pipeline_exchanges_position_of(&exchanges, rank, iteration), position)
                << rank << " in " << iteration;
            EXPECT_EQ(dt_pipeline_exchanges_rank_at(&exchanges, position, iteration), rank);
        }
}

/* Two devices, two replicas; ranks 1 (device 1 of replica 0) and 2 (device 0 of replica 1) exchange. */
TEST(Exchange, WhatIsSlowMovesWithItsRank)
{
    const struct dt_pipeline_exchanges exchanges = Read({"1-2@3"});
    static struct dt_pipeline_slow slow, moved;
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0@0-0@1=20ms"));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=5ms,from=1"));
    ASSERT_TRUE(dt_pipeline_slow_add_device(&slow, "1@0=2x"));
    ASSERT_TRUE(dt_pipeline_exchanges_move_slow(&exchanges, 2, 2, 3, &slow, &moved));
    const struct dt_pipeline_position at00 = {0, 0}, at10 = {1, 0}, at01 = {0, 1}, at11 = {1, 1};
    /* ranks 0 and 2 are now at 0@0 and 1@0 */
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&moved.links[0], at00, at10));
    EXPECT_EQ(moved.links[0].delay_ns, 20000000);
    /* the link of both replicas: ranks 0 and 1, at 0@0 and 0@1; ranks 2 and 3, at 1@0 and 1@1 */
    ASSERT_EQ(moved.link_count, 3u);
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&moved.links[1], at00, at01));
    EXPECT_TRUE(dt_pipeline_slow_link_joins(&moved.links[2], at10, at11));
    EXPECT_EQ(moved.links[2].period.from, 1u);
    EXPECT_EQ(dt_pipeline_slow_permille(&moved, at01, 0), 2000u);
    EXPECT_EQ(dt_pipeline_slow_permille(&moved, at10, 0), 1000u);
}

TEST(Exchange, ATableThatIsTooSmallIsReported)
{
    const struct dt_pipeline_exchanges exchanges = Read({"1-2@3"});
    static struct dt_pipeline_slow slow, moved;
    for (int i = 0; i < DT_PIPELINE_SLOW_MAX; i++)
        ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=5ms"));
    EXPECT_FALSE(dt_pipeline_exchanges_move_slow(&exchanges, 2, 2, 3, &slow, &moved));
}
} // namespace
