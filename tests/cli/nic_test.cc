/* SPDX-License-Identifier: Apache-2.0 */
/* `detour nic` against control sockets in this process. */
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "cli/command.h"
#include "cli/nic.h"
#include "obs/page.h"
#include "obs/server.h"
#include "tests/obs/folder.h"

namespace
{
/* A process as the command sees it. */
class Process
{
  public:
    Process(const dt_runtime_dir &dir, int pid, const char *name, std::string devices)
        : devices_(std::move(devices))
    {
        char reason[300];
        dt_page_options options = {&dir, pid, name, 0, 0, "", DT_PAGE_RANK_UNKNOWN};
        EXPECT_EQ(DT_OK, dt_page_open(&options, &page_));
        EXPECT_EQ(DT_OK, dt_command_table_create(&table_));
        EXPECT_EQ(DT_OK, dt_command_register(table_, "nic", Nic, this));
        EXPECT_EQ(DT_OK, dt_server_start(&dir, pid, table_, &server_, reason, sizeof reason)) << reason;
    }
    ~Process()
    {
        dt_server_stop(server_);
        dt_command_table_destroy(table_);
        dt_page_close(page_);
    }

    /* What it was told but for `list`. */
    std::vector<std::string> received;
    enum dt_status reply = DT_OK;

  private:
    static enum dt_status Nic(void *arg, const char *args, char *answer, size_t answer_bytes)
    {
        auto *self = static_cast<Process *>(arg);
        if (!strcmp(args, "list")) {
            snprintf(answer, answer_bytes, "%s", self->devices_.c_str());
            return DT_OK;
        }
        self->received.push_back(args);
        snprintf(answer, answer_bytes, "%s", self->reply == DT_OK ? "soft0: done" : "cannot");
        return self->reply;
    }

    std::string devices_;
    dt_page *page_ = nullptr;
    dt_command_table *table_ = nullptr;
    dt_server *server_ = nullptr;
};

class Nic : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
    }
    void TearDown() override
    {
        unsetenv("DETOUR_RUNTIME_DIR");
    }

    void Run(std::vector<std::string> words, int expected_code)
    {
        std::vector<char *> argv;
        words.insert(words.begin(), "detour nic");
        for (std::string &word : words)
            argv.push_back(&word[0]);
        argv.push_back(nullptr);
        testing::internal::CaptureStdout();
        testing::internal::CaptureStderr();
        EXPECT_EQ(expected_code, dt_nic_command(static_cast<int>(words.size()), argv.data()));
        fflush(stdout);
        out = testing::internal::GetCapturedStdout();
        err = testing::internal::GetCapturedStderr();
        if (expected_code != DT_EXIT_OK) {
            EXPECT_NE("", err) << "a failure without a word";
        }
    }

    Folder folder;
    std::string out, err;
};

