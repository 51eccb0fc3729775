// SPDX-License-Identifier: Apache-2.0
#include "pipeline/flows.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/sched/sched_test.h"

using namespace sched_test;

/* Stages 1 and 2 are on device 1: the link between them is no flow. */
TEST(Flows, FindsTheFlowOfAnAction)
{
    Profile profile = Profile::Uniform(4, 1, 10, 10, 10);
    profile.stages[2].device = 1;
    profile.stages[3].device = 2;
    struct dt_pipeline_flows flows;
    ASSERT_TRUE(dt_pipeline_flows_init(&flows, profile.get(), 1));
    ASSERT_EQ(flows.count, 4u);
    EXPECT_EQ(flows.local_count, 2);
    for (auto [stage, kind, peer, link] : {std::array{1, static_cast<int>(DETOUR_ACTION_RECV_F), 0, 0},
                                           std::array{1, static_cast<int>(DETOUR_ACTION_SEND_B), 0, 0},
                                           std::array{2, static_cast<int>(DETOUR_ACTION_SEND_F), 2, 2},
                                           std::array{2, static_cast<int>(DETOUR_ACTION_RECV_B), 2, 2}}) {
        struct detour_action action = {0, static_cast<int16_t>(stage), static_cast<uint8_t>(kind), 0};
        const struct dt_executor_flow &end = flows.ends[dt_pipeline_flows_of(&flows, &action)];
        EXPECT_EQ(end.peer, peer);
        EXPECT_EQ(end.link, link);
        EXPECT_EQ(end.sends, dt_action_is_send(kind));
        EXPECT_EQ(end.backward, dt_action_is_of_gradient(kind));
    }
    dt_pipeline_flows_free(&flows);
    dt_pipeline_flows_free(&flows);
}

TEST(Flows, KnowsTheStageAtTheOtherEnd)
{
    struct detour_action action = {0, 3, DETOUR_ACTION_SEND_F, 0};
    EXPECT_EQ(dt_action_peer_stage(&action), 4);
    action.kind = DETOUR_ACTION_RECV_F;
    EXPECT_EQ(dt_action_peer_stage(&action), 2);
    action.kind = DETOUR_ACTION_SEND_B;
    EXPECT_EQ(dt_action_peer_stage(&action), 2);
    action.kind = DETOUR_ACTION_RECV_B;
    EXPECT_EQ(dt_action_peer_stage(&action), 4);
    EXPECT_FALSE(dt_action_is_message(DETOUR_ACTION_WAIT_F));
}
