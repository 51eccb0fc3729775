/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/busy.h"

#include <gtest/gtest.h>

#include <sys/syscall.h>
#include <unistd.h>

#include <map>

namespace
{
int32_t Tid()
{
    return static_cast<int32_t>(syscall(SYS_gettid)); // gettid() is younger than glibc 2.28
}

class Busy : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        busy.read_arg = this;
        busy.read = [](void *arg, int32_t tid, dt_processor_times *read) {
            auto *test = static_cast<Busy *>(arg);
            test->readings++;
            auto found = test->times.find(tid);
            if (found != test->times.end())
                *read = found->second;
            return found != test->times.end();
        };
    }

    dt_busy busy = {};
    std::map<int32_t, dt_processor_times> times;
    int readings = 0;
};

TEST_F(Busy, AThreadIsReadOncePerInterval)
{
    times[7] = {1000000000, 0};
    const dt_processor_thread *thread = dt_busy_sums(&busy, 7, 1000000000);
    ASSERT_NE(nullptr, thread);
    times[7] = {1500000000, 500000000};
    EXPECT_EQ(thread, dt_busy_sums(&busy, 7, 2000000000));
    EXPECT_EQ(thread, dt_busy_sums(&busy, 7, 2000000000 + DT_BUSY_EVERY_NS - 1));
    EXPECT_EQ(2, readings);
    EXPECT_DOUBLE_EQ(0.5, thread->wait_s);
    EXPECT_DOUBLE_EQ(1, thread->window_s);
    times.erase(7);
    dt_busy_sums(&busy, 7, 3000000000);
    EXPECT_DOUBLE_EQ(0, thread->window_s) << "it has ended";
    EXPECT_EQ(nullptr, dt_busy_sums(&busy, 0, 4000000000)) << "no thread";
    busy.read = nullptr;
    EXPECT_EQ(nullptr, dt_busy_sums(&busy, 7, 4000000000)) << "nothing is known";
}

TEST_F(Busy, MoreThreadsThanRoomAreNotKnown)
{
    const uint64_t first_ns = DT_NS_PER_S, later_ns = first_ns + DT_BUSY_FORGET_NS;
    for (int32_t tid = 1; tid <= static_cast<int32_t>(DT_BUSY_THREADS); tid++)
        ASSERT_NE(nullptr, dt_busy_sums(&busy, tid, first_ns)) << tid;
    EXPECT_EQ(nullptr, dt_busy_sums(&busy, 99, first_ns));
    dt_busy_sums(&busy, 1, later_ns - 1);
    EXPECT_EQ(nullptr, dt_busy_sums(&busy, 99, later_ns - 1)) << "the others were asked for a short time ago";
    EXPECT_NE(nullptr, dt_busy_sums(&busy, 99, later_ns)) << "in the place of one that was not asked for";
    EXPECT_EQ(1, busy.threads[0].tid);
}

/* How much it says depends on the machine; that it grows does not. */
TEST(BusySchedstat, IsReadForThreadsOfThisProcess)
{
    dt_processor_times first = {}, later = {};
    if (!dt_busy_read_schedstat(nullptr, Tid(), &first))
        GTEST_SKIP() << "this kernel does not count";
    while (later.run_ns <= first.run_ns)
        ASSERT_TRUE(dt_busy_read_schedstat(nullptr, Tid(), &later));
    EXPECT_GE(later.wait_ns, first.wait_ns);
    EXPECT_FALSE(dt_busy_read_schedstat(nullptr, 1 << 30, &later)) << "no such thread";
}
} // namespace