TEST_F(Nic, WithoutProcessesReportsWhereItSearched)
{
    Run({"list"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour nic: no process of yours uses Detour now (looked in " + folder.path + ")\n", err);
    setenv("DETOUR_RUNTIME_DIR", (folder.path + "/none").c_str(), 1);
    Run({"soft0", "down"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour nic: no process of yours uses Detour now: runtime folder " + folder.path +
                  "/none: No such file or directory\n",
              err);
    chmod(folder.path.c_str(), 0755);
    setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
    Run({"soft0", "down"}, DT_EXIT_FAILED);
    EXPECT_NE(std::string::npos, err.find("its mode should be 0700"));
}

TEST_F(Nic, ListsTheDevicesOfAllProcesses)
{
    Process one(folder.dir, 11, "rank0", "soft0 soft up, soft1 soft down");
    Process two(folder.dir, 12, "rank1", "mlx5_0 system");
    Process three(folder.dir, 13, "rank2", "");

    Run({"list"}, DT_EXIT_OK);
    EXPECT_EQ("PID      PROCESS              DEVICE           KIND     STATE\n"
              "11       rank0                soft0            soft     up\n"
              "11       rank0                soft1            soft     down\n"
              "12       rank1                mlx5_0           system   -\n",
              out);
    EXPECT_EQ("", err);
    Run({"--pid", "12", "list"}, DT_EXIT_OK);
    EXPECT_EQ(std::string::npos, out.find("rank0"));
}

TEST_F(Nic, ListsWhichDevicesAreDrained)
{
    Process one(folder.dir, 11, "rank0", "soft0 soft up drained, soft1 soft down drained, soft2 soft up");
    Process two(folder.dir, 12, "rank1", "mlx5_0 system drained, mlx5_1 system");

    Run({"list"}, DT_EXIT_OK);
    EXPECT_EQ("PID      PROCESS              DEVICE           KIND     STATE\n"
              "11       rank0                soft0            soft     up, drained\n"
              "11       rank0                soft1            soft     down, drained\n"
              "11       rank0                soft2            soft     up\n"
              "12       rank1                mlx5_0           system   drained\n"
              "12       rank1                mlx5_1           system   -\n",
              out);
}

TEST_F(Nic, ActsOnAllProcessesOrOnOne)
{
    Process one(folder.dir, 11, "rank0", ""), two(folder.dir, 12, "rank1", "");

    Run({"soft0", "down"}, DT_EXIT_OK);
    EXPECT_EQ("11 (rank0): soft0: done\n12 (rank1): soft0: done\n", out);
    Run({"soft1", "drop", "20%", "--pid=12"}, DT_EXIT_OK);
    Run({"-p", "11", "soft1", "drop", "7"}, DT_EXIT_OK);
    Run({"soft0", "up"}, DT_EXIT_OK);
    Run({"soft0", "fatal"}, DT_EXIT_OK);
    Run({"soft0", "plug"}, DT_EXIT_OK);
    EXPECT_EQ(
        (std::vector<std::string>{"soft0 down", "soft1 drop 7", "soft0 up", "soft0 fatal", "soft0 plug"}),
        one.received);
    EXPECT_EQ(
        (std::vector<std::string>{"soft0 down", "soft1 drop 20%", "soft0 up", "soft0 fatal", "soft0 plug"}),
        two.received);
}

TEST_F(Nic, ProcessesWithoutTheDeviceAreSkippedUnlessItIsAll)
{
    Process one(folder.dir, 11, "rank0", ""), two(folder.dir, 12, "rank1", "");

    one.reply = DT_NOT_FOUND;
    Run({"soft0", "down"}, DT_EXIT_OK);
    EXPECT_EQ("12 (rank1): soft0: done\n", out);
    EXPECT_EQ("", err);
    two.reply = DT_UNSUPPORTED;
    Run({"soft0", "down"}, DT_EXIT_FAILED);
    EXPECT_EQ(
        "detour nic: none of 2 processes has a software RNIC named 'soft0'; `detour nic list` shows them\n",
        err);
    Run({"soft0", "down", "--pid", "11"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour nic: process 11 (rank0): cannot\n", err);
    two.reply = DT_NOT_FOUND;
    Run({"mlx5_0", "migrate"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour nic: none of 2 processes has a RNIC named 'mlx5_0'; `detour nic list` shows them\n",
              err);
    Run({"mlx5_0", "back", "now"}, DT_EXIT_USAGE);
    EXPECT_EQ("detour nic: `back` takes no argument but id=, connection= or peer=; got 'now'\n", err);
    Run({"mlx5_0", "migrate", "id=ab"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour nic: none of 2 processes has a connection with id=ab that sends over an RNIC named "
              "'mlx5_0'\n",
              err);
    EXPECT_EQ("mlx5_0 migrate id=ab", one.received.back());
    two.reply = DT_OK;
    one.reply = DT_INTERNAL;
    Run({"soft0", "down"}, DT_EXIT_FAILED);
    EXPECT_EQ("12 (rank1): soft0: done\n", out);
    EXPECT_EQ("detour nic: process 11 (rank0): cannot\n", err);
}

TEST_F(Nic, AProcessThatIsNotThereIsNamed)
{
    Process one(folder.dir, 11, "rank0", "");

    Run({"soft0", "down", "--pid", "4711"}, DT_EXIT_FAILED);
    EXPECT_EQ("detour nic: process 4711 (-): it does not listen for commands\n", err);
    EXPECT_TRUE(one.received.empty());
}

TEST_F(Nic, BadInputIsOneLineAndReachesNoProcess)
{
    Process one(folder.dir, 11, "rank0", "");
    const struct {
        std::vector<std::string> words;
        const char *reply;
    } rows[] = {
        {{}, "no action given; `detour nic --help` lists the actions"},
        {{"list", "soft0"}, "`list` takes no argument; got 'soft0'"},
        {{"soft0"},
         "no action for 'soft0'; expected migrate, back, down, up, fatal, plug, drop, rate or verbs"},
        {{"soft0", "bang"},
         "unknown action 'bang'; expected migrate, back, down, up, fatal, plug, drop, rate or verbs"},
        {{"soft0", "rate"}, "rate what?: expected bytes per second, such as 250M"},
        {{"soft0", "rate", "fast"}, "rate fast: expected bytes per second, such as 250M"},
        {{"soft0", "verbs", "1K"}, "verbs 1K: expected microseconds"},
        {{"soft0", "down", "now"}, "`down` takes no argument; got 'now'"},
        {{"soft0", "down", "id=1"}, "`down` takes no argument; got 'id=1'"},
        {{"soft0", "migrate", "id=1 2"}, "`migrate` takes no argument but id=, connection= or peer=; got"},
        {{"soft0", "migrate", "device=soft1"},
         "`migrate` takes no argument but id=, connection= or peer=; got"},
        {{"soft0", "drop"}, "drop what?: expected a number of packets from 1, or 0% to 100%"},
        {{"soft0", "drop", "101%"}, "drop 101%: expected a number of packets from 1, or 0% to 100%"},
        {{"soft0", "drop", "%"}, "drop %: expected a number of packets from 1, or 0% to 100%"},
        {{"soft0", "drop", "1K"}, "drop 1K: expected a number of packets from 1, or 0% to 100%"},
        {{"soft0", "drop", "99999999999999999999999"}, "expected a number of packets"},
        {{"soft0", "drop", "0"}, "drop 0: expected a number of packets from 1"},
        {{"plug"}, "no device before `plug`; expected such as `detour nic soft0 plug`"},
        {{"rate"}, "no device before `rate`; expected such as `detour nic soft0 rate`"},
        {{"soft0", "drop", "1", "2"}, "unexpected argument '2'"},
        {{"so ft", "down"}, "the first argument is not a device name; `detour nic list` shows the names"},
        {{"soft0\nnic", "down"}, "is not a device name"},
        {{"", "down"}, "is not a device name"},
        {{std::string(100, 'x'), "down"}, "is not a device name"},
        {{"list", "--pid", "x"}, "--pid x: expected the number of a process"},
        {{"list", "--pid", "0"}, "--pid 0: expected the number of a process"},
        {{"list", "--pid", "99999999999"}, "--pid 99999999999: expected the number of a process"},
        {{"list", "--bogus"}, "--bogus"},
    };

    for (const auto &row : rows) {
        Run(row.words, DT_EXIT_USAGE);
        EXPECT_NE(std::string::npos, err.find(row.reply)) << err;
        EXPECT_EQ(1, std::count(err.begin(), err.end(), '\n')) << err;
    }
    EXPECT_TRUE(one.received.empty());
    setenv("DETOUR_PATHS", "many", 1);
    Run({"list"}, DT_EXIT_USAGE);
    EXPECT_NE(std::string::npos, err.find("DETOUR_PATHS=many"));
    unsetenv("DETOUR_PATHS");
}
} // namespace
