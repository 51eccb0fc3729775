/* SPDX-License-Identifier: Apache-2.0 */
/* `detour nic` on running ranks of `detour perf`, over the plugin and its software RNICs. */
#include <gtest/gtest.h>

#include <chrono>
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
class Nic : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-nic-XXXXXX").string();
        folder = mkdtemp(pattern.data());
    }
    void TearDown() override
    {
        std::filesystem::remove_all(folder);
    }

    std::vector<std::pair<std::string, std::string>> Environment() const
    {
        return {{"DETOUR_RUNTIME_DIR", folder},
                {"DETOUR_VERBS", "soft"},
                {"DETOUR_SOCKET_IFNAME", "=lo"},
                {"DETOUR_DEAD_MS", std::to_string(kDeadMs)}};
    }

    Outcome Call(std::vector<std::string> words) const
    {
        words.insert(words.begin(), "nic");
        return RunDetour(words, Environment());
    }

    /* Until both ranks answer. */
    Outcome ListWhenBothAreThere() const
    {
        Outcome outcome;
        EXPECT_TRUE(Await([&] {
            outcome = Call({"list"});
            return LineCount(outcome.out) == 5;
        })) << outcome.out
            << outcome.err;
        return outcome;
    }

    static size_t Count(Command &perf, const std::string &text)
    {
        return detour_test::Count(perf.Written(), text);
    }

    /* Until the ranks have said it so often; they do with NCCL_DEBUG=INFO. */
    static void AwaitLines(Command &perf, const std::string &text, size_t n)
    {
        while (perf.IsRunning() && Count(perf, text) < n)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
        EXPECT_GE(Count(perf, text), n) << text << "\n" << perf.Written();
    }

    /* A busy machine may leave both links of a rank without an answer for a second. */
    static constexpr int kDeadMs = 3000;
    std::string folder;
};

