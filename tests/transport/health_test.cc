/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts from samples, in virtual time: what the owner of a sender leaves in its ring, and what the page
 * says. */
#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "tests/harness/harness.h"
#include "transport/message/create.h"
#include "transport/message/send.h"
#include "transport/net_state.h"

namespace
{
/* Senders of one process, each from one of its NICs to one of a peer's; no device, no thread. */
class Health : public ::testing::Test
{
  protected:
    struct Sender {
        dt_sender *sender;
        uint64_t ns_a_message; // network time
        uint64_t wait_ns;      // for the peer
    };

    void SetUp() override
    {
        net = new dt_net();
        net->nic_count = 2;
        net->nic = new dt_nic[2]();
        net->service = new dt_nic_service[2]();
        for (uint32_t i = 0; i < 2; i++) {
            net->nic[i].net = net;
            net->nic[i].environment = &net->environment;
            net->nic[i].service = &net->service[i];
            net->nic[i].index = i;
            snprintf(net->nic[i].name, sizeof net->nic[i].name, "soft%u", i);
            dt_list_init(&net->nic[i].service->connections);
        }
        dt_ticks_init_virtual(&net->environment.ticks, Now, &now_ns);
        ASSERT_EQ(DT_OK, dt_health_open(&net->health));
        dt_page_options options = {nullptr, 1, "x", 0, 0, "", DT_PAGE_RANK_UNKNOWN};
        ASSERT_EQ(DT_OK, dt_page_open(&options, &net->environment.page));
    }
    void TearDown() override
    {
        while (!senders.empty())
            Remove(0);
        dt_health_close(&net->health);
        dt_page_close(net->environment.page);
        delete[] net->nic;
        delete[] net->service;
        delete net;
    }

    void Add(uint32_t nic, const char *peer, const char *peer_nic)
    {
        dt_connection *c = dt_connection_create(&net->nic[nic], true);
        c->id = 100 + senders.size();
        c->path_count = 1;
        c->path[0].nic = &net->nic[nic];
        c->current = &c->path[0];
        snprintf(c->peer, sizeof c->peer, "%s", peer);
        snprintf(c->path[0].peer_device, sizeof c->path[0].peer_device, "%s", peer_nic);
        dt_meter_open(c, now_ns);
        ASSERT_EQ(DT_OK, dt_health_add(&net->health, dt_sender_of(c)));
        senders.push_back({dt_sender_of(c), 100 * DT_NS_PER_US, 0});
    }

    void Remove(size_t index)
    {
        dt_connection *c = &senders[index].sender->connection;
        dt_health_remove(&net->health, senders[index].sender);
        dt_meter_close(c);
        dt_path_group_release(&c->group);
        senders.erase(senders.begin() + static_cast<long>(index));
    }

    /* A message has gone, and is complete now. */
    void Send(dt_sender *sender, uint64_t requested_ns, uint64_t submitted_ns)
    {
        dt_store_relaxed(&sender->next, sender->next + 1);
        dt_count(&sender->connection.completions, 1);
        dt_meter_sent(&sender->connection.meter, requested_ns, submitted_ns, 1 << 20);
    }

    /* Training steps: each sender sends four messages in a row, then there is a pause. */
    void Step(int count)
    {
        for (int i = 0; i < count; i++) {
            uint64_t longest_ns = 0, began_ns = now_ns;
            for (Sender &s : senders) {
                uint64_t requested_ns = began_ns;
                for (int message = 0; message < 4; message++) {
                    uint64_t submitted_ns = requested_ns + (message == 0 ? s.wait_ns : 0);
                    // a healthy link is not quite steady
                    now_ns = submitted_ns +
                             s.ns_a_message * static_cast<uint64_t>(1000 + (i * 7 + message * 3) % 20) / 1000;
                    Send(s.sender, requested_ns, submitted_ns);
                    requested_ns = now_ns;
                }
                longest_ns = std::max(longest_ns, now_ns - began_ns);
            }
            now_ns = began_ns + longest_ns + 10 * DT_NS_PER_MS;
            Look();
        }
    }

    void Look()
    {
        for (Sender &s : senders)
            dt_health_feed(&net->health, s.sender, now_ns);
        dt_health_judge(&net->health, now_ns);
    }

