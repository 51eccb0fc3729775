// SPDX-License-Identifier: Apache-2.0
// All hosts of a job in one table, from a real redis-server: the newest record counts, what has ended is left
// out, and whatever is no record does no harm. Running processes in folders: process.pipeline.
#include "cli/stat_job.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/exit.h"
#include "controller/record.h"
#include "detour/stat.h"
#include "tests/controller/redis_server.h"

namespace
{
constexpr int64_t kSecond = 1000000000;

class StatJob : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        if (!RedisServer::IsInstalled())
            GTEST_SKIP() << "redis-server is not installed";
        server = new RedisServer;
        url = server->Url();
        char reason[DT_STORE_REASON_BYTES];
        const struct dt_store_options options = {url.c_str(), "j", 0, {}};
        ASSERT_EQ(dt_store_open(&options, &store, reason), DT_OK) << reason;
        /* It needs a moment to start. */
        for (int i = 0; i < 500 && store->ops->set(store, "x", "1") != DT_OK; i++)
            usleep(20000);
        job.name = "j";
        job.redis = url.c_str();
    }

    void TearDown() override
    {
        if (store)
            store->ops->close(store);
        delete server;
    }

    void Append(const char *stream, char *text)
    {
        ASSERT_NE(text, nullptr);
        EXPECT_EQ(store->ops->append(store, stream, text, nullptr), DT_OK) << store->reason;
        free(text);
    }

    /* A process with one link. */
    void Observe(const char *host, int pid, int64_t time_ns, uint64_t connection, int32_t verdict)
    {
        static struct dt_observation observation;
        observation = {};
        strcpy(observation.host, host);
        strcpy(observation.process, "train");
        observation.pid = pid;
        observation.rank = pid % 10;
        observation.time_ns = time_ns;
        observation.link_count = 1;
        struct dt_observed_link *link = &observation.links[0];
        link->connection = connection;
        link->from_rank = pid % 10;
        link->to_rank = -1;
        strcpy(link->peer, "other:1");
        strcpy(link->nic, "mlx5_0");
        link->verdict = verdict;
        link->cause = DETOUR_STAT_CAUSE_LINK;
        link->factor = 3.5;
        link->delay_ns = 20 * kSecond / 1000;
        Append(DT_STREAM_OBSERVATIONS, dt_observation_write(&observation));
    }

    void Find(bool has_ended, int32_t to)
    {
        struct dt_finding_record finding = {};
        finding.time_ns = finding.since_ns = kSecond;
        strcpy(finding.kind, "link");
        finding.ended = has_ended;
        finding.from_rank = 1;
        finding.to_rank = to;
        strcpy(finding.reason, ("to rank " + std::to_string(to)).c_str());
        Append(DT_STREAM_FINDINGS, dt_finding_write(&finding));
    }

    void Decide(int64_t number, enum dt_decision_kind kind, const char *host, const char *nic)
    {
        static struct dt_decision decision;
        decision = {};
        decision.number = number;
        decision.fence = decision.time_ns = 1;
        decision.kind = kind;
        decision.from_rank = decision.to_rank = -1;
        if (kind == DT_DECISION_REMEDY) { /* S2 for one replica of one rank */
            decision.step = 1;
            decision.replica_count = decision.node_count = 1;
            decision.counts[0] = 1;
        }
        strcpy(decision.host, host);
        strcpy(decision.nic, nic);
        snprintf(decision.reason, sizeof decision.reason, "reason %d", static_cast<int>(number));
        Append(DT_STREAM_DECISIONS, dt_decision_write(&decision));
    }

    int Show(bool is_json = false)
    {
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        int code = dt_stat_job_show(&job, is_json);
        err = testing::internal::GetCapturedStderr();
        out = testing::internal::GetCapturedStdout();
        return code;
    }

    bool Has(const std::string &part) const
    {
        return out.find(part) != std::string::npos;
    }

    RedisServer *server = nullptr;
    struct dt_store *store = nullptr;
    struct dt_stat_job job = {};
    std::string url, out, err;
};
} // namespace