TEST_F(Nic, TheJobGoesOnOverTheOtherLinkAndEndsWithoutAny)
{
    // More than fits the test's time: it ends because all its links are pulled.
    Command perf({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--timeout", "60"}, Environment());

    Outcome list = ListWhenBothAreThere();
    EXPECT_EQ(0, list.exit_code);
    EXPECT_EQ(5u, LineCount(list.out)) << list.out << list.err;
    EXPECT_NE(std::string::npos, list.out.find("soft1            soft     up")) << list.out;

    // A device is listed before the first connection of its process opens it for orders.
    Outcome drop;
    EXPECT_TRUE(Await([&] {
        drop = Call({"soft0", "drop", "100"});
        return drop.exit_code == 0 && LineCount(drop.out) == 2;
    })) << drop.out
        << drop.err;
    Outcome unmatched = Call({"soft7", "down"});
    EXPECT_EQ(1, unmatched.exit_code);
    EXPECT_EQ(
        "detour nic: none of 2 processes has a software RNIC named 'soft7'; `detour nic list` shows them\n",
        unmatched.err);

    Outcome down = Call({"soft0", "down"});
    EXPECT_EQ(0, down.exit_code) << down.err;
    // Longer than a connection lives without a path.
    std::this_thread::sleep_for(std::chrono::milliseconds(kDeadMs * 3 / 2));
    Outcome still = Call({"list"});
    EXPECT_EQ(5u, LineCount(still.out)) << still.out;
    EXPECT_NE(std::string::npos, still.out.find("soft0            soft     down")) << still.out;

    Outcome last = Call({"soft1", "down"});
    EXPECT_LE(1u, LineCount(last.out)) << last.err; // the other rank may end before the command reaches it
    Outcome ended = perf.Wait();
    EXPECT_FALSE(ended.timed_out);
    EXPECT_EQ(1, ended.exit_code);
    EXPECT_NE(std::string::npos, (ended.out + ended.err).find("no path for")) << ended.out << ended.err;
}

TEST_F(Nic, LostPacketsDoNotReachTheData)
{
    bool is_lossy = false;
    // Longer, where the ranks came to their end before both orders.
    for (unsigned seconds = 2; !is_lossy && seconds <= 64 && !HasFailure(); seconds *= 2) {
        auto variables = Environment();
        variables.emplace_back("DETOUR_DEAD_MS", "120000");
        Command perf(
            {"perf", "sendrecv", "-b", "8K", "-n", "100", "-c", "2", "--seconds", std::to_string(seconds)},
            variables);
        Await([&] { return LineCount(Call({"list"}).out) == 5 || !perf.IsRunning(); });
        is_lossy = !Call({"soft0", "drop", "3"}).exit_code && !Call({"soft1", "drop", "3"}).exit_code;
        Outcome ended = perf.Wait();
        EXPECT_EQ(0, ended.exit_code) << ended.out << ended.err;
        EXPECT_TRUE(std::filesystem::is_empty(folder)) << "a process that ends removes its page and socket";
    }
    EXPECT_TRUE(is_lossy);
}

/* An order moves the traffic of both ranks, and back. */
TEST_F(Nic, TrafficLeavesADrainedDeviceAndComesBack)
{
    auto variables = Environment();
    variables.emplace_back("DETOUR_STABLE_MS", "5");
    variables.emplace_back("NCCL_DEBUG", "INFO");
    // It ends because all its links are pulled.
    Command perf({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "1", "--timeout", "60"},
                 variables);
    ListWhenBothAreThere();
    AwaitLines(perf, ": paths ", 4); // both ends of both connections
    Outcome away = Call({"soft0", "migrate"});
    EXPECT_EQ(0, away.exit_code) << away.err;
    EXPECT_EQ(2u, LineCount(away.out)) << away.out;
    EXPECT_NE(std::string::npos, away.out.find("leave it, those that have another path")) << away.out;
    AwaitLines(perf, "soft0 was drained by the operator", 1);
    EXPECT_EQ(2u, detour_test::Count(Call({"list"}).out, "soft0            soft     up, drained\n"));
    Outcome unknown = Call({"soft7", "migrate"});
    EXPECT_EQ(1, unknown.exit_code);
    EXPECT_EQ("detour nic: none of 2 processes has a RNIC named 'soft7'; `detour nic list` shows them\n",
              unknown.err);
    EXPECT_EQ(0u, Count(perf, "is in use again"));
    EXPECT_EQ(0, Call({"soft0", "back"}).exit_code);
    EXPECT_EQ(2u, detour_test::Count(Call({"list"}).out, "soft0            soft     up\n"));
    AwaitLines(perf, "is in use again as epoch", 2);
    EXPECT_TRUE(perf.IsRunning());
    Call({"soft0", "down"});
    Call({"soft1", "down"});
    Outcome ended = perf.Wait();
    EXPECT_FALSE(ended.timed_out);
    EXPECT_NE(std::string::npos, (ended.out + ended.err).find("no path for")) << ended.out << ended.err;
}

// The event of a standby device changes nothing, and must not hide the one that matters: a dead device
// completes nothing any more, so that the ranks would wait for ever.
TEST_F(Nic, ADeviceThatDiesAfterItsBackupIsAnError)
{
    auto variables = Environment();
    variables.emplace_back("NCCL_DEBUG", "INFO");
    Command perf({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "1", "--timeout", "20"},
                 variables);

    ListWhenBothAreThere();
    AwaitLines(perf, ": paths ", 4); // both ends of both connections
    EXPECT_EQ(0, Call({"soft1", "fatal"}).exit_code);
    AwaitLines(perf, "soft1: DEVICE_FATAL", 2);
    Outcome last = Call({"soft0", "fatal"});
    EXPECT_LE(1u, LineCount(last.out)) << last.err; // the other rank may end before the command reaches it
    Outcome ended = perf.Wait();
    EXPECT_EQ(1, ended.exit_code);
    EXPECT_EQ(std::string::npos, ended.err.find("no progress")) << ended.err;
    EXPECT_NE(std::string::npos, ended.err.find("soft0")) << ended.err;
    EXPECT_NE(std::string::npos, (ended.out + ended.err).find("fatal")) << ended.err;
}
} // namespace
