/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "delay/flow.h"

namespace
{
constexpr uint64_t kS = DT_NS_PER_S;

class DelayTable : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(DT_OK, dt_delay_table_create(&table));
    }
    void TearDown() override
    {
        dt_delay_table_destroy(table);
    }
    dt_status TryAdd(const std::string &text, uint32_t *number, uint64_t now_ns = 0,
                     dt_delay_files files = {})
    {
        dt_delay_rule rule;
        dt_delay_error error = {};
        size_t count = 0;

        EXPECT_EQ(DT_OK, dt_delay_parse(text.data(), text.size(), &rule, 1, &count, &error)) << error.text;
        return dt_delay_table_add(table, &rule, &files, now_ns, number);
    }
    uint32_t Add(const std::string &text, uint64_t now_ns = 0, dt_delay_files files = {})
    {
        uint32_t number = 0;
        EXPECT_EQ(DT_OK, TryAdd(text, &number, now_ns, files));
        return number;
    }
    /* What the rules together want of a link, and until when. */
    enum Link { kUp, kDown, kDead };
    void ExpectLink(const char *device, uint64_t now_ns, Link wanted, uint64_t until_ns)
    {
        dt_delay_active *faults[DT_DELAY_RULES_MAX];
        uint64_t next_ns = 0;
        Link link = kUp;
        size_t count = dt_delay_table_faults(table, device, now_ns, faults, &next_ns);
        for (size_t i = 0; i < count; i++) {
            link = std::max(link, faults[i]->rule.effect == DT_DELAY_TRACE ? kDead : kDown);
            dt_delay_active_release(faults[i]);
        }
        EXPECT_EQ(until_ns, next_ns) << "at " << now_ns;
        EXPECT_EQ(wanted, link) << "at " << now_ns;
    }
    dt_delay_table *table = nullptr;
};

TEST_F(DelayTable, ListsRulesByTheirNumbers)
{
    EXPECT_EQ(1u, Add("latency=1ms"));
    EXPECT_EQ(2u, Add("latency=2ms", 7));
    EXPECT_EQ(DT_OK, dt_delay_table_remove(table, 1));
    EXPECT_EQ(3u, Add("latency=3ms"));
    dt_delay_info info[DT_DELAY_RULES_MAX];
    ASSERT_EQ(2u, dt_delay_table_list(table, info));
    EXPECT_EQ(2u, info[0].number);
    EXPECT_EQ(7u, info[0].since_ns);
    EXPECT_EQ(3u, info[1].number);
    EXPECT_EQ(2u, dt_delay_table_clear(table));
    EXPECT_EQ(0u, dt_delay_table_list(table, info));
}

TEST_F(DelayTable, HoldsSoManyRulesAndNoMore)
{
    uint32_t number = 0;
    for (int i = 0; i < DT_DELAY_RULES_MAX; i++)
        Add("latency=1ms");
    EXPECT_EQ(DT_FULL, TryAdd("latency=1ms", &number));
    EXPECT_EQ(DT_OK, dt_delay_table_remove(table, 5));
    EXPECT_EQ(DT_OK, TryAdd("latency=1ms", &number));
}

TEST_F(DelayTable, ALinkIsDownInItsWindow)
{
    ExpectLink("soft0", 0, kUp, DT_NEVER_NS);
    Add("device=soft0 down from=5s to=7s", 10 * kS);
    ExpectLink("soft0", 10 * kS, kUp, 15 * kS);
    ExpectLink("soft0", 15 * kS, kDown, 17 * kS);
    ExpectLink("soft0", 17 * kS, kUp, DT_NEVER_NS);
    ExpectLink("soft1", 16 * kS, kUp, DT_NEVER_NS);
    dt_delay_table_clear(table);
    ExpectLink("soft0", 16 * kS, kUp, DT_NEVER_NS);
}

TEST_F(DelayTable, AFlappingLinkGoesDownAndUp)
{
    Add("device=soft0 flap=1s/4s from=2s to=13s", 0);
    ExpectLink("soft0", 0, kUp, 2 * kS);
    ExpectLink("soft0", 2 * kS, kDown, 3 * kS);
    ExpectLink("soft0", 3 * kS, kUp, 7 * kS);
    ExpectLink("soft0", 7 * kS + 1, kDown, 8 * kS);
    ExpectLink("soft0", 12 * kS, kDown, 13 * kS);
    ExpectLink("soft0", 13 * kS, kUp, DT_NEVER_NS);
}

TEST_F(DelayTable, OneRuleThatWantsALinkDownIsEnough)
{
    Add("device=soft0 flap=1s/1s");
    Add("device=soft0 down from=1s");
    ExpectLink("soft0", 1500000000, kDown, 2 * kS);
}

TEST_F(DelayTable, ACrashInATraceIsForGood)
{
    dt_delay_files files = {};
    dt_delay_error error;
    const char *text = "7;0_1;0.06\n9;;inf";
    ASSERT_EQ(DT_OK, dt_delay_trace_create("0_1", &files.trace));
    ASSERT_EQ(DT_OK, dt_delay_trace_parse(files.trace, text, strlen(text), 2 * kS, &error)) << error.text;
    Add("trace=x link=0_1 iteration=2s from=1s", 100 * kS, files);
    ExpectLink("soft3", 100 * kS, kUp, 119 * kS);
    ExpectLink("soft3", 119 * kS, kDead, DT_NEVER_NS);
}

