/* SPDX-License-Identifier: Apache-2.0 */
/* The public reader on pages of this process and of its parent, which both live. */
#include "detour/stat.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <fstream>
#include <string>

#include "obs/page.h"
#include "tests/harness/harness.h"
#include "tests/obs/folder.h"

namespace
{
class Stat : public ::testing::Test
{
  protected:
    ~Stat() override
    {
        for (dt_page *page : pages)
            dt_page_close(page);
        detour_stat_free(snapshot);
    }

    /* The page of a process that began at 1,000,000 ns of its clock, 5 s after 1970. */
    dt_page *Open(int pid, int32_t job_rank = DT_PAGE_RANK_UNKNOWN)
    {
        dt_page_options options = {&folder.dir, pid, "trainer", 5000000000, 1000000, "nodea", job_rank};
        dt_page *page = nullptr;
        EXPECT_EQ(DT_OK, dt_page_open(&options, &page));
        pages.push_back(page);
        return page;
    }

    static dt_page_connection *Claim(dt_page *page, bool is_send, const std::string &peer, int32_t from_rank)
    {
        dt_page_connection content = {};
        content.id = 17;
        content.is_send = is_send;
        content.opened_ns = 3000000;
        content.path_count = 2;
        content.path_now = 1;
        content.from_rank = from_rank;
        strcpy(content.path[1].own, "mlx5_1");
        strcpy(content.path[1].peer, "mlx5_7");
        snprintf(content.peer, sizeof content.peer, "%s", peer.c_str());
        return dt_page_claim_connection(page, &content);
    }

    /* Event `i` of a process. */
    static void Write(dt_page *page, uint64_t i)
    {
        dt_event_record event = dt_event_of(DT_EVENT_KIND_PATH, 1000000 + i);
        event.value = static_cast<int64_t>(i);
        dt_event_write(dt_page_events(page), &event, "event %d", static_cast<int>(i));
    }

    enum detour_stat_status Read(int pid = 0)
    {
        detour_stat_free(snapshot);
        return detour_stat_read(folder.path.c_str(), pid, &snapshot, error);
    }

    const detour_stat_connection *Connection(size_t process, size_t index)
    {
        return detour_stat_get_connection(detour_stat_get_process(snapshot, process), index);
    }

