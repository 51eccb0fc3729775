/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour perf` as a user meets it, over TCP always and over Detour's own plugin where it has been built.
 * Only outcomes are checked, never times.
 */
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/harness/free_address.h"
#include "tests/process/command.h"

using detour_test::Await;
using detour_test::Command;
using detour_test::FreeAddress;
using detour_test::LineCount;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
using Words = std::vector<std::string>;

const char kTcpPlugin[] = DETOUR_BINARY_DIR "/bench/libnccl-net-benchtcp.so";
const char kOwnPlugin[] = DETOUR_BINARY_DIR "/lib/libnccl-net-detour.so";
const char kFaultyPlugin[] = DETOUR_BINARY_DIR "/tests/libfaulty-plugin.so";

bool Exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

std::vector<std::string> Plugins()
{
    std::vector<std::string> plugins = {kTcpPlugin};
    if (Exists(kOwnPlugin))
        plugins.push_back(kOwnPlugin);
    return plugins;
}

Words Perf(Words words)
{
    words.insert(words.begin(), "perf");
    return words;
}

/* The rows of the table, as words. */
std::vector<Words> Rows(const std::string &out)
{
    std::vector<Words> rows;
    std::istringstream lines(out);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream stream(line);
        Words row;
        for (std::string word; stream >> word;)
            row.push_back(word);
        if (!row.empty() && row[0][0] != '#')
            rows.push_back(row);
    }
    return rows;
}

class PerfOver : public testing::TestWithParam<std::string>
{
  protected:
    Outcome RunPerf(Words words)
    {
        words.insert(words.end(), {"--plugin", GetParam(), "--timeout", "120"});
        return RunDetour(Perf(words));
    }

    /* All right, and the table says so for every size. */
    void ExpectAllRight(const Words &words, size_t row_count)
    {
        Outcome outcome = RunPerf(words);
        EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
        EXPECT_NE(outcome.out.find("# Out of bounds values : 0 OK"), std::string::npos) << outcome.out;
        std::vector<Words> rows = Rows(outcome.out);
        EXPECT_EQ(rows.size(), row_count) << outcome.out;
        for (const Words &row : rows) {
            ASSERT_EQ(row.size(), 13u);
            EXPECT_EQ(row[8], "0") << outcome.out;
            EXPECT_TRUE(row[12] == "0" || row[12] == "N/A") << outcome.out;
        }
    }
};

INSTANTIATE_TEST_SUITE_P(Plugin, PerfOver, testing::ValuesIn(Plugins()), [](const auto &each) {
    return each.param == kTcpPlugin ? std::string("Tcp") : std::string("Detour");
});

TEST_P(PerfOver, AllReduceIsRight)
{
    ExpectAllRight({"all_reduce", "-b", "8", "-e", "8M", "-f", "16", "-n", "3"}, 6);
}

TEST_P(PerfOver, AllReduceOfOddSizesIsRight)
{
    ExpectAllRight({"all_reduce", "-b", "1", "-e", "1200011", "-i", "333333", "-d", "int8", "-n", "2"}, 4);
}

TEST_P(PerfOver, AllReduceOfThreeRanksAndChannelsCheckedAlwaysIsRight)
{
    ExpectAllRight({"all_reduce", "--ranks", "3", "--channels", "3", "-b", "4K", "-e", "1M", "-f", "16", "-n",
                    "3", "-c", "2"},
                   3);
}

TEST_P(PerfOver, TheOtherCollectivesAreRight)
{
    for (const char *op : {"all_gather", "reduce_scatter", "broadcast", "alltoall"})
        ExpectAllRight({op, "--ranks", "3", "-b", "0", "-e", "1200000", "-i", "400000", "-n", "2", "-c", "2"},
                       4);
}

TEST_P(PerfOver, SendrecvIsRightFromNothingUpwards)
{
    ExpectAllRight({"sendrecv", "-b", "0", "-e", "1M", "-f", "64", "-n", "5"}, 5);
}

TEST_P(PerfOver, RawMessagesAreRight)
{
    ExpectAllRight({"sendrecv", "--raw", "-b", "0", "-e", "4M", "-f", "1024", "-n", "20"}, 4);
    ExpectAllRight(
        {"sendrecv", "--raw", "-b", "1K", "--window", "32", "--channels", "1", "-n", "100", "-c", "2"}, 1);
}

TEST_P(PerfOver, FlushAndLatencyAreRight)
{
    ExpectAllRight({"sendrecv", "--flush", "-b", "64K", "-n", "5"}, 1);
    ExpectAllRight({"sendrecv", "--raw", "--flush", "-b", "64K", "-n", "5"}, 1);
    ExpectAllRight({"latency", "-b", "8", "-n", "50"}, 1);
}

TEST_P(PerfOver, JsonHoldsTheResults)
{
    std::string path = testing::TempDir() + "/perf-" + std::to_string(getpid()) + ".json";
    Outcome outcome = RunPerf({"all_reduce", "-b", "8", "-e", "16", "-n", "2", "-J", path});
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    unlink(path.c_str());

    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    for (const char *part : {"\"size\": 16", "\"out_of_place\": {", "\"in_place\": {", "\"nwrong\": 0",
                             "\"average_bus_bandwidth\": {", "\"okay\": true", "\"errors\": []"})
        EXPECT_NE(text.str().find(part), std::string::npos) << part << " in " << text.str();
}

TEST_P(PerfOver, JsonThatCannotBeWrittenIsAFailure)
{
    Outcome outcome = RunPerf({"all_reduce", "-b", "8", "-n", "2", "-J", "/dev/full"});

    EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
    EXPECT_NE(outcome.err.find("-J /dev/full: could not be written: No space left on device"),
              std::string::npos)
        << outcome.err;
}

TEST_P(PerfOver, RanksStartedOneByOneMeet)
{
    std::string root = FreeAddress();
    Words common = {"all_reduce", "-b",           "64", "-n",        "2",  "--plugin",
                    GetParam(),   "--rendezvous", root, "--timeout", "120"};
    Words second = common;
    second.insert(second.end(), {"--rank", "1"});
    Command rank1(Perf(second));
    common.insert(common.end(), {"--rank", "0"});
    Outcome outcome = RunDetour(Perf(common));

    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(Rows(outcome.out).size(), 1u);
    EXPECT_EQ(rank1.Wait().exit_code, 0);
}

/* Without --plugin, Detour's own beside the program is taken. */
TEST(Perf, FindsItsOwnPlugin)
{
    if (!Exists(kOwnPlugin))
        GTEST_SKIP() << kOwnPlugin << " has not been built";
    Outcome outcome = RunDetour(Perf({"all_reduce", "-b", "8", "-n", "2"}));
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("# plugin Detour"), std::string::npos) << outcome.out;
}

/* ---- Wrong data. ---- */

struct Fault {
    const char *name;
    const char *part; // of what is said about it
};

std::ostream &operator<<(std::ostream &out, const Fault &fault)
{
    return out << fault.name;
}

std::string FaultName(const testing::TestParamInfo<Fault> &info)
{
    return std::regex_replace(std::string(info.param.name), std::regex("-"), "_");
}

Outcome RunFaulty(Words words, const std::string &fault, const std::string &timeout_s = "120")
{
    words.insert(words.end(), {"--plugin", kFaultyPlugin, "--timeout", timeout_s});
    return RunDetour(Perf(words), {{"DETOUR_TEST_INNER_PLUGIN", kTcpPlugin}, {"DETOUR_TEST_FAULT", fault}});
}

TEST(Perf, TheFaultyPluginWithoutFaultIsRight)
{
    Outcome outcome = RunFaulty({"all_reduce", "-b", "8", "-n", "3"}, "");
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

class PerfSees : public testing::TestWithParam<Fault>
{
  protected:
    void ExpectWrongData(const Words &words)
    {
        Outcome outcome = RunFaulty(words, GetParam().name);
        EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
        EXPECT_EQ(outcome.err, "");
        ASSERT_EQ(Rows(outcome.out).size(), 1u) << outcome.out;
        EXPECT_GT(std::stod(Rows(outcome.out)[0][8]), 0) << outcome.out;
        EXPECT_NE(outcome.out.find(GetParam().part), std::string::npos) << outcome.out;
        EXPECT_NE(outcome.out.find("FAILED"), std::string::npos) << outcome.out;
    }
};

INSTANTIATE_TEST_SUITE_P(Data, PerfSees,
                         testing::Values(Fault{"flips-a-bit", "wrong"}, Fault{"repeats-old-data", "wrong"},
                                         Fault{"writes-late", "written into the idle receive buffer"},
                                         Fault{"writes-beyond", "beyond its end"},
                                         Fault{"wrong-size", "test reported"}),
                         FaultName);

TEST_P(PerfSees, InAllReduce)
{
    ExpectWrongData({"all_reduce", "-b", "4K", "-n", "2"});
}

TEST_P(PerfSees, InSendrecv)
{
    ExpectWrongData({"sendrecv", "-b", "1K", "-n", "2"});
}

TEST_P(PerfSees, InRawSendrecv)
{
    ExpectWrongData({"sendrecv", "--raw", "-b", "1K", "-n", "2"});
}

TEST_P(PerfSees, WhileTiming)
{
    ExpectWrongData({"sendrecv", "-b", "1K", "-n", "20", "-c", "2"});
}

/* ---- Failures: one line, exit code 1, no hang. ---- */

class PerfEndsWhen : public testing::TestWithParam<Fault>
{
};

INSTANTIATE_TEST_SUITE_P(
    Plugin, PerfEndsWhen,
    testing::Values(
        Fault{"dies", R"(rank 1 \(pid \d+\) was killed by signal 9 \(Killed\))"},
        Fault{"exits", R"(rank 1 \(pid \d+\) ended early with exit code 0)"},
        Fault{"hangs", "no progress for 5 s while all_reduce, 64 bytes"},
        Fault{"never-sends", "no progress for 5 s while all_reduce, 64 bytes"},
        Fault{"send-fails", "rank 1: isend of plugin Faulty failed: remote error"},
        Fault{"unwritten-request", R"(isend of plugin Faulty succeeded without writing \*request)"},
        Fault{"unwritten-done", R"(test of plugin Faulty succeeded without writing \*done)"},
        Fault{"unwritten-properties", "netDeviceType"},
        Fault{"same-names", "devices 0 and 1 of plugin Faulty are both called twin"},
        Fault{"same-ports", "have the same guid and port"},
        Fault{"init-fails", "init of plugin Faulty failed: system error"},
        Fault{"no-device", "plugin Faulty has no device"},
        Fault{"connect-fails", "connect of plugin Faulty to rank [01] failed: remote error"},
        Fault{"connect-never", R"(no progress for 5 s while connecting \(0 of 4 connections are up\))"},
        Fault{"connect-blocks", R"(no progress for 5 s while connecting \(0 of 4 connections are up\))"},
        Fault{"register-fails", "regMr of plugin Faulty failed"},
        Fault{"close-fails", "closeRecv of plugin Faulty failed"}),
    FaultName);

TEST_P(PerfEndsWhen, ThePluginMisbehaves)
{
    /* Seconds without progress: few where that is what is wrong, else more than a busy machine needs. */
    const Words words = {"all_reduce", "-b", "64", "-n", "5", "--channels", "2"};
    const std::string part = GetParam().part;
    size_t seconds = part.find("for 5 s");
    Outcome outcome = RunFaulty(words, GetParam().name, seconds == std::string::npos ? "50" : "5");

    /* A busy machine may need 5 s for an earlier step. */
    if (seconds != std::string::npos && !std::regex_search(outcome.err, std::regex(part)) &&
        outcome.err.find("no progress for 5 s") != std::string::npos) {
        outcome = RunFaulty(words, GetParam().name, "50");
        outcome.err = std::regex_replace(outcome.err, std::regex("for 50 s"), "for 5 s");
    }
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    EXPECT_TRUE(std::regex_search(outcome.err, std::regex(part))) << outcome.err;
}

/* Sanitizers turn a crash into a report and an exit code; the last line is ours all the same. */
TEST(Perf, EndsWhenARankCrashes)
{
    for (const char *fault : {"crashes", "crashes-at-exit"}) {
        Outcome outcome = RunFaulty({"all_reduce", "-b", "64", "-n", "5"}, fault);
        EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
        EXPECT_TRUE(std::regex_search(
            outcome.err, std::regex(R"(detour perf: rank [01] \(pid \d+\) (was killed by signal 11|ended))")))
            << outcome.err;
    }
}

/* A run that would last for hours, once its ranks are there. */
std::vector<pid_t> RanksOf(const Command &command, size_t count)
{
    std::vector<pid_t> ranks;
    Await([&] { return (ranks = command.Children()).size() >= count; });
    return ranks;
}

Words LongRun()
{
    return Perf({"all_reduce", "-b", "1M", "-n", "100000000", "--ranks", "3", "--plugin", kTcpPlugin});
}

void ExpectGone(const std::vector<pid_t> &pids)
{
    for (pid_t pid : pids) {
        EXPECT_TRUE(Await([&] { return kill(pid, 0) != 0; })) << "process " << pid << " is left behind";
    }
}

TEST(Perf, NamesTheRankThatWasKilled)
{
    Command command(LongRun());
    std::vector<pid_t> ranks = RanksOf(command, 3);
    ASSERT_EQ(ranks.size(), 3u);
    kill(ranks[2], SIGKILL);
    Outcome outcome = command.Wait();
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err,
              "detour perf: rank 2 (pid " + std::to_string(ranks[2]) + ") was killed by signal 9 (Killed)\n");
    ExpectGone(ranks);
}

TEST(Perf, InterruptEndsAllRanks)
{
    Command command(LongRun());
    std::vector<pid_t> ranks = RanksOf(command, 3);
    ASSERT_EQ(ranks.size(), 3u);
    kill(-command.Pid(), SIGINT); // as a terminal does, to the whole group
    Outcome outcome = command.Wait();
    EXPECT_EQ(outcome.signal_number, SIGINT) << outcome.err;
    EXPECT_EQ(outcome.err, "detour perf: interrupted by signal 2 (Interrupt)\n");
    ExpectGone(ranks);
}

TEST(Perf, RanksDoNotOutliveTheLauncher)
{
    Command command(LongRun());
    std::vector<pid_t> ranks = RanksOf(command, 3);
    ASSERT_EQ(ranks.size(), 3u);
    kill(command.Pid(), SIGKILL);
    EXPECT_EQ(command.Wait().signal_number, SIGKILL);
    ExpectGone(ranks);
}

/* ---- Bad input: one line that names it, exit code 2. ---- */

struct BadInput {
    const char *name;
    Words words;
    const char *part;
};

std::ostream &operator<<(std::ostream &out, const BadInput &input)
{
    return out << input.name;
}

class PerfRefuses : public testing::TestWithParam<BadInput>
{
};

INSTANTIATE_TEST_SUITE_P(
    Input, PerfRefuses,
    testing::Values(
        BadInput{"NoOperation", {}, "no operation given"},
        BadInput{"Operation", {"all_reduze"}, "'all_reduze'"},
        BadInput{"TwoOperations", {"all_reduce", "sendrecv"}, "'sendrecv'"},
        BadInput{"Option", {"all_reduce", "--fast"}, "'--fast'"},
        BadInput{"ShortOption", {"all_reduce", "-q"}, "'q'"},
        BadInput{"OptionWithoutValue", {"all_reduce", "-b"}, "'b'"},
        BadInput{"Size", {"all_reduce", "-b", "12Q"}, "-b 12Q"},
        BadInput{"EmptySize", {"all_reduce", "-b", ""}, "-b"},
        BadInput{"NegativeSize", {"all_reduce", "-b", "-8"}, "-b -8"},
        BadInput{"HugeSize", {"all_reduce", "-e", "99999999999999999999"}, "-e 99999999999999999999"},
        BadInput{"OverflowingSize", {"all_reduce", "-e", "17179869184G"}, "-e 17179869184G"},
        BadInput{"UnpayableSize", {"all_reduce", "-b", "1023G", "--plugin", kTcpPlugin}, "-e is too large"},
        BadInput{"EndBeforeBegin", {"all_reduce", "-b", "8", "-e", "4"}, "-e (4) is smaller than -b (8)"},
        BadInput{"ZeroStep", {"all_reduce", "-i", "0"}, "-i 0"},
        BadInput{"ZeroIterations", {"all_reduce", "-n", "0"}, "-n 0"},
        BadInput{"Check", {"all_reduce", "-c", "3"}, "-c 3"},
        BadInput{"Type", {"all_reduce", "-d", "half"}, "-d half"},
        BadInput{"Reduction", {"all_reduce", "-o", "avg"}, "-o avg"},
        BadInput{"Ranks", {"all_reduce", "--ranks", "1"}, "at least 2 ranks"},
        BadInput{"TooManyRanks", {"all_reduce", "--ranks", "1025"}, "--ranks 1025"},
        BadInput{"Window", {"sendrecv", "--window", "4"}, "--window needs --raw"},
        BadInput{"RawAllReduce", {"all_reduce", "--raw"}, "--raw"},
        BadInput{"RawTooLarge", {"sendrecv", "--raw", "-b", "2G"}, "1G"},
        BadInput{"LatencyTooLarge", {"latency", "-b", "1M"}, "131072"},
        BadInput{"PluginMissing", {"all_reduce", "--plugin", "/nowhere/libx.so"}, "/nowhere/libx.so"},
        BadInput{"PluginIsNone", {"all_reduce", "--plugin", "libm.so.6"}, "no symbol ncclNetPlugin_v8"},
        BadInput{"PluginIsText", {"all_reduce", "--plugin", "/etc/passwd"}, "/etc/passwd"},
        BadInput{"JsonPath", {"all_reduce", "-J", "/nowhere/x.json"}, "/nowhere/x.json"},
        BadInput{"RankWithoutRendezvous", {"all_reduce", "--rank", "0"}, "--rendezvous"},
        BadInput{"RendezvousWithoutRank", {"all_reduce", "--rendezvous", "127.0.0.1:1"}, "--rank"},
        BadInput{"RankTooLarge", {"all_reduce", "--rank", "2", "--rendezvous", "127.0.0.1:1"}, "--rank 2"},
        BadInput{
            "RendezvousWithoutPort", {"all_reduce", "--rank", "0", "--rendezvous", "localhost"}, "HOST:PORT"},
        BadInput{"RendezvousUnknown",
                 {"all_reduce", "--rank", "0", "--rendezvous", "127.0.0.1:no-such-service"},
                 "--rendezvous"}),
    [](const auto &each) { return std::string(each.param.name); });

void ExpectRefused(const Outcome &outcome, const std::string &part)
{
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    EXPECT_EQ(LineCount(outcome.err), 1u) << outcome.err;
    EXPECT_EQ(outcome.err.rfind("detour perf: ", 0), 0u) << outcome.err;
    EXPECT_NE(outcome.err.find(part), std::string::npos) << outcome.err;
}

TEST_P(PerfRefuses, InOneLine)
{
    ExpectRefused(RunDetour(Perf(GetParam().words)), GetParam().part);
}

TEST(Perf, RefusesAPortInUse)
{
    int fd;
    std::string root = FreeAddress(&fd);
    ExpectRefused(RunDetour(Perf({"all_reduce", "--rank", "0", "--rendezvous", root, "--timeout", "1"})),
                  "Address already in use");
    close(fd);
}

TEST(Perf, NamesAMissingRank)
{
    std::string root = FreeAddress();
    ExpectRefused(RunDetour(Perf({"all_reduce", "--rank", "0", "--rendezvous", root, "--timeout", "1"})),
                  "rank 1 of 2 is missing");
    ExpectRefused(RunDetour(Perf({"all_reduce", "--rank", "1", "--rendezvous", root, "--timeout", "1"})),
                  "rank 0 is missing");
}

TEST(Perf, RefusesRanksWithDifferentOptions)
{
    std::string root = FreeAddress();
    Command rank1(
        Perf({"all_reduce", "-b", "16", "--rank", "1", "--rendezvous", root, "--plugin", kTcpPlugin}));
    ExpectRefused(RunDetour(Perf({"all_reduce", "-b", "8", "--rank", "0", "--rendezvous", root, "--plugin",
                                  kTcpPlugin})),
                  "rank 1 was started with other options than rank 0");
    ExpectRefused(rank1.Wait(), "rank 1 was started with other options than rank 0");
}

TEST(Perf, DropsConnectionsThatAreNoRanks)
{
    std::string root = FreeAddress();
    Words common = {"all_reduce", "-b", "8", "-n", "2", "--rendezvous", root, "--plugin", kTcpPlugin};
    Words first = common;
    first.insert(first.end(), {"--rank", "0"});
    Command rank0(Perf(first));
    struct sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(std::stoi(root.substr(root.find(':') + 1))));
    int silent = socket(AF_INET, SOCK_STREAM, 0), loud = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_TRUE(
        Await([&] { return !connect(loud, reinterpret_cast<struct sockaddr *>(&address), sizeof address); }));
    const char garbage[] = "GET / HTTP/1.0\r\n\r\n and a lot more that is no introduction";
    EXPECT_GT(send(loud, garbage, sizeof garbage, MSG_NOSIGNAL), 0);
    EXPECT_EQ(connect(silent, reinterpret_cast<struct sockaddr *>(&address), sizeof address), 0);
    common.insert(common.end(), {"--rank", "1"});
    Command rank1(Perf(common));

    Outcome outcome = rank0.Wait();
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    EXPECT_EQ(rank1.Wait().exit_code, 0);
    close(silent);
    close(loud);
}

TEST(Perf, RefusesABadSettingOfDetour)
{
    ExpectRefused(RunDetour(Perf({"all_reduce"}), {{"DETOUR_VERBS", "hardware"}}), "DETOUR_VERBS=hardware");
    ExpectRefused(RunDetour(Perf({"all_reduce"}), {{"DETOUR_SOFT_DEVICES", "many"}}),
                  "DETOUR_SOFT_DEVICES=many");
    ExpectRefused(RunDetour(Perf({"all_reduce"}), {{"DETOUR_POSTING", "sdt"}}), "DETOUR_POSTING=sdt");
}

// A full disk; a closed stream, whose number a socket between the ranks would otherwise get.
TEST(Perf, OutputThatCannotBeWrittenIsAFailure)
{
    for (std::string command : {"--version", "--help", "perf sendrecv -b 8 -e 8 -n 1"}) {
        for (std::string where : {">/dev/full", ">&-"}) {
            std::string line = DETOUR_BINARY_DIR "/bin/detour " + command + " 2>/dev/null " + where;
            int status = std::system(line.c_str());
            ASSERT_TRUE(WIFEXITED(status)) << line;
            EXPECT_EQ(WEXITSTATUS(status), 1) << line;
        }
        std::string line = DETOUR_BINARY_DIR "/bin/detour " + command + " >/dev/null <&- 2>&-";
        EXPECT_EQ(std::system(line.c_str()), 0) << line;
    }
}

TEST(Perf, HelpListsOperationsAndOptions)
{
    Outcome outcome = RunDetour(Perf({"--help"}));
    EXPECT_EQ(outcome.exit_code, 0);
    EXPECT_EQ(outcome.err, "");
    for (const char *part :
         {"all_reduce", "sendrecv", "latency", "--window", "--plugin", "--ranks", "Exit code"})
        EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
}
} // namespace
