/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "delay/rule.h"

namespace
{
constexpr uint64_t kMs = DT_NS_PER_MS;

struct Parsed {
    dt_status status;
    std::vector<dt_delay_rule> rules;
    dt_delay_error error;
};

Parsed Parse(const std::string &text)
{
    Parsed parsed = {DT_OK, std::vector<dt_delay_rule>(8), {}};
    size_t count = 0;

    parsed.status = dt_delay_parse(text.data(), text.size(), parsed.rules.data(), parsed.rules.size(), &count,
                                   &parsed.error);
    parsed.rules.resize(parsed.status == DT_OK ? count : 0);
    return parsed;
}

dt_delay_rule One(const std::string &text)
{
    Parsed parsed = Parse(text);

    EXPECT_EQ(DT_OK, parsed.status) << parsed.error.text;
    EXPECT_EQ(1u, parsed.rules.size());
    return parsed.rules.empty() ? dt_delay_rule{} : parsed.rules[0];
}

std::string Error(const std::string &text)
{
    Parsed parsed = Parse(text);

    EXPECT_EQ(DT_INVALID, parsed.status) << text;
    return parsed.error.text;
}

TEST(DelayParse, ReadsEachEffect)
{
    dt_delay_rule rule = One("latency=30ms");
    EXPECT_EQ(DT_DELAY_LATENCY, rule.effect);
    EXPECT_EQ(30 * kMs, rule.value.a);
    EXPECT_EQ(UINT64_MAX, rule.scope.bytes_max);
    EXPECT_EQ(DT_NEVER_NS, rule.to_ns);

    rule = One("serial=0.375ms per=512K");
    EXPECT_EQ(DT_DELAY_SERIAL, rule.effect);
    EXPECT_EQ(375000u, rule.value.a);
    EXPECT_EQ(512u << 10, rule.per_bytes);

    EXPECT_EQ(10000000000u, One("rate=10Gbit").bits_per_s);
    EXPECT_EQ(10000000000u, One("rate=1.25GB").bits_per_s);
    EXPECT_EQ(800u, One("rate=100B").bits_per_s);

    rule = One("trace=\"a file\" link=0_1 iteration=400ms");
    EXPECT_EQ(DT_DELAY_TRACE, rule.effect);
    EXPECT_STREQ("a file", rule.file);
    EXPECT_STREQ("0_1", rule.link);
    EXPECT_EQ(400 * kMs, rule.iteration_ns);

    rule = One("replay=/tmp/r.csv process=3");
    EXPECT_EQ(DT_DELAY_REPLAY, rule.effect);
    EXPECT_EQ(3u, rule.process);

    EXPECT_EQ(DT_DELAY_DOWN, One("device=soft0 down").effect);
    rule = One("flap=1s/9s device=soft0");
    EXPECT_EQ(DT_NS_PER_S, rule.down_ns);
    EXPECT_EQ(9 * DT_NS_PER_S, rule.up_ns);
}

TEST(DelayParse, ReadsFaultsOfDevices)
{
    dt_delay_rule rule = One("device=a fail=post_recv");
    EXPECT_EQ(DT_DELAY_FAIL, rule.effect);
    EXPECT_EQ(DT_DELAY_CALL_POST_RECV, rule.call);
    EXPECT_EQ(EIO, rule.error);
    EXPECT_EQ(0u, rule.count);
    rule = One("count=3 device=a error=ENOMEM fail=reg_mr");
    EXPECT_EQ(DT_DELAY_CALL_REG_MR, rule.call);
    EXPECT_EQ(ENOMEM, rule.error);
    EXPECT_EQ(3u, rule.count);
    rule = One("device=a hang=modify_qp count=1");
    EXPECT_EQ(DT_DELAY_HANG, rule.effect);
    EXPECT_EQ(DT_DELAY_CALL_MODIFY_QP, rule.call);
    rule = One("device=a status=retry_exceeded from=1s");
    EXPECT_EQ(DT_DELAY_STATUS, rule.effect);
    EXPECT_EQ(DT_DELAY_STATUS_RETRY_EXCEEDED, rule.status);
    EXPECT_EQ(DT_DELAY_STATUS_LOST, One("device=a status=lost").status);
    EXPECT_EQ(DT_DELAY_CALL_QUERY_QP, One("device=a hang=query_qp").call);
    EXPECT_EQ(DT_DELAY_CALL_QUERY_PORT, One("device=a hang=query_port").call);
    EXPECT_EQ(DT_DELAY_CALL_QUERY_GID, One("device=a fail=query_gid").call);
    EXPECT_EQ(DT_DELAY_SILENT, One("device=a silent to=1s").effect);
    rule = One("device=a personality=bnxt");
    EXPECT_EQ(DT_DELAY_PERSONALITY, rule.effect);
    EXPECT_EQ(DT_DELAY_PERSONALITY_BNXT, rule.personality);
    rule = One("device=a event=cq_error");
    EXPECT_EQ(DT_DELAY_EVENT, rule.effect);
    EXPECT_EQ(DT_DELAY_EVENT_CQ_ERROR, rule.event);
}

TEST(DelayParse, ReadsScopeAndWindow)
{
    dt_delay_rule rule =
        One("device=soft1 peer=nodeB:12 connection=7 id=00ff00000000000A size=64K..1M from=5s "
            "to=15s latency=1ms seed=9");
    EXPECT_STREQ("soft1", rule.scope.device);
    EXPECT_STREQ("nodeB:12", rule.scope.peer);
    EXPECT_TRUE(rule.scope.has_connection);
    EXPECT_EQ(7u, rule.scope.connection);
    EXPECT_EQ(0x00ff00000000000aull, rule.scope.id);
    EXPECT_EQ(64u << 10, rule.scope.bytes_min);
    EXPECT_EQ(1u << 20, rule.scope.bytes_max);
    EXPECT_EQ(5 * DT_NS_PER_S, rule.from_ns);
    EXPECT_EQ(15 * DT_NS_PER_S, rule.to_ns);
    EXPECT_EQ(9u, rule.seed);
    EXPECT_EQ(1u << 20, One("size=..1M latency=1ms").scope.bytes_max);
    EXPECT_EQ(0u, One("size=..1M latency=1ms").scope.bytes_min);
    EXPECT_EQ(UINT64_MAX, One("size=4096.. latency=1ms").scope.bytes_max);
}

TEST(DelayParse, ReadsSeveralRulesAndComments)
{
    Parsed parsed = Parse("# two of them\nlatency=1ms # first\n\n  ; rate=1Gbit;\r\nserial=2ms");
    ASSERT_EQ(DT_OK, parsed.status) << parsed.error.text;
    ASSERT_EQ(3u, parsed.rules.size());
    EXPECT_EQ(DT_DELAY_RATE, parsed.rules[1].effect);
    EXPECT_TRUE(Parse("").rules.empty());
    EXPECT_EQ(DT_OK, Parse(" \n;;# nothing").status);
}

TEST(DelayParse, APrintedRuleIsReadAgain)
{
    for (const char *text :
         {"latency=30ms",
          "device=\"soft0\" peer=\"a b\" connection=1 id=0123456789abcdef size=1..2 from=1s to=2s "
          "serial=normal(1ms,2us) per=4096 every=uniform(50ms,100ms) seed=18446744073709551615",
          "size=..7 rate=1500000bit", "size=7.. trace=\"x y\" link=\"0_1\" iteration=400ms",
          "replay=\"r\" process=2", "device=\"soft0\" from=1500ms down", "device=\"soft0\" flap=1s/90ms",
          "device=\"a\" fail=create_cq error=ENOSPC count=7", "device=\"a\" hang=create_qp",
          "device=\"a\" to=1s silent", "device=\"a\" status=general count=1", "device=\"a\" event=qp_fatal",
          "device=\"a\" personality=ionic", "latency=pareto(1ms,0.001)", "latency=exponential(5ms)"}) {
        dt_delay_rule rule = One(text);
        char printed[DT_DELAY_TEXT_BYTES];
        dt_delay_rule_print(&rule, printed);
        EXPECT_STREQ(text, printed);
    }
}

TEST(DelayParse, ReportsWhereAndWhatWouldBeRight)
{
    EXPECT_EQ("line 1, column 9: expected a time with a unit (ns, us, ms, s, min, h) of at most 1000000s, "
              "like 30ms, "
              "got '30'",
              Error("latency=30"));
    EXPECT_EQ("line 2, column 22: expected ',' and the second parameter, got ')'",
              Error("rate=1Mbit\n  latency=normal(30ms)"));
    EXPECT_EQ("line 1, column 12: a rule has one effect; put 'rate' into a rule of its own",
              Error("latency=1s rate=1Mbit"));
    EXPECT_EQ("line 1, column 1: the rule has no effect; expected one of latency=, serial=, rate=, trace=, "
              "replay=, "
              "down, flap=, fail=, hang=, status=, silent, event= or personality=",
              Error("device=soft0"));
    EXPECT_EQ("line 1, column 13: 'latency' is given twice in one rule", Error("latency=1ms latency=2ms"));
    EXPECT_EQ("line 1, column 21: to= must be later than from=", Error("latency=1ms from=5s to=5s"));
    EXPECT_EQ("line 1, column 13: 'per' needs serial= beside it", Error("latency=1ms per=64K"));
    EXPECT_EQ("line 1, column 1: a fault of a device needs device=NAME", Error("down"));
    EXPECT_EQ("line 1, column 14: a device has a fault for all messages: 'size' cannot limit it",
              Error("device=soft0 size=1.. down"));
    EXPECT_EQ("line 1, column 15: expected a call that may hang: modify_qp, query_qp, create_qp, destroy_qp, "
              "create_cq, reg_mr, query_port or query_gid, got 'poll_cq'",
              Error("device=a hang=poll_cq"));
    EXPECT_EQ("line 1, column 10: 'error' needs fail= beside it", Error("device=a error=EIO silent"));
    EXPECT_EQ("line 1, column 10: 'count' needs fail=, hang= or status= beside it",
              Error("device=a count=2 down"));
    EXPECT_EQ("line 1, column 7: expected '..' (size=MIN..MAX; either may be left out)",
              Error("size=5 latency=1.5ms"));
    EXPECT_EQ("line 1, column 7: the name of a file has an opening quote and no closing one",
              Error("trace=\"abc"));
    EXPECT_EQ("line 1, column 26: the second time of uniform() must not be below the first",
              Error("latency=uniform(    2ms, 1ms)"));
}

std::string ScopeError(const std::string &text)
{
    dt_delay_scope scope;
    dt_delay_error error = {};
    EXPECT_EQ(DT_INVALID, dt_delay_parse_scope(text.data(), text.size(), &scope, &error)) << text;
    return error.text;
}

TEST(DelayParse, AScopeAloneSelectsConnections)
{
    dt_delay_scope scope;
    dt_delay_error error;
    const std::string text = " peer=nodeB:12 connection=7 id=00ff00000000000A device=soft1 ";
    ASSERT_EQ(DT_OK, dt_delay_parse_scope(text.data(), text.size(), &scope, &error)) << error.text;
    EXPECT_STREQ("soft1", scope.device);
    EXPECT_STREQ("nodeB:12", scope.peer);
    EXPECT_TRUE(scope.has_connection && scope.has_id);
    EXPECT_EQ(7u, scope.connection);
    EXPECT_EQ(0x00ff00000000000aull, scope.id);
    ASSERT_EQ(DT_OK, dt_delay_parse_scope("", 0, &scope, &error));
    EXPECT_FALSE(scope.device[0] || scope.peer[0] || scope.has_connection || scope.has_id);
    EXPECT_EQ("line 1, column 8: expected device=, peer=, connection= or id=, got 'latency=1ms'",
              ScopeError("peer=a latency=1ms"));
    EXPECT_EQ("line 1, column 7: expected device=, peer=, connection= or id=", ScopeError("peer=a; peer=b"));
    EXPECT_EQ("line 1, column 8: 'peer' is given twice in one rule", ScopeError("peer=a peer=b"));
}

TEST(DelayParse, ADirectionIsRefusedWithTheRightForm)
{
    const std::string why =
        "a rule has no 'direction': it concerns the messages that its process sends; for one "
        "direction of a link give it to "
        "the process that sends, with device= and peer=, or name a connection with id=";

    EXPECT_EQ("line 1, column 1: " + why, Error("direction=send latency=1ms"));
    EXPECT_EQ("line 2, column 13: " + why, Error("rate=1Gbit\nlatency=1ms direction=receive"));
    EXPECT_EQ("line 1, column 1: " + why, Error("direction"));
    for (const char *text : {"directions=send latency=1ms", "direct=send latency=1ms"})
        EXPECT_EQ(0u, Error(text).find("line 1, column 1: expected a word of a rule")) << text;
}

TEST(DelayParse, RefusesValuesOutOfRange)
{
    for (const char *text : {"latency=2h",
                             "latency=99999999999999999999s",
                             "rate=0bit",
                             "rate=1e9bit",
                             "latency=-1ms",
                             "latency=",
                             "latency",
                             "seed=1 rate=1Gbit",
                             "every=1us latency=1ms",
                             "flap=0s/1s device=a",
                             "per=0 serial=1ms",
                             "connection=4294967296 latency=1ms",
                             "id=123 latency=1ms",
                             "id=0123456789abcdeg latency=1ms",
                             "size=2..1 latency=1ms",
                             "size=5 latency=1ms",
                             "latency=1msx",
                             "latency=1ms,",
                             "latency=pareto(0ms,1)",
                             "latency=pareto(1ms,0)",
                             "latency=gauss(1ms)",
                             "wish=1",
                             "latency=1.ms",
                             "down=1 device=a",
                             "device= latency=1ms",
                             "iteration=0s trace=a",
                             "device=a fail=post",
                             "device=a fail=poll_cq error=EWHAT",
                             "device=a fail=poll_cq count=0",
                             "device=a status=success",
                             "device=a event=fire",
                             "device=a personality=irdma",
                             "link=a latency=1ms",
                             "process=1 latency=1ms"})
        EXPECT_EQ(0u, Error(text).find("line 1, column ")) << text;
    EXPECT_EQ(DT_INVALID, Parse(std::string("latency=1ms\0", 12)).status);
    EXPECT_EQ(DT_INVALID, Parse("device=\"a\x01\" latency=1ms").status);
    EXPECT_EQ(DT_INVALID, Parse("device=" + std::string(64, 'x') + " latency=1ms").status);
    EXPECT_EQ(
        "line 1, column 97: more than 8 rules",
        Error(
            "latency=1ms;latency=1ms;latency=1ms;latency=1ms;latency=1ms;latency=1ms;latency=1ms;latency=1ms;"
            "latency=1ms"));
}

TEST(Hold, HasTheScopeOfConnectionsAndATime)
{
    const std::string text = "peer=nodeB:12 for=1.5s device=soft0";
    char printed[DT_DELAY_TEXT_BYTES];
    dt_delay_rule rule;
    dt_delay_error error = {};
    ASSERT_EQ(DT_OK, dt_delay_parse_hold(text.data(), text.size(), &rule, &error)) << error.text;
    EXPECT_EQ(DT_DELAY_HOLD, rule.effect);
    EXPECT_EQ(0u, rule.from_ns);
    EXPECT_EQ(1500000000u, rule.to_ns);
    dt_delay_rule_print(&rule, printed);
    EXPECT_STREQ("device=\"soft0\" peer=\"nodeB:12\" for=1500ms", printed);
    dt_delay_scope same = rule.scope, other = rule.scope;
    EXPECT_TRUE(dt_delay_scope_is_equal(&same, &rule.scope));
    other.has_connection = true;
    EXPECT_FALSE(dt_delay_scope_is_equal(&other, &rule.scope));
    for (const char *bad :
         {"", "device=soft0", "for=0s", "for=601s", "for=1", "for", "for=1s for=1s", "size=1.. for=1s",
          "for=1s latency=1ms", "for=1s to=2s", "for=1s;", "for=1s\nfor=2s"}) {
        EXPECT_EQ(DT_INVALID, dt_delay_parse_hold(bad, strlen(bad), &rule, &error)) << bad;
        EXPECT_EQ(0, strncmp(error.text, "line 1, column ", 15)) << error.text;
    }
    EXPECT_EQ(0u, Error("for=1s").find("line 1, column 1: expected a word of a rule ("))
        << "no rule of injection";
}
} // namespace
