/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts of senders, as the page, the events and the log have them. */
#include <sys/syscall.h>
#include <unistd.h>

#include <set>

#include "detour/stat.h"
#include "tests/transport/health_senders.h"

namespace
{
using Health = detour_test::HealthSenders;

TEST_F(Health, ALinkGetsSlowAndRecovers)
{
    Add(0, "a-node-of-a-cluster:12345", "soft0");
    Look();
    EXPECT_EQ(DT_PAGE_VERDICT_LEARNING, Of(0).verdict);
    Step(120);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict);
    EXPECT_TRUE(Verdicts().empty()) << "to be healthy is no news";
    EXPECT_EQ(4u << 20, Of(0).transfer_bytes);
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);

    uint64_t slow_ns = now_ns;
    senders[0].ns_a_message *= 3; // not enough for a surge, which needs a millisecond more
    Step(30);
    ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
    EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_LINK), Of(0).cause);
    EXPECT_NEAR(3000, static_cast<double>(Of(0).factor_permille), 100);
    EXPECT_NEAR(800e3, static_cast<double>(Of(0).delay_ns), 40e3) << "four messages, each 0.2 ms longer";
    EXPECT_LE(slow_ns - 50 * DT_NS_PER_MS, Of(0).since_ns);
    EXPECT_GE(slow_ns + 50 * DT_NS_PER_MS, Of(0).since_ns) << "as good as when it began";
    EXPECT_TRUE(senders[0].sender->health->summary.is_slow);
    ASSERT_EQ(1u, Verdicts().size());
    EXPECT_NE(std::string::npos, Verdicts()[0].find("times its healthy time")) << Verdicts()[0];
    EXPECT_NE(std::string::npos, Verdicts()[0].find("to a-node-of-a-cluster:12345 on soft0 is slow for"))
        << Verdicts()[0];

    senders[0].ns_a_message /= 3;
    Step(60);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict);
    EXPECT_EQ(0u, Of(0).since_ns);
    EXPECT_EQ(2u, Verdicts().size());
    EXPECT_NE(std::string::npos, Verdicts()[1].find("healthy again")) << Verdicts()[1];
    dt_event_record record;
    ASSERT_TRUE(dt_event_read(dt_page_events(net->environment.page), 0, &record));
    std::string event = record.text;
    EXPECT_EQ(0u, event.find("to a-node-of-a-cluster:12345: slow ")) << event;
    EXPECT_NE(std::string::npos, event.find(dt_blame_text(DT_BLAME_LINK))) << event;
    EXPECT_EQ(senders[0].sender->connection.id, record.connection);
    EXPECT_STREQ("a-node-of-a-cluster:12345", record.peer);
    EXPECT_STREQ("soft0", record.nic);
    EXPECT_EQ(0, record.path);
    EXPECT_EQ(1u, record.is_send);
    EXPECT_EQ(static_cast<uint32_t>(DT_PAGE_VERDICT_SLOW), record.verdict);
    EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_LINK), record.cause);
    EXPECT_LT(1000u, record.factor_permille);
    EXPECT_LT(0u, record.delay_ns);
    EXPECT_LE(slow_ns - 50 * DT_NS_PER_MS, record.since_ns);
    ASSERT_TRUE(dt_event_read(dt_page_events(net->environment.page), 1, &record));
    EXPECT_EQ(static_cast<uint32_t>(DT_EVENT_KIND_VERDICT), record.kind);
    EXPECT_STREQ("to a-node-of-a-cluster:12345: healthy again", record.text);
}

/* The same slowness, with and without threads that wait for a processor. */
TEST_F(Health, ABusyHostIsNotASlowLink)
{
    struct Threads {
        uint64_t *now_ns;
        double wait_part;
        uint64_t last_ns, wait_ns, run_ns;
        std::set<int32_t> asked;
    } threads = {&now_ns, 0.9, now_ns, 0, 0, {}};
    net->health.busy.read_arg = &threads;
    net->health.busy.read = [](void *arg, int32_t tid, dt_processor_times *times) {
        auto *t = static_cast<Threads *>(arg);
        t->asked.insert(tid);
        uint64_t passed_ns = *t->now_ns - t->last_ns;
        t->last_ns = *t->now_ns;
        t->wait_ns += static_cast<uint64_t>(static_cast<double>(passed_ns) * t->wait_part);
        t->run_ns += static_cast<uint64_t>(static_cast<double>(passed_ns) * (1 - t->wait_part));
        *times = {t->run_ns, t->wait_ns};
        return true;
    };
    Add(0, "a:1", "soft0");
    dt_meter_tag(&senders[0].sender->connection.meter, 3);
    Step(120);
    ASSERT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict);
    EXPECT_EQ(std::set<int32_t>{static_cast<int32_t>(syscall(SYS_gettid))}, threads.asked)
        << "the thread that sent; there is no device thread";
    senders[0].ns_a_message *= 3;
    Step(30);
    ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
    EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_OWN_PROCESSOR), Of(0).cause);
    ASSERT_EQ(1u, Verdicts().size());
    EXPECT_NE(std::string::npos, Verdicts()[0].find(": this host's processor")) << Verdicts()[0];
    dt_event_record record;
    ASSERT_TRUE(dt_event_read(dt_page_events(net->environment.page), 0, &record));
    EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_OWN_PROCESSOR), record.cause);

    threads.wait_part = 0.001; // the other programs have ended, and it is slow all the same
    Step(600);
    ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
    EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_LINK), Of(0).cause);
}

