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
    explicit Copies(size_t count, size_t bytes, uint32_t jobs = 1)
        : from(count * bytes), to(count * bytes), copy(count)
    {
        for (size_t i = 0; i < from.size(); i++)
            from[i] = static_cast<uint8_t>(i * 7 + i / 251);
        left = static_cast<uint32_t>(count) * dt_copy_pieces(bytes, DT_COPY_PIECE_BYTES);
        held = static_cast<uint32_t>(count) * jobs;
        for (size_t i = 0; i < count; i++)
            copy[i] = {&to[i * bytes],
                       &from[i * bytes],
                       bytes,
                       DT_COPY_PIECE_BYTES,
                       jobs,
                       &left,
                       &held,
                       false,
                       0,
                       0,
                       {}};
    }
    std::vector<uint8_t> from, to;
    std::vector<dt_host_copy> copy;
    uint32_t left, held;
};

TEST(Delegates, CopyEverythingThatIsPushed)
{
    dt_delegates delegates;
    Copies copies(500, 1000);

    ASSERT_EQ(dt_delegates_open(&delegates, 3, -1, true), DT_OK);
    std::thread other([&] {
        for (size_t i = 0; i < 250; i++)
            dt_delegates_push(&delegates, &copies.copy[i]);
    });
    for (size_t i = 250; i < 500; i++)
        dt_delegates_push(&delegates, &copies.copy[i]);
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
    for (auto &copy : copies.copy)
        dt_delegates_push(&delegates, &copy);
    dt_delegates_close(&delegates);
    EXPECT_EQ(copies.left, 0u);
    EXPECT_EQ(copies.held, 0u);
    EXPECT_EQ(copies.from, copies.to);
    dt_delegates_close(&delegates);
}

TEST(Delegates, AreHelpedByTheWaitingThread)
{
    static const size_t bytes = 5 * DT_COPY_PIECE_BYTES + 77;
    dt_delegates delegates;

    ASSERT_EQ(dt_delegates_open(&delegates, 1, -1, true), DT_OK);
    for (int round = 0; round < 20; round++) {
        Copies copies(3, bytes);
        for (auto &copy : copies.copy)
            dt_delegates_push(&delegates, &copy);
        for (auto &copy : copies.copy)
            while (dt_host_copy_help(&copy))
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
    dt_delegates_push(&delegates, &copies.copy[0]);
    for (uint32_t left = 3; left > 0; left--) {
        EXPECT_EQ(copies.left, left);
        EXPECT_TRUE(dt_host_copy_help(&copies.copy[0]));
    }
    EXPECT_FALSE(dt_host_copy_help(&copies.copy[0]));
    EXPECT_EQ(copies.left, 0u);
    EXPECT_EQ(copies.from, copies.to);
    EXPECT_EQ(copies.held, 1u);
    EXPECT_EQ(dt_delegates_run(&delegates), 1u);
    EXPECT_EQ(copies.held, 0u);
    dt_delegates_close(&delegates);
}

// The bytes before the reported progress of a copy are compared while several threads copy, and the caller
// helps.
TEST(Delegates, ReportTheContiguousBytesFromTheStart)
{
    static const size_t bytes = 40 * DT_COPY_PIECE_BYTES + 77;
    dt_delegates delegates;

    ASSERT_EQ(dt_delegates_open(&delegates, 3, -1, true), DT_OK);
    for (int round = 0; round < 20; round++) {
        Copies copies(1, bytes, 3);
        dt_host_copy *copy = &copies.copy[0];
        size_t seen = 0;

        dt_delegates_push(&delegates, copy);
        while (seen < bytes) {
            size_t done = dt_host_copy_done_bytes(copy);

            ASSERT_GE(done, seen);
            ASSERT_LE(done, bytes);
            ASSERT_EQ(memcmp(&copies.to[seen], &copies.from[seen], done - seen), 0);
            if (done == seen && round % 2)
                dt_host_copy_help(copy);
            seen = done;
        }
        while (dt_load_acquire(&copies.held) > 0)
            std::this_thread::yield();
        EXPECT_EQ(copies.left, 0u);
    }
    dt_delegates_close(&delegates);
}

TEST(Delegates, APieceInFlightEndsTheContiguousBytes)
{
    static const size_t piece = DT_COPY_PIECE_BYTES;
    dt_delegates delegates;
    Copies copies(1, 4 * piece, 2);
    dt_host_copy *copy = &copies.copy[0];

    ASSERT_EQ(dt_delegates_open(&delegates, 1, -1, false), DT_OK);
    dt_delegates_push(&delegates, copy);
    EXPECT_EQ(dt_host_copy_done_bytes(copy), 0u);
    EXPECT_TRUE(dt_host_copy_help(copy));
    EXPECT_EQ(dt_host_copy_done_bytes(copy), piece);
    copy->job[1].from_bytes = copy->claimed_bytes; // another has claimed the second piece, and stands still
    copy->claimed_bytes += piece;
    EXPECT_TRUE(dt_host_copy_help(copy));
    EXPECT_EQ(dt_host_copy_done_bytes(copy), piece);
    memcpy(&copies.to[piece], &copies.from[piece], piece);
    copies.left--;
    EXPECT_EQ(dt_delegates_run(&delegates), 2u);
    EXPECT_EQ(dt_host_copy_done_bytes(copy), 4 * piece);
    EXPECT_EQ(copies.left, 0u);
    EXPECT_EQ(copies.from, copies.to);
    dt_delegates_close(&delegates);
}

TEST(Delegates, WithoutThreadsWorkWhenTheyAreCalled)
{
    dt_delegates delegates;
    Copies copies(5, 100);

    ASSERT_EQ(dt_delegates_open(&delegates, 2, -1, false), DT_OK);
    for (auto &copy : copies.copy)
        dt_delegates_push(&delegates, &copy);
    EXPECT_EQ(copies.left, 5u);
    EXPECT_EQ(dt_delegates_run(&delegates), 5u);
    EXPECT_EQ(copies.left, 0u);
    EXPECT_EQ(copies.from, copies.to);
    EXPECT_EQ(dt_delegates_run(&delegates), 0u);
    dt_delegates_close(&delegates);
}

} // namespace