TEST_F(StatJob, ShowsTheNewestOfEveryHost)
{
    Observe("alpha", 101, 100 * kSecond, 7, DETOUR_STAT_HEALTHY);
    Observe("alpha", 103, 90 * kSecond, 8, DETOUR_STAT_HEALTHY); /* has ended */
    Observe("beta", 202, 3 * kSecond, 9, DETOUR_STAT_HEALTHY);   /* another clock */
    Observe("alpha", 101, 101 * kSecond, 7, DETOUR_STAT_SLOW);
    ASSERT_EQ(Show(), DT_EXIT_OK) << err;
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 3) << out;
    EXPECT_TRUE(Has("slow 3.50x (+20.00 ms): ")) << out;
    EXPECT_TRUE(Has("mlx5_0-none")) << out;
    EXPECT_TRUE(Has("beta")) << out;
    EXPECT_FALSE(Has("103")) << out;
    EXPECT_EQ(err, "");
    ASSERT_EQ(Show(true), DT_EXIT_OK);
    EXPECT_TRUE(Has("\"connection\": \"0000000000000007\"")) << out;
}

TEST_F(StatJob, ShowsWhatIsInForce)
{
    Observe("alpha", 101, kSecond, 7, DETOUR_STAT_SLOW);
    Find(false, 2);
    Find(false, 3);
    Find(true, 3);
    Decide(1, DT_DECISION_MIGRATE, "alpha", "mlx5_0");
    Decide(2, DT_DECISION_MIGRATE, "alpha", "mlx5_1");
    Decide(3, DT_DECISION_BACK, "alpha", "mlx5_0");
    Decide(4, DT_DECISION_REPLAN, "", ""); /* no links: the planned schedule again */
    ASSERT_EQ(Show(), DT_EXIT_OK) << err;
    EXPECT_TRUE(Has("slow: link: to rank 2\n")) << out;
    EXPECT_FALSE(Has("to rank 3")) << out;
    EXPECT_TRUE(Has("in force: decision 2, migrate on alpha: reason 2\n")) << out;
    EXPECT_FALSE(Has("decision 1,")) << out;
    EXPECT_FALSE(Has("decision 3,") || Has("decision 4,")) << out;
    Decide(5, DT_DECISION_REMEDY, "", "");
    ASSERT_EQ(Show(), DT_EXIT_OK) << err;
    EXPECT_TRUE(Has("in force: decision 5, remedy")) << out;
}

TEST_F(StatJob, RecordsOfAnyoneDoNoHarm)
{
    for (const char *wrong : {"", "{}", "[", "\x01", "{\"version\": 1, \"type\": \"observation\"}"})
        for (const char *stream : {DT_STREAM_OBSERVATIONS, DT_STREAM_FINDINGS, DT_STREAM_DECISIONS})
            store->ops->append(store, stream, wrong, nullptr);
    EXPECT_EQ(Show(), DT_EXIT_FAILED);
    EXPECT_NE(err.find("no host reports a process that sends"), std::string::npos) << err;
    for (int i = 0; i < 700; i++) /* more than one enlargement of the table */
        Observe("alpha", 1 + i % 600, kSecond, 1, DETOUR_STAT_HEALTHY);
    EXPECT_EQ(Show(), DT_EXIT_OK);
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 601);
    EXPECT_NE(err.find("records in the store are no valid records"), std::string::npos) << err;
    server->Kill();
    EXPECT_EQ(Show(), DT_EXIT_FAILED);
    EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
}

TEST(StatJobHosts, AreNamesAndFolders)
{
    struct dt_stat_job job = {};
    testing::internal::CaptureStderr();
    EXPECT_EQ(dt_stat_job_add_host(&job, "a=/dev/shm/x"), 0);
    EXPECT_STREQ(job.hosts[0].name, "a");
    EXPECT_STREQ(job.hosts[0].runtime_dir, "/dev/shm/x");
    for (const char *wrong : {"", "a", "a=", "=b", "a b=/x"})
        EXPECT_EQ(dt_stat_job_add_host(&job, wrong), EINVAL) << wrong;
    EXPECT_EQ(dt_stat_job_add_host(&job, (std::string(100, 'x') + "=/x").c_str()), EINVAL);
    EXPECT_EQ(job.host_count, 1u);
    testing::internal::GetCapturedStderr();
}