    const dt_page_health &Of(size_t index)
    {
        return senders[index].sender->connection.meter.row->health;
    }

    std::vector<std::string> Verdicts()
    {
        std::vector<std::string> found;
        for (const std::string &line : detour_test::LoggedLines()) {
            if (line.find("connection ") != std::string::npos)
                found.push_back(line);
        }
        return found;
    }

    static uint64_t Now(void *arg)
    {
        return *static_cast<uint64_t *>(arg);
    }

    uint64_t now_ns = 5 * DT_NS_PER_S;
    dt_net *net = nullptr;
    std::vector<Sender> senders;
};

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

/* 30 ms on top of 0.1: three messages are enough, long before the monitor has learned anything. */
TEST_F(Health, ASurgeIsNoticedAtOnce)
{
    Add(0, "a:1", "soft0");
    Step(3); // twelve messages: what is usual is known
    senders[0].ns_a_message += 30 * DT_NS_PER_MS;
    Step(1);
    Look();
    EXPECT_TRUE(senders[0].sender->health->summary.is_slow);
    now_ns += DT_NS_PER_S;
    Look();
    ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
    EXPECT_NEAR(30e6, static_cast<double>(Of(0).delay_ns), 1e6);
    senders[0].ns_a_message -= 30 * DT_NS_PER_MS;
    Step(100);
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
}

/* No completion at all: the overdue message is reported. */
TEST_F(Health, AMessageThatDoesNotReturnIsASurge)
{
    Add(0, "a:1", "soft0");
    Step(5);
    dt_connection *c = &senders[0].sender->connection;
    dt_store_release(&c->open_requests, 1u); // complete, but NCCL has not asked
    for (int i = 0; i < 10; i++, now_ns += 100 * DT_NS_PER_MS)
        Look();
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
    dt_store_relaxed(&senders[0].sender->next, senders[0].sender->next + 1);
    now_ns += DT_NS_PER_S; // it may have begun just now: Detour's thread was kept waiting
    Look();
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
    now_ns += 90 * DT_NS_PER_MS;
    Look();
    EXPECT_FALSE(senders[0].sender->health->summary.is_slow);
    now_ns += 30 * DT_NS_PER_MS;
    Look();
    EXPECT_TRUE(senders[0].sender->health->summary.is_slow);
    now_ns += 20 * DT_NS_PER_S;
    Look();
    EXPECT_GT(Of(0).delay_ns, 19 * DT_NS_PER_S) << "it grows while it is under way";
    dt_store_release(&c->open_requests, 0u);
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

/* Detour's thread may be late: then a sample stands for many messages, and none is missing. */
TEST_F(Health, AFullRingHasSamplesOfManyMessages)
{
    const uint64_t kCount = 100000;
    Add(0, "a:1", "soft0");
    dt_meter *meter = &senders[0].sender->connection.meter;
    uint64_t began_ns = now_ns;
    auto Send = [&] {
        uint64_t requested_ns = now_ns;
        now_ns += 10 * DT_NS_PER_US; // no clear-to-send
        uint64_t submitted_ns = now_ns;
        now_ns += 30 * DT_NS_PER_US;
        dt_meter_sent(meter, requested_ns, submitted_ns, 100);
        now_ns += 5 * DT_NS_PER_US; // nothing to send
    };
    for (uint64_t i = 0; i < kCount; i++)
        Send();
    dt_sample sum = {};
    uint64_t samples = 0;
    auto Take = [&] {
        for (const dt_sample *sample; (sample = dt_meter_sample(meter)); dt_meter_taken(meter), samples++) {
            uint64_t length_ns = sample->done - sample->submitted;
            sum.messages += sample->messages;
            sum.bytes += sample->bytes;
            sum.service += sample->messages > 1 ? sample->service : length_ns;
            sum.idle += sample->messages > 1 ? sample->idle : 0;
            sum.waited += sample->messages > 1 ? sample->waited : 0;
            sum.done += length_ns - (sample->messages > 1 ? sample->idle : 0);
            EXPECT_LE(sum.submitted, sample->submitted) << "in their order";
            sum.submitted = sample->done;
        }
    };
    Take();
    EXPECT_TRUE(meter->is_keeping);
    EXPECT_GT(sum.submitted, began_ns);
    Send(); // there is room now, for what was kept too
    Take();
    EXPECT_FALSE(meter->is_keeping);
    EXPECT_EQ(kCount + 1, sum.messages);
    EXPECT_EQ((kCount + 1) * 100, sum.bytes);
    EXPECT_EQ((kCount + 1) * 30 * DT_NS_PER_US, sum.service);
    EXPECT_EQ((kCount + 1) * 30 * DT_NS_PER_US, sum.done) << "under way, without what lies between";
    EXPECT_EQ(kCount + 1, meter->row->message_count);
    uint64_t merged = kCount + 1 - DT_METER_SAMPLES_EACH;
    EXPECT_EQ(merged, meter->merged);
    uint64_t of_many = samples - DT_METER_SAMPLES_EACH;
    EXPECT_EQ((merged - of_many) * 15 * DT_NS_PER_US, sum.idle);
    EXPECT_EQ((merged - of_many) * 10 * DT_NS_PER_US, sum.waited);
}

/* The messages between two pauses are one transfer, even if the watch divides it into pieces.
 */
TEST_F(Health, ALongTransferIsOne)
{
    Add(0, "a:1", "soft0");
    for (uint64_t round = 0; round < 300; round++) {
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t submitted_ns = now_ns;
            now_ns += (round < 150 ? 400 : 600) * DT_NS_PER_US + (i + round) % 3 * 1000;
            dt_meter_sent(&senders[0].sender->connection.meter, submitted_ns, submitted_ns, 1 << 20);
            if (i % 20 != 19)
                continue;
            Look();
            if (round < 290)
                continue;
            ASSERT_EQ(DT_PAGE_VERDICT_SLOW, Of(0).verdict);
            ASSERT_NEAR(1000.0, static_cast<double>(Of(0).transfer_bytes >> 20), 50) << i;
            ASSERT_NEAR(200.0, static_cast<double>(Of(0).delay_ns) / 1e6, 15) << i;
        }
        for (int i = 0; i < 2; i++, now_ns += 100 * DT_NS_PER_MS)
            Look();
    }
}

/* Who is late is Detour's thread, not the peer. */
TEST_F(Health, SamplesOfManyMessagesBlockNoThread)
{
    Add(0, "a:1", "soft0");
    dt_meter *meter = &senders[0].sender->connection.meter;
    auto Send = [&](int count, uint64_t every_ns) {
        uint64_t look_ns = now_ns + every_ns;
        for (int i = 0; i < count; i++) {
            uint64_t requested_ns = now_ns, submitted_ns = now_ns + 250 * DT_NS_PER_US;
            now_ns = submitted_ns + 200 * DT_NS_PER_US;
            dt_meter_sent(meter, requested_ns, submitted_ns, 65536);
            if (now_ns >= look_ns) {
                Look();
                look_ns = now_ns + every_ns;
            }
        }
    };
    Send(128 * 200, 5 * DT_NS_PER_MS);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict);
    for (int i = 0; i < 20; i++) {
        Send(128 * 20, 75 * DT_NS_PER_MS);
        EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Of(0).verdict) << i;
    }
    EXPECT_GT(meter->merged, 0u);
}

/* What is kept comes before a pause, so that the burst does not go on behind it. */
TEST_F(Health, SamplesOfManyMessagesEndAtAPause)
{
    Add(0, "a:1", "soft0");
    dt_health &health = *senders[0].sender->health;
    for (int round = 0; round < 40; round++) {
        for (int i = 0; i < DT_METER_SAMPLES_EACH + 70; i++) { // the last 6 are kept
            dt_meter_sent(&senders[0].sender->connection.meter, now_ns, now_ns, 100);
            now_ns += DT_NS_PER_US;
        }
        Look();
        now_ns += 5 * DT_NS_PER_MS;
        Look(); // no end of the burst: not all of it has been seen
    }
    ASSERT_EQ(39u, health.watch.burst_count);
    for (int i = 1; i < 39; i++) // the first is cut, to learn how long pieces have to be
        EXPECT_EQ((DT_METER_SAMPLES_EACH + 70) * 100, health.watch.sizes[i]);
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
