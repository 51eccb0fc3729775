// SPDX-License-Identifier: Apache-2.0
/* `detour control` and `detour agent` as processes. */
#include <gtest/gtest.h>
#include <jansson.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "controller/record.h"
#include "controller/store.h"
#include "tests/controller/redis_server.h"
#include "tests/harness/free_address.h"
#include "tests/process/command.h"

namespace
{
using detour_test::Await;
using detour_test::Command;
using detour_test::Count;
using detour_test::RunDetour;

std::string File(const std::string &path)
{
    std::ifstream file(path, std::ios::binary);

    return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ControlProcess, NoOtherUserCanReadThePassword)
{
    const std::string address = detour_test::FreeAddress(); /* where no server listens */
    Command agent({"agent", "--redis", "redis://detour:secret@" + address, "--host", "h"});
    const std::string words = "/proc/" + std::to_string(agent.Pid()) + "/cmdline";

    EXPECT_TRUE(
        Await([&] { return File(words).find("redis://*************@" + address) != std::string::npos; }));
    EXPECT_EQ(File(words).find("secret"), std::string::npos);
    EXPECT_TRUE(Await([&] { return agent.Written().find("Redis at " + address) != std::string::npos; }));
    EXPECT_EQ(agent.Written().find("secret"), std::string::npos);
}

TEST(ControlProcess, TheEnvironmentNamesTheStore)
{
    const std::string address = detour_test::FreeAddress();
    Command agent({"agent", "--host", "h"}, {{"DETOUR_REDIS", "redis://detour:secret@" + address}});

    EXPECT_TRUE(Await([&] { return agent.Written().find("Redis at " + address) != std::string::npos; }));
    EXPECT_EQ(agent.Written().find("secret"), std::string::npos);
}

constexpr int kHosts = 4,
              kRanks = 2 * kHosts; /* host a has ranks 0 (over soft0) and 1 (over soft1), and so on */

std::string HostOf(int rank)
{
    return {static_cast<char>('a' + rank / 2)};
}

/*
 * A job of two ranks, whose links are measured by this test in place of agents: whether the machine is busy
 * then decides nothing. The controller, the agent, the server and the connections are real.
 */
class ControlLoop : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        if (!RedisServer::IsInstalled())
            GTEST_SKIP() << "redis-server is not installed";
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-control-XXXXXX").string();
        folder = mkdtemp(pattern.data());
        server = std::make_unique<RedisServer>();
        char reason[DT_STORE_REASON_BYTES];
        const std::string url = server->Url();
        const struct dt_store_options options = {url.c_str(), "job", 0, {}};
        ASSERT_EQ(dt_store_open(&options, &store, reason), DT_OK) << reason;
        /* As an agent leaves it that ends before the first decision. */
        ASSERT_TRUE(Await([&] { return store->ops->set(store, "agent:a", "0 0") == DT_OK; }));
    }
    void TearDown() override
    {
        if (store)
            store->ops->close(store);
        if (!folder.empty())
            std::filesystem::remove_all(folder);
    }
    std::vector<std::pair<std::string, std::string>> Environment() const
    {
        return {{"DETOUR_RUNTIME_DIR", folder + "/run"},
                {"DETOUR_VERBS", "soft"},
                {"DETOUR_SOCKET_IFNAME", "=lo"},
                {"DETOUR_HOSTPATH", "auto"},
                {"DETOUR_REDIS", server->Url()}};
    }
    std::string Call(const std::vector<std::string> &words) const
    {
        return RunDetour(words, Environment()).out;
    }

    /* The connection from rank 0 to rank 1 of the job: its id, 0 while there is none, and its RNIC. */
    std::pair<uint64_t, std::string> Connection() const
    {
        json_t *document = json_loads(Call({"stat", "--json"}).c_str(), 0, nullptr), *process, *item;
        std::pair<uint64_t, std::string> found;
        size_t i, j;

        json_array_foreach(json_object_get(document, "processes"), i, process)
        {
            json_array_foreach(json_object_get(process, "connections"), j, item)
            {
                if (!strcmp(json_string_value(json_object_get(item, "direction")), "send") &&
                    json_integer_value(json_object_get(item, "from")) == 0)
                    found = {strtoull(json_string_value(json_object_get(item, "connection")), nullptr, 16),
                             json_string_value(json_object_get(item, "nic"))};
            }
        }
        json_decref(document);
        return found;
    }

    /* All connections that send, and their RNICs. */
    std::map<uint64_t, std::string> Connections() const
    {
        json_t *document = json_loads(Call({"stat", "--json"}).c_str(), 0, nullptr), *process, *item;
        std::map<uint64_t, std::string> found;
        size_t i, j;

        json_array_foreach(json_object_get(document, "processes"), i, process)
        {
            json_array_foreach(json_object_get(process, "connections"), j, item)
            {
                if (!strcmp(json_string_value(json_object_get(item, "direction")), "send"))
                    found[strtoull(json_string_value(json_object_get(item, "connection")), nullptr, 16)] =
                        json_string_value(json_object_get(item, "nic"));
            }
        }
        json_decref(document);
        return found;
    }

    /* What agents report of all links. The one from rank 0 to rank 2 is over this RNIC of host a. */
    void ReportLink(int factor, const char *nic)
    {
        for (int rank = 0; rank < kRanks; rank++) {
            dt_observation observation = Observation(rank);

            for (int to = rank % 2; to < kRanks; to += 2) {
                if (to == rank)
                    continue;
                AddLink(&observation, rank, to, rank == 0 && to == 2 ? factor : 1);
                if (rank == 0 && to == 2)
                    snprintf(observation.links[observation.link_count - 1].nic, DT_RECORD_NIC_BYTES, "%s",
                             nic);
            }
            Append(observation);
        }
    }

    /* What agents report of all links. Those of rank 0, over soft0 of host a, take `factor` times as long. */
    void Report(int factor)
    {
        for (int rank = 0; rank < kRanks; rank++) {
            dt_observation observation = Observation(rank);

            for (int to = rank % 2; to < kRanks; to += 2) {
                if (to != rank)
                    AddLink(&observation, rank, to, rank && to ? 1 : factor);
            }
            Append(observation);
        }
    }
    static dt_observation Observation(int rank)
    {
        dt_observation observation = {};

        snprintf(observation.host, sizeof observation.host, "%s", HostOf(rank).c_str());
        snprintf(observation.process, sizeof observation.process, "rank%d", rank);
        observation.pid = 1000 + rank;
        observation.rank = rank;
        observation.time_ns = TimeNs();
        observation.window_ns = 100000000;
        return observation;
    }
    void Append(const dt_observation &observation)
    {
        char *text = dt_observation_write(&observation);

        ASSERT_NE(text, nullptr);
        EXPECT_EQ(store->ops->append(store, DT_STREAM_OBSERVATIONS, text, nullptr), DT_OK);
        free(text);
    }
    /* The even ranks of the job have a communicator, and the odd ones. */
    void AddLink(dt_observation *observation, int from, int to, int factor)
    {
        dt_observed_link *link = &observation->links[observation->link_count++];

        link->connection = from == 0 && to == 2 ? connection : 0x1000u + 16u * from + to;
        link->from_rank = from / 2;
        link->to_rank = to / 2;
        snprintf(link->peer, sizeof link->peer, "%s:%d", HostOf(to).c_str(), 1000 + to);
        snprintf(link->nic, sizeof link->nic, "soft%d", from % 2);
        snprintf(link->peer_nic, sizeof link->peer_nic, "soft%d", to % 2);
        link->factor = 1;
        link->transfer_bytes = 65536;
        link->samples = 8;
        link->messages = 8;
        link->bytes = 8 * 65536;
        link->service_ns = 8 * 1000000 * factor;
    }
    static int64_t TimeNs()
    {
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
    }
    bool ReportUntil(const std::function<void()> &report, const std::function<bool()> &is_so)
    {
        return Await([&] {
            report();
            std::this_thread::sleep_for(std::chrono::milliseconds(80));
            return is_so();
        });
    }

    std::string folder;
    std::unique_ptr<RedisServer> server;
    dt_store *store = nullptr;
    uint64_t connection = 0;
};

