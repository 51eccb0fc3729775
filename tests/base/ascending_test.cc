/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ascending.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>
#include <vector>

#include "base/atomics.h"

namespace
{
TEST(Ascending, CopiesEveryLengthFromAndToEveryAlignment)
{
    uint8_t from[160], to[160], expected[160];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = static_cast<uint8_t>(i * 7 + 1);
    for (size_t source = 0; source < 8; source++) {
        for (size_t target = 0; target < 8; target++) {
            for (size_t bytes = 0; bytes <= 130; bytes++) {
                memset(to, 0xee, sizeof to);
                memset(expected, 0xee, sizeof expected);
                memcpy(expected + 8 + target, from + source, bytes);
                dt_copy_ascending(to + 8 + target, from + source, bytes);
                ASSERT_EQ(0, memcmp(expected, to, sizeof to)) << source << " " << target << " " << bytes;
            }
        }
    }
}

// A reader of the last word of each line of 64 bytes finds the rest of that line.
TEST(Ascending, TheLastWordOfALineIsStoredAfterTheOthers)
{
    constexpr size_t kLines = 64, kWords = 8;
    alignas(64) static uint64_t shared[kLines][kWords];
    std::vector<uint64_t> from(kLines * kWords);
    uint64_t rounds = 2000;

    std::thread writer([&] {
        for (uint64_t round = 1; round <= rounds; round++) {
            std::fill(from.begin(), from.end(), round);
            dt_copy_ascending(shared, from.data(), sizeof shared);
        }
    });
    for (uint64_t seen = 0; seen < rounds;) {
        for (auto &line : shared) {
            seen = dt_load_acquire(&line[kWords - 1]);
            for (size_t word = 0; word < kWords - 1; word++)
                ASSERT_LE(seen, dt_load_relaxed(&line[word]));
        }
    }
    writer.join();
}
} // namespace
