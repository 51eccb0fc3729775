/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control network and an RNIC fail together, as where both use one cable: two ranks of `detour perf
 * all_reduce` in a network namespace of their own, whose only interface goes down. Software RNICs do not need
 * it.
 */
#include <gtest/gtest.h>

#include <jansson.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "tests/process/command.h"

using detour_test::Command;
using detour_test::Count;
using detour_test::Outcome;
using detour_test::RunDetour;

namespace
{
/* This process and its children get a network of their own. False: the system does not permit that. */
bool EnterNetwork()
{
    const uid_t uid = getuid();
    const gid_t gid = getgid();

    if (unshare(CLONE_NEWNET) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << uid << " " << uid << " 1";
    std::ofstream("/proc/self/gid_map") << gid << " " << gid << " 1";
    return true;
}

void SetLoopback(bool is_up)
{
    ifreq request = {};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    strcpy(request.ifr_name, "lo");
    ASSERT_EQ(0, ioctl(fd, SIOCGIFFLAGS, &request)) << strerror(errno);
    request.ifr_flags = static_cast<short>(is_up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    ASSERT_EQ(0, ioctl(fd, SIOCSIFFLAGS, &request)) << strerror(errno);
    close(fd);
}

class Cable : public ::testing::Test
{
  protected:
    static void SetUpTestSuite()
    {
        has_network_ = EnterNetwork();
    }
    void SetUp() override
    {
        if (!has_network_)
            GTEST_SKIP() << "no network namespace: " << strerror(errno);
        std::string pattern = (std::filesystem::temp_directory_path() / "detour-cable-XXXXXX").string();
        folder_ = mkdtemp(pattern.data());
        SetLoopback(true);
    }
    void TearDown() override
    {
        if (has_network_)
            std::filesystem::remove_all(folder_);
    }

    std::vector<std::pair<std::string, std::string>> Variables() const
    {
        return {{"DETOUR_RUNTIME_DIR", folder_}, {"DETOUR_VERBS", "soft"},  {"DETOUR_SOCKET_IFNAME", "=lo"},
                {"DETOUR_SOFT_DEVICES", "2"},    {"DETOUR_PATHS", "2"},     {"DETOUR_STABLE_MS", "5"},
                {"DETOUR_STALL_MS", "100"},      {"DETOUR_LATE_MS", "100"}, {"NCCL_DEBUG", "INFO"}};
    }
    /* False: the ranks have ended. */
    bool Nic(const std::string &device, const std::string &order) const
    {
        return RunDetour({"nic", device, order}, Variables()).exit_code == 0;
    }

    /* The messages of all connections, if all use this device ("": any); else -1. */
    int64_t Messages(const std::string &device) const
    {
        json_t *document = json_loads(RunDetour({"stat", "--json"}, Variables()).out.c_str(), 0, nullptr);
        json_t *process, *connection;
        size_t i, k, count = 0;
        int64_t messages = 0;

        json_array_foreach(json_object_get(document, "processes"), i, process)
        {
            json_array_foreach(json_object_get(process, "connections"), k, connection)
            {
                const char *nic = json_string_value(json_object_get(connection, "nic"));
                if (!nic || (!device.empty() && nic != device))
                    messages = INT64_MIN;
                messages += json_integer_value(json_object_get(connection, "messages"));
                count++;
            }
        }
        json_decref(document);
        return count >= 4 && messages >= 0 ? messages : -1; // a ring of two: a send and a receive for each
    }

    /* All connections use the device, and messages go on. */
    bool Works(const std::string &device)
    {
        int64_t first;

        return Until([&] { return (first = Messages(device)) > 0; }) &&
               Until([&] { return Messages(device) >= first + 40; });
    }
    /* False: the time of the run is over. */
    bool Until(const std::function<bool()> &is_so) const
    {
        bool is;

        while (!(is = is_so()) && std::chrono::steady_clock::now() < end_)
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return is;
    }
    bool LoseOneAfterTheOther(Command &perf)
    {
        if (!Nic("soft0", "down") || !Works("soft1"))
            return false;
        const std::string text = perf.Written();
        size_t failed = Count(text, " is settled: ") + Count(text, " is fenced: ");
        return Nic("soft0", "up") &&
               Until([&] { return Count(perf.Written(), " is in use again as epoch ") >= failed; }) &&
               Nic("soft1", "down") && Works("soft0");
    }
    /* False: the ranks were through before the faults were. */
    bool Run(int seconds)
    {
        Command perf({"perf", "all_reduce", "--ranks", "2", "-b", "64K", "-n", "20", "--seconds",
                      std::to_string(seconds), "-c", "2"},
                     Variables());
        bool are_all = Works("");

        if (are_all) {
            SetLoopback(false);
            are_all = LoseOneAfterTheOther(perf);
            Nic("soft0", "up");
            Nic("soft1", "up");
            SetLoopback(true);
        }
        Outcome ended = perf.Wait();
        EXPECT_EQ(0, ended.exit_code) << ended.out << ended.err;
        EXPECT_NE(std::string::npos, ended.out.find("Out of bounds values : 0 OK")) << ended.out;
        return are_all;
    }
    void Begin(int seconds)
    {
        end_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    }

  private:
    static bool has_network_;
    std::string folder_;
    std::chrono::steady_clock::time_point end_; // of the run
};

bool Cable::has_network_;

/* The other path carries them, and the frames about the paths as well. */
TEST_F(Cable, MayCarryTheControlNetworkAndAnRnicOfTwoRanks)
{
    for (int seconds = 5; seconds <= 80 && !HasFailure(); seconds *= 2) {
        Begin(seconds);
        if (Run(seconds))
            return;
    }
    FAIL() << "messages do not go on";
}
} // namespace
