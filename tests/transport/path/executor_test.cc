/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/util.h"
#include "transport/path/executor.h"

namespace
{
struct Job {
    dt_task job;
    std::vector<int> *log;
    int number;
    std::thread::id *thread;
};

void RunJob(dt_task *job)
{
    Job *self = reinterpret_cast<Job *>(job);
    self->log->push_back(self->number);
    *self->thread = std::this_thread::get_id();
}

void RunAll(bool has_thread)
{
    dt_executor executor;
    std::vector<int> log;
    std::thread::id thread;
    std::vector<Job> jobs(100);
    ASSERT_EQ(DT_OK, dt_executor_init(&executor, has_thread));
    for (int i = 0; i < 100; i++) {
        jobs[i] = {{RunJob, {}, false}, &log, i, &thread};
        ASSERT_EQ(DT_OK, dt_executor_submit(&executor, &jobs[i].job, false));
    }
    if (!has_thread) {
        EXPECT_TRUE(log.empty());
        EXPECT_EQ(100u, dt_executor_run(&executor));
        EXPECT_EQ(0u, dt_executor_run(&executor));
    }
    dt_executor_stop(&executor);
    ASSERT_EQ(100u, log.size());
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(i, log[i]);
    EXPECT_EQ(has_thread, thread != std::this_thread::get_id());
}

TEST(Executor, RunsJobsInOrderOnItsThread)
{
    RunAll(true);
}

TEST(Executor, WithoutAThreadRunsThemWhenAsked)
{
    RunAll(false);
}

TEST(Executor, UrgentJobsRunBeforeTheOthersAndInTheirOrder)
{
    dt_executor executor;
    std::vector<int> log;
    std::thread::id thread;
    std::vector<Job> jobs(6);
    ASSERT_EQ(DT_OK, dt_executor_init(&executor, false));
    for (int i = 0; i < 6; i++) {
        jobs[i] = {{RunJob, {}, false}, &log, i, &thread};
        ASSERT_EQ(DT_OK, dt_executor_submit(&executor, &jobs[i].job, i == 2 || i == 5));
    }
    EXPECT_EQ(6u, dt_executor_run(&executor));
    EXPECT_EQ((std::vector<int>{2, 5, 0, 1, 3, 4}), log);
    dt_executor_stop(&executor);
}

TEST(Executor, StopRunsUrgentJobsToo)
{
    dt_executor executor;
    std::vector<int> log;
    std::thread::id thread;
    Job job = {{RunJob, {}, false}, &log, 1, &thread};
    ASSERT_EQ(DT_OK, dt_executor_init(&executor, true));
    ASSERT_EQ(DT_OK, dt_executor_submit(&executor, &job.job, true));
    dt_executor_stop(&executor);
    EXPECT_EQ(1u, log.size());
}

TEST(Executor, StopWithoutAJobHasNothingToJoin)
{
    dt_executor executor;
    ASSERT_EQ(DT_OK, dt_executor_init(&executor, true));
    dt_executor_stop(&executor);
}
} // namespace