TEST_F(DelayTable, AFaultIsThereInItsWindowAndCountsInItsRule)
{
    dt_delay_active *faults[DT_DELAY_RULES_MAX];
    dt_delay_info info[DT_DELAY_RULES_MAX];
    uint64_t next_ns;
    Add("latency=1ms");
    Add("device=soft0 fail=modify_qp error=ENOMEM count=3 from=1s to=2s");
    EXPECT_EQ(0u, dt_delay_table_faults(table, "soft0", 0, faults, &next_ns));
    EXPECT_EQ(kS, next_ns);
    ASSERT_EQ(1u, dt_delay_table_faults(table, "soft0", kS, faults, &next_ns));
    EXPECT_EQ(2 * kS, next_ns);
    EXPECT_EQ(2u, faults[0]->number);
    dt_delay_table_remove(table, 1);
    faults[0]->messages += 3;
    ASSERT_EQ(1u, dt_delay_table_list(table, info));
    EXPECT_EQ(3u, info[0].messages);
    dt_delay_table_clear(table); /* ours is the last reference */
    EXPECT_EQ(DT_DELAY_CALL_MODIFY_QP, faults[0]->rule.call);
    dt_delay_active_release(faults[0]);
    EXPECT_EQ(0u, dt_delay_table_faults(table, "soft0", kS, faults, &next_ns));
}

/* Rules come and go while connections send: the flows never hold on to one that is gone. */
TEST_F(DelayTable, ChangesWhileFlowsSend)
{
    std::atomic<bool> is_over{false};
    std::vector<std::thread> senders;
    for (uint32_t n = 0; n < 3; n++) {
        senders.emplace_back([&, n] {
            dt_delay_link link = {};
            dt_delay_flow *flow = nullptr;
            link.number = n;
            link.peer = "p";
            link.path_count = 1;
            link.device[0] = "soft0";
            ASSERT_EQ(DT_OK, dt_delay_flow_create(table, &link, 8, &flow));
            uint64_t held_ns;
            for (uint64_t i = 0; !is_over; i++) {
                dt_delay_submit(flow, i, 1, 0, i);
                EXPECT_LE(dt_delay_due_ns(flow, i), i + 3600 * kS);
                if (i >= 7)
                    dt_delay_posted(flow, i - 7, i, &held_ns);
            }
            dt_delay_flow_destroy(flow);
        });
    }
    for (int round = 0; round < 300; round++) {
        uint32_t number = Add(round % 2 ? "latency=uniform(1ms,2ms)" : "latency=1ms every=5ms");
        std::this_thread::yield();
        if (round % 3 == 0)
            dt_delay_table_clear(table);
        else
            dt_delay_table_remove(table, number);
    }
    is_over = true;
    for (auto &sender : senders)
        sender.join();
}

TEST_F(DelayTable, HoldsAreReplacedReleasedAndExpireApartFromRules)
{
    auto hold = [this](const std::string &text, uint64_t now_ns) {
        dt_delay_rule rule;
        dt_delay_error error = {};
        dt_delay_files files = {};
        uint32_t number = 0;
        EXPECT_EQ(DT_OK, dt_delay_parse_hold(text.data(), text.size(), &rule, &error)) << error.text;
        EXPECT_EQ(DT_OK, dt_delay_table_add(table, &rule, &files, now_ns, &number));
        return number;
    };
    dt_delay_info info[DT_DELAY_RULES_MAX];
    dt_delay_scope soft0 = {};
    uint64_t next_ns;
    snprintf(soft0.device, sizeof soft0.device, "soft0");
    soft0.bytes_max = UINT64_MAX;

    EXPECT_EQ(0u, dt_delay_table_expire(table, kS, &next_ns));
    EXPECT_EQ(DT_NEVER_NS, next_ns);
    uint32_t rule = Add("latency=1ms", 0);
    uint32_t first = hold("device=soft0 for=10s", 0);
    hold("for=3s", kS);
    EXPECT_EQ(0u, dt_delay_table_expire(table, 2 * kS, &next_ns));
    EXPECT_EQ(4 * kS, next_ns);
    uint32_t second = hold("device=soft0 for=1s", 2 * kS);
    EXPECT_GT(second, first);
    EXPECT_EQ(3u, dt_delay_table_list(table, info)) << "the same scope: replaced";
    EXPECT_EQ(0u, dt_delay_table_expire(table, 3 * kS - 1, &next_ns));
    EXPECT_EQ(3 * kS, next_ns);
    EXPECT_EQ(DT_NOT_FOUND, dt_delay_table_remove(table, second));
    EXPECT_EQ(DT_NOT_FOUND, dt_delay_table_remove(table, 0));
    EXPECT_EQ(1u, dt_delay_table_clear(table)) << "holds stay";
    EXPECT_EQ(2u, dt_delay_table_list(table, info));
    EXPECT_EQ(1u, dt_delay_table_expire(table, 3 * kS, &next_ns));
    EXPECT_EQ(4 * kS, next_ns);
    hold("device=soft0 for=1s", 3 * kS);
    EXPECT_EQ(1u, dt_delay_table_release(table, &soft0));
    EXPECT_EQ(0u, dt_delay_table_release(table, &soft0));
    EXPECT_EQ(1u, dt_delay_table_release(table, nullptr));
    EXPECT_EQ(0u, dt_delay_table_list(table, info));
    EXPECT_EQ(1u, rule);
}
} // namespace