/* The threads at this end wait for nothing, those of the receiver do, as its CTS entries tell. */
TEST_F(Health, ABusyHostOfThePeerIsNotASlowLink)
{
    struct Threads {
        uint64_t *now_ns;
        double wait_part;
    } threads = {&now_ns, 0};
    net->health.busy.read_arg = &threads;
    net->health.busy.read = [](void *arg, int32_t, dt_processor_times *times) {
        auto *t = static_cast<Threads *>(arg);
        *times = {*t->now_ns / 10, static_cast<uint64_t>(static_cast<double>(*t->now_ns) * t->wait_part)};
        return true;
    };
    const uint8_t idle[] = {25, 0, 25, 0}, busy[] = {25, 150, 25, 0};
    uint32_t word;
    Add(0, "a:1", "soft0");
    dt_meter_tag(&senders[0].sender->connection.meter, 3);
    memcpy(&word, idle, sizeof word);
    dt_store_relaxed(&senders[0].sender->peer_processor, word);
    Step(120);
    ASSERT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict);
    senders[0].ns_a_message *= 3;
    Step(30);
    ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
    EXPECT_EQ(static_cast<uint32_t>(DETOUR_STAT_CAUSE_LINK), Of(0).cause);
    memcpy(&word, busy, sizeof word);
    dt_store_relaxed(&senders[0].sender->peer_processor, word);
    Step(30);
    EXPECT_EQ(static_cast<uint32_t>(DETOUR_STAT_CAUSE_PEER_PROCESSOR), Of(0).cause);
    threads.wait_part = 0.8; // of each second from now on; one jump, which the sums forget
    Step(1000);
    EXPECT_EQ(static_cast<uint32_t>(DETOUR_STAT_CAUSE_OWN_PROCESSOR), Of(0).cause) << "the greater part";
}

/* What others count in a row that is shared does not make it look as if all were complete. */
TEST_F(Health, AMessageThatDoesNotReturnIsSeenWhereConnectionsShareTheLastRow)
{
    dt_page_connection others = {};
    for (uint32_t i = 0; i < DT_PAGE_CONNECTIONS - 1; i++)
        dt_page_claim_connection(net->environment.page, &others);
    Add(0, "a:1", "soft0");
    Add(0, "b:1", "soft0");
    ASSERT_EQ(senders[0].sender->connection.meter.row, senders[1].sender->connection.meter.row);
    Step(5);
    EXPECT_NE(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
    dt_store_relaxed(&senders[0].sender->next, senders[0].sender->next + 1);
    for (int i = 0; i < 3; i++, now_ns += 100 * DT_NS_PER_MS) {
        Send(senders[1].sender, now_ns - 100 * DT_NS_PER_US, now_ns - 100 * DT_NS_PER_US);
        Look();
    }
    EXPECT_TRUE(senders[0].sender->health->summary.is_slow);
    EXPECT_FALSE(senders[1].sender->health->summary.is_slow);
    EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict) << "the worst of those that share the row";
    ASSERT_EQ(1u, Verdicts().size());
    EXPECT_NE(std::string::npos, Verdicts()[0].find("to a:1 on soft0 is slow for")) << Verdicts()[0];

    // It comes back, and so does the health of all.
    dt_count(&senders[0].sender->connection.completions, 1);
    dt_meter_sent(&senders[0].sender->connection.meter, now_ns - DT_NS_PER_MS, now_ns - DT_NS_PER_MS,
                  1 << 20);
    Step(200);
    EXPECT_NE(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
}

/* The row shows a sender that has not sent since, once the one that was worse is closed. */
TEST_F(Health, ASharedRowShowsTheWorstOfThoseThatAreLeft)
{
    dt_page_connection others = {};
    for (uint32_t i = 0; i < DT_PAGE_CONNECTIONS - 1; i++)
        dt_page_claim_connection(net->environment.page, &others);
    Add(0, "a:1", "soft0");
    Add(1, "b:1", "soft0"); // over another NIC: the cause stays the same when a:1 recovers
    Add(0, "c:1", "soft0");
    Step(120);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(2).verdict);
    senders[0].ns_a_message *= 3;
    senders[1].ns_a_message *= 3;
    Step(40);
    EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Of(2).verdict);
    now_ns += 100 * DT_NS_PER_MS;
    Look();
    std::vector<Sender> quiet = {senders[1]};
    senders.erase(senders.begin() + 1);
    senders[0].ns_a_message /= 3;
    Step(100);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, senders[0].sender->health->shown.verdict);
    EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict) << "another one is, and sends nothing";
    senders.insert(senders.begin(), quiet.begin(), quiet.end());
    Remove(0);
    Look();
    now_ns += 100 * DT_NS_PER_MS;
    Look();
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(1).verdict);
    Remove(0);
    senders[0].ns_a_message *= 3;
    Step(40);
    EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict) << "its place in the arrays is another one now";
}

