/* SPDX-License-Identifier: Apache-2.0 */
/* The event command with real processes; time is an argument. A test waits for states, never for a time. */
#include "detour/stat.h"
#include "obs/event_hook.h"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "obs/event_queue.h"
#include "tests/harness/harness.h"
#include "tests/obs/folder.h"

namespace
{
const uint64_t kTimeout = 1000000000, kStart = 5000;

class Hook : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_page_options options = {nullptr, 4711, "trainer", 1700000000000000000, kStart, "nodea", 6};
        ASSERT_EQ(DT_OK, dt_page_open(&options, &page));
    }
    void TearDown() override
    {
        if (hook)
            dt_event_hook_close(hook);
        dt_page_close(page);
    }

    void Open(const std::string &command, uint32_t kinds = 1u << DT_EVENT_KIND_PATH)
    {
        dt_event_hook_options options = {command.c_str(), kinds, kTimeout, page};
        ASSERT_EQ(DT_OK, dt_event_hook_open(&options, &hook));
    }

    void Write(int count = 1)
    {
        dt_event_record event = dt_event_of(DT_EVENT_KIND_PATH, now_ns);
        for (int i = 0; i < count; i++)
            dt_event_write(dt_page_events(page), &event, "path 0 is down");
    }

    /* The texts of the events about commands. */
    std::vector<std::string> Reports()
    {
        std::vector<std::string> texts;
        dt_event_record event;
        for (uint64_t i = 0; dt_event_read(dt_page_events(page), i, &event); i++) {
            if (event.kind == DT_EVENT_KIND_COMMAND)
                texts.push_back(event.text);
        }
        return texts;
    }

    /* Rounds at this time until the commands have had so many ends or losses. */
    void UntilReports(size_t count)
    {
        while (Reports().size() < count) {
            dt_event_hook_round(hook, now_ns);
            usleep(1000);
        }
        EXPECT_EQ(count, Reports().size());
    }

    static void ExpectNoChild()
    {
        EXPECT_EQ(-1, waitpid(-1, nullptr, WNOHANG));
        EXPECT_EQ(ECHILD, errno);
    }

    std::string File(const char *name) const
    {
        return folder.path + "/" + name;
    }
    static std::string Content(const std::string &name)
    {
        std::ifstream file(name);
        return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    }

    Folder folder;
    dt_page *page = nullptr;
    dt_event_hook *hook = nullptr;
    uint64_t now_ns = kStart + 250000000;
};

TEST_F(Hook, ACommandHasItsEventInVariables)
{
    setenv("DETOUR_EVENT_COMMAND", "this command", 1);
    Open("env | grep ^DETOUR_EVENT_ | sort > " + File("out") + "; echo $TEST_HOOK >> " + File("out"));
    unsetenv("DETOUR_EVENT_COMMAND");
    dt_event_record event = dt_event_of(DT_EVENT_KIND_PATH, now_ns);
    event.connection = 0xabc;
    event.is_send = 1;
    event.path = 1;
    event.from_rank = 3;
    event.cause = DETOUR_STAT_CAUSE_DRAINED;
    event.since_ns = kStart + 125000000;
    event.delay_ns = 2500000;
    strcpy(event.nic, "mlx5_0");
    strcpy(event.peer_nic, "mlx5_4");
    strcpy(event.peer, "node'b:12");
    strcpy(event.next_nic, "mlx5_1");
    dt_event_write(dt_page_events(page), &event, "path 1; \"down\" $HOME");
    UntilReports(1);
    EXPECT_EQ("for event 0 ended with exit code 0 after 0 ms", Reports()[0]);
    EXPECT_EQ("DETOUR_EVENT_CAUSE=a drain by the operator\n"
              "DETOUR_EVENT_CONNECTION=0000000000000abc\n"
              "DETOUR_EVENT_DELAY_MS=2.500000\n"
              "DETOUR_EVENT_DIRECTION=send\n"
              "DETOUR_EVENT_DROPPED=0\n"
              "DETOUR_EVENT_FROM=3\n"
              "DETOUR_EVENT_HOST=nodea\n"
              "DETOUR_EVENT_KIND=path\n"
              "DETOUR_EVENT_NEXT_NIC=mlx5_1\n"
              "DETOUR_EVENT_NIC=mlx5_0\n"
              "DETOUR_EVENT_NUMBER=0\n"
              "DETOUR_EVENT_PATH=1\n"
              "DETOUR_EVENT_PEER=node'b:12\n"
              "DETOUR_EVENT_PEER_NIC=mlx5_4\n"
              "DETOUR_EVENT_PID=4711\n"
              "DETOUR_EVENT_RANK=6\n"
              "DETOUR_EVENT_SINCE_S=1700000000.125000000\n"
              "DETOUR_EVENT_TEXT=path 1; \"down\" $HOME\n"
              "DETOUR_EVENT_TIME_S=1700000000.250000000\n\n",
              Content(File("out")));
    ExpectNoChild();
}