std::string Hex(uint64_t id)
{
    char text[17];

    snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(id));
    return text;
}

TEST_F(ControlLoop, HostPathAndMigrationReachTheConnectionsOfTheHost)
{
    Command perf({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "1", "--timeout", "60"},
                 Environment());
    ASSERT_TRUE(Await([&] { return (connection = Connection().first) != 0; }));
    EXPECT_EQ(Connection().second, "soft0");

    Command control({"control", "--job", "job", "--do", "hostpath,migrate", "--json"}, Environment());
    auto has_decided = [&](const std::string &kind) {
        return control.Written().find("\"kind\":\"" + kind) != std::string::npos;
    };
    int healthy = 0;
    ASSERT_TRUE(ReportUntil([&] { Report(1); }, [&] { return ++healthy == 40; }));
    EXPECT_FALSE(has_decided("")) << control.Written();
    ASSERT_TRUE(
        ReportUntil([&] { Report(6); }, [&] { return has_decided("hostpath-on") && has_decided("migrate"); }))
        << control.Written();
    EXPECT_NE(control.Written().find("\"from_rank\":0,\"to_rank\":2,\"connection\":\"" + Hex(connection)),
              std::string::npos)
        << "ranks of the job: " << control.Written();

    Command agent({"agent", "--job", "job", "--host", "a"}, Environment());
    for (const std::string &text : std::initializer_list<std::string>{
             "`hostpath on id=" + Hex(connection) + "`: on: 1 connections",
             "(hostpath-on): no process of this host has such a connection", /* of the other links */
             "`nic soft0 migrate`: soft0: "}) {
        EXPECT_TRUE(Await([&] { return agent.Written().find(text) != std::string::npos; }))
            << text << "\n"
            << agent.Written();
    }
    EXPECT_TRUE(Await([&] { return Connection().second == "soft1"; })) << Call({"stat"});
}

