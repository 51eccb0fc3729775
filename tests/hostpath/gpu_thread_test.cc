// SPDX-License-Identifier: Apache-2.0
// The life of the thread; what it copies is in gpu_test.cc.
#include "hostpath/gpu_thread.h"

#include <gtest/gtest.h>

#include <dirent.h>

#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/hostpath/fake_cuda.h"

namespace
{
/* Threads of this process with the thread's name. */
int CountThreads()
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");

    for (dirent *entry; tasks && (entry = readdir(tasks));) {
        std::string name;
        std::ifstream(std::string("/proc/self/task/") + entry->d_name + "/comm") >> name;
        count += name == "detour-gpu";
    }
    closedir(tasks);
    return count;
}

/* The kernel shows a thread a moment after its start and its end. */
bool HasThreads(int count)
{
    for (int i = 0; i < 1000000 && CountThreads() != count; i++)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    return CountThreads() == count;
}

class GpuThread : public ::testing::Test
{
  protected:
    void Open(bool has_threads)
    {
        fake_cuda_reset();
        dt_gpus_open(&gpus, FAKE_CUDA_LIBRARY, pool.data(), pool.size(), has_threads);
    }

    void TearDown() override
    {
        dt_gpus_close(&gpus);
        EXPECT_TRUE(HasThreads(0));
        fake_cuda_reset();
    }

    std::vector<uint8_t> pool = std::vector<uint8_t>(4096);
    dt_gpus gpus;
};

TEST_F(GpuThread, IsOneHoweverOftenItIsStartedAndStopped)
{
    Open(true);
    EXPECT_EQ(0, CountThreads()) << "none before the first GPU buffer";
    EXPECT_TRUE(dt_gpu_thread_start(&gpus));
    EXPECT_TRUE(gpus.is_started);
    pthread_t first = gpus.thread;
    EXPECT_TRUE(dt_gpu_thread_start(&gpus));
    EXPECT_TRUE(pthread_equal(first, gpus.thread));
    EXPECT_TRUE(HasThreads(1));
    dt_gpu_thread_stop(&gpus);
    EXPECT_FALSE(gpus.is_started);
    EXPECT_TRUE(HasThreads(0));
    dt_gpu_thread_stop(&gpus);
}

TEST_F(GpuThread, IsNoneWhereThereAreNoThreads)
{
    Open(false);
    EXPECT_TRUE(dt_gpu_thread_start(&gpus));
    EXPECT_FALSE(gpus.is_started);
    EXPECT_EQ(0, CountThreads());
}
} // namespace
