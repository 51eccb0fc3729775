// SPDX-License-Identifier: Apache-2.0
/* `detour control` and `detour agent` as processes. */
#include <gtest/gtest.h>
#include <jansson.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
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

    /* What agents report of all links. Those of rank 0, over soft0 of host a, take `factor` times as long. */
    void Report(int factor)
    {
        for (int rank = 0; rank < kRanks; rank++) {
            dt_observation observation = {};

            snprintf(observation.host, sizeof observation.host, "%s", HostOf(rank).c_str());
            snprintf(observation.process, sizeof observation.process, "rank%d", rank);
            observation.pid = 1000 + rank;
            observation.rank = rank;
            observation.time_ns = TimeNs();
            observation.window_ns = 100000000;
            for (int to = rank % 2; to < kRanks; to += 2) {
                if (to != rank)
                    AddLink(&observation, rank, to, rank && to ? 1 : factor);
            }
            char *text = dt_observation_write(&observation);
            ASSERT_NE(text, nullptr);
            EXPECT_EQ(store->ops->append(store, DT_STREAM_OBSERVATIONS, text, nullptr), DT_OK);
            free(text);
        }
    }
    void AddLink(dt_observation *observation, int from, int to, int factor)
    {
        dt_observed_link *link = &observation->links[observation->link_count++];

        link->connection = from == 0 && to == 2 ? connection : 0x1000u + 16u * from + to;
        link->from_rank = from;
        link->to_rank = to;
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
    bool ReportUntil(int factor, const std::function<bool()> &is_so)
    {
        return Await([&] {
            Report(factor);
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
    ASSERT_TRUE(ReportUntil(1, [&] { return ++healthy == 40; }));
    EXPECT_FALSE(has_decided("")) << control.Written();
    ASSERT_TRUE(ReportUntil(6, [&] { return has_decided("hostpath-on") && has_decided("migrate"); }))
        << control.Written();

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
} // namespace