/* A runtime directory with the command sockets of the processes and without their pages: an agent that
 * executes, but has nothing to report beside this test. */
class ControlMove : public ControlLoop
{
  protected:
    std::vector<std::pair<std::string, std::string>> SocketsAlone() const
    {
        const std::filesystem::path to = folder + "/sockets";

        std::filesystem::create_directory(to);
        std::filesystem::permissions(to, std::filesystem::perms::owner_all);
        for (const auto &entry : std::filesystem::directory_iterator(folder + "/run")) {
            if (entry.is_socket())
                std::filesystem::create_hard_link(entry.path(), to / entry.path().filename());
        }
        auto environment = Environment();
        environment.emplace_back("DETOUR_RUNTIME_DIR", to.string());
        return environment;
    }
};

/*
 * Both ranks of the program have two connections, over an RNIC each. One of them has a slow link: it alone
 * leaves its RNIC. Its link is healthy when it is back.
 */
TEST_F(ControlMove, OneConnectionOfASlowLinkMovesAndReturns)
{
    Command perf({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "2", "--timeout", "60"},
                 Environment());
    std::map<uint64_t, std::string> before, after;

    ASSERT_TRUE(Await([&] { return (before = Connections()).size() == 4; })) << Call({"stat"});
    for (const auto &[id, nic] : before)
        connection = nic == "soft0" ? id : connection;
    ASSERT_NE(connection, 0u);
    after = before;
    after[connection] = "soft1";

    Command control({"control", "--job", "job", "--do", "migrate", "--recheck", "3", "--json"},
                    Environment());
    Command agent({"agent", "--job", "job", "--host", "a"}, SocketsAlone());
    int healthy = 0;
    ASSERT_TRUE(ReportUntil([&] { ReportLink(1, "soft0"); }, [&] { return ++healthy == 40; }));
    ASSERT_TRUE(ReportUntil([&] { ReportLink(6, "soft0"); }, [&] { return Connections() == after; }))
        << control.Written() << agent.Written() << Call({"stat"});
    EXPECT_NE(control.Written().find("\"kind\":\"migrate\""), std::string::npos) << control.Written();
    const std::string line = "`nic soft0 migrate id=" + Hex(connection) + "`: soft0: 1 connections";
    EXPECT_TRUE(Await([&] { return agent.Written().find(line) != std::string::npos; })) << agent.Written();

    ASSERT_TRUE(ReportUntil([&] { ReportLink(1, "soft1"); }, [&] { return Connections() == before; }))
        << control.Written() << agent.Written() << Call({"stat"});
    healthy = 0;
    ASSERT_TRUE(ReportUntil([&] { ReportLink(1, "soft0"); }, [&] { return ++healthy == 20; }));
    EXPECT_EQ(Connections(), before) << control.Written();
    EXPECT_EQ(Count(control.Written(), "\"type\":\"decision\""), 2u) << control.Written();
}

