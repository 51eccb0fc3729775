// SPDX-License-Identifier: Apache-2.0
/* An agent with a memory store, and the pages and sockets of processes of this test. */
#include "controller/agent.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>

#include "base/clock.h"
#include "controller/known.h"
#include "controller/store_memory.h"
#include "tests/cli/served.h"

namespace
{
using detour_test::Served;

class Agent : public ::testing::Test
{
  protected:
    Agent()
    {
        Restart();
    }
    ~Agent() override
    {
        dt_agent_destroy(agent);
        store->ops->close(store);
    }
    void Restart()
    {
        const dt_agent_options options = {"a", folder.path.c_str(), store, Note, this};

        dt_agent_destroy(agent);
        agent = dt_agent_create(&options);
    }
    static void Note(void *arg, bool is_error, const char *text)
    {
        if (is_error)
            static_cast<Agent *>(arg)->errors.push_back(text);
    }
    static void NoteAll(void *arg, bool, const char *text)
    {
        Note(arg, true, text);
    }
    static bool Keep(void *arg, const char *, const char *record, size_t)
    {
        static_cast<std::vector<std::string> *>(arg)->push_back(record);
        return true;
    }
    std::vector<std::string> Stream(const char *name)
    {
        std::vector<std::string> records;

        EXPECT_EQ(store->ops->read(store, name, "", 100000, Keep, &records), DT_OK);
        return records;
    }
    void Append(int64_t number, int64_t fence, const char *host = "",
                dt_decision_kind kind = DT_DECISION_MIGRATE)
    {
        dt_decision decision = {};

        decision.number = number;
        decision.fence = fence;
        decision.kind = kind;
        strcpy(decision.nic, "soft0");
        strcpy(decision.host, host);
        char *text = dt_decision_write(&decision);
        ASSERT_EQ(store->ops->append(store, DT_STREAM_DECISIONS, text, nullptr), DT_OK);
        free(text);
    }
    Served::Answer Executes()
    {
        return [this](const std::string &line, std::string *answer) {
            std::lock_guard<std::mutex> lock(mutex);
            executed.push_back(line);
            *answer = "done";
            return DT_OK;
        };
    }
    /* The acknowledgements as "NUMBER STATUS". */
    std::vector<std::string> Acknowledged()
    {
        std::vector<std::string> list;

        for (const std::string &text : Stream(DT_STREAM_ACKNOWLEDGEMENTS)) {
            dt_acknowledgement read;
            char reason[DT_RECORD_REASON_BYTES] = "";
            EXPECT_EQ(dt_acknowledgement_read(text.data(), text.size(), &read, reason), DT_OK) << reason;
            EXPECT_STREQ(read.host, "a");
            EXPECT_EQ(read.time_ns, 77);
            list.push_back(std::to_string(read.number) + " " + std::to_string(read.status));
        }
        return list;
    }

