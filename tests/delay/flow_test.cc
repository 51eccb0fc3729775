/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "delay/flow.h"
#include "tests/harness/harness.h"

namespace
{
constexpr uint64_t kMs = DT_NS_PER_MS;
constexpr uint64_t kS = DT_NS_PER_S;

class DelayFlow : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(DT_OK, dt_delay_table_create(&table));
        flow = Open(0);
    }
    void TearDown() override
    {
        for (dt_delay_flow *opened : flows)
            dt_delay_flow_destroy(opened);
        dt_delay_table_destroy(table);
    }

    dt_delay_flow *Open(uint32_t number, const char *peer = "hostB:12 (soft0)")
    {
        dt_delay_link link = {};
        dt_delay_flow *opened = nullptr;

        link.number = number;
        link.id = 0xabc0 + number;
        link.peer = peer;
        link.path_count = 2;
        link.device[0] = "soft0";
        link.device[1] = "soft1";
        link.device_index[1] = 1;
        EXPECT_EQ(DT_OK, dt_delay_flow_create(table, &link, 16, &opened));
        flows.push_back(opened);
        return opened;
    }

    uint32_t Add(const std::string &text, uint64_t now_ns = 0, dt_delay_files files = {})
    {
        dt_delay_rule rule;
        dt_delay_error error = {};
        size_t count = 0;
        uint32_t number = 0;

        EXPECT_EQ(DT_OK, dt_delay_parse(text.data(), text.size(), &rule, 1, &count, &error)) << error.text;
        EXPECT_EQ(DT_OK, dt_delay_table_add(table, &rule, &files, now_ns, &number));
        return number;
    }

    uint32_t Hold(const std::string &text, uint64_t now_ns)
    {
        dt_delay_rule rule;
        dt_delay_error error = {};
        dt_delay_files files = {};
        uint32_t number = 0;

        EXPECT_EQ(DT_OK, dt_delay_parse_hold(text.data(), text.size(), &rule, &error)) << error.text;
        EXPECT_EQ(DT_OK, dt_delay_table_add(table, &rule, &files, now_ns, &number));
        return number;
    }

    /* When a message handed over at now_ns is due, counted from then; it is posted at that time. */
    uint64_t Delay(uint64_t sequence, uint64_t now_ns, uint64_t bytes = 4096, uint32_t path = 0,
                   dt_delay_flow *of = nullptr)
    {
        dt_delay_flow *f = of ? of : flow;
        dt_delay_submit(f, sequence, bytes, path, now_ns);
        uint64_t due = dt_delay_due_ns(f, sequence);
        dt_delay_posted(f, sequence, due, &held_ns);
        EXPECT_GE(due, now_ns);
        return due - now_ns;
    }

    uint64_t held_ns = 0;
    dt_delay_table *table = nullptr;
    dt_delay_flow *flow = nullptr;
    std::vector<dt_delay_flow *> flows;
};

TEST_F(DelayFlow, IsIdleUntilThereIsARuleAndAfterTheLastHasGone)
{
    dt_delay_idle idle = dt_delay_flow_idle(flow);
    EXPECT_TRUE(dt_delay_is_idle(&idle));
    uint32_t number = Add("latency=1ms");
    EXPECT_FALSE(dt_delay_is_idle(&idle));
    Delay(0, 0);
    idle = dt_delay_flow_idle(flow);
    EXPECT_FALSE(dt_delay_is_idle(&idle));
    ASSERT_EQ(DT_OK, dt_delay_table_remove(table, number));
    EXPECT_EQ(0u, Delay(1, 0));
    idle = dt_delay_flow_idle(flow);
    EXPECT_TRUE(dt_delay_is_idle(&idle));
}

TEST_F(DelayFlow, LatencyIsPipelined)
{
    Add("latency=30ms");
    for (uint64_t i = 0; i < 8; i++)
        dt_delay_submit(flow, i, 1, 0, i * kMs);
    for (uint64_t i = 0; i < 8; i++)
        EXPECT_EQ((30 + i) * kMs, dt_delay_due_ns(flow, i));
}

TEST_F(DelayFlow, SerialMessagesFollowEachOther)
{
    Add("serial=30ms");
    EXPECT_EQ(30 * kMs, Delay(0, 0));
    EXPECT_EQ(60 * kMs - 1 * kMs, Delay(1, 1 * kMs));
    EXPECT_EQ(90 * kMs - 2 * kMs, Delay(2, 2 * kMs));
    EXPECT_EQ(30 * kMs, Delay(3, 1000 * kMs)) << "the queue was empty again";
}

