/* SPDX-License-Identifier: Apache-2.0 */
/* Delays on running ranks of `detour perf`: from the environment and by `detour inject`. Only lower bounds.
 */
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include "cli/processes.h"
#include "tests/process/command.h"

using detour_test::Await;
using detour_test::Command;
using detour_test::LineCount;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
class Inject : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-inject-XXXXXX").string();
        folder = mkdtemp(pattern.data());
    }
    void TearDown() override
    {
        std::filesystem::remove_all(folder);
    }

    std::vector<std::pair<std::string, std::string>> Environment(const std::string &rules = "") const
    {
        return {{"DETOUR_RUNTIME_DIR", folder + "/run"},
                {"DETOUR_VERBS", "soft"},
                {"DETOUR_SOCKET_IFNAME", "=lo"},
                {"DETOUR_INJECT", rules}};
    }
    Outcome Perf(const std::string &rules, std::vector<std::string> words) const
    {
        words.insert(words.begin(), {"perf", "sendrecv", "-J", folder + "/perf.json"});
        return RunDetour(words, Environment(rules));
    }
    /* Microseconds per iteration, as the report has them. */
    double TimeUs() const
    {
        std::string text = Slurp("perf.json");
        size_t at = text.find("\"time\":");
        EXPECT_NE(std::string::npos, at) << text;
        return at == std::string::npos ? 0 : std::stod(text.substr(at + 7));
    }
    std::string Slurp(const std::string &name) const
    {
        std::ifstream file(folder + "/" + name);
        std::stringstream text;
        text << file.rdbuf();
        return text.str();
    }

    Outcome Call(std::vector<std::string> words) const
    {
        words.insert(words.begin(), "inject");
        return RunDetour(words, Environment());
    }
    /* Until both ranks answer. */
    void WaitForBoth() const
    {
        std::string list;
        EXPECT_TRUE(Await([&] {
            list = RunDetour({"nic", "list"}, Environment()).out;
            return LineCount(list) == 5;
        })) << list;
    }
    /* Until `part` is in what `inject list` says. */
    std::string ListWith(const std::string &part) const
    {
        std::string out;
        EXPECT_TRUE(Await([&] {
            out = Call({"list"}).out;
            return out.find(part) != std::string::npos;
        })) << "'"
            << part << "' did not appear in:\n"
            << out;
        return out;
    }
    /* What the one rule of each process has made late, by process; once a process has had `least` messages.
     */
    std::map<std::string, long> WaitForActed(long least) const
    {
        std::map<std::string, long> acted;
        EXPECT_TRUE(Await([&] {
            std::stringstream list(Call({"list"}).out);
            std::string line, pid, name, rule, age;
            long count = 0, most = 0;
            std::getline(list, line); // the head
            while (list >> pid >> name >> rule >> age >> count && std::getline(list, line))
                most = std::max(most, acted[pid] = count);
            return most >= least;
        })) << "no process had "
            << least << " late messages";
        return acted;
    }

    std::string folder;
};

TEST_F(Inject, LatencyShowsInTheTimeOfEachMessage)
{
    Outcome outcome = Perf("latency=30ms", {"-b", "64K", "-n", "10"});
    EXPECT_EQ(0, outcome.exit_code) << outcome.err;
    EXPECT_GE(TimeUs(), 30000);
}

TEST_F(Inject, EightyChunksMakeThirtyMilliseconds)
{
    Outcome outcome = Perf("serial=0.375ms per=4K", {"-b", "320K", "-n", "10", "--channels", "1"});
    EXPECT_EQ(0, outcome.exit_code) << outcome.err;
    EXPECT_GE(TimeUs(), 30000);
}

TEST_F(Inject, ARateIsNotExceeded)
{
    // 1 MiB at 100 Mbit/s takes 83.9 ms.
    Outcome outcome = Perf("rate=100Mbit", {"-b", "1M", "-n", "3", "--channels", "1"});
    EXPECT_EQ(0, outcome.exit_code) << outcome.err;
    EXPECT_GE(TimeUs(), 83886);
}

