/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/shares.h"

#include <gtest/gtest.h>

#include <string>

namespace
{
struct dt_pipeline_shares Shares(std::initializer_list<const char *> texts)
{
    struct dt_pipeline_shares shares = {};
    for (const char *text : texts)
        EXPECT_TRUE(dt_pipeline_shares_add(&shares, text)) << text;
    return shares;
}

void ExpectShare(const struct dt_pipeline_shares &shares, int32_t replica, uint32_t iteration, int32_t first,
                 int32_t count)
{
    struct dt_pipeline_share share = dt_pipeline_share_of(&shares, 3, 10, replica, iteration);
    EXPECT_EQ(share.first, first) << "replica " << replica << ", iteration " << iteration;
    EXPECT_EQ(share.count, count) << "replica " << replica << ", iteration " << iteration;
    EXPECT_EQ(share.total, 30);
}

std::string Wrong(std::initializer_list<const char *> texts, int32_t replicas, int32_t microbatches)
{
    struct dt_pipeline_shares shares = Shares(texts);
    char text[DT_PIPELINE_SHARES_TEXT_BYTES];
    return dt_pipeline_shares_find_wrong(&shares, replicas, microbatches, 20, text) ? text : "";
}
} // namespace

TEST(PipelineShares, WithoutASetAllReplicasHaveAsMany)
{
    struct dt_pipeline_shares shares = {};
    ExpectShare(shares, 0, 0, 0, 10);
    ExpectShare(shares, 2, 7, 20, 10);
    EXPECT_EQ(dt_pipeline_shares_largest(&shares, 10), 10);
}

TEST(PipelineShares, ChangeAtTheIterationOfASet)
{
    struct dt_pipeline_shares shares = Shares({"5,12,13@4", "14,8,8@6"});
    ExpectShare(shares, 1, 3, 10, 10);
    ExpectShare(shares, 0, 4, 0, 5);
    ExpectShare(shares, 1, 4, 5, 12);
    ExpectShare(shares, 2, 5, 17, 13);
    ExpectShare(shares, 1, 6, 14, 8);
    ExpectShare(shares, 2, 1000, 22, 8);
    EXPECT_EQ(dt_pipeline_shares_largest(&shares, 10), 14);
}

/* Whatever the counts, every microbatch of the batch belongs to one replica. */
TEST(PipelineShares, CoverTheBatch)
{
    struct dt_pipeline_shares shares = Shares({"1,28,1", "10,10,10@1", "7,2,21@2"});
    for (uint32_t iteration = 0; iteration < 4; iteration++) {
        int32_t next = 0;
        for (int32_t replica = 0; replica < 3; replica++) {
            struct dt_pipeline_share share = dt_pipeline_share_of(&shares, 3, 10, replica, iteration);
            EXPECT_EQ(share.first, next);
            next += share.count;
        }
        EXPECT_EQ(next, 30);
    }
}

TEST(PipelineShares, AnotherFormIsRefused)
{
    for (const char *text : {"", ",", "1,", "1,,2", "0,2", "-1,2", "1 ,2", "1,2@", "1,2@-1", "1,2@x",
                             "1,2@1x", "4097,1", "1,99999999999999999999", "1,2@4294967296"}) {
        struct dt_pipeline_shares shares = {};
        EXPECT_FALSE(dt_pipeline_shares_add(&shares, text)) << text;
        EXPECT_EQ(shares.set_count, 0u);
    }
    struct dt_pipeline_shares shares = Shares({"1,2@5"});
    EXPECT_FALSE(dt_pipeline_shares_add(&shares, "1,2@5")) << "the same iteration";
    EXPECT_FALSE(dt_pipeline_shares_add(&shares, "1,2")) << "an earlier one";
    std::string many = "1";
    for (int i = 1; i < DT_PIPELINE_SHARE_REPLICAS_MAX; i++)
        many += ",1";
    EXPECT_TRUE(dt_pipeline_shares_add(&shares, (many + "@6").c_str()));
    EXPECT_FALSE(dt_pipeline_shares_add(&shares, (many + ",1@7").c_str()));
}

TEST(PipelineShares, HaveAtMostSoManySets)
{
    struct dt_pipeline_shares shares = {};
    for (int i = 0; i < DT_PIPELINE_SHARE_SETS_MAX; i++)
        EXPECT_TRUE(dt_pipeline_shares_add(&shares, ("1,2@" + std::to_string(i)).c_str()));
    EXPECT_FALSE(dt_pipeline_shares_add(&shares, "1,2@99"));
}

TEST(PipelineShares, AWrongSetIsNamed)
{
    EXPECT_EQ(Wrong({}, 2, 16), "");
    EXPECT_EQ(Wrong({"12,20", "20,12@19"}, 2, 16), "");
    EXPECT_EQ(Wrong({"12,20", "20,11,1@3"}, 2, 16), "3 counts from iteration 3 on, but there are 2 replicas");
    EXPECT_EQ(Wrong({"12,21"}, 2, 16),
              "the counts from iteration 0 on sum up to 33; 2 replicas of 16 microbatches have 32");
    EXPECT_EQ(Wrong({"12,20@20"}, 2, 16), "@20: iterations are 0 to 19");
}
