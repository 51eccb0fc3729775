// SPDX-License-Identifier: Apache-2.0
#include "hostpath/delegate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/atomics.h"

namespace
{

struct Copies {
    explicit Copies(size_t count, size_t bytes) : from(count * bytes), to(count * bytes), jobs(count)
    {
        for (size_t i = 0; i < from.size(); i++)
            from[i] = static_cast<uint8_t>(i * 7 + i / 251);
        left = static_cast<uint32_t>(count) * dt_copy_job_pieces(bytes);
        held = static_cast<uint32_t>(count);
        for (size_t i = 0; i < count; i++)
            jobs[i] = {nullptr, &to[i * bytes], &from[i * bytes], bytes, 0, &left, &held};
    }
    std::vector<uint8_t> from, to;
    std::vector<dt_copy_job> jobs;
    uint32_t left, held;
};

TEST(Delegates, CopyEverythingThatIsPushed)
{
    dt_delegates delegates;
    Copies copies(500, 1000);

    ASSERT_EQ(dt_delegates_open(&delegates, 3, -1, true), DT_OK);
    std::thread other([&] {
        for (size_t i = 0; i < 250; i++)
            dt_delegates_push(&delegates, &copies.jobs[i]);
    });
    for (size_t i = 250; i < 500; i++)
        dt_delegates_push(&delegates, &copies.jobs[i]);
    other.join();
    while (dt_load_acquire(&copies.left) > 0)
        std::this_thread::yield();
    EXPECT_EQ(copies.from, copies.to);
    dt_delegates_close(&delegates);
}

TEST(Delegates, CopyBeforeTheyEnd)
{
    dt_delegates delegates;
    Copies copies(100, 10000);

    ASSERT_EQ(dt_delegates_open(&delegates, 2, 0, true), DT_OK);
    for (auto &job : copies.jobs)
        dt_delegates_push(&delegates, &job);
    dt_delegates_close(&delegates);
    EXPECT_EQ(copies.left, 0u);
    EXPECT_EQ(copies.held, 0u);
    EXPECT_EQ(copies.from, copies.to);
    dt_delegates_close(&delegates);
}

TEST(Delegates, AreHelpedByWhoWaits)
{
    static const size_t bytes = 5 * DT_COPY_PIECE_BYTES + 77;
    dt_delegates delegates;

    ASSERT_EQ(dt_delegates_open(&delegates, 1, -1, true), DT_OK);
    for (int round = 0; round < 20; round++) {
        Copies copies(3, bytes);
        for (auto &job : copies.jobs)
            dt_delegates_push(&delegates, &job);
        for (auto &job : copies.jobs)
            while (dt_copy_job_help(&job))
                continue;
        while (dt_load_acquire(&copies.left) > 0 || dt_load_acquire(&copies.held) > 0)
            std::this_thread::yield();
        ASSERT_EQ(copies.from, copies.to);
    }
    dt_delegates_close(&delegates);
}

TEST(Delegates, AJobIsDoneWithoutThemAndStaysUntilTheyHaveSeenIt)
{
    static const size_t bytes = 3 * DT_COPY_PIECE_BYTES;
    dt_delegates delegates;
    Copies copies(1, bytes);

    ASSERT_EQ(dt_delegates_open(&delegates, 1, -1, false), DT_OK);
    dt_delegates_push(&delegates, &copies.jobs[0]);
    for (uint32_t left = 3; left > 0; left--) {
        EXPECT_EQ(copies.left, left);
        EXPECT_TRUE(dt_copy_job_help(&copies.jobs[0]));
    }
    EXPECT_FALSE(dt_copy_job_help(&copies.jobs[0]));
    EXPECT_EQ(copies.left, 0u);
    EXPECT_EQ(copies.from, copies.to);
    EXPECT_EQ(copies.held, 1u);
    EXPECT_EQ(dt_delegates_run(&delegates), 1u);
    EXPECT_EQ(copies.held, 0u);
    dt_delegates_close(&delegates);
}

TEST(Delegates, WithoutThreadsWorkWhenTheyAreTold)
{
    dt_delegates delegates;
    Copies copies(5, 100);

    ASSERT_EQ(dt_delegates_open(&delegates, 2, -1, false), DT_OK);
    for (auto &job : copies.jobs)
        dt_delegates_push(&delegates, &job);
    EXPECT_EQ(copies.left, 5u);
    EXPECT_EQ(dt_delegates_run(&delegates), 5u);
    EXPECT_EQ(copies.left, 0u);
    EXPECT_EQ(copies.from, copies.to);
    EXPECT_EQ(dt_delegates_run(&delegates), 0u);
    dt_delegates_close(&delegates);
}

} // namespace
