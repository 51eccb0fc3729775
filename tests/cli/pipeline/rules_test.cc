/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/rules.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include <unistd.h>

#include "delay/rule.h"

namespace
{
struct dt_pipeline_process Process(const char *name)
{
    struct dt_pipeline_process process = {};
    snprintf(process.name, sizeof process.name, "%s", name);
    return process;
}
} // namespace

TEST(PipelineRules, AProcessIsCalledAsThePluginCallsIt)
{
    struct dt_pipeline_process self;
    dt_pipeline_process_self(&self);
    EXPECT_NE(std::string(self.name).find(":" + std::to_string(getpid())), std::string::npos);
}

/* delay/ reads what a slow link becomes. */
TEST(PipelineRules, ASlowLinkIsARule)
{
    struct dt_pipeline_process peer = Process("host7:4711");
    struct dt_pipeline_slow slow = {};
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=20ms"));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=1.5ms,serial"));
    for (size_t i = 0; i < 2; i++) {
        char text[DT_PIPELINE_RULE_BYTES];
        struct dt_delay_rule rule;
        struct dt_delay_error error;
        size_t count = 0;
        dt_pipeline_rule_text(&slow.links[i], &peer, text);
        ASSERT_EQ(dt_delay_parse(text, strlen(text), &rule, 1, &count, &error), DT_OK)
            << text << ": " << error.text;
        ASSERT_EQ(count, 1u);
        EXPECT_STREQ(rule.scope.peer, "host7:4711");
        EXPECT_EQ(rule.effect, i ? DT_DELAY_SERIAL : DT_DELAY_LATENCY);
    }
}

/* A link that has no end at this device, or is not slow in the iteration, needs no command. */
TEST(PipelineRules, OtherLinksAreLeftAlone)
{
    struct dt_pipeline_process peers[4] = {};
    struct dt_pipeline_rules rules = {};
    struct dt_pipeline_slow slow = {};
    struct dt_job_error error = {};
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "2-3=20ms"));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=20ms,from=5"));
    rules.processes = peers;
    rules.devices = 4;
    EXPECT_TRUE(dt_pipeline_rules_set(&rules, &slow, 4, &error)) << error.text;
    EXPECT_EQ(rules.numbers[0], 0);
}

/* This process has no command socket. */
TEST(PipelineRules, AFailureNamesTheRule)
{
    struct dt_pipeline_process peers[2] = {Process("a:1"), Process("b:2")};
    struct dt_pipeline_rules rules = {};
    struct dt_pipeline_slow slow = {};
    struct dt_job_error error = {};
    ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, "0-1=20ms"));
    rules.processes = peers;
    rules.devices = 2;
    EXPECT_FALSE(dt_pipeline_rules_set(&rules, &slow, 0, &error));
    EXPECT_NE(std::string(error.text).find("`detour inject add peer=b:2 latency=20000000ns` at this rank: "),
              std::string::npos)
        << error.text;
}

/* The failure names the process at the other end: in the own replica, or the same device of the next one. */
TEST(PipelineRules, TheOtherEndIsFoundInTheGrid)
{
    struct dt_pipeline_process peers[4] = {Process("a:1"), Process("b:2"), Process("c:3"), Process("d:4")};
    const struct {
        const char *link, *peer;
    } cases[] = {{"0-1=1ms", "peer=c:3 "},
                 {"0@1-1@1=1ms", "peer=c:3 "},
                 {"1@0-1@1=1ms", "peer=b:2 "},
                 {"0@0-1@0=1ms", ""},
                 {"0@0-0@1=1ms", ""}};
    for (const auto &one : cases) {
        struct dt_pipeline_rules rules = {};
        struct dt_pipeline_slow slow = {};
        struct dt_job_error error = {};
        rules.processes = peers;
        rules.devices = 2;
        rules.position = {1, 1};
        ASSERT_TRUE(dt_pipeline_slow_add_link(&slow, one.link));
        EXPECT_EQ(dt_pipeline_rules_set(&rules, &slow, 0, &error), !*one.peer) << one.link;
        EXPECT_NE(std::string(error.text).find(one.peer), std::string::npos) << error.text;
    }
}

TEST(PipelineRules, ProcessesOfOneMachineHaveItsName)
{
    dt_pipeline_process a = {"node:12"}, b = {"node:345"}, c = {"node7:12"};

    EXPECT_TRUE(dt_pipeline_process_is_near(&a, &b));
    EXPECT_FALSE(dt_pipeline_process_is_near(&a, &c));
    EXPECT_FALSE(dt_pipeline_process_is_near(&c, &a));
}