TEST_F(Inject, RulesComeFromAFile)
{
    std::ofstream(folder + "/rules") << "# two of them\nlatency=10ms\nlatency=uniform(5ms,6ms)\n";
    Outcome outcome = Perf(folder + "/rules", {"-b", "4K", "-n", "10"});
    EXPECT_EQ(0, outcome.exit_code) << outcome.err;
    EXPECT_GE(TimeUs(), 15000);
    outcome = Perf(folder + "/none", {"-b", "4K", "-n", "10"});
    EXPECT_EQ(1, outcome.exit_code);
    EXPECT_NE(std::string::npos, outcome.err.find("DETOUR_INJECT: " + folder + "/none: No such file"))
        << outcome.err;
}

TEST_F(Inject, ABadRuleStopsTheJobWithItsPlace)
{
    Outcome outcome = Perf("latency=30", {"-b", "4K", "-n", "1"});
    EXPECT_EQ(1, outcome.exit_code);
    EXPECT_NE(std::string::npos, outcome.err.find("DETOUR_INJECT: line 1, column 9: expected a time"))
        << outcome.err;
}

TEST_F(Inject, RulesComeAndGoUnderTrafficAndAreRecorded)
{
    Command perf({"perf", "sendrecv", "-b", "64K", "-n", "4000000000", "--channels", "1", "-c", "1",
                  "--timeout", "60"},
                 Environment());
    WaitForBoth();
    EXPECT_EQ(2u, LineCount(Call({"add", "latency=2ms"}).out)) << "one answer of each process";
    EXPECT_EQ(3u, LineCount(ListWith("latency=2ms")));
    Outcome add = Call({"add", "size=1K..", "serial=exponential(1ms)"});
    EXPECT_EQ(0, add.exit_code) << add.err;
    EXPECT_NE(std::string::npos, add.out.find("): rule 2 size=1024.. serial=exponential(1ms)")) << add.out;

    WaitForActed(20); // which a record goes back to, too
    Outcome record = Call({"record", folder + "/record.csv", "--for", "0.3", "--json"});
    EXPECT_EQ(0, record.exit_code) << record.err;
    EXPECT_NE(std::string::npos, record.out.find("\"lost\": 0")) << record.out;
    std::string rows = Slurp("record.csv");
    EXPECT_EQ(0u, rows.find("process,pid,time_ns,")) << rows.substr(0, 100);
    EXPECT_GT(LineCount(rows), 10u);
    EXPECT_NE(std::string::npos, rows.find("\n1,")) << "of both processes";

    EXPECT_EQ(0, Call({"remove", "1"}).exit_code);
    EXPECT_EQ("detour inject: none of 2 processes has a rule 1; `detour inject list` shows them\n",
              Call({"remove", "1"}).err);
    Outcome list = Call({"list", "--json"});
    EXPECT_NE(std::string::npos, list.out.find("\"text\": \"size=1024.. serial=exponential(1ms)\""))
        << list.out;
    EXPECT_NE(std::string::npos, list.out.find("\"spin_share\": ")) << list.out;
    EXPECT_EQ(0, Call({"clear"}).exit_code);

    Outcome replay = Call({"replay", folder + "/record.csv"});
    EXPECT_EQ(0, replay.exit_code) << replay.err;
    EXPECT_NE(std::string::npos, replay.out.find(" process=0\n")) << replay.out;
    EXPECT_NE(std::string::npos, replay.out.find(" process=1\n")) << replay.out;
    Outcome device = Call({"add", "device=soft7", "rate=1Gbit"});
    EXPECT_EQ(1, device.exit_code);
    EXPECT_NE(std::string::npos, device.err.find("no device is named 'soft7'; there is soft0, soft1"))
        << device.err;

    kill(perf.Pid(), SIGINT);
    EXPECT_FALSE(perf.Wait().timed_out);
}

