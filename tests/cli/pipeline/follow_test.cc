// SPDX-License-Identifier: Apache-2.0
#include "cli/pipeline/follow.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>

#include "controller/execute.h"
#include "tests/obs/folder.h"

namespace
{
class PipelineFollow : public ::testing::Test
{
  protected:
    PipelineFollow()
    {
        setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
    }
    ~PipelineFollow() override
    {
        unsetenv("DETOUR_RUNTIME_DIR");
    }
    /* As the agent of this host writes it. */
    void Decide(int64_t number, int64_t fence, std::initializer_list<dt_decided_link> links)
    {
        dt_decision decision = {};
        char text[DT_RECORD_TEXT_BYTES];

        decision.number = number;
        decision.fence = fence;
        decision.kind = DT_DECISION_REPLAN;
        for (const dt_decided_link &link : links)
            decision.links[decision.link_count++] = link;
        ASSERT_EQ(dt_execute(folder.path.c_str(), &decision, text), DT_OK) << text;
    }
    /* After every decision that is there. */
    void Start(bool is_continued = false)
    {
        dt_pipeline_follow_start(&follow, INT64_MAX, is_continued);
    }
    bool Read()
    {
        return dt_pipeline_follow_read(&follow, verdicts, 4);
    }

    Folder folder;
    dt_pipeline_follow follow = {};
    dt_pipeline_verdicts verdicts[4];
};

TEST_F(PipelineFollow, TheDelaysOfADecisionAreReadOnce)
{
    Start();
    EXPECT_FALSE(Read());
    Decide(1, 1, {{2, 3, 20000000}, {3, 2, 19000000}, {3, 0, 5}});
    ASSERT_TRUE(Read());
    EXPECT_EQ(verdicts[2].slow[0].to_rank, 3);
    EXPECT_EQ(verdicts[2].slow[0].delay_ns, 20000000);
    EXPECT_EQ(verdicts[2].slow[1].to_rank, -1);
    EXPECT_EQ(verdicts[3].slow[0].to_rank, 2);
    EXPECT_EQ(verdicts[3].slow[1].to_rank, 0);
    EXPECT_EQ(verdicts[0].slow[0].to_rank, -1);
    EXPECT_FALSE(Read());
    Decide(2, 1, {});
    ASSERT_TRUE(Read());
    EXPECT_EQ(verdicts[2].slow[0].to_rank, -1);
}

TEST_F(PipelineFollow, TheDecisionOfAnEarlierJobIsNotFollowed)
{
    Decide(7, 3, {{2, 3, 20000000}});
    Start();
    EXPECT_FALSE(Read());
    Decide(8, 2, {{2, 3, 20000000}}); /* of a controller whose lease has ended */
    EXPECT_FALSE(Read());
    Decide(8, 4, {{2, 3, 20000000}});
    EXPECT_TRUE(Read());
    Decide(1, 5, {{2, 3, 20000000}}); /* of a later controller, whose numbers begin anew */
    EXPECT_TRUE(Read());
}

TEST_F(PipelineFollow, ADecisionThatWasWrittenAfterTheStartOfTheRunIsFollowed)
{
    const struct timespec at[2] = {{1000, 5}, {1000, 5}};

    Decide(7, 3, {{2, 3, 20000000}});
    ASSERT_EQ(utimensat(AT_FDCWD, (folder.path + "/" DT_DECISION_FILE).c_str(), at, 0), 0);
    dt_pipeline_follow_start(&follow, 1000000000006, false);
    EXPECT_FALSE(Read());
    dt_pipeline_follow_start(&follow, 1000000000005, false);
    EXPECT_TRUE(Read());
}

TEST_F(PipelineFollow, ARunThatContinuesItsJobFollowsTheDecisionFromItsFirstIteration)
{
    Start(true);
    EXPECT_FALSE(Read());
    Decide(7, 3, {{2, 3, 20000000}});
    Start(true);
    EXPECT_TRUE(Read());
    EXPECT_FALSE(Read());
}

TEST_F(PipelineFollow, ADecisionIsProposedAgainUntilItIsAdopted)
{
    struct detour_stage stages[4] = {};
    struct detour_link links[3] = {};
    struct detour_profile profile = {};
    dt_pipeline_delays delays;

    for (int i = 0; i < 4; i++)
        stages[i].device = i;
    profile.device_count = profile.stage_count = 4;
    profile.stages = stages;
    profile.links = links;
    Start();
    EXPECT_FALSE(dt_pipeline_follow_next(&follow, &profile, 1, &delays));
    Decide(1, 1, {{2, 3, 20000000}, {1, 0, 7000000}});
    for (int i = 0; i < DT_PIPELINE_FOLLOW_TRIES; i++) {
        ASSERT_TRUE(dt_pipeline_follow_next(&follow, &profile, 1, &delays));
        EXPECT_EQ(delays.forward_ns[2], 20000000);
        EXPECT_EQ(delays.backward_ns[2], 0);
        EXPECT_EQ(delays.backward_ns[0], 7000000);
    }
    EXPECT_FALSE(dt_pipeline_follow_next(&follow, &profile, 1, &delays));
    Decide(2, 1, {});
    ASSERT_TRUE(dt_pipeline_follow_next(&follow, &profile, 1, &delays));
    EXPECT_EQ(delays.forward_ns[2], 0);
    follow.tries = 0; /* adopted */
    EXPECT_FALSE(dt_pipeline_follow_next(&follow, &profile, 1, &delays));
}

TEST_F(PipelineFollow, LinksOfOtherRanksAndTooManyOfOneAreLeftOut)
{
    Start();
    Decide(1, 1, {{9, 3, 1}, {2, 9, 1}, {1, 0, 1}, {1, 0, 2}, {1, 0, 3}, {1, 0, 4}, {1, 0, 5}, {1, 0, 6}});
    ASSERT_TRUE(Read());
    EXPECT_EQ(verdicts[2].slow[0].to_rank, -1);
    EXPECT_EQ(verdicts[1].slow[DT_PIPELINE_VERDICTS_MAX - 1].delay_ns, DT_PIPELINE_VERDICTS_MAX);
}

TEST_F(PipelineFollow, WhatIsNoDecisionIsIgnored)
{
    const std::string path = folder.path + "/" DT_DECISION_FILE;

    Start();
    testing::internal::CaptureStderr();
    std::ofstream(path) << "{\"version\":1";
    EXPECT_FALSE(Read());
    EXPECT_FALSE(Read()) << "the same content, one line";
    std::ofstream(path) << std::string(DT_STORE_RECORD_BYTES + 10, ' ');
    EXPECT_FALSE(Read());
    Decide(1, 1, {{2, 3, 20000000}});
    std::stringstream decision;
    decision << std::ifstream(path).rdbuf();
    std::string text = decision.str();
    std::ofstream(path) << std::string(text).replace(text.find("\"fence\":1"), 9, "\"fence\":x");
    EXPECT_FALSE(Read());
    std::ofstream(path) << std::string(text).replace(text.find("\"fence\":1"), 9, "\"fence\":-7");
    EXPECT_FALSE(Read());
    std::ofstream(path) << std::string(text).replace(text.find("replan"), 6, "hold");
    EXPECT_FALSE(Read());
    const std::string line = "detour pipeline: " + path + " is not followed: ";
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              line + "the record: expected a JSON object\n" + line +
                  "the record: expected less than 65536 bytes\n" + line +
                  "the record: expected a JSON object\n" + line +
                  "fence: expected an integer from 1 to 4611686018427387903\n" + line +
                  "kind: expected replan\n");
    std::filesystem::remove(path);
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0); /* must not block */
    EXPECT_FALSE(Read());
    setenv("DETOUR_RUNTIME_DIR", (folder.path + "/missing").c_str(), 1);
    EXPECT_FALSE(Read());
}
} // namespace
