// SPDX-License-Identifier: Apache-2.0
#include "transport/path/nic.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "transport/path/environment.h"

namespace
{
struct Task {
    dt_task task = {};
    int runs = 0;
};

void CountRun(dt_task *task)
{
    dt_container_of(task, Task, task)->runs++;
}

uint64_t Drain(int fd)
{
    uint64_t count = 0;
    return read(fd, &count, sizeof count) == sizeof count ? count : 0;
}

class Nic : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        nic.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        ASSERT_GE(nic.wake_fd, 0);
    }
    void TearDown() override
    {
        close(nic.wake_fd);
    }

    dt_nic nic = {};
};

TEST_F(Nic, WritesOneWakeUpUntilItIsTaken)
{
    nic.is_started = true;
    dt_nic_wake(&nic);
    dt_nic_wake(&nic);
    EXPECT_EQ(1u, Drain(nic.wake_fd));
    dt_nic_wake(&nic); // the thread has not cleared is_woken yet
    EXPECT_EQ(0u, Drain(nic.wake_fd));
    dt_exchange_acq_rel(&nic.is_woken, 0u);
    dt_nic_wake(&nic);
    EXPECT_EQ(1u, Drain(nic.wake_fd));
}

/* Tasks for a device that is dead wait for it; those that come too late do not. */
TEST_F(Nic, HoldsTasksUntilTheDeviceIsBack)
{
    Task first, second, third, gone;
    ASSERT_EQ(DT_OK, dt_executor_init(&nic.executor, false));
    dt_list_init(&nic.held);
    for (Task *task : {&first, &second, &third, &gone})
        task->task.run = CountRun;
    nic.is_dead = 1;
    for (Task *task : {&first, &second, &gone})
        dt_nic_hold(&nic, &task->task);
    EXPECT_TRUE(dt_nic_withdraw(&nic, &gone.task));
    EXPECT_FALSE(dt_nic_withdraw(&nic, &gone.task));
    EXPECT_EQ(0u, dt_executor_run(&nic.executor));
    nic.is_dead = 0;
    dt_nic_hold(&nic, &third.task); /* the device thread is about to release them */
    EXPECT_FALSE(dt_nic_withdraw(&nic, &first.task));
    dt_nic_release(&nic);
    EXPECT_EQ(3u, dt_executor_run(&nic.executor));
    EXPECT_EQ(1, first.runs + second.runs - third.runs);
    EXPECT_EQ(0, gone.runs);
    dt_executor_stop(&nic.executor);
}

TEST_F(Nic, WithoutADeviceThreadAWakeUpDoesNothing)
{
    dt_nic_wake(&nic);
    EXPECT_EQ(0u, Drain(nic.wake_fd));
    EXPECT_EQ(0u, nic.is_woken);
}

TEST_F(Nic, RunsTasksWhenItsExecutorDoes)
{
    Task task;
    task.task.run = CountRun;
    ASSERT_EQ(DT_OK, dt_executor_init(&nic.executor, false));
    dt_nic_submit(&nic, &task.task);
    EXPECT_EQ(0, task.runs);
    EXPECT_EQ(1u, dt_executor_run(&nic.executor));
    EXPECT_EQ(1, task.runs);
    dt_executor_stop(&nic.executor);
}

TEST(Environment, DrawsUntilANumberIsNotZero)
{
    static int calls;
    dt_environment environment = {};
    calls = 0;
    environment.random = [](void *, void *to, size_t bytes) {
        ASSERT_EQ(sizeof(uint64_t), bytes);
        *static_cast<uint64_t *>(to) = ++calls < 3 ? 0 : 42;
    };
    EXPECT_EQ(42u, dt_environment_random(&environment));
    EXPECT_EQ(3, calls);
}
} // namespace
