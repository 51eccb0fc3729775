/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/atomic_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace
{
TEST(AtomicCopy, CopiesWholeWordsOnly)
{
    uint64_t from[5] = {1, 2, 3, 4, 5}, shared[5] = {}, to[5] = {};
    dt_atomic_copy_store(shared, from, 4 * sizeof from[0]);
    EXPECT_EQ(0, memcmp(shared, from, 4 * sizeof from[0]));
    EXPECT_EQ(0u, shared[4]);
    shared[4] = 9;
    dt_atomic_copy_load(to, shared, 3 * sizeof from[0]);
    EXPECT_EQ(0, memcmp(to, from, 3 * sizeof from[0]));
    EXPECT_EQ(0u, to[3]);
}

// The protocol of the header: a copy between two looks at the same mark is whole.
TEST(AtomicCopy, BetweenTwoEqualMarksACopyIsWhole)
{
    constexpr uint64_t kRounds = 20000;
    constexpr size_t kWords = 16;
    uint64_t mark = 0, shared[kWords] = {}, whole = 0;
    std::thread writer([&] {
        for (uint64_t round = 1; round <= kRounds; round++) {
            uint64_t words[kWords];
            std::fill(words, words + kWords, round);
            dt_store_relaxed(&mark, 0);
            dt_atomic_copy_store(shared, words, sizeof words);
            dt_store_release(&mark, round);
        }
    });
    for (uint64_t seen = 0; seen < kRounds;) {
        uint64_t words[kWords];
        seen = dt_load_acquire(&mark);
        dt_atomic_copy_load(words, shared, sizeof words);
        if (seen == 0 || dt_load_relaxed(&mark) != seen)
            continue;
        whole++;
        for (uint64_t word : words)
            ASSERT_EQ(seen, word);
    }
    writer.join();
    EXPECT_GE(whole, 1u);
}
} // namespace