/* The first command holds the others up until it may end. */
TEST_F(Hook, OneRunsAtATimeAndTheRestIsBounded)
{
    ASSERT_EQ(0, mkfifo(File("gate").c_str(), 0600));
    Open("echo begin >> " + File("out") + "; read line < " + File("gate") + "; echo end >> " + File("out"));
    Write();
    dt_event_hook_round(hook, now_ns); // starts the first
    Write(DT_EVENT_QUEUE_MAX + 7);
    detour_test::ExpectWarning("7 events in all had no command");
    UntilReports(1);
    EXPECT_EQ("7 events in all had no command: more than 16 were waiting", Reports()[0]);
    for (unsigned i = 0; i <= DT_EVENT_QUEUE_MAX; i++) {
        int gate = open(File("gate").c_str(), O_WRONLY); // waits for the command
        ASSERT_LE(0, gate);
        EXPECT_EQ(1, ::write(gate, "\n", 1));
        close(gate);
        UntilReports(2 + i);
    }
    std::string expected;
    for (unsigned i = 0; i <= DT_EVENT_QUEUE_MAX; i++)
        expected += "begin\nend\n";
    EXPECT_EQ(expected, Content(File("out"))) << "never two together";
    dt_event_hook_round(hook, now_ns);
    ExpectNoChild();
}

TEST_F(Hook, ACommandThatTakesTooLongIsKilledWithItsChildren)
{
    ASSERT_EQ(0, mkfifo(File("gate").c_str(), 0600));
    ASSERT_EQ(0, mkfifo(File("life").c_str(), 0600));
    // Both hold `life` open for writing until they die.
    Open("exec 3> " + File("life") + "; (read line < " + File("gate") + ") & read line < " + File("gate"));
    Write();
    dt_event_hook_round(hook, now_ns);
    int life = open(File("life").c_str(), O_RDONLY);
    ASSERT_LE(0, life);
    now_ns += kTimeout - 1;
    dt_event_hook_round(hook, now_ns);
    EXPECT_TRUE(Reports().empty());
    now_ns += 1;
    detour_test::ExpectWarning("was killed after 1000 ms");
    UntilReports(1);
    EXPECT_EQ("for event 0 was killed after 1000 ms, its time limit", Reports()[0]);
    char byte;
    EXPECT_EQ(0, read(life, &byte, 1)) << "the end of the file: neither lives";
    close(life);
    ExpectNoChild();
}

TEST_F(Hook, AFailureIsAnEventAndALine)
{
    Open("exit 7");
    Write();
    detour_test::ExpectWarning("DETOUR_EVENT_COMMAND: for event 0 ended with exit code 7");
    UntilReports(1);
    dt_event_hook_close(hook);
    Open("kill -TERM $$", 1u << DT_EVENT_KIND_CONTROL);
    dt_event_record event = dt_event_of(DT_EVENT_KIND_CONTROL, now_ns);
    dt_event_write(dt_page_events(page), &event, "nic");
    detour_test::ExpectWarning("for event 2 ended by signal 15");
    UntilReports(2);
    ExpectNoChild();
}