/* A process that does not answer for longer than a command waits: it is asked again. */
TEST_F(Inject, ARecordGoesOnWhenAProcessAnswersAgain)
{
    Command perf({"perf", "sendrecv", "-b", "4K", "-n", "4000000000", "--channels", "1", "--timeout", "60"},
                 Environment("latency=5ms"));
    WaitForBoth();
    WaitForActed(1);
    Command record({"inject", "record", folder + "/record.csv"}, Environment());
    auto rows = [&](pid_t pid) {
        std::stringstream text(Slurp("record.csv"));
        std::string part = "," + std::to_string(pid) + ",";
        long count = 0;
        for (std::string line; std::getline(text, line);)
            count += line.find(part) == 1;
        return count;
    };
    auto wait_for_rows = [&](pid_t pid, long least) {
        EXPECT_TRUE(Await([&] { return rows(pid) >= least; })) << rows(pid) << " rows";
    };
    pid_t rank = perf.Children().back();
    wait_for_rows(rank, 1);
    EXPECT_EQ(0, kill(rank, SIGSTOP));
    std::this_thread::sleep_for(std::chrono::milliseconds(DT_PROCESS_TIMEOUT_MS + 500));
    EXPECT_EQ(0, kill(rank, SIGCONT));
    wait_for_rows(rank, WaitForActed(1)[std::to_string(rank)] + 1);
    kill(record.Pid(), SIGINT);
    Outcome recorded = record.Wait();
    EXPECT_EQ(0, recorded.exit_code) << recorded.err;
    kill(perf.Pid(), SIGINT);
    EXPECT_FALSE(perf.Wait().timed_out);
}

TEST_F(Inject, OneDirectionOfALinkIsAConnectionsAtItsSender)
{
    Command perf({"perf", "sendrecv", "-b", "4K", "-n", "4000000000", "--channels", "1", "--timeout", "60"},
                 Environment());
    WaitForBoth();
    // Each rank sends on one connection and receives on another: that of the first record is chosen.
    EXPECT_EQ(0, Call({"add", "latency=1ms"}).exit_code);
    WaitForActed(1);
    EXPECT_EQ(0, Call({"record", folder + "/record.csv", "--for", "0"}).exit_code);
    EXPECT_EQ(0, Call({"clear"}).exit_code);
    std::stringstream rows(Slurp("record.csv"));
    std::vector<std::string> column;
    std::string word;
    std::getline(rows, word); // the head
    while (column.size() < 5 && std::getline(rows, word, ','))
        column.push_back(word); // process, pid, time, connection, id
    ASSERT_EQ(5u, column.size()) << Slurp("record.csv");

    // Both ranks have the rule; the connection's sender alone has messages for it.
    EXPECT_EQ(2u, LineCount(Call({"add", "id=" + column[4], "latency=2ms"}).out));
    std::map<std::string, long> acted = WaitForActed(20);
    EXPECT_EQ(2u, acted.size());
    for (const auto &[pid, count] : acted) {
        if (pid == column[1])
            EXPECT_GE(count, 20);
        else
            EXPECT_EQ(0, count) << "process " << pid << " holds what process " << column[1] << " sends";
    }
    kill(perf.Pid(), SIGINT);
    EXPECT_FALSE(perf.Wait().timed_out);
}

TEST_F(Inject, ARecordIsReplayedToTheSameJobAnew)
{
    // Both runs from their first message, which a record goes back to.
    auto run = [&](const std::string &rules, const std::string &record) {
        Command perf(
            {"perf", "sendrecv", "-b", "4K", "-n", "4000000000", "--channels", "1", "--timeout", "60"},
            Environment(rules));
        WaitForBoth();
        WaitForActed(60);
        Outcome recorded = Call({"record", folder + "/" + record, "--for", "0.3"});
        EXPECT_EQ(0, recorded.exit_code) << recorded.err;
        kill(perf.Pid(), SIGINT);
        EXPECT_FALSE(perf.Wait().timed_out);
    };
    run("latency=uniform(1ms,4ms) seed=7", "first.csv");
    run("replay=" + folder + "/first.csv process=0", "second.csv");
    // process, pid, time, connection, id, device, peer, message, bytes, delay
    auto delays = [&](const std::string &name) {
        std::map<std::string, std::string> found;
        std::stringstream text(Slurp(name));
        for (std::string line; std::getline(text, line);) {
            std::vector<std::string> column;
            std::stringstream columns(line);
            for (std::string one; std::getline(columns, one, ',');)
                column.push_back(one);
            if (column.size() == 11 && column[0] == "0")
                found[column[3] + " " + column[7]] = column[9];
        }
        return found;
    };
    auto first = delays("first.csv"), second = delays("second.csv");
    size_t compared = 0;
    for (const auto &[message, delay] : second) {
        if (first.count(message)) {
            EXPECT_EQ(first[message], delay) << "message " << message;
            compared++;
        }
    }
    EXPECT_GT(compared, 20u);
}

