/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <fstream>

#include "obs/command.h"
#include "obs/page.h"
#include "obs/server.h"
#include "tests/harness/harness.h"
#include "tests/obs/folder.h"

namespace
{
TEST(RuntimeDir, IsMadeForTheUserAlone)
{
    Folder folder;
    dt_runtime_dir dir;
    char reason[300];
    std::string path = folder.path + "/own";
    struct stat status;

    EXPECT_EQ(DT_NOT_FOUND, dt_runtime_dir_open(path.c_str(), 0, &dir, reason, sizeof reason));
    EXPECT_EQ("runtime folder " + path + ": No such file or directory", reason);
    ASSERT_EQ(DT_OK, dt_runtime_dir_open(path.c_str(), 1, &dir, reason, sizeof reason));
    ASSERT_EQ(0, stat(path.c_str(), &status));
    EXPECT_EQ(0700u, status.st_mode & 0777);
    dt_runtime_dir_close(&dir);
    ASSERT_EQ(DT_OK, dt_runtime_dir_open(path.c_str(), 1, &dir, reason, sizeof reason));
    dt_runtime_dir_close(&dir);
}

TEST(RuntimeDir, OneThatOthersCanEnterIsRefused)
{
    Folder folder;
    dt_runtime_dir dir;
    char reason[300];

    for (mode_t mode : {0755u, 0770u, 0701u, 0777u}) {
        chmod(folder.path.c_str(), mode);
        EXPECT_EQ(DT_SYSTEM, dt_runtime_dir_open(folder.path.c_str(), 1, &dir, reason, sizeof reason));
        EXPECT_NE(nullptr, strstr(reason, "its mode should be 0700")) << reason;
    }
    chmod(folder.path.c_str(), 0700);
    std::string link = folder.path + "/link";
    ASSERT_EQ(0, symlink(folder.path.c_str(), link.c_str()));
    EXPECT_EQ(DT_SYSTEM, dt_runtime_dir_open(link.c_str(), 1, &dir, reason, sizeof reason));
    if (geteuid() == 0) {
        ASSERT_EQ(0, chown(folder.path.c_str(), 12345, 12345));
        EXPECT_EQ(DT_SYSTEM, dt_runtime_dir_open(folder.path.c_str(), 1, &dir, reason, sizeof reason));
        EXPECT_NE(nullptr, strstr(reason, "it belongs to another user")) << reason;
        ASSERT_EQ(0, chown(folder.path.c_str(), 0, 0));
    }
}

TEST(RuntimeDir, PathsThatCannotBeAreOneLine)
{
    dt_runtime_dir dir;
    char reason[400];

    EXPECT_EQ(DT_SYSTEM, dt_runtime_dir_open(std::string(300, 'a').c_str(), 1, &dir, reason, sizeof reason));
    EXPECT_STREQ("runtime folder: the path has 300 characters, at most 255 fit", reason);
    EXPECT_EQ(DT_SYSTEM, dt_runtime_dir_open("/proc/no/such", 1, &dir, reason, sizeof reason));
    EXPECT_EQ(DT_SYSTEM, dt_runtime_dir_open("/etc/passwd", 1, &dir, reason, sizeof reason));
}

TEST(RuntimeDir, ListsProcessNumbersInOrder)
{
    Folder folder;
    int pids[8];

    for (const char *name : {"12.page", "7.page", "100.page", "7.sock", "x.page", "-3.page", "7.page.new",
                             "0.page", "99999999999999999999.page", "1e3.page", ".page"})
        std::ofstream(folder.path + "/" + name) << "";
    ASSERT_EQ(3u, dt_runtime_dir_list(&folder.dir, DT_RUNTIME_PAGE, pids, 8));
    EXPECT_EQ(7, pids[0]);
    EXPECT_EQ(12, pids[1]);
    EXPECT_EQ(100, pids[2]);
    EXPECT_EQ(1u, dt_runtime_dir_list(&folder.dir, DT_RUNTIME_SOCKET, pids, 8));
    EXPECT_EQ(2u, dt_runtime_dir_list(&folder.dir, DT_RUNTIME_PAGE, pids, 2));
}

TEST(RuntimeDir, AProcessFindsItsOwnFiles)
{
    Folder folder;
    dt_page_options options = {&folder.dir, getpid(), "x", 0, 0, "", DT_PAGE_RANK_UNKNOWN};
    int ready[2];
    char byte;
    EXPECT_EQ(getpid(), dt_runtime_own_number()) << "without a page";
    ASSERT_EQ(0, pipe(ready));
    pid_t other = fork(); // in another PID namespace it could have our PID
    if (other == 0) {
        dt_page *page;
        bool is_open = dt_page_open(&options, &page) == DT_OK;
        _exit(write(ready[1], "x", 1) != 1 || !is_open || pause());
    }
    ASSERT_EQ(1, read(ready[0], &byte, 1));
    dt_page *page;
    ASSERT_EQ(DT_OK, dt_page_open(&options, &page));
    EXPECT_TRUE(dt_runtime_dir_is_taken(&folder.dir, DT_RUNTIME_PAGE, getpid()));
    EXPECT_EQ(getpid() + DT_RUNTIME_NUMBER_STEP, dt_page_get_header(page)->pid);
    EXPECT_EQ(getpid() + DT_RUNTIME_NUMBER_STEP, dt_runtime_own_number());
    kill(other, SIGKILL);
    waitpid(other, nullptr, 0);
    EXPECT_FALSE(dt_runtime_dir_is_taken(&folder.dir, DT_RUNTIME_PAGE, getpid()));
    dt_page_close(page);
    close(ready[0]);
    close(ready[1]);
}

// A process with page and socket is killed; the sweep of another one removes both, and nothing of the living.
TEST(RuntimeDir, TheFilesOfAKilledProcessAreSwept)
{
    Folder folder;
    int ready[2];
    char byte;
    ASSERT_EQ(0, pipe(ready));
    pid_t child = fork();

    if (child == 0) {
        dt_page_options options = {&folder.dir, 1001, "child", 0, 0, "", DT_PAGE_RANK_UNKNOWN};
        dt_page *page;
        dt_command_table *table;
        dt_server *server;
        char reason[300];
        bool good = dt_page_open(&options, &page) == DT_OK && dt_command_table_create(&table) == DT_OK &&
                    dt_server_start(&folder.dir, 1001, table, &server, reason, sizeof reason) == DT_OK;
        if (write(ready[1], good ? "y" : "n", 1) == 1)
            pause();
        _exit(1);
    }
    ASSERT_EQ(1, read(ready[0], &byte, 1));
    ASSERT_EQ('y', byte);
    std::ofstream(folder.path + "/55.txt") << "not ours";
    dt_runtime_dir_sweep(&folder.dir);
    EXPECT_TRUE(folder.Has("1001.page"));
    EXPECT_TRUE(folder.Has("1001.sock"));
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_TRUE(folder.Has("1001.page"));
    dt_runtime_dir_sweep(&folder.dir);
    EXPECT_FALSE(folder.Has("1001.page"));
    EXPECT_FALSE(folder.Has("1001.sock"));
    EXPECT_TRUE(folder.Has("55.txt"));
    close(ready[0]), close(ready[1]);
}

TEST(RuntimeDir, AFileIsWrittenWholeOrNotAtAll)
{
    Folder folder;
    const std::string text(70000, 'x');
    std::string found;

    ASSERT_TRUE(dt_runtime_dir_write(&folder.dir, "a.new", "before"));
    ASSERT_TRUE(dt_runtime_dir_write(&folder.dir, "a.new", text.c_str()));
    std::ifstream(folder.path + "/a.new") >> found;
    EXPECT_EQ(found, text);
    EXPECT_FALSE(dt_runtime_dir_write(&folder.dir, "missing/a", "x"));
    EXPECT_EQ(errno, ENOENT);
    symlink("a.new", (folder.path + "/link").c_str());
    EXPECT_FALSE(dt_runtime_dir_write(&folder.dir, "link", "x"));
    EXPECT_EQ(errno, ELOOP);
}
} // namespace