    Folder folder;
    struct dt_store *store = dt_store_memory_create(0);
    dt_agent *agent = nullptr;
    std::mutex mutex;
    std::vector<std::string> executed, errors;
};

using Lines = std::vector<std::string>;

TEST_F(Agent, ReportsWhatConnectionsHaveSentSinceTheLastReport)
{
    dt_page_options options = {&folder.dir, (int)getpid(), "trainer", 5000000000, 1000000, "elsewhere", 2};
    dt_page *page = nullptr;
    dt_page_connection content = {};
    auto read = std::make_unique<dt_observation>();
    char reason[DT_RECORD_REASON_BYTES] = "";

    ASSERT_EQ(dt_page_open(&options, &page), DT_OK);
    content.id = 17;
    content.is_send = 1;
    content.from_rank = 2;
    content.path_count = 1;
    strcpy(content.peer, "elsewhere:9");
    strcpy(content.path[0].own, "soft0");
    strcpy(content.path[0].peer, "soft1");
    dt_page_connection *row = dt_page_claim_connection(page, &content);
    content.id = 18;
    content.is_send = 0;
    dt_page_claim_connection(page, &content);
    dt_page_add(&row->message_count, 100);
    ASSERT_EQ(dt_agent_report(agent), DT_OK);
    dt_page_add(&row->message_count, 4);
    dt_page_add(&row->payload_bytes, 4096);
    dt_page_add(&row->service_ns, 8000);
    usleep(1000);
    ASSERT_EQ(dt_agent_report(agent), DT_OK);
    dt_page_close(page);

    Lines records = Stream(DT_STREAM_OBSERVATIONS);
    ASSERT_EQ(records.size(), 2u);
    ASSERT_EQ(dt_observation_read(records[1].data(), records[1].size(), read.get(), reason), DT_OK) << reason;
    EXPECT_STREQ(read->host, "a");
    EXPECT_STREQ(read->page_host, "elsewhere");
    EXPECT_EQ(read->rank, 2);
    EXPECT_GT(read->window_ns, 0);
    ASSERT_EQ(read->link_count, 1u); /* a receiver is no link */
    EXPECT_EQ(read->links[0].connection, 17u);
    EXPECT_EQ(read->links[0].from_rank, 2);
    EXPECT_STREQ(read->links[0].nic, "soft0");
    EXPECT_STREQ(read->links[0].peer_nic, "soft1");
    EXPECT_EQ(read->links[0].messages, 4);
    EXPECT_EQ(read->links[0].bytes, 4096);
    EXPECT_EQ(read->links[0].service_ns, 8000);
}

/* The counts of the process ascend; a pace that is no newer than the last report is not reported again. */
TEST_F(Agent, ReportsThePaceOfTheIterationsSinceTheLastReport)
{
    dt_page_options options = {&folder.dir, (int)getpid(), "trainer", 5000000000, 1000000, "elsewhere", 2};
    dt_page *page = nullptr;
    dt_page_pace pace = {};
    auto read = std::make_unique<dt_observation>();
    char reason[DT_RECORD_REASON_BYTES] = "";
    const uint64_t iterations[] = {10, 13, 13};

    ASSERT_EQ(dt_page_open(&options, &page), DT_OK);
    for (uint64_t count : iterations) {
        pace.iterations = count;
        pace.iteration_ns = 1000 * count;
        pace.compute_ns = 300 * count;
        dt_page_set_pace(page, &pace);
        ASSERT_EQ(dt_agent_report(agent), DT_OK);
    }
    dt_page_close(page);
    Lines records = Stream(DT_STREAM_OBSERVATIONS);
    ASSERT_EQ(records.size(), 3u);
    const int64_t reported[][3] = {{0, 0, 0}, {3, 13000, 3900}, {0, 0, 0}};
    for (size_t i = 0; i < 3; i++) {
        ASSERT_EQ(dt_observation_read(records[i].data(), records[i].size(), read.get(), reason), DT_OK);
        EXPECT_EQ(read->rank, 2);
        EXPECT_EQ(read->iterations, reported[i][0]);
        EXPECT_EQ(read->iteration_ns, reported[i][1]);
        EXPECT_EQ(read->compute_ns, reported[i][2]);
    }
}

/* The page of a rank of the job on the machine "elsewhere", which sends to and receives from one peer. */
class PageOfRank
{
  public:
    PageOfRank(const Folder &folder, int pid, int32_t rank, int32_t from_rank, int32_t peer_from_rank,
               const char *peer)
    {
        dt_page_options options = {&folder.dir, pid, "trainer", 0, 0, "elsewhere", rank};
        dt_page_connection content = {};

        EXPECT_EQ(dt_page_open(&options, &page), DT_OK);
        content.id = 100 + (uint64_t)pid;
        content.is_send = 1;
        content.from_rank = from_rank;
        strcpy(content.peer, peer);
        row = dt_page_claim_connection(page, &content);
        content.is_send = 0;
        content.from_rank = peer_from_rank;
        dt_page_claim_connection(page, &content);
    }
    ~PageOfRank()
    {
        dt_page_close(page);
    }
    PageOfRank(const PageOfRank &) = delete;
    void Send()
    {
        dt_page_add(&row->message_count, 1);
        dt_page_add(&row->payload_bytes, 4096);
        dt_page_add(&row->service_ns, 8000);
    }

