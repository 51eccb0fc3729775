/* SPDX-License-Identifier: Apache-2.0 */
/* `detour stat` on running ranks of `detour perf`: what it says while a link is made slow and well again. */
#include <gtest/gtest.h>

#include <jansson.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/process/command.h"

using detour_test::Command;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
class Stat : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-stat-XXXXXX").string();
        folder = mkdtemp(pattern.data());
    }
    void TearDown() override
    {
        std::filesystem::remove_all(folder);
    }

    std::vector<std::pair<std::string, std::string>> Environment() const
    {
        return {{"DETOUR_RUNTIME_DIR", folder}, {"DETOUR_VERBS", "soft"}, {"DETOUR_SOCKET_IFNAME", "=lo"}};
    }

    /* Lines of `detour stat` that hold all of the parts. */
    size_t Count(const std::vector<std::string> &parts)
    {
        table = RunDetour({"stat"}, Environment()).out;
        size_t count = 0, begin = 0;
        for (size_t end; (end = table.find('\n', begin)) != std::string::npos; begin = end + 1) {
            std::string line = table.substr(begin, end - begin);
            bool has_all = true;
            for (const std::string &part : parts)
                has_all = has_all && line.find(part) != std::string::npos;
            count += has_all;
        }
        return count;
    }

    /* What `detour stat --json` says of each link that has been judged, milliseconds. */
    std::vector<double> Delays()
    {
        table = RunDetour({"stat", "--json"}, Environment()).out;
        std::vector<double> delays;
        json_t *document = json_loads(table.c_str(), 0, nullptr);
        json_t *link;
        size_t i;
        json_array_foreach(json_object_get(document, "links"), i, link)
            delays.push_back(json_number_value(json_object_get(link, "delay_ms")));
        json_decref(document);
        return delays;
    }

    /* However busy the machine is; ctest's own limit ends a test that waits in vain. */
    void Until(Command &perf, const std::function<bool()> &is_so, const char *what)
    {
        while (!is_so()) {
            ASSERT_TRUE(perf.IsRunning()) << what << "\n" << table << perf.Written();
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
    }

    std::string folder, table;
};

/*
 * What software RNICs take depends on what else the machine does, so their links may be called slow without a
 * rule, and rightly; 30 ms more is the rule's alone. (In virtual time: tests/transport/health_test.cc.)
 */
TEST_F(Stat, ASlowLinkIsDetectedAndItsRecoveryToo)
{
    Command perf({"perf", "sendrecv", "-b", "16K", "-n", "4000000000", "--channels", "1", "--timeout", "600"},
                 Environment());
    Until(
        perf, [&] { return Delays().size() == 2; }, "both ranks have learned what is healthy");
    Outcome outcome = RunDetour({"inject", "add", "latency=30ms"}, Environment());
    ASSERT_EQ(0, outcome.exit_code) << outcome.err;
    Until(
        perf,
        [&] {
            std::vector<double> delays = Delays();
            return delays.size() == 2 && delays[0] > 25 && delays[1] > 25;
        },
        "both are slow by 30 ms");
    EXPECT_EQ(2u, Count({" send ", " slow "})) << table;
    EXPECT_EQ(0, RunDetour({"inject", "clear"}, Environment()).exit_code);
    bool was_well[2] = {};
    Until(
        perf,
        [&] {
            std::vector<double> delays = Delays();
            for (size_t i = 0; i < delays.size() && i < 2; i++)
                was_well[i] = was_well[i] || delays[i] < 5;
            return was_well[0] && was_well[1];
        },
        "both are well again");
    std::string events = RunDetour({"stat", "--events"}, Environment()).out;
    EXPECT_NE(std::string::npos, events.find("verdict    to ")) << events;
}

/* Both ranks of each of two jobs, whose runtime folders are hosts. */
TEST_F(Stat, AllHostsOfAJobAreInOneTable)
{
    const std::vector<std::string> words = {"perf",       "sendrecv",   "-b", "16K",       "-n",
                                            "4000000000", "--channels", "1",  "--timeout", "600"};
    const std::string other = folder + "/other";
    std::filesystem::create_directory(other);
    std::filesystem::permissions(other, std::filesystem::perms::owner_all);
    auto environment = Environment();
    environment[0].second = other;
    Command first(words, Environment()), second(words, environment);
    Until(
        second,
        [&] {
            Outcome outcome =
                RunDetour({"stat", "--job", "j", "--host", "alpha=" + folder, "--host", "beta=" + other});
            table = outcome.out + outcome.err;
            size_t alpha = 0, beta = 0;
            for (size_t at = 0; (at = table.find("\nalpha ", at)) != std::string::npos; at++)
                alpha++;
            for (size_t at = 0; (at = table.find("\nbeta ", at)) != std::string::npos; at++)
                beta++;
            return alpha == 2 && beta == 2;
        },
        "both hosts have two sending links");
}

/* As SHIFT's early checkpoint: a path fails, and each rank runs its command while traffic goes on. */
TEST_F(Stat, AFailedPathRunsTheEventCommand)
{
    auto environment = Environment();
    environment.emplace_back(
        "DETOUR_EVENT_COMMAND",
        "echo $DETOUR_EVENT_KIND $DETOUR_EVENT_RANK $DETOUR_EVENT_NIC $DETOUR_EVENT_PATH. >> " + folder +
            "/checkpoint.$DETOUR_EVENT_RANK");
    Command perf({"perf", "sendrecv", "-b", "16K", "-n", "4000000000", "--channels", "1", "--timeout", "600"},
                 environment);
    Until(
        perf,
        [&] {
            return Count({" send ", "soft0-soft0"}) == 2;
        },
        "both ranks send");
    ASSERT_EQ(0, RunDetour({"nic", "soft0", "down"}, Environment()).exit_code);
    for (const char *rank : {"0", "1"}) {
        Until(
            perf,
            [&] {
                std::ifstream file(folder + "/checkpoint." + rank);
                std::string line;
                return std::getline(file, line) && line == std::string("path ") + rank + " soft0 0.";
            },
            "each rank has run its command");
    }
    Until(
        perf,
        [&] {
            std::string events = RunDetour({"stat", "--events", "--json"}, Environment()).out;
            return events.find("\"kind\":\"command\"") != std::string::npos;
        },
        "the end of a command is an event");
}
} // namespace
