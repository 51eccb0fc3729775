/* SPDX-License-Identifier: Apache-2.0 */
/* `detour hold` and `detour release` on running ranks of `detour perf`. */
#include <gtest/gtest.h>
#include <jansson.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "tests/process/command.h"

using detour_test::Await;
using detour_test::Command;
using detour_test::LineCount;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
class Hold : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-hold-XXXXXX").string();
        folder = mkdtemp(pattern.data());
    }
    void TearDown() override
    {
        std::filesystem::remove_all(folder);
    }
    std::vector<std::pair<std::string, std::string>> Environment(const std::string &hostpath) const
    {
        return {{"DETOUR_RUNTIME_DIR", folder + "/run"},
                {"DETOUR_VERBS", "soft"},
                {"DETOUR_SOCKET_IFNAME", "=lo"},
                {"DETOUR_HOSTPATH", hostpath}};
    }
    Outcome Call(std::vector<std::string> words) const
    {
        return RunDetour(words, Environment("off"));
    }
    /* The sum of a counter over all senders. */
    long long Sum(const char *counter) const
    {
        std::string text = Call({"stat", "--json"}).out;
        json_t *document = json_loads(text.c_str(), 0, nullptr), *process, *connection;
        size_t i, j;
        long long sum = 0;
        json_array_foreach(json_object_get(document, "processes"), i, process)
            json_array_foreach(json_object_get(process, "connections"), j, connection) sum +=
            json_integer_value(json_object_get(connection, counter));
        json_decref(document);
        return sum;
    }
    void ExpectTraffic(const char *when) const
    {
        long long before = Sum("messages");
        EXPECT_TRUE(Await([&] { return Sum("messages") >= before + 20; })) << when;
    }
    /* Messages under way are completed; after that none is. */
    void ExpectNoTraffic() const
    {
        long long last = -1;
        EXPECT_TRUE(Await([&] {
            long long now = Sum("messages");
            bool is_still = now == last;
            last = now;
            return is_still;
        })) << "messages go on";
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        EXPECT_EQ(last, Sum("messages"));
    }
    void HoldsAndReleases(const std::string &hostpath) const
    {
        Command perf({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "1", "-c", "1",
                      "--timeout", "60"},
                     Environment(hostpath));
        EXPECT_TRUE(Await([&] { return Sum("messages") > 0; }));
        Outcome hold = Call({"hold", "--for=10min"});
        EXPECT_EQ(0, hold.exit_code) << hold.err;
        EXPECT_EQ(2u, LineCount(hold.out)) << hold.out;
        EXPECT_NE(std::string::npos, hold.out.find("): hold for=600s: 1 connections, and those to come"));
        ExpectNoTraffic();
        Outcome list = Call({"hold", "--list"});
        EXPECT_EQ(3u, LineCount(list.out)) << list.out;
        Outcome events = Call({"stat", "--events"});
        EXPECT_NE(std::string::npos, events.out.find("hold for=10min")) << events.out;
        EXPECT_EQ(0, Call({"release"}).exit_code);
        ExpectTraffic("after the release");
        EXPECT_GE(Sum("held"), 1) << "counted apart";

        EXPECT_EQ(0, Call({"hold", "--for=400ms"}).exit_code);
        ExpectTraffic("after the end of a hold that nothing releases");
        EXPECT_EQ(1u, LineCount(Call({"hold", "--list"}).out));
        Outcome release = Call({"release"});
        EXPECT_EQ(1, release.exit_code);
        EXPECT_EQ("detour release: none of 2 processes has a hold with the scope ''\n", release.err);
        EXPECT_EQ(0, Sum("switches"));
        EXPECT_EQ(0, Sum("errors"));

        EXPECT_EQ(0, Call({"hold", "--for=10min"}).exit_code);
        kill(perf.Pid(), SIGINT); /* a job ends while it is held */
        Outcome end = perf.Wait();
        EXPECT_FALSE(end.timed_out);
        EXPECT_EQ(std::string::npos, end.err.find("differ")) << end.err;
    }

    std::string folder;
};

TEST_F(Hold, ParksARunningJobAndReleasesIt)
{
    HoldsAndReleases("off");
}

TEST_F(Hold, ParksStagedMessagesToo)
{
    HoldsAndReleases("on");
}
} // namespace