/* Then the kernel reaps the child, and its exit code is lost. */
TEST_F(Hook, AnApplicationMayIgnoreItsChildren)
{
    signal(SIGCHLD, SIG_IGN);
    Open("exit 7");
    Write();
    UntilReports(1);
    signal(SIGCHLD, SIG_DFL);
    EXPECT_EQ("for event 0 has ended after 0 ms", Reports()[0]);
}

/* No file of the application, and no blocked signal of the thread. */
TEST_F(Hook, ACommandInheritsNeitherFilesNorSignals)
{
    int kept = open("/dev/null", O_RDONLY); // without O_CLOEXEC
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    signal(SIGUSR1, SIG_IGN);
    Open("grep -E '^Sig(Blk|Ign)' /proc/self/status > " + File("out") + "; test -e /proc/self/fd/" +
         std::to_string(kept));
    Write();
    detour_test::ExpectWarning("ended with exit code 1");
    UntilReports(1);
    signal(SIGUSR1, SIG_DFL);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    close(kept);
    unsigned long long blocked = ~0ull, ignored = ~0ull;
    ASSERT_EQ(2, sscanf(Content(File("out")).c_str(), "SigBlk: %llx SigIgn: %llx", &blocked, &ignored));
    EXPECT_EQ(0u, blocked);
    EXPECT_EQ(0u, ignored & 0x7fffffff) << "but for two signals of the C library's own";
}

TEST_F(Hook, TheThreadRunsCommandsUntilItIsStopped)
{
    Open("echo done >> " + File("out"));
    ASSERT_EQ(DT_OK, dt_event_hook_start(hook));
    Write(2);
    while (Content(File("out")) != "done\ndone\n")
        usleep(1000);
    while (Reports().size() < 2)
        usleep(1000);
    dt_event_hook_close(hook);
    hook = nullptr;
    ExpectNoChild();
}

/* Of a remedy that ends the process, the thread may have no round left. */
TEST_F(Hook, TheLastEventHasItsCommand)
{
    Open("echo $DETOUR_EVENT_KIND $DETOUR_EVENT_STEP > " + File("new") + "; mv " + File("new") + " " +
             File("out"),
         1u << DT_EVENT_KIND_REMEDY);
    ASSERT_EQ(DT_OK, dt_event_hook_start(hook));
    dt_event_record event = dt_event_of(DT_EVENT_KIND_REMEDY, now_ns);
    event.value = 4;
    dt_event_write(dt_page_events(page), &event, "S4: 1 slow ranks");
    dt_event_hook_close(hook);
    hook = nullptr;
    ASSERT_EQ(waitpid(-1, nullptr, 0) > 0, true) << "it runs, or has run";
    EXPECT_EQ("remedy S4\n", Content(File("out")));
}

TEST_F(Hook, AForkedChildClosesItWithoutTheThread)
{
    Open("true");
    ASSERT_EQ(DT_OK, dt_event_hook_start(hook));
    pid_t child = fork();
    if (child == 0) {
        dt_event_hook_close(hook);
        _exit(3);
    }
    int status;
    ASSERT_EQ(child, waitpid(child, &status, 0));
    EXPECT_EQ(3, WEXITSTATUS(status));
}

TEST_F(Hook, SurvivesEveryFailedAllocation)
{
    for (int i = 0;; i++) {
        dt_event_hook_options options = {"true", 1, kTimeout, page};
        detour_test_fail_alloc(i);
        enum dt_status status = dt_event_hook_open(&options, &hook);
        if (!detour_test_alloc_failed()) {
            EXPECT_EQ(DT_OK, status);
            break;
        }
        EXPECT_EQ(DT_NO_MEMORY, status);
    }
}
} // namespace