TEST_F(DelayFlow, EightyChunksMakeThirtyMilliseconds)
{
    Add("serial=0.375ms per=512K");
    EXPECT_EQ(30 * kMs, Delay(0, 0, 40 << 20));
    EXPECT_EQ(30 * kMs + 375000, Delay(1, 0, 1)) << "a started chunk counts as one";
    EXPECT_EQ(30 * kMs + 2 * 375000, Delay(2, 0, 0));
}

TEST_F(DelayFlow, RateTakesTheTimeOfTheBits)
{
    Add("rate=8Mbit");
    EXPECT_EQ(4096 * 1000u, Delay(0, 0, 4096));
    EXPECT_EQ(4096 * 1000u + 1000u, Delay(1, 0, 1));
    EXPECT_EQ(0u, Delay(2, kS, 0));
}

TEST_F(DelayFlow, AQueueIsSharedByConnectionsAndSeparateForDevices)
{
    dt_delay_flow *other = Open(1);
    Add("serial=10ms");
    EXPECT_EQ(10 * kMs, Delay(0, 0));
    EXPECT_EQ(20 * kMs, Delay(0, 0, 1, 0, other));
    EXPECT_EQ(10 * kMs, Delay(1, 0, 1, 1, other)) << "over soft1";
}

TEST_F(DelayFlow, QueuesInOrderAndThenTheSumOfTheLatencies)
{
    Add("latency=5ms");
    Add("serial=10ms");
    Add("rate=8Mbit"); // 1 us per byte
    Add("latency=2ms");
    // 10 ms, then 1 ms on the wire, then 5 + 2.
    EXPECT_EQ(18 * kMs, Delay(0, 0, 1000));
    // Leaves the first queue at 20, finds the second free since 11: 20 + 1 + 7.
    EXPECT_EQ(28 * kMs, Delay(1, 0, 1000));
    // Leaves the first queue at 30, takes 50 in the second.
    EXPECT_EQ(87 * kMs, Delay(2, 0, 50000));
    // Leaves the first at 40, waits until 80.
    EXPECT_EQ(88 * kMs, Delay(3, 0, 1000));
}

TEST_F(DelayFlow, AWindowIsCountedFromWhenTheRuleCame)
{
    Add("latency=30ms from=5s to=15s", 100 * kS);
    EXPECT_EQ(0u, Delay(0, 100 * kS));
    EXPECT_EQ(0u, Delay(1, 105 * kS - 1));
    EXPECT_EQ(30 * kMs, Delay(2, 105 * kS));
    EXPECT_EQ(30 * kMs, Delay(3, 115 * kS - 1)) << "decided at the hand-over";
    EXPECT_EQ(0u, Delay(4, 115 * kS));
}

TEST_F(DelayFlow, ScopeChoosesDevicePeerConnectionAndSize)
{
    dt_delay_flow *other = Open(1, "hostC:9 (soft0)");
    Add("latency=1ms device=soft0");
    Add("latency=2ms peer=hostB:12");
    Add("latency=4ms connection=1");
    Add("latency=8ms id=000000000000abc0");
    Add("latency=16ms size=100..200");
    EXPECT_EQ((1 + 2 + 8) * kMs, Delay(0, 0, 99));
    EXPECT_EQ((2 + 8 + 16) * kMs, Delay(1, 0, 100, 1));
    EXPECT_EQ((1 + 4 + 16) * kMs, Delay(0, 0, 200, 0, other));
    EXPECT_EQ(4 * kMs, Delay(1, 0, 201, 1, other));
}

/* hostB:12 is a process, and hostB:123 is another one; a host, or a part of its name, is a prefix. */
TEST_F(DelayFlow, APidInAScopeIsAWholePid)
{
    dt_delay_flow *longer = Open(1, "hostB:123 (soft0)");
    dt_delay_flow *bare = Open(2, "hostB:12");
    Add("latency=1ms peer=hostB:12");
    Add("latency=2ms peer=hostB:1");
    Add("latency=4ms peer=hostB:123");
    Add("latency=8ms peer=hostB:");
    Add("latency=16ms peer=host");
    Add("latency=32ms peer=\"hostB:12 (soft0)\"");
    EXPECT_EQ((1 + 8 + 16 + 32) * kMs, Delay(0, 0));
    EXPECT_EQ((4 + 8 + 16) * kMs, Delay(0, 0, 1, 0, longer));
    EXPECT_EQ((1 + 8 + 16) * kMs, Delay(0, 0, 1, 0, bare));
}

