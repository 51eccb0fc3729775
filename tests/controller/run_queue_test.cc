// SPDX-License-Identifier: Apache-2.0
#include "controller/run_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>

namespace
{
/* Until the calling thread has used so much processor time. */
void Burn(double seconds)
{
    timespec now, end;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    end.tv_nsec += (long)(seconds * 1e9);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec * 1000000000LL + now.tv_nsec < end.tv_sec * 1000000000LL + end.tv_nsec);
}

TEST(RunQueue, SumsOfThisProcessAscendWithItsProcessorTime)
{
    dt_run_queue before, now;

    ASSERT_TRUE(dt_run_queue_read(getpid(), &before));
    Burn(0.05);
    ASSERT_TRUE(dt_run_queue_read(getpid(), &now));
    EXPECT_GE(now.run_ns, before.run_ns + 40000000);
    EXPECT_GE(now.wait_ns, before.wait_ns);
}

/* Of two processes that share one processor, one waits while the other runs, however loaded the machine is.
 */
TEST(RunQueue, ProcessesThatShareAProcessorWait)
{
    dt_run_queue before, now;
    cpu_set_t own, one;
    pid_t child;

    ASSERT_EQ(sched_getaffinity(0, sizeof own, &own), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &own))
            CPU_SET(i, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    child = fork();
    if (child == 0) {
        Burn(0.3);
        _exit(0);
    }
    ASSERT_TRUE(dt_run_queue_read(getpid(), &before));
    Burn(0.1);
    ASSERT_TRUE(dt_run_queue_read(getpid(), &now));
    EXPECT_GT(dt_run_queue_share(&before, &now), 0.2);
    waitpid(child, nullptr, 0);
    sched_setaffinity(0, sizeof own, &own);
}

TEST(RunQueue, TheShareIsThatOfTheTimeTheThreadsWantedToRun)
{
    const dt_run_queue before = {1000, 500}, now = {1300, 600}, less = {900, 600};

    EXPECT_DOUBLE_EQ(dt_run_queue_share(&before, &now), 0.25);
    EXPECT_DOUBLE_EQ(dt_run_queue_share(&before, &before), 0);
    EXPECT_DOUBLE_EQ(dt_run_queue_share(&before, &less), 0);
}

TEST(RunQueue, AProcessThatDoesNotExistHasNone)
{
    dt_run_queue sums;

    EXPECT_FALSE(dt_run_queue_read(-1, &sums));
}
} // namespace