  private:
    dt_page *page = nullptr;
    dt_page_connection *row = nullptr;
};

/* The ranks 6 and 7 of the job are the ranks 2 and 3 of a communicator. */
TEST_F(Agent, FromTwoHostsTheEndsOfALinkAreRanksOfTheJob)
{
    Folder other_folder;
    const dt_agent_options options = {"b", other_folder.path.c_str(), store, Note, this};
    std::unique_ptr<dt_agent, void (*)(dt_agent *)> other(dt_agent_create(&options), dt_agent_destroy);
    std::unique_ptr<dt_known, void (*)(dt_known *)> known(dt_known_create(), dt_known_destroy);
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge(dt_judge_create(64, 64), dt_judge_destroy);
    auto read = std::make_unique<dt_observation>();
    char reason[DT_RECORD_REASON_BYTES] = "";
    PageOfRank six(folder, 11, 6, 2, 3, "elsewhere:12"), seven(other_folder, 12, 7, 3, 2, "elsewhere:11");
    Lines links;

    for (int i = 0; i < 3; i++, usleep(1000)) {
        ASSERT_EQ(dt_agent_report(agent), DT_OK);
        ASSERT_EQ(dt_agent_report(other.get()), DT_OK);
        six.Send();
        seven.Send();
    }
    for (const std::string &record : Stream(DT_STREAM_OBSERVATIONS)) {
        ASSERT_EQ(dt_observation_read(record.data(), record.size(), read.get(), reason), DT_OK) << reason;
        ASSERT_EQ(read->link_count, 1u);
        EXPECT_EQ(read->links[0].from_rank + read->links[0].to_rank, 5) << "in the communicator";
        dt_known_take(known.get(), read.get(), DT_JUDGE_UNKNOWN, read->time_ns, judge.get());
    }
    for (size_t i = 0; i < DT_KNOWN_LINKS_MAX; i++) {
        const dt_known_link *link = &dt_known_links(known.get())[i];
        if (link->connection)
            links.push_back(std::string(link->host) + " " + std::to_string(link->from_rank) + ">" +
                            std::to_string(link->to_rank));
    }
    std::sort(links.begin(), links.end());
    EXPECT_EQ(links, (Lines{"a 6>7", "b 7>6"}));
    EXPECT_EQ(dt_judge_get_counts(judge.get()).links, 2u);
}

TEST_F(Agent, AProcessWithManyConnectionsIsReportedInParts)
{
    dt_page_options options = {&folder.dir, (int)getpid(), "trainer", 0, 0, "", 0};
    dt_page *page = nullptr;
    dt_page_connection content = {};
    auto read = std::make_unique<dt_observation>();
    char reason[DT_RECORD_REASON_BYTES] = "";
    size_t links = 0;

    ASSERT_EQ(dt_page_open(&options, &page), DT_OK);
    for (uint64_t i = 1; i <= 2 * DT_RECORD_LINKS_MAX + 5; i++) {
        content.id = i;
        content.is_send = 1;
        dt_page_claim_connection(page, &content);
    }
    ASSERT_EQ(dt_agent_report(agent), DT_OK);
    dt_page_close(page);
    for (const std::string &record : Stream(DT_STREAM_OBSERVATIONS)) {
        ASSERT_EQ(dt_observation_read(record.data(), record.size(), read.get(), reason), DT_OK) << reason;
        links += read->link_count;
    }
    EXPECT_EQ(links, 2u * DT_RECORD_LINKS_MAX + 5);
}

TEST_F(Agent, AHostWithoutProcessesReportsNothing)
{
    EXPECT_EQ(dt_agent_report(agent), DT_OK);
    EXPECT_EQ(Stream(DT_STREAM_OBSERVATIONS), Lines());
    EXPECT_EQ(errors, Lines());
}

TEST_F(Agent, EachDecisionIsExecutedOnceEvenIfItsRecordIsThereTwice)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());

    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Append(1, 1);
    Append(1, 1);
    Append(2, 1, "b"); /* another host's */
    Append(3, 1, "a");
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(executed, Lines(2, "soft0 migrate"));
    EXPECT_EQ(Acknowledged(), (Lines{"1 0", "3 0"}));
}

/* The store fails when a decision is acknowledged. */
static const struct dt_store_ops *whole;
static bool is_cut;
static enum dt_status AppendUnlessCut(struct dt_store *store, const char *stream, const char *record,
                                      char id[DT_STORE_ID_BYTES])
{
    return is_cut && !strcmp(stream, DT_STREAM_ACKNOWLEDGEMENTS) ? DT_SYSTEM
                                                                 : whole->append(store, stream, record, id);
}

TEST_F(Agent, AnAcknowledgementThatTheStoreLosesIsAppendedLater)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());
    struct dt_store_ops ops = *store->ops;

    whole = store->ops;
    ops.append = AppendUnlessCut;
    store->ops = &ops;
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Append(1, 1);
    is_cut = true;
    EXPECT_EQ(dt_agent_follow(agent, 77), DT_SYSTEM);
    EXPECT_EQ(dt_agent_follow(agent, 77), DT_SYSTEM);
    is_cut = false;
    EXPECT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(executed, Lines{"soft0 migrate"});
    EXPECT_EQ(Acknowledged(), Lines{"1 0"});
    store->ops = whole;
}

TEST_F(Agent, WhyNothingIsReportedIsOneLine)
{
    ASSERT_EQ(chmod(folder.path.c_str(), 0755), 0);
    EXPECT_EQ(dt_agent_report(agent), DT_OK);
    EXPECT_EQ(dt_agent_report(agent), DT_OK);
    EXPECT_EQ(errors.size(), 1u);
    ASSERT_EQ(chmod(folder.path.c_str(), 0700), 0);
    EXPECT_EQ(dt_agent_report(agent), DT_OK);
    ASSERT_EQ(chmod(folder.path.c_str(), 0755), 0);
    EXPECT_EQ(dt_agent_report(agent), DT_OK);
    EXPECT_EQ(errors.size(), 2u);
    ASSERT_EQ(chmod(folder.path.c_str(), 0700), 0);
}

