/* SPDX-License-Identifier: Apache-2.0 */
#include "job/worker.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>

namespace
{
class JobWorker : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_TRUE(dt_job_worker_start(&worker_, "job-test", &error_)) << error_.text;
        other_fd_ = eventfd(0, 0);
    }

    void TearDown() override
    {
        dt_job_worker_stop(&worker_);
        close(other_fd_);
    }

    /* Waits until the job is done. */
    void Await()
    {
        bool readable;
        while (!dt_job_worker_wait(&worker_, other_fd_, 1000, &readable))
            ;
    }

    struct dt_job_worker worker_;
    struct dt_job_error error_ = {};
    int other_fd_;
};

void Count(void *arg)
{
    ++*static_cast<std::atomic<int> *>(arg);
}

void Block(void *arg)
{
    while (!*static_cast<std::atomic<int> *>(arg))
        usleep(1000);
}

void NameOf(void *arg)
{
    pthread_getname_np(pthread_self(), static_cast<char *>(arg), 16);
}

TEST_F(JobWorker, DoesOneJobAfterTheOther)
{
    std::atomic<int> count{0};
    for (int i = 1; i <= 100; i++) {
        dt_job_worker_give(&worker_, Count, &count);
        Await();
        EXPECT_EQ(count, i);
    }
}

TEST_F(JobWorker, TheWaitEndsWhenTheOtherDescriptorIsReadable)
{
    std::atomic<int> go{0};
    bool readable = false;
    dt_job_worker_give(&worker_, Block, &go);
    EXPECT_FALSE(dt_job_worker_wait(&worker_, other_fd_, 10, &readable));
    EXPECT_FALSE(readable);
    eventfd_write(other_fd_, 1);
    EXPECT_FALSE(dt_job_worker_wait(&worker_, other_fd_, -1, &readable));
    EXPECT_TRUE(readable);
    go = 1;
    Await();
}

TEST_F(JobWorker, TheThreadHasItsName)
{
    char name[16] = "";
    dt_job_worker_give(&worker_, NameOf, name);
    Await();
    EXPECT_STREQ(name, "job-test");
}
} // namespace