/* A pipeline of four ranks; host a, with an agent, has rank 0. */
class RestartedJob : public ControlLoop
{
  protected:
    void Start(const std::string &rules,
               const std::vector<std::string> &words = {"--devices", "4", "--microbatches", "8"})
    {
        const std::string rendezvous = detour_test::FreeAddress();

        for (int rank = 0; rank < 4; rank++) {
            std::vector<std::pair<std::string, std::string>> environment = Environment();

            if (rank) {
                environment.emplace_back("DETOUR_RUNTIME_DIR", OtherHosts());
                environment.emplace_back("DETOUR_INJECT", rules);
            }
            std::vector<std::string> all = {"pipeline",
                                            "--times",
                                            "4,4,4",
                                            "--adapt",
                                            "control",
                                            "-n",
                                            "1000000",
                                            "--timeout",
                                            "120",
                                            "--rank",
                                            std::to_string(rank),
                                            "--rendezvous",
                                            rendezvous};
            all.insert(all.end(), words.begin(), words.end());
            ranks.push_back(std::make_unique<Command>(all, environment));
        }
    }
    std::string OtherHosts() const
    {
        return folder + "/others";
    }

    /* Of each iteration, as rank 0 prints it. */
    std::vector<int> Schedules()
    {
        std::istringstream lines(ranks[0]->Output());
        std::vector<int> schedules;

        for (std::string line; std::getline(lines, line);) {
            std::istringstream words(line);
            std::string word;

            if (line[0] != ' ')
                continue;
            for (int column = 0; column <= 6; column++)
                words >> word;
            schedules.push_back(std::atoi(word.c_str()));
        }
        return schedules;
    }
    bool HasAnotherSchedule()
    {
        std::vector<int> schedules = Schedules();

        return !schedules.empty() && schedules.back() > 0;
    }

    /* What agents report of the links between the ranks 1 to 7. The one from 2 to 3 takes `factor` times as
     * long. */
    void ReportOthers(int factor)
    {
        for (int rank = 1; rank < kRanks; rank++) {
            dt_observation observation = Observation(rank);

            for (int to : {rank - 1, rank + 1}) {
                if (to > 0 && to < kRanks)
                    AddLink(&observation, rank, to, rank == 2 && to == 3 ? factor : 1);
            }
            Append(observation);
        }
    }

    std::vector<std::unique_ptr<Command>> ranks;
};

/*
 * Nothing measures the links of the job's new processes, and no iteration ends, until the controller has
 * decided again and rank 0 has the decision; so only the first reports of the new rank 0 can be the reason.
 */