    Folder folder;
    std::vector<dt_page *> pages;
    detour_stat_snapshot *snapshot = nullptr;
    char error[DETOUR_STAT_ERROR_BYTES] = "";
};

TEST_F(Stat, WithoutProcessesTheSnapshotIsEmpty)
{
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    EXPECT_EQ(0u, detour_stat_process_count(snapshot));
    EXPECT_EQ(nullptr, detour_stat_get_process(snapshot, 0));
    EXPECT_GT(detour_stat_time_ns(snapshot), 1600000000000000000);
    EXPECT_EQ(DETOUR_STAT_NOT_FOUND, Read(getpid()));
    EXPECT_EQ(nullptr, snapshot);
    EXPECT_NE(nullptr, strstr(error, " does not use Detour, or has ended (looked in ")) << error;
}

TEST_F(Stat, ShowsAConnectionWithItsCountersAndMoments)
{
    dt_page *page = Open(getpid());
    dt_page_connection *row = Claim(page, true, "hostb:99", 3);
    dt_page_health health = {};
    dt_page_add(&row->message_count, 7);
    dt_page_add(&row->payload_bytes, 4096);
    dt_page_add(&row->path_down_count, 2);
    dt_page_add(&row->rewound_count, 5);
    dt_page_add(&row->full_count, 4);
    dt_page_add(&row->held_count, 6);
    dt_page_add(&row->held_ns, 6000);
    health.verdict = DT_PAGE_VERDICT_SLOW;
    health.since_ns = 2000000;
    health.factor_permille = 2500;
    dt_page_set_health(row, &health);

    ASSERT_EQ(DETOUR_STAT_OK, Read(getpid()));
    const detour_stat_process *process = detour_stat_get_process(snapshot, 0);
    ASSERT_NE(nullptr, process);
    EXPECT_EQ(getpid(), process->pid);
    EXPECT_STREQ("trainer", process->name);
    EXPECT_EQ(5000000000, process->start_ns);
    EXPECT_EQ(3, process->rank);
    ASSERT_EQ(1u, process->connection_count);
    const detour_stat_connection *shown = Connection(0, 0);
    EXPECT_EQ(17u, shown->id);
    EXPECT_EQ(5002000000, shown->opened_ns) << "2 ms after the start";
    EXPECT_EQ(1, shown->path);
    EXPECT_STREQ("mlx5_1", shown->nic);
    EXPECT_STREQ("mlx5_7", shown->peer_nic);
    EXPECT_EQ(7u, shown->messages);
    EXPECT_EQ(4096u, shown->bytes);
    EXPECT_EQ(2u, shown->switches);
    EXPECT_EQ(4u, shown->pool_full);
    EXPECT_EQ(6u, shown->held);
    EXPECT_EQ(6000u, shown->held_ns);
    EXPECT_EQ(5u, shown->retries);
    EXPECT_EQ(DETOUR_STAT_SLOW, shown->verdict);
    EXPECT_EQ(5001000000, shown->since_ns);
    EXPECT_EQ(2.5, shown->factor);
    EXPECT_EQ(nullptr, Connection(0, 1));
}

TEST_F(Stat, ShowsTheIterationsOfAProcess)
{
    dt_page *page = Open(getpid());
    ASSERT_EQ(DETOUR_STAT_OK, Read(getpid()));
    const detour_stat_process *process = detour_stat_get_process(snapshot, 0);
    EXPECT_EQ(0u, process->iteration_ns);
    EXPECT_EQ(0u, process->iterations);
    EXPECT_EQ(DETOUR_STAT_LEARNING, process->compute_verdict);
    EXPECT_EQ(1, process->compute_factor);
    EXPECT_EQ(0, process->compute_since_ns);
    dt_page_pace pace = {};
    pace.iterations = 120;
    pace.iteration_ns = 80000000;
    pace.compute_ns = 48000000;
    pace.verdict = DT_PAGE_VERDICT_SLOW;
    pace.since_ns = 2000000;
    pace.factor_permille = 1750;
    dt_page_set_pace(page, &pace);
    ASSERT_EQ(DETOUR_STAT_OK, Read(getpid()));
    process = detour_stat_get_process(snapshot, 0);
    EXPECT_EQ(120u, process->iterations);
    EXPECT_EQ(80000000u, process->iteration_ns);
    EXPECT_EQ(48000000u, process->compute_ns);
    EXPECT_EQ(DETOUR_STAT_SLOW, process->compute_verdict);
    EXPECT_EQ(1.75, process->compute_factor);
    EXPECT_EQ(5001000000, process->compute_since_ns);
}

TEST_F(Stat, WithoutAPathThereIsNoNic)
{
    dt_page_connection *row = Claim(Open(getpid()), true, "hostb:99", 3);
    dt_store_relaxed(&row->path_now, UINT32_MAX);
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    EXPECT_EQ(-1, Connection(0, 0)->path);
    EXPECT_STREQ("", Connection(0, 0)->nic);
}

TEST_F(Stat, SendersOfSeveralRanksAreNoneOfThem)
{
    dt_page *page = Open(getpid());
    Claim(page, true, "hostb:1", 3);
    Claim(page, true, "hostb:2", DT_PAGE_RANK_UNKNOWN);
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    EXPECT_EQ(3, detour_stat_get_process(snapshot, 0)->rank);
    Claim(page, true, "hostb:3", 4);
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    EXPECT_EQ(DETOUR_STAT_RANK_SEVERAL, detour_stat_get_process(snapshot, 0)->rank);
}

TEST_F(Stat, APeersRankIsKnownFromItsConnections)
{
    std::string parent = "nodea:" + std::to_string(getppid());
    dt_page *own = Open(getpid());
    Claim(own, true, "hostb:1", 3);
    Claim(own, false, "hostb:1", 8); // hostb:1 sends as rank 8
    Claim(own, true, parent, 3);
    Claim(Open(getppid()), true, "hostc:1", 9); // the parent sends as rank 9, to another process
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    ASSERT_EQ(2u, detour_stat_process_count(snapshot));
    size_t mine = detour_stat_get_process(snapshot, 0)->pid == getpid() ? 0 : 1;
    EXPECT_EQ(8, Connection(mine, 0)->to_rank);
    EXPECT_EQ(3, Connection(mine, 1)->to_rank) << "it receives as what it sends as";
    EXPECT_EQ(9, Connection(mine, 2)->to_rank);
    EXPECT_EQ(DETOUR_STAT_RANK_UNKNOWN, Connection(1 - mine, 0)->to_rank);
}

TEST_F(Stat, EventsAreTheNewestWithTheOldestFirst)
{
    dt_page *page = Open(getpid());
    for (uint64_t i = 0; i < DT_EVENT_SLOTS + 3; i++)
        Write(page, i);
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    const detour_stat_process *process = detour_stat_get_process(snapshot, 0);
    ASSERT_EQ(DT_EVENT_SLOTS, process->event_count);
    EXPECT_STREQ("event 3", detour_stat_get_event(process, 0)->text);
    EXPECT_STREQ("path", detour_stat_get_event(process, 0)->kind);
    EXPECT_EQ(5000000003, detour_stat_get_event(process, 0)->time_ns);
    EXPECT_EQ(3u, detour_stat_get_event(process, 0)->number);
    EXPECT_EQ(static_cast<int64_t>(DT_EVENT_SLOTS) + 2,
              detour_stat_get_event(process, process->event_count - 1)->value);
    EXPECT_EQ(nullptr, detour_stat_get_event(process, process->event_count));
}

TEST_F(Stat, AnEventNamesBothEndsAndWhatIsNotKnownIsAbsent)
{
    std::string parent = "nodea:" + std::to_string(getppid());
    dt_page *page = Open(getpid(), 12);
    Claim(page, true, parent, 3);
    dt_page *peer = Open(getppid(), 13);
    Claim(peer, true, "nodeb:1", 4); // sends as rank 4 of a communicator
    dt_event_record event = dt_event_of(DT_EVENT_KIND_VERDICT, 2000000);
    event.connection = 17;
    event.is_send = 1;
    event.from_rank = 3;
    event.path = 1;
    event.verdict = DT_PAGE_VERDICT_SLOW;
    event.cause = DETOUR_STAT_CAUSE_LINK;
    event.since_ns = 1500000;
    event.factor_permille = 8500;
    event.delay_ns = 7000;
    strcpy(event.nic, "mlx5_1");
    strcpy(event.peer_nic, "mlx5_7");
    strcpy(event.peer, parent.c_str());
    dt_event_write(dt_page_events(page), &event, "slow");
    strcpy(event.peer, "nodeb:1");
    strcpy(event.next_nic, "mlx5_2");
    event.connection = 18; // closed since
    dt_event_write(dt_page_events(page), &event, "slow");
    event = dt_event_of(DT_EVENT_KIND_CONTROL, 2000000);
    dt_event_write(dt_page_events(page), &event, "nic soft0 down");

    ASSERT_EQ(DETOUR_STAT_OK, Read());
    const detour_stat_process *process = detour_stat_get_process(snapshot, 0);
    if (process->pid != getpid())
        process = detour_stat_get_process(snapshot, 1);
    EXPECT_EQ(12, process->job_rank);
    EXPECT_STREQ("nodea", process->host);
    const detour_stat_event *first = detour_stat_get_event(process, 0);
    EXPECT_EQ(12, first->rank);
    EXPECT_EQ(13, first->peer_rank) << "in the job";
    EXPECT_EQ(3, first->from_rank) << "in the communicator";
    EXPECT_EQ(4, first->to_rank);
    EXPECT_EQ(17u, first->connection);
    EXPECT_TRUE(first->is_send);
    EXPECT_EQ(1, first->path);
    EXPECT_STREQ("mlx5_1", first->nic);
    EXPECT_STREQ("mlx5_7", first->peer_nic);
    EXPECT_EQ(parent, first->peer);
    EXPECT_EQ(DETOUR_STAT_SLOW, first->verdict);
    EXPECT_EQ(DETOUR_STAT_CAUSE_LINK, first->cause);
    EXPECT_EQ(5000500000, first->since_ns);
    EXPECT_DOUBLE_EQ(8.5, first->factor);
    EXPECT_EQ(7000u, first->delay_ns);
    EXPECT_STREQ("", first->next_nic);
    const detour_stat_event *second = detour_stat_get_event(process, 1);
    EXPECT_EQ(DETOUR_STAT_RANK_UNKNOWN, second->peer_rank) << "a process of another host";
    EXPECT_EQ(3, second->from_rank);
    EXPECT_STREQ("mlx5_2", second->next_nic);
    EXPECT_EQ(DETOUR_STAT_RANK_UNKNOWN, second->to_rank);
    const detour_stat_event *third = detour_stat_get_event(process, 2);
    EXPECT_EQ(0u, third->connection);
    EXPECT_EQ(-1, third->path);
    EXPECT_EQ(-1, third->verdict);
    EXPECT_EQ(DETOUR_STAT_RANK_UNKNOWN, third->from_rank);
    EXPECT_EQ(0, third->since_ns);
}

/* Readers that follow would never come back to it. */
TEST_F(Stat, EventsEndBeforeOneThatIsBeingWritten)
{
    dt_page *page = Open(getpid());
    for (uint64_t i = 0; i < 3; i++)
        Write(page, i);
    dt_event_ring *ring = dt_page_events(page);
    uint64_t mark = ring->records[1].mark;
    ring->records[1].mark = 0;
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    EXPECT_EQ(1u, detour_stat_get_process(snapshot, 0)->event_count);
    ring->records[1].mark = mark;
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    EXPECT_EQ(3u, detour_stat_get_process(snapshot, 0)->event_count);
    for (uint64_t i = 3; i < DT_EVENT_SLOTS; i++)
        Write(page, i);
    ring->records[1].mark = 0; // the oldest ones are being overwritten
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    EXPECT_EQ(DT_EVENT_SLOTS - 1, detour_stat_get_process(snapshot, 0)->event_count);
}

TEST_F(Stat, APageOfAnotherVersionIsRefusedAloneAndLeftOutAmongAll)
{
    std::string name = folder.path + "/" + std::to_string(getpid()) + ".page";
    Open(getppid());
    Open(getpid());
    uint32_t version = DT_PAGE_VERSION + 1;
    {
        std::fstream file(name, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(offsetof(dt_page_header, version));
        file.write(reinterpret_cast<const char *>(&version), sizeof version);
    }
    EXPECT_EQ(DETOUR_STAT_REFUSED, Read(getpid()));
    EXPECT_NE(nullptr, strstr(error, "is of another version of Detour than this program")) << error;
    ASSERT_EQ(DETOUR_STAT_OK, Read());
    ASSERT_EQ(1u, detour_stat_process_count(snapshot));
    EXPECT_EQ(getppid(), detour_stat_get_process(snapshot, 0)->pid);
}

TEST_F(Stat, AFolderThatOthersCanWriteIsRefusedWithoutAnErrorTextToo)
{
    std::filesystem::permissions(folder.path, std::filesystem::perms::all);
    EXPECT_EQ(DETOUR_STAT_REFUSED, Read());
    EXPECT_STRNE("", error);
    EXPECT_EQ(DETOUR_STAT_REFUSED, detour_stat_read(folder.path.c_str(), 0, &snapshot, nullptr));
}

TEST_F(Stat, SurvivesEveryFailedAllocation)
{
    Claim(Open(getpid()), true, "hostb:1", 3);
    for (int i = 0;; i++) {
        detour_test_fail_alloc(i);
        enum detour_stat_status status = Read();
        if (!detour_test_alloc_failed()) {
            EXPECT_EQ(DETOUR_STAT_OK, status);
            break;
        }
        EXPECT_EQ(DETOUR_STAT_NO_MEMORY, status) << i;
        EXPECT_EQ(nullptr, snapshot) << i;
    }
}

TEST(StatQuantile, IsTheUpperEndOfTheBucket)
{
    detour_stat_connection connection = {};
    EXPECT_EQ(0u, detour_stat_service_quantile_ns(&connection, 0.5));
    connection.service_count[0] = 90; // below 1024 ns
    connection.service_count[3] = 10; // below 8192 ns
    EXPECT_EQ(1024u, detour_stat_service_quantile_ns(&connection, 0.5));
    EXPECT_EQ(1024u, detour_stat_service_quantile_ns(&connection, 0.9));
    EXPECT_EQ(8192u, detour_stat_service_quantile_ns(&connection, 0.91));
}

TEST(StatTexts, AreThereForEveryValue)
{
    for (int i = DETOUR_STAT_LEARNING; i <= DETOUR_STAT_WAITING; i++)
        EXPECT_STRNE("unknown", detour_stat_verdict_text(static_cast<detour_stat_verdict>(i)));
    for (int i = DETOUR_STAT_CAUSE_NONE; i <= DETOUR_STAT_CAUSE_OWN_PROCESSOR; i++)
        EXPECT_STRNE("unknown", detour_stat_cause_text(static_cast<detour_stat_cause>(i)));
    EXPECT_STREQ("unknown", detour_stat_cause_text(static_cast<detour_stat_cause>(99)));
    EXPECT_EQ(DETOUR_STAT_API, detour_stat_api());
}
} // namespace