/* The digits of a host are no pid. */
TEST_F(DelayFlow, AHostsNumberInAScopeIsAPrefix)
{
    dt_delay_flow *other = Open(1, "node12:7 (soft0)");
    Add("latency=1ms peer=node1");
    EXPECT_EQ(1 * kMs, Delay(0, 0, 1, 0, other));
}

TEST_F(DelayFlow, RemovingARuleReleasesTheMessagesThatItHolds)
{
    uint32_t latency = Add("latency=1h");
    uint32_t serial = Add("serial=10ms");
    for (uint64_t i = 0; i < 3; i++)
        dt_delay_submit(flow, i, 1, 0, 0);
    EXPECT_EQ(3600 * kS + 30 * kMs, dt_delay_due_ns(flow, 2));
    ASSERT_EQ(DT_OK, dt_delay_table_remove(table, latency));
    EXPECT_EQ(30 * kMs, dt_delay_due_ns(flow, 2)) << "the other rule still holds it";
    uint32_t later = Add("latency=7ms");
    EXPECT_EQ(30 * kMs, dt_delay_due_ns(flow, 2)) << "a new rule is for new messages";
    ASSERT_EQ(DT_OK, dt_delay_table_remove(table, serial));
    EXPECT_EQ(0u, dt_delay_due_ns(flow, 2));
    EXPECT_EQ(1u, dt_delay_table_clear(table));
    EXPECT_EQ(DT_NOT_FOUND, dt_delay_table_remove(table, later));
    dt_delay_idle idle = dt_delay_flow_idle(flow);
    EXPECT_FALSE(dt_delay_is_idle(&idle)) << "messages are still held";
    for (uint64_t i = 0; i < 3; i++) {
        EXPECT_EQ(0u, dt_delay_due_ns(flow, i));
        dt_delay_posted(flow, i, 0, &held_ns);
    }
    idle = dt_delay_flow_idle(flow);
    EXPECT_TRUE(dt_delay_is_idle(&idle));
}

TEST_F(DelayFlow, AMessageThatWasNeverHandedOverIsNotHeld)
{
    Add("latency=1h");
    EXPECT_EQ(0u, dt_delay_due_ns(flow, 5));
    dt_delay_posted(flow, 5, 0, &held_ns);
    dt_delay_submit(flow, 0, 1, 0, 0);
    EXPECT_EQ(0u, dt_delay_due_ns(flow, 16)) << "another message of the same slot";
}

TEST_F(DelayFlow, TheSameSeedGivesTheSameDelaysInAnyOrder)
{
    dt_delay_flow *other = Open(1);
    Add("latency=normal(30ms,10ms) seed=5");
    std::vector<uint64_t> first, again;
    for (uint64_t i = 0; i < 50; i++)
        first.push_back(Delay(i, i * kMs));
    dt_delay_table_clear(table);
    Add("latency=1ms");
    dt_delay_table_clear(table);
    Add("latency=normal(30ms,10ms) seed=5", kS);
    for (uint64_t i = 0; i < 50; i++) {
        EXPECT_NE(first[i], Delay(i, 2 * kS, 1, 0, other)) << "each connection draws its own";
        again.push_back(Delay(i, 2 * kS + i));
    }
    EXPECT_EQ(first, again);
    dt_delay_table_clear(table);
    Add("latency=normal(30ms,10ms) seed=6");
    EXPECT_NE(first[0], Delay(0, 0));
}

TEST_F(DelayFlow, RulesWithoutASeedDrawDifferently)
{
    uint32_t number = Add("latency=uniform(0ms,1h)");
    uint64_t first = Delay(0, 0);
    dt_delay_table_remove(table, number);
    Add("latency=uniform(0ms,1h)");
    EXPECT_NE(first, Delay(0, 0));
}

TEST_F(DelayFlow, AValueHoldsForItsInterval)
{
    dt_delay_flow *other = Open(1);
    Add("latency=normal(30ms,10ms) every=100ms seed=3");
    uint64_t value[3];
    for (uint64_t i = 0; i < 3; i++)
        value[i] = Delay(i, i * 100 * kMs);
    EXPECT_NE(value[0], value[1]);
    EXPECT_NE(value[1], value[2]);
    for (uint64_t i = 0; i < 300; i += 7)
        EXPECT_EQ(value[i / 100], Delay(i, i * kMs, 1, 0, other))
            << "the same for every connection; at ms " << i;
}