TEST_F(Agent, ADecisionWithAnOlderFencingNumberIsRefused)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());

    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Append(1, 5);
    Append(2, 4);
    Append(3, 5);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(executed.size(), 2u);
    EXPECT_EQ(Acknowledged(), (Lines{"1 0", "2 " + std::to_string(DT_CLOSED), "3 0"}));
    EXPECT_EQ(errors, Lines{"decision 2 (migrate): refused: the controller's lease has ended"});
}

TEST_F(Agent, AFreshAgentDoesNotExecuteThePast)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());

    Append(1, 1);
    Append(2, 1);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(executed, Lines());
    Append(3, 1);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(executed.size(), 1u);
}

TEST_F(Agent, ARestartedAgentGoesOnAfterItsLastDecision)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());

    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Append(1, 1);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Append(2, 1);
    Restart();
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(executed.size(), 2u);
    EXPECT_EQ(Acknowledged(), (Lines{"1 0", "2 0"}));
}

TEST_F(Agent, ADecisionWithAnExtremeNumberIsRefusedAndLaterOnesAreTaken)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());

    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Append(INT64_MAX / 2, 1);
    Append(1, INT64_MAX / 2);
    Append(1, 1);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Restart();
    Append(2, 1);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(Acknowledged(), (Lines{"1 0", "2 0"}));
    EXPECT_EQ(errors.size(), 4u) << "a restarted agent reads the stream again";
}

/* Both with the rounds of `detour agent`. */
TEST_F(Agent, OfTwoAgentsOfAHostOneExecutesAndTheOtherTakesOver)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());
    const dt_agent_options options = {"a", folder.path.c_str(), store, Note, this};
    dt_agent *other = dt_agent_create(&options);
    uint64_t now_ns = 1000 * DT_NS_PER_S;
    auto round = [&](dt_agent *one, const char *holder) {
        dt_status status = dt_agent_keep_lease(one, holder, now_ns);
        return status == DT_OK ? dt_agent_follow(one, 77) : status;
    };

    ASSERT_EQ(round(agent, "one"), DT_OK);
    for (int64_t number = 1; number <= 20; number++, now_ns += 500 * DT_NS_PER_MS) {
        Append(number, 1);
        EXPECT_EQ(round(other, "two"), DT_AGAIN);
        EXPECT_EQ(round(agent, "one"), DT_OK);
    }
    EXPECT_EQ(executed.size(), 20u);
    EXPECT_EQ(errors, Lines{"another agent of host a has its lease; waiting for it"});
    now_ns += DT_AGENT_LEASE_MS * DT_NS_PER_MS; /* the first one is dead */
    Append(21, 1);
    EXPECT_EQ(round(other, "two"), DT_OK);
    EXPECT_EQ(round(agent, "one"), DT_AGAIN);
    EXPECT_EQ(executed.size(), 21u);
    Append(22, 1);
    dt_agent_destroy(other); /* releases it */
    EXPECT_EQ(round(agent, "one"), DT_OK);
    EXPECT_EQ(executed.size(), 22u);
}

/* Also if it has taken none before. */
TEST_F(Agent, AnAgentThatWasStoppedForLongerThanItsLeaseTakesWhatWasDecidedMeanwhile)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());

    ASSERT_EQ(dt_agent_keep_lease(agent, "one", DT_NS_PER_S), DT_OK);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    Append(1, 1);
    ASSERT_EQ(dt_agent_keep_lease(agent, "one", 100 * DT_NS_PER_S), DT_OK);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(Acknowledged(), Lines{"1 0"});
}

TEST_F(Agent, ADirectoryWithoutProcessesIsOneLine)
{
    const std::string missing = folder.path + "/missing";
    const dt_agent_options options = {"a", missing.c_str(), store, NoteAll, this};
    dt_agent *other = dt_agent_create(&options);

    EXPECT_EQ(dt_agent_report(other), DT_OK);
    EXPECT_EQ(dt_agent_report(other), DT_OK);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_NE(errors[0].find(missing), std::string::npos) << errors[0];
    dt_agent_destroy(other);
}

TEST_F(Agent, AHostileRecordIsSkippedWithOneLine)
{
    Served process(folder.dir, 11, "rank0", "nic", Executes());

    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    ASSERT_EQ(
        store->ops->append(store, DT_STREAM_DECISIONS, "{\"version\":1,\"type\":\"decision\"}", nullptr),
        DT_OK);
    Append(1, 1);
    ASSERT_EQ(dt_agent_follow(agent, 77), DT_OK);
    EXPECT_EQ(executed.size(), 1u);
    ASSERT_EQ(errors.size(), 1u);
    EXPECT_NE(errors[0].find("is refused: kind: expected"), std::string::npos) << errors[0];
}
} // namespace