TEST_F(Inject, ALinkFlaps)
{
    Command perf({"perf", "sendrecv", "-b", "8K", "-n", "4000000000", "--channels", "1", "--timeout", "60"},
                 Environment("device=soft1 flap=20ms/20ms"));
    WaitForBoth();
    bool was_down = false, was_up = false;
    Await([&] {
        std::string list = RunDetour({"nic", "list"}, Environment()).out;
        was_down |= list.find("soft1            soft     down") != std::string::npos;
        was_up |= list.find("soft1            soft     up") != std::string::npos;
        return was_down && was_up;
    });
    EXPECT_TRUE(was_down);
    EXPECT_TRUE(was_up);
    kill(perf.Pid(), SIGINT);
    EXPECT_FALSE(perf.Wait().timed_out);
}

struct Refusal {
    std::vector<std::string> words;
    std::string line;
};

TEST_F(Inject, RefusesBadArgumentsInOneLine)
{
    const Refusal refusals[] = {
        {{}, "no action given; expected add, remove, clear, list, record or replay (see --help)"},
        {{"delete"}, "unknown action 'delete'; expected add, remove, clear, list, record or replay"},
        {{"add"}, "`add` takes a rule, or --file FILE"},
        {{"add", "latency=1ms", "--file", "x"}, "`add` takes a rule, or --file FILE"},
        {{"add", "latency=1ms", "every=1us"}, "line 1, column 19: every= must be at least 1ms"},
        {{"add", "direction=receive", "latency=1ms"},
         "line 1, column 1: a rule has no 'direction': it concerns the messages that its process sends; for "
         "one direction "
         "of "
         "a link give it to the process that sends, with device= and peer=, or name a connection with id="},
        {{"add", "#nothing"}, "there is no rule"},
        {{"add", "trace=/none"}, "/none: No such file or directory"},
        {{"add", "--file", "/none"}, "/none: No such file or directory"},
        {{"add", "--file", "/"}, "/: Is a directory"},
        {{"remove"}, "`remove` takes the number of a rule"},
        {{"remove", "x"}, "remove x: expected the number of a rule; `detour inject list` shows them"},
        {{"list", "3"}, "`list` takes no argument"},
        {{"record"}, "`record` takes the name of the file to write"},
        {{"record", "a", "--for", "soon"}, "--for soon: expected a number from 0 to 1000000"},
        {{"list", "--for", "1"}, "--for belongs to `record`"},
        {{"clear", "--file", "x"}, "--file belongs to `add`"},
        {{"replay", "/none"}, "/none: No such file or directory"},
        {{"list", "--pid", "0"}, "--pid 0: expected the number of a process"},
    };
    for (const Refusal &refusal : refusals) {
        Outcome outcome = Call(refusal.words);
        EXPECT_EQ(2, outcome.exit_code) << refusal.line;
        EXPECT_EQ("detour inject: " + refusal.line + "\n", outcome.err);
        EXPECT_EQ("", outcome.out);
    }
    Outcome unmatched = Call({"list"});
    EXPECT_EQ(1, unmatched.exit_code);
    EXPECT_EQ(1u, LineCount(unmatched.err)) << unmatched.err;
    EXPECT_NE(std::string::npos, Call({"--help"}).out.find("replay FILE  the same delays again"));
}
} // namespace