/* A judgement looks at those that have sent; the others keep their part in the comparison. */
TEST_F(Health, QuietSendersAreCompared)
{
    Add(1, "z:1", "soft0");
    Add(0, "a:1", "soft0");
    Add(0, "b:1", "soft0");
    Add(1, "a:1", "soft1");
    Add(1, "b:1", "soft0");
    Add(0, "c:1", "soft1");
    Step(120);
    now_ns += 100 * DT_NS_PER_MS;
    Look();
    ASSERT_EQ(0u, Fresh());
    Remove(0); // c:1 takes its place in the arrays
    std::vector<Sender> quiet(senders.begin() + 2, senders.end());
    senders.resize(2);
    for (Sender &sender : senders)
        sender.ns_a_message = sender.ns_a_message * 3 / 2;
    Step(40);
    EXPECT_EQ(2u, Fresh()) << "the quiet ones are not looked at";
    senders.insert(senders.end(), quiet.begin(), quiet.end());
    for (size_t i : {0, 1}) {
        EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Of(i).verdict) << i;
        EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_LINK), Of(i).cause)
            << i << ": c:1 is healthy over the same NIC";
    }
    for (size_t i : {2, 3, 4})
        EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(i).verdict) << i;

    // c:1 becomes slow as well, while the slow ones are quiet: the NIC is what they have in common.
    quiet.assign(senders.begin(), senders.begin() + 4);
    senders.erase(senders.begin(), senders.begin() + 4);
    senders[0].ns_a_message = senders[0].ns_a_message * 3 / 2;
    Step(40);
    senders.insert(senders.begin(), quiet.begin(), quiet.end());
    for (size_t i : {0, 1, 4})
        EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_OWN_NIC), Of(i).cause) << i;
}

TEST_F(Health, NeighborsIdentifyTheCause)
{
    Add(0, "a:1", "soft0"); // over NIC 0 of this host
    Add(0, "b:1", "soft0");
    Add(0, "c:1", "soft1");
    Add(1, "a:1", "soft1"); // over NIC 1
    Add(1, "b:1", "soft0"); // to the same NIC of b as the second
    Add(1, "c:1", "soft0");
    Step(120);
    for (size_t i : {0, 1, 2})
        senders[i].ns_a_message = senders[i].ns_a_message * 3 / 2;
    Step(40);
    for (size_t i : {0, 1, 2}) {
        EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Of(i).verdict) << i;
        EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_OWN_NIC), Of(i).cause) << i;
    }
    for (size_t i : {3, 4, 5})
        EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(i).verdict) << i;
    for (size_t i : {0, 1, 2})
        senders[i].ns_a_message = senders[i].ns_a_message * 2 / 3;
    Step(100);
    for (size_t i : {1, 4}) // both to the same NIC of b
        senders[i].ns_a_message = senders[i].ns_a_message * 3 / 2;
    Step(40);
    for (size_t i : {1, 4})
        EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_PEER_NIC), Of(i).cause) << i;
    for (size_t i : {0, 2, 3, 5})
        EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(i).verdict) << i;
}

/* No clear-to-send is no slow network. */
TEST_F(Health, APeerThatIsNotReadyIsNoSlowLink)
{
    Add(0, "a:1", "soft0");
    Step(120);
    senders[0].wait_ns = 20 * DT_NS_PER_MS;
    Step(60);
    EXPECT_EQ(DT_PAGE_VERDICT_WAITING, Of(0).verdict);
    EXPECT_EQ(static_cast<uint32_t>(DT_BLAME_PEER_NOT_READY), Of(0).cause);
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
    senders[0].wait_ns = 0;
    Step(100);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict);
}

TEST_F(Health, ConnectionsComeAndGo)
{
    for (int i = 0; i < 40; i++)
        Add(static_cast<uint32_t>(i % 2), ("peer:" + std::to_string(i)).c_str(), "soft0");
    Step(3);
    for (int i = 0; i < 20; i++)
        Remove(static_cast<size_t>(i));
    Step(3);
    EXPECT_EQ(20u, net->health.count);
}
} // namespace
