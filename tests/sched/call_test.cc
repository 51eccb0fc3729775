// SPDX-License-Identifier: Apache-2.0
#include "sched/call.h"

#include "tests/sched/sched_test.h"

using namespace sched_test;

TEST(Call, AnErrorHasItsStatusAndALineThatFits)
{
    struct detour_error error = {};
    std::string text(1000, 'x');
    EXPECT_EQ(dt_error_set(&error, DETOUR_LIMIT, "%s", text.c_str()), DETOUR_LIMIT);
    EXPECT_EQ(error.status, DETOUR_LIMIT);
    EXPECT_EQ(error.text, text.substr(0, sizeof error.text - 1));
    EXPECT_EQ(dt_error_set(nullptr, DETOUR_INVALID, "nowhere to write"), DETOUR_INVALID);
    EXPECT_EQ(dt_fail_memory(&error), DETOUR_NO_MEMORY);
}

TEST(Call, EveryStatusHasAText)
{
    EXPECT_STREQ(detour_status_text(static_cast<enum detour_status>(12345)), "unknown status");
#define DT_TEXT(name, value, text) EXPECT_STREQ(detour_status_text(name), text);
    DETOUR_STATUS_LIST(DT_TEXT)
#undef DT_TEXT
}

TEST(Call, ShouldStopIsAskedEvery256NodesAndItsAnswerStays)
{
    struct detour_options options = {};
    struct dt_call call;
    int asked = 0;
    options.should_stop = [](void *arg) { return ++*static_cast<int *>(arg) == 3; };
    options.should_stop_arg = &asked;
    dt_call_init(&call, nullptr, nullptr, &options);
    int nodes = 1;
    while (!dt_call_node(&call))
        nodes++;
    EXPECT_EQ(nodes, 3 * 256);
    for (int i = 0; i < 1000; i++)
        EXPECT_TRUE(dt_call_node(&call));
    EXPECT_EQ(asked, 3);
}

TEST(Call, WithoutOptionsThereAreDefaults)
{
    struct dt_call call;
    dt_call_init(&call, nullptr, nullptr, nullptr);
    ASSERT_NE(call.options, nullptr);
    EXPECT_EQ(call.options->node_budget, 0u);
    EXPECT_FALSE(dt_call_node(&call));
}