TEST_F(DelayFlow, AValueHoldsForMinutesToo)
{
    Add("latency=uniform(1ms,1h) every=60s");
    uint64_t first = Delay(0, 0), second = Delay(1, 60 * kS);
    EXPECT_NE(first, second);
    for (uint64_t s = 1; s < 60; s++) {
        EXPECT_EQ(second, Delay(1 + s, (60 + s) * kS)) << s;
        EXPECT_EQ(first, Delay(0, s * kS, 4096, 0, Open(static_cast<uint32_t>(s)))) << s;
    }
}

TEST_F(DelayFlow, AnIntervalIsDrawnAndFoundAgainAfterAPause)
{
    dt_delay_flow *other = Open(1);
    Add("latency=uniform(1ms,1h) every=uniform(50ms,100ms) seed=3");
    // Changes of the value over an hour's last 10 s, seen by one who looked all the time and one who comes
    // late.
    uint64_t start = 3590 * kS, changes = 0, before = 0;
    for (uint64_t ms = 0; ms < 10000; ms += 5) {
        uint64_t value = Delay(ms, start + ms * kMs);
        changes += ms > 0 && value != before;
        before = value;
    }
    EXPECT_GE(changes, 100u);
    EXPECT_LE(changes, 200u);
    EXPECT_EQ(before, Delay(0, start + 9995 * kMs, 1, 0, other));
}

TEST_F(DelayFlow, ATraceIsFollowed)
{
    dt_delay_files files = {};
    dt_delay_error error;
    const char *text = "0,a,10ms\n1,a,30ms\n2,a,0";
    ASSERT_EQ(DT_OK, dt_delay_trace_create("a", &files.trace));
    ASSERT_EQ(DT_OK, dt_delay_trace_parse(files.trace, text, strlen(text), 0, &error)) << error.text;
    Add("trace=x link=a from=10s", 100 * kS, files);
    EXPECT_EQ(0u, Delay(0, 105 * kS));
    EXPECT_EQ(10 * kMs, Delay(1, 110 * kS));
    EXPECT_EQ(30 * kMs, Delay(2, 111 * kS));
    EXPECT_EQ(0u, Delay(3, 112 * kS));
}

TEST_F(DelayFlow, ARecordIsReplayedExactly)
{
    Add("latency=uniform(1ms,1s)");
    Add("serial=exponential(2ms)");
    std::vector<uint64_t> first;
    for (uint64_t i = 0; i < 40; i++)
        first.push_back(Delay(i, i * kMs));

    std::string text = DT_DELAY_RECORD_HEADER "\n";
    dt_delay_entry entry;
    for (uint64_t n = 0; dt_delay_table_read(table, n, &entry) == n; n++) {
        char line[512];
        dt_delay_entry_print(&entry, line, sizeof line);
        text += "1,4711," + std::string(line) + "\n" + "0,4710," + std::string(line) + "1\n";
    }
    dt_delay_table_clear(table);
    Delay(40, 0);
    EXPECT_EQ(DT_NEVER_NS, dt_delay_table_read(table, 40, &entry)) << "what was not late is not recorded";

    dt_delay_files files = {};
    dt_delay_error error;
    ASSERT_EQ(DT_OK, dt_delay_replay_parse(text.data(), text.size(), 1, &files.replay, &error)) << error.text;
    Add("replay=x process=1", kS, files);
    for (uint64_t i = 0; i < 40; i++)
        EXPECT_EQ(first[i], Delay(i, 2 * kS + i * i)) << "message " << i;
    EXPECT_EQ(0u, Delay(40, 2 * kS)) << "one that is not in the record";
}