TEST_F(RestartedJob, HasTheReplanInForceAtItsFirstLook)
{
    const std::string replan = "\"kind\":\"replan\"";
    Command control({"control", "--job", "job", "--json"}, Environment());
    Command agent({"agent", "--job", "job", "--host", "a"}, Environment());
    int healthy = 0;

    Start("");
    ASSERT_TRUE(
        ReportUntil([&] { ReportOthers(1); }, [&] { return ++healthy >= 25 && !Schedules().empty(); }));
    ASSERT_TRUE(ReportUntil([&] { ReportOthers(26); }, [&] { return HasAnotherSchedule(); }))
        << control.Written() << agent.Written() << ranks[0]->Written();

    ranks.clear();
    const size_t decided = Count(control.Written(), replan), taken = Count(agent.Written(), "replan");
    Start("latency=1000s");
    ASSERT_TRUE(Await([&] { return Count(control.Written(), replan) > decided; })) << control.Written();
    ASSERT_TRUE(Await([&] { return Count(agent.Written(), "replan") > taken; })) << agent.Written();
    EXPECT_TRUE(Schedules().empty());
    RunDetour({"inject", "clear"}, {{"DETOUR_RUNTIME_DIR", OtherHosts()}});
    ASSERT_TRUE(Await([&] { return HasAnotherSchedule(); })) << ranks[0]->Written();
    /* Rank 0 looks for decisions after each iteration; the third one after its look has the new schedule. */
    const std::vector<int> schedules = Schedules();
    EXPECT_EQ(std::find_if(schedules.begin(), schedules.end(), [](int number) { return number > 0; }),
              schedules.begin() + 3);
}

/* A job of two replicas of two stages. Replica 1 has the link from rank 2 to rank 3, which is slow for both
 * jobs. */
TEST_F(RestartedJob, BeginsWithoutTheRemedyAndGetsItAnew)
{
    const std::vector<std::string> words = {"--devices", "2", "--dp", "2", "--microbatches", "4"};
    const std::string ended = "\"reason\":\"S1: the job was started again",
                      cluster = folder + "/cluster.json";
    int healthy = 0;

    std::ofstream(cluster) << R"({"version": 1, "name": "job", "replicas": 2, "stages": 2, "microbatches": 8,
        "stage_ms": [12, 12], "message_bytes": 65536, "gradient_bytes": 65536, "bytes_per_s": 0, "latency_ms": 0.1,
        "costs_ms": {"S1": 100000000, "S2": 1, "S3": 100000000, "S4": 100000000}})";
    Command control({"control", "--job", "job", "--json", "--do", "none", "--cluster", cluster},
                    Environment());
    Command agent({"agent", "--job", "job", "--host", "a"}, Environment());

    Start("", words);
    ASSERT_TRUE(Await([&] { return !Schedules().empty(); })) << ranks[0]->Written();
    ASSERT_TRUE(ReportUntil([&] { ReportOthers(1); }, [&] { return ++healthy >= 25; }));
    RunDetour({"inject", "add", "latency=10ms"}, {{"DETOUR_RUNTIME_DIR", OtherHosts()}});
    ASSERT_TRUE(ReportUntil([&] { ReportOthers(26); },
                            [&] { return ranks[0]->Written().find("remedy S2") != std::string::npos; }))
        << control.Written() << agent.Written() << ranks[0]->Written();
    ASSERT_EQ(Count(control.Written(), ended), 0u);

    ranks.clear();
    Start("latency=10ms", words);
    ASSERT_TRUE(ReportUntil([&] { ReportOthers(26); },
                            [&] { return ranks[0]->Written().find("remedy S2") != std::string::npos; }))
        << control.Written() << agent.Written() << ranks[0]->Written();
    EXPECT_EQ(Count(control.Written(), ended), 1u) << control.Written();
}
} // namespace
