/* SPDX-License-Identifier: Apache-2.0 */
/* `detour stat` on running ranks of `detour perf`: what it says while a link is made slow and well again. */
#include <gtest/gtest.h>

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

TEST_F(Stat, ASlowLinkIsSeenAndSeenToBeWellAgain)
{
    Command perf({"perf", "sendrecv", "-b", "16K", "-n", "4000000000", "--channels", "1", "--timeout", "600"},
                 Environment());
    Until(
        perf,
        [&] {
            return Count({" send ", "healthy"}) == 2;
        },
        "both learn what is healthy");
    Outcome outcome = RunDetour({"inject", "add", "latency=30ms"}, Environment());
    ASSERT_EQ(0, outcome.exit_code) << outcome.err;
    Until(
        perf,
        [&] {
            return Count({" send ", "slow"}) == 2;
        },
        "both are slow");
    EXPECT_EQ(0, RunDetour({"inject", "clear"}, Environment()).exit_code);
    Until(
        perf,
        [&] {
            return Count({" send ", "healthy"}) == 2;
        },
        "both are well again");
    std::string events = RunDetour({"stat", "--events"}, Environment()).out;
    EXPECT_NE(std::string::npos, events.find("verdict    to ")) << events;
    EXPECT_NE(std::string::npos, events.find("healthy again")) << events;
    EXPECT_NE(std::string::npos,
              RunDetour({"stat", "--json"}, Environment()).out.find("\"verdict\": \"healthy\""));
}
} // namespace
