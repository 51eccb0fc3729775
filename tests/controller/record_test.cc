// SPDX-License-Identifier: Apache-2.0
#include "controller/record.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

namespace
{
/* The text of a record, released with the test. */
std::string Text(char *text)
{
    std::string copy = text ? text : "";
    free(text);
    return copy;
}

std::unique_ptr<dt_observation> FullObservation()
{
    auto full = std::make_unique<dt_observation>();

    *full = {};
    strcpy(full->host, "node-7");
    strcpy(full->page_host, "node 7.example");
    strcpy(full->process, "trainer \"x\"");
    full->pid = 4711;
    full->rank = 3;
    full->time_ns = INT64_MAX;
    full->window_ns = 200000000;
    full->number = 9;
    full->link_count = DT_RECORD_LINKS_MAX;
    for (size_t i = 0; i < full->link_count; i++) {
        dt_observed_link *link = &full->links[i];
        link->connection = UINT64_MAX - i;
        link->from_rank = 3;
        link->to_rank = DT_RECORD_RANK_MAX;
        link->path = -1;
        memset(link->peer, 'p', sizeof link->peer - 1);
        memset(link->nic, 'n', sizeof link->nic - 1);
        memset(link->peer_nic, 'q', sizeof link->peer_nic - 1);
        link->factor = 123456.789012345;
        link->delay_ns = link->transfer_bytes = link->samples = link->since_ns = INT64_MAX;
        link->messages = link->bytes = link->service_ns = INT64_MAX;
    }
    return full;
}

dt_decision Decision()
{
    dt_decision decision = {};

    decision.number = 12;
    decision.fence = 3;
    decision.time_ns = 1700000000000000000;
    decision.kind = DT_DECISION_REPLAN;
    strcpy(decision.reason, "2-3 is slow");
    decision.from_rank = decision.to_rank = -1;
    decision.link_count = 2;
    decision.links[0] = {2, 3, 20123456};
    decision.links[1] = {3, 2, 1};
    return decision;
}

/* The reason of a refusal; "" if the decision is read. */
std::string Refused(const std::string &text)
{
    char reason[DT_RECORD_REASON_BYTES] = "";
    static dt_decision decision;

    return dt_decision_read(text.data(), text.size(), &decision, reason) == DT_OK ? "" : reason;
}

std::string Replaced(std::string text, const std::string &from, const std::string &to)
{
    size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
}

TEST(Record, TheLargestObservationFitsAndIsReadAsItWasWritten)
{
    auto full = FullObservation(), read = std::make_unique<dt_observation>();
    std::string text = Text(dt_observation_write(full.get()));
    char reason[DT_RECORD_REASON_BYTES] = "";

    EXPECT_LT(text.size(), (size_t)DT_STORE_RECORD_BYTES);
    memset(read.get(), 0, sizeof *read);
    ASSERT_EQ(dt_observation_read(text.data(), text.size(), read.get(), reason), DT_OK) << reason;
    EXPECT_EQ(Text(dt_observation_write(read.get())), text);
    EXPECT_EQ(read->links[DT_RECORD_LINKS_MAX - 1].connection, UINT64_MAX - (DT_RECORD_LINKS_MAX - 1));
    EXPECT_STREQ(read->process, "trainer \"x\"");
    EXPECT_EQ(read->links[5].service_ns, INT64_MAX);
    EXPECT_DOUBLE_EQ(read->links[5].factor, 123456.789012345);
}

TEST(Record, AnObservationOfAnEarlierAgentHasNoPageHost)
{
    auto full = FullObservation(), read = std::make_unique<dt_observation>(*full);
    char reason[DT_RECORD_REASON_BYTES] = "";
    const std::string text = Text(dt_observation_write(full.get()));
    const std::string earlier = Replaced(text, "\"page_host\":\"node 7.example\",", "");

    ASSERT_EQ(dt_observation_read(earlier.data(), earlier.size(), read.get(), reason), DT_OK) << reason;
    EXPECT_STREQ(read->page_host, "");
    const std::string wrong = Replaced(text, "\"node 7.example\"", "7");
    EXPECT_EQ(dt_observation_read(wrong.data(), wrong.size(), read.get(), reason), DT_INVALID);
}

TEST(Record, ADecisionIsReadAsItWasWritten)
{
    dt_decision decision = Decision(), read = {};
    char reason[DT_RECORD_REASON_BYTES];
    std::string text = Text(dt_decision_write(&decision));

    ASSERT_EQ(dt_decision_read(text.data(), text.size(), &read, reason), DT_OK) << reason;
    EXPECT_EQ(memcmp(&read, &decision, sizeof read), 0);
    EXPECT_NE(text.find("\"kind\":\"replan\""), std::string::npos) << text;
    EXPECT_NE(text.find("{\"from\":2,\"to\":3,\"delay_ms\":20.123456"), std::string::npos) << text;
}

TEST(Record, ADecisionThatItsReaderRefusesIsNotWritten)
{
    dt_decision number = Decision(), fence = Decision(), link = Decision(), nic = Decision();

    number.number = INT64_MAX / 2 + 1;
    fence.fence = 0;
    link.links[1].from_rank = -1;
    strcpy(nic.nic, "two words");
    for (const dt_decision *decision : {&number, &fence, &link, &nic})
        EXPECT_EQ(dt_decision_write(decision), nullptr);
}

TEST(Record, ANumberIsNearTheLastOneAndAFencingNumberNearTheTime)
{
    dt_decision decision = Decision();

    decision.number = 1000010;
    decision.fence = 1000005;
    EXPECT_TRUE(dt_decision_is_near(&decision, 10, 5000000));
    EXPECT_FALSE(dt_decision_is_near(&decision, 9, 5000000));
    EXPECT_FALSE(dt_decision_is_near(&decision, 10, 4999999));
}

TEST(Record, FindingsAndAcknowledgementsAreReadAsTheyWereWritten)
{
    dt_finding_record finding = {}, found = {};
    dt_acknowledgement acknowledgement = {}, read = {};
    char reason[DT_RECORD_REASON_BYTES];

    finding.from_rank = 2;
    finding.to_rank = -1;
    finding.factor = 1.25;
    strcpy(finding.kind, "link");
    strcpy(finding.to_nic, "mlx5_0");
    std::string text = Text(dt_finding_write(&finding));
    ASSERT_EQ(dt_finding_read(text.data(), text.size(), &found, reason), DT_OK) << reason;
    EXPECT_EQ(memcmp(&finding, &found, sizeof found), 0);
    acknowledgement.number = acknowledgement.fence = 1;
    acknowledgement.status = DT_NOT_FOUND;
    strcpy(acknowledgement.text, "no process");
    text = Text(dt_acknowledgement_write(&acknowledgement));
    ASSERT_EQ(dt_acknowledgement_read(text.data(), text.size(), &read, reason), DT_OK) << reason;
    EXPECT_EQ(memcmp(&acknowledgement, &read, sizeof read), 0);
    EXPECT_EQ(dt_finding_read(text.data(), text.size(), &found, reason), DT_INVALID);
    EXPECT_STREQ(reason, "type: expected finding");
}

TEST(Record, ARequestIsReadAsItWasWritten)
{
    dt_request request = {}, read = {};
    char reason[DT_RECORD_REASON_BYTES];

    request.kind = DT_DECISION_HOLD;
    request.hold_ns = DT_RECORD_HOLD_NS_MAX;
    strcpy(request.host, "node-7");
    strcpy(request.reason, "a validation");
    std::string text = Text(dt_request_write(&request));
    ASSERT_EQ(dt_request_read(text.data(), text.size(), &read, reason), DT_OK) << reason;
    EXPECT_EQ(memcmp(&request, &read, sizeof read), 0);
    text = Replaced(text, "600000000000", "0");
    EXPECT_EQ(dt_request_read(text.data(), text.size(), &read, reason), DT_INVALID);
    EXPECT_STREQ(reason, "hold_ns: expected the time of the hold");
    text = Replaced(text, "\"hold\"", "\"back\"");
    EXPECT_EQ(dt_request_read(text.data(), text.size(), &read, reason), DT_INVALID);
    EXPECT_STREQ(reason, "kind: expected hold or release");
}

TEST(Record, TextsWithOtherThanPrintableCharactersAreNotWritten)
{
    dt_decision decision = Decision();

    strcpy(decision.reason, "a\nb");
    EXPECT_EQ(dt_decision_write(&decision), nullptr);
}

TEST(Record, WhatIsNoRecordIsRefusedInOneLine)
{
    dt_decision decision = Decision();
    const std::string good = Text(dt_decision_write(&decision));
    const struct {
        const char *from, *to, *reason;
    } cases[] = {
        {"\"version\":1", "\"version\":2", "version: expected 1; a newer Detour may have written the record"},
        {"\"version\":1", "\"version\":\"1\"",
         "version: expected 1; a newer Detour may have written the record"},
        {"\"type\":\"decision\"", "\"type\":\"observation\"", "type: expected decision"},
        {"\"type\":\"decision\"", "\"type\":7", "type: expected decision"},
        {"\"kind\":\"replan\"", "\"kind\":\"reboot\"",
         "kind: expected a kind of decision that this version knows"},
        {"\"number\":12", "\"number\":0", "number: expected an integer from 1 to 4611686018427387903"},
        {"\"number\":12", "\"number\":1.5", "number: expected an integer from 1 to 4611686018427387903"},
        {"\"number\":12", "\"other\":12", "number: expected a value; the member is missing"},
        {"\"from\":2", "\"from\":-1", "from: expected an integer from 0 to 16777215"},
        {"\"from\":2", "\"from\":16777216", "from: expected an integer from 0 to 16777215"},
        {"20.123456", "-1", "delay_ms: expected a number in its range"},
        {"20.123456", "1e300", "delay_ms: expected a number in its range"},
        {"\"connection\":\"0000000000000000\"", "\"connection\":\"g000000000000000\"",
         "connection: expected 16 hexadecimal digits"},
        {"\"connection\":\"0000000000000000\"", "\"connection\":\"-1\"",
         "connection: expected 16 hexadecimal digits"},
        {"2-3 is slow", "a\\nb", "reason: expected a text of less than 256 printable ASCII characters"},
        {"2-3 is slow", "a\xc3\xa4", "reason: expected a text of less than 256 printable ASCII characters"},
        {"\"nic\":\"\"", "\"nic\":\"mlx5_0 down\"", "nic: expected one word"},
        {"\"links\":[", "\"links\":[1,", "links: expected an array of objects"},
    };

    ASSERT_EQ(Refused(good), "");
    for (const auto &one : cases)
        EXPECT_EQ(Refused(Replaced(good, one.from, one.to)), one.reason) << one.to;
    for (const char *text : {"", "[]", "null", "{", "\"x\"", "{\"version\":1,\"version\":1}"})
        EXPECT_NE(Refused(text), "") << text;
    EXPECT_NE(Refused(Replaced(good, "2-3 is slow", std::string(DT_RECORD_TEXT_BYTES, 'x'))), "");
    EXPECT_NE(Refused(good + std::string(DT_STORE_RECORD_BYTES, ' ')), "");
    EXPECT_NE(Refused(std::string(60000, '[')), "");
}

TEST(Record, TooManyLinksAreRefused)
{
    std::string links, good;
    dt_decision decision = Decision();

    decision.link_count = 0;
    good = Text(dt_decision_write(&decision));
    for (int i = 0; i <= DT_RECORD_LINKS_MAX; i++)
        links += std::string(i ? "," : "") + "{\"from\":1,\"to\":2,\"delay_ms\":3}";
    EXPECT_EQ(Refused(Replaced(good, "\"links\":[", "\"links\":[" + links)),
              "links: expected an array of at most 96 elements");
    EXPECT_EQ(Refused(Replaced(good, "\"number\":12", "\"number\":12,\"new\":{\"x\":[1]}")), "");
}

/* Each single byte of a record replaced by others, and each prefix: read or refused, never anything else. */
TEST(Record, DamagedRecordsAreReadOrRefused)
{
    dt_decision decision = Decision();
    const std::string good = Text(dt_decision_write(&decision));
    size_t refused = 0, count = 0;

    for (size_t i = 0; i < good.size(); i++) {
        refused += Refused(good.substr(0, i)) != "";
        count++;
        for (char c : {'\0', '"', '}', '9', '-', '\xff'}) {
            std::string damaged = good;
            damaged[i] = c;
            std::string reason = Refused(damaged);
            EXPECT_EQ(reason.find('\n'), std::string::npos);
            refused += reason != "";
            count++;
        }
    }
    EXPECT_GT(refused, count / 2);
}

/* The largest remedy. */
std::string RemedyText(size_t replicas, size_t nodes)
{
    auto remedy = std::make_unique<dt_decision>(Decision());

    remedy->kind = DT_DECISION_REMEDY;
    remedy->step = 2;
    remedy->replica_count = replicas;
    remedy->node_count = nodes;
    for (size_t i = 0; i < replicas; i++)
        remedy->counts[i] = DT_RECORD_RANK_MAX;
    for (size_t i = 0; i < nodes; i++)
        remedy->nodes[i] = (int32_t)(nodes - 1 - i);
    return Text(dt_decision_write(remedy.get()));
}

TEST(Record, ARemedyHasTheWholeArrangement)
{
    const std::string text = RemedyText(DT_RECORD_NODES_MAX, DT_RECORD_NODES_MAX);
    auto read = std::make_unique<dt_decision>();
    char reason[DT_RECORD_REASON_BYTES];

    ASSERT_LT(text.size(), (size_t)DT_STORE_RECORD_BYTES);
    ASSERT_EQ(dt_decision_read(text.data(), text.size(), read.get(), reason), DT_OK) << reason;
    EXPECT_EQ(read->step, 2);
    ASSERT_EQ(read->replica_count, (size_t)DT_RECORD_NODES_MAX);
    ASSERT_EQ(read->node_count, (size_t)DT_RECORD_NODES_MAX);
    EXPECT_EQ(read->counts[1023], DT_RECORD_RANK_MAX);
    EXPECT_EQ(read->nodes[0], 1023);
    EXPECT_EQ(Text(dt_decision_write(read.get())), text);
    EXPECT_EQ(Text(dt_decision_write(std::make_unique<dt_decision>(Decision()).get())).find("microbatches"),
              std::string::npos)
        << "other decisions have none";
}

TEST(Record, ARemedyThatIsNoneIsRefused)
{
    const std::string text = RemedyText(2, 4);

    EXPECT_EQ(Refused(text), "");
    EXPECT_NE(Refused(Replaced(text, "\"step\":2", "\"step\":4")), "");
    EXPECT_NE(Refused(Replaced(text, "\"step\":2", "\"step\":-1")), "");
    EXPECT_NE(Refused(Replaced(text, "\"step\":2", "\"steps\":2")), "");
    EXPECT_NE(Refused(Replaced(text, "[16777215,16777215]", "[16777215,0]")), "");
    EXPECT_NE(Refused(Replaced(text, "[16777215,16777215]", "[16777215,\"1\"]")), "");
    EXPECT_NE(Refused(Replaced(text, "[16777215,16777215]", "[]")), "");
    EXPECT_NE(Refused(Replaced(text, "[16777215,16777215]", "7")), "");
    EXPECT_EQ(Refused(Replaced(text, "[16777215,16777215]", "[1,2,3]")),
              "nodes: expected as many elements for each replica of \"microbatches\"");
    for (const char *nodes : {"[3,2,1,1]", "[4,2,1,0]", "[3,2,1,-1]", "[3,2,1,0.5]", "[]"})
        EXPECT_NE(Refused(Replaced(text, "[3,2,1,0]", nodes)), "") << nodes;
    EXPECT_NE(Refused(RemedyText(2, DT_RECORD_NODES_MAX)
                          .insert(RemedyText(2, DT_RECORD_NODES_MAX).rfind(']'), ",1024")),
              "")
        << "too many";
}
} // namespace