TEST_F(DelayFlow, AHoldParksAllMessagesThatAreNotPostedUntilItsEnd)
{
    Add("latency=30ms");
    dt_delay_submit(flow, 0, 1, 0, 5 * kMs); /* before the hold */
    uint32_t hold = Hold("device=soft0 for=1s", 10 * kMs);
    dt_delay_submit(flow, 1, 1, 0, 20 * kMs);
    dt_delay_submit(flow, 2, 1, 0, 1000 * kMs);
    dt_delay_submit(flow, 3, 1, 1, 20 * kMs); /* over the other device */
    EXPECT_EQ(1010 * kMs, dt_delay_due_ns(flow, 0));
    EXPECT_EQ(1010 * kMs, dt_delay_due_ns(flow, 1)) << "the later of both, not their sum";
    EXPECT_EQ(1030 * kMs, dt_delay_due_ns(flow, 2)) << "its own delay ends after the hold";
    EXPECT_EQ(50 * kMs, dt_delay_due_ns(flow, 3));
    EXPECT_FALSE(dt_delay_posted(flow, 3, 50 * kMs, &held_ns));
    EXPECT_EQ(0u, held_ns);
    EXPECT_TRUE(dt_delay_posted(flow, 0, 1010 * kMs, &held_ns));
    EXPECT_EQ(975 * kMs, held_ns) << "without the injected delay";
    ASSERT_EQ(1u, dt_delay_table_release(table, nullptr));
    EXPECT_EQ(50 * kMs, dt_delay_due_ns(flow, 1)) << "released";
    EXPECT_TRUE(dt_delay_posted(flow, 1, 300 * kMs, &held_ns));
    EXPECT_EQ(250 * kMs, held_ns);
    EXPECT_FALSE(dt_delay_posted(flow, 2, 1030 * kMs, &held_ns)) << "no hold kept it";
    dt_delay_entry entry;
    for (uint64_t i = 0; i < 4; i++) {
        ASSERT_EQ(i, dt_delay_table_read(table, i, &entry));
        EXPECT_EQ(30 * kMs, entry.delay_ns) << "a hold is not in the record";
        EXPECT_EQ(0u, entry.late_ns);
    }
    EXPECT_EQ(2u, hold);
}

TEST_F(DelayFlow, TheMessageAfterAHoldStartsItsTimeAgain)
{
    Hold("for=1s", 0);
    dt_delay_idle idle = dt_delay_flow_idle(flow);
    EXPECT_FALSE(dt_delay_is_idle(&idle));
    uint64_t next_ns;
    EXPECT_EQ(0u, dt_delay_table_expire(table, kS - 1, &next_ns));
    EXPECT_EQ(kS, next_ns);
    dt_delay_submit(flow, 0, 1, 0, kS / 2); /* notices the hold, is posted */
    EXPECT_EQ(kS, dt_delay_due_ns(flow, 0));
    EXPECT_EQ(1u, dt_delay_table_expire(table, kS, &next_ns));
    EXPECT_EQ(DT_NEVER_NS, next_ns);
    EXPECT_TRUE(dt_delay_posted(flow, 0, kS, &held_ns));
    dt_delay_submit(flow, 1, 1, 0, 2 * kS); /* requested while the hold was in force, perhaps */
    EXPECT_TRUE(dt_delay_posted(flow, 1, 2 * kS, &held_ns));
    EXPECT_EQ(0u, held_ns);
    dt_delay_submit(flow, 2, 1, 0, 2 * kS);
    EXPECT_FALSE(dt_delay_posted(flow, 2, 2 * kS, &held_ns));
    idle = dt_delay_flow_idle(flow);
    EXPECT_TRUE(dt_delay_is_idle(&idle));
}

TEST_F(DelayFlow, TheRecordNamesTheInjectedDelays)
{
    dt_delay_flow *odd = Open(3, "host,\"x\x01:1 (soft0)");
    Add("latency=30ms");
    dt_delay_submit(odd, 7, 4096, 1, kS);
    dt_delay_posted(odd, 7, kS + 30 * kMs + 5, &held_ns);
    dt_delay_entry entry;
    char line[512];
    ASSERT_EQ(0u, dt_delay_table_read(table, 0, &entry));
    dt_delay_entry_print(&entry, line, sizeof line);
    EXPECT_STREQ("1000000000,3,000000000000abc3,soft1,host??x?:1 (soft0),7,4096,30000000,5", line);
}

TEST_F(DelayFlow, MemoryThatIsShortIsReported)
{
    dt_delay_link link = {};
    dt_delay_flow *none = nullptr;
    dt_delay_rule rule = {};
    dt_delay_files files = {};
    uint32_t number;
    link.peer = "";
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, dt_delay_flow_create(table, &link, 16, &none));
    detour_test_fail_alloc(0);
    EXPECT_EQ(DT_NO_MEMORY, dt_delay_table_add(table, &rule, &files, 0, &number));
    detour_test_fail_alloc(1);
    EXPECT_EQ(DT_NO_MEMORY, dt_delay_table_add(table, &rule, &files, 0, &number)) << "the record";
}
} // namespace
