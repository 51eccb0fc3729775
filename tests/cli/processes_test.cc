/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/processes.h"

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/exit.h"
#include "obs/page.h"
#include "tests/obs/folder.h"

namespace
{
class Processes : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        setenv("DETOUR_RUNTIME_DIR", folder.path.c_str(), 1);
        choice.command = "detour x";
    }
    void TearDown() override
    {
        unsetenv("DETOUR_RUNTIME_DIR");
    }

    int Open()
    {
        testing::internal::CaptureStderr();
        int code = dt_processes_open(&choice, &processes);
        line = testing::internal::GetCapturedStderr();
        return code;
    }

    /* The control socket of a process, without a server behind it. */
    int Socket(int pid)
    {
        sockaddr_un address = {};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address.sun_family = AF_UNIX;
        snprintf(address.sun_path, sizeof address.sun_path, "%s/%d.sock", folder.path.c_str(), pid);
        EXPECT_EQ(0, bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof address));
        EXPECT_EQ(0, listen(fd, 4));
        return fd;
    }

    Folder folder;
    dt_process_choice choice = {};
    dt_processes processes;
    std::string line;
};

TEST_F(Processes, WithoutAnyTheLineNamesTheFolder)
{
    EXPECT_EQ(DT_EXIT_FAILED, Open());
    EXPECT_EQ("detour x: no process of yours uses Detour now (looked in " + folder.path + ")\n", line);
    setenv("DETOUR_RUNTIME_DIR", (folder.path + "/missing").c_str(), 1);
    EXPECT_EQ(DT_EXIT_FAILED, Open());
    EXPECT_EQ(0u, line.find("detour x: no process of yours uses Detour now: ")) << line;
}

TEST_F(Processes, AllWithASocketThatListensAreFoundInOrder)
{
    int listening[] = {Socket(1001), Socket(999)};
    close(Socket(1000)); // of a process that has died
    ASSERT_EQ(DT_EXIT_OK, Open()) << line;
    ASSERT_EQ(2u, processes.count);
    EXPECT_EQ(999, processes.pids[0]);
    EXPECT_EQ(1001, processes.pids[1]);
    dt_processes_close(&processes);
    for (int fd : listening)
        close(fd);
}

TEST_F(Processes, TheChosenOneIsTakenAsItIs)
{
    choice.pid = 4711;
    ASSERT_EQ(DT_EXIT_OK, Open()) << line;
    ASSERT_EQ(1u, processes.count);
    EXPECT_EQ(4711, processes.pids[0]);
    dt_processes_close(&processes);
}

TEST_F(Processes, ABadSettingIsAUsageError)
{
    setenv("DETOUR_PATHS", "many", 1);
    EXPECT_EQ(DT_EXIT_USAGE, Open());
    EXPECT_NE(std::string::npos, line.find("DETOUR_PATHS")) << line;
    unsetenv("DETOUR_PATHS");
}

TEST_F(Processes, ANameIsThatOfThePage)
{
    dt_page_options options = {&folder.dir, getpid(), "trainer", 0, 0, "", DT_PAGE_RANK_UNKNOWN};
    dt_page *page;
    char name[DT_PROCESS_NAME_BYTES];
    choice.pid = getpid();
    ASSERT_EQ(DT_EXIT_OK, Open()) << line;
    dt_process_name(&processes, getpid(), name);
    EXPECT_STREQ("-", name);
    ASSERT_EQ(DT_OK, dt_page_open(&options, &page));
    dt_process_name(&processes, getpid(), name);
    EXPECT_STREQ("trainer", name);
    dt_page_close(page);
    dt_processes_close(&processes);
}

TEST_F(Processes, PidIsTheNumberOfAProcess)
{
    char name[] = "detour x", option[] = "--pid", good[] = "12";
    char *arguments[] = {name, option, good};
    EXPECT_EQ(0, argp_parse(&dt_process_argp, 3, arguments, ARGP_NO_EXIT, nullptr, &choice));
    EXPECT_EQ(12, choice.pid);
    for (std::string bad : {"0", "-1", "x", "2147483648", "1K"}) {
        char *wrong[] = {name, option, bad.data()};
        testing::internal::CaptureStderr();
        EXPECT_NE(0, argp_parse(&dt_process_argp, 3, wrong, ARGP_NO_EXIT, nullptr, &choice)) << bad;
        EXPECT_EQ("detour x: --pid " + bad + ": expected the number of a process\n",
                  testing::internal::GetCapturedStderr());
    }
    EXPECT_EQ(12, choice.pid);
}
} // namespace
