/* SPDX-License-Identifier: Apache-2.0 */
#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <vector>

#include "cli/perf/pattern.h"

namespace
{
std::vector<unsigned char> Filled(size_t bytes, uint64_t stream, uint64_t offset)
{
    std::vector<unsigned char> data(bytes + 1, 0x11);
    dt_perf_pattern_fill(data.data(), bytes, stream, offset);
    EXPECT_EQ(data[bytes], 0x11) << "wrote beyond the end";
    data.resize(bytes);
    return data;
}

TEST(PerfPattern, PiecesAreTheSameAsTheWhole)
{
    const uint64_t stream = dt_perf_stream(3, 17);
    const std::vector<unsigned char> whole = Filled(64, stream, 0);

    for (size_t offset = 0; offset < whole.size(); offset++) {
        for (size_t bytes = 0; offset + bytes <= whole.size(); bytes++) {
            const std::vector<unsigned char> part = Filled(bytes, stream, offset);
            ASSERT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + offset))
                << offset << "+" << bytes;
        }
    }
}

TEST(PerfPattern, WordsDifferBetweenOffsetsIterationsAndRanks)
{
    std::set<uint64_t> seen;
    size_t count = 0;

    for (unsigned rank = 0; rank < 4; rank++) {
        for (uint64_t iteration = 0; iteration < 50; iteration++) {
            for (uint64_t index = 0; index < 100; index++, count++)
                seen.insert(dt_perf_word(dt_perf_stream(rank, iteration), index));
        }
    }
    EXPECT_EQ(seen.size(), count);
}

TEST(PerfPattern, CountsDifferingUnitsAndReportsTheFirst)
{
    std::vector<unsigned char> expected = Filled(1003, 1, 0);
    std::vector<unsigned char> data = expected;
    size_t first = 0;

    EXPECT_EQ(dt_perf_count_differing(data.data(), expected.data(), data.size(), 4, &first), 0u);
    data[9] ^= 1;
    data[10] ^= 1;
    data[1002] ^= 0x80; // in the last, short unit
    EXPECT_EQ(dt_perf_count_differing(data.data(), expected.data(), data.size(), 4, &first), 2u);
    EXPECT_EQ(first, 9u);
}

TEST(PerfPattern, FindsEverySingleBytePoisonLost)
{
    std::vector<char> data(300);

    dt_perf_poison(data.data(), data.size());
    for (size_t at = 0; at < data.size(); at++) {
        size_t first = 0;
        data[at] ^= 1;
        EXPECT_EQ(dt_perf_count_unpoisoned(data.data(), data.size(), &first), 1u);
        EXPECT_EQ(first, at);
        data[at] ^= 1;
    }
    size_t first = 0;
    EXPECT_EQ(dt_perf_count_unpoisoned(data.data(), data.size(), &first), 0u);
    memset(data.data(), 0, data.size());
    EXPECT_EQ(dt_perf_count_unpoisoned(data.data(), data.size(), &first), data.size());
}
} // namespace
