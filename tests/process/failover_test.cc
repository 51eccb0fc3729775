/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running ranks of `detour perf all_reduce`, whose every byte is compared, while `detour nic` takes their
 * software RNICs away and gives them back. What is done to whom follows from the number of the cycle. A cycle
 * ends when every path that failed is in use again, or when the ranks are through; they are started again
 * until all cycles are done. So nothing here depends on how fast anything is.
 */
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <sstream>
#include <string>
#include <thread>

#include "tests/process/command.h"

using detour_test::Command;
using detour_test::Count;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
using Environment = std::vector<std::pair<std::string, std::string>>;

constexpr int kPatienceS = 240; // with a machine that has better things to do; never waited for in vain

/* What the ranks have said about their paths. Each end of a connection has one line for each of its steps. */
struct Paths {
    explicit Paths(const std::string &text)
        : failed(Count(text, " is settled: ") + Count(text, " is fenced: ")),
          used(Count(text, " is in use again as epoch "))
    {
    }
    size_t failed;
    size_t used;
};

class Failover : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-failover-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
    }
    void TearDown() override
    {
        std::filesystem::remove_all(folder_);
    }

    /* Short times, so that a path that is well is soon used again; nothing may fail meanwhile. */
    Environment Variables() const
    {
        return {{"DETOUR_RUNTIME_DIR", folder_},
                {"DETOUR_VERBS", "soft"},
                {"DETOUR_SOCKET_IFNAME", "=lo"},
                {"DETOUR_STABLE_MS", "5"},
                {"DETOUR_STALL_MS", "100"},
                {"DETOUR_LATE_MS", "100"},
                {"NCCL_DEBUG", "INFO"},
                {"DETOUR_SOFT_DEVICES", std::to_string(devices_)},
                {"DETOUR_PATHS", std::to_string(devices_)}};
    }

    Outcome Nic(std::vector<std::string> words) const
    {
        words.insert(words.begin(), "nic");
        return RunDetour(words, Variables());
    }

    /* The processes that can be given orders now. */
    std::vector<std::string> Pids() const
    {
        std::istringstream list(Nic({"list"}).out);
        std::vector<std::string> pids;
        std::string line;
        std::getline(list, line);
        while (std::getline(list, line)) {
            std::string pid = line.substr(0, line.find(' '));
            if (pids.empty() || pids.back() != pid)
                pids.push_back(pid);
        }
        return pids;
    }

    /* Ranks with connections, whose data flows: they have said which paths there are. */
    std::vector<std::string> PidsOnceAllAreThere(Command &perf, unsigned ranks) const
    {
        std::vector<std::string> pids;
        while (perf.IsRunning() && pids.size() < ranks) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            pids = Pids();
        }
        return pids;
    }

    /* Until all that failed is well, or the ranks are through. False: out of patience. */
    static bool AwaitRecovery(Command &perf)
    {
        auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceS);
        while (perf.IsRunning() && std::chrono::steady_clock::now() < end) {
            Paths paths(perf.Written());
            if (paths.used >= paths.failed)
                return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return !perf.IsRunning();
    }

    /* Until the ranks notice, or are through. */
    static bool AwaitFailure(Command &perf, size_t failed_before)
    {
        auto end = std::chrono::steady_clock::now() + std::chrono::seconds(kPatienceS);
        while (perf.IsRunning() && std::chrono::steady_clock::now() < end) {
            if (Paths(perf.Written()).failed > failed_before)
                return true;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return !perf.IsRunning();
    }

    /* Returns what was done, for a message. An order to ranks that have just ended does nothing. */
    std::string Cycle(Command &perf, const std::vector<std::string> &pids, unsigned cycle)
    {
        std::mt19937 random(cycle);
        unsigned number = random() % devices_;
        std::string device = "soft" + std::to_string(number);
        std::string other = "soft" + std::to_string((number + 1) % devices_);
        std::vector<std::string> whose;
        size_t failed = Paths(perf.Written()).failed;
        std::string what = "cycle " + std::to_string(cycle) + ": " + device;
        bool is_noticed = true;

        if (random() % 4)
            whose = {"--pid", pids[random() % pids.size()]};
        auto order = [&](std::vector<std::string> words) {
            words.insert(words.end(), whose.begin(), whose.end());
            Nic(words);
        };
        switch (random() % 8) {
        case 0: // the sender sees silence only
            what += " loses everything";
            order({device, "drop", "100%"});
            is_noticed = AwaitFailure(perf, failed);
            order({device, "drop", "0%"});
            break;
        case 1: // the backup fails during the switch to it, and for a while there is none
            what += " and its backup";
            order({device, "down"});
            order({other, "down"});
            order({device, "up"});
            order({other, "up"});
            break;
        case 2: // back before everybody has noticed
            what += " flaps";
            order({device, "down"});
            order({device, "up"});
            break;
        default:
            what += " down";
            order({device, "down"});
            is_noticed = AwaitFailure(perf, failed);
            order({device, "up"});
        }
        EXPECT_TRUE(is_noticed) << what << ": no process reports it\n" << perf.Written();
        EXPECT_TRUE(AwaitRecovery(perf)) << what << ": it does not come back\n" << perf.Written();
        return what;
    }

    /* Starts ranks, which run for so long, as often as it takes. Returns how many paths failed in all. */
    size_t Cycles(unsigned ranks, unsigned seconds, unsigned cycles, unsigned first)
    {
        size_t failed = 0;
        unsigned done = 0;
        while (done < cycles && !HasFailure()) {
            Command perf({"perf", "all_reduce", "--ranks", std::to_string(ranks), "-b", "256K", "-n", "20",
                          "--seconds", std::to_string(seconds), "-c", "2", "--timeout",
                          std::to_string(kPatienceS)},
                         Variables());
            auto pids = PidsOnceAllAreThere(perf, ranks);
            unsigned begun = done;
            std::string last;
            while (done < cycles && perf.IsRunning() && !HasFailure())
                last = Cycle(perf, pids, first + done++);
            if (begun == done) // too slow a machine for anything to be done to them
                seconds *= 2;
            Outcome ended = perf.Wait(kPatienceS);
            EXPECT_EQ(0, ended.exit_code) << "after " << last << "\n" << ended.out << ended.err;
            EXPECT_NE(std::string::npos, ended.out.find("Out of bounds values : 0 OK")) << ended.out;
            failed += Paths(ended.err).failed;
        }
        return failed;
    }

    std::string folder_;
    unsigned devices_ = 2; // of each rank, and paths of each connection
};

TEST_F(Failover, NoByteIsWrongWhileRnicsOfTwoRanksComeAndGo)
{
    EXPECT_LE(6u, Cycles(2, 1, 6, 1));
}

TEST_F(Failover, NoByteIsWrongWhileRnicsOfFourRanksComeAndGo)
{
    EXPECT_LE(4u, Cycles(4, 1, 4, 100));
}

TEST_F(Failover, NoByteIsWrongWhileThreePathsComeAndGo)
{
    devices_ = 3;
    EXPECT_LE(4u, Cycles(2, 1, 4, 200));
}

TEST_F(Failover, NoByteIsWrongForHundredsOfCyclesOfTwoRanks)
{
    EXPECT_LE(300u, Cycles(2, 2, 300, 1000));
}

TEST_F(Failover, NoByteIsWrongForHundredsOfCyclesOfFourRanks)
{
    EXPECT_LE(200u, Cycles(4, 2, 200, 2000));
}
} // namespace
