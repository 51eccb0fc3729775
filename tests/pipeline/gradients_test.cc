/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/gradients.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <set>
#include <string>

#include "tests/pipeline/virtual_ring.h"

using pipeline_test::VirtualRing;

namespace
{
/* Whole places of one element. */
struct dt_gradients_options Dense(uint64_t bytes, uint64_t slice_bytes, uint32_t slots)
{
    struct dt_gradients_options options = {};
    options.places = bytes / DT_GRADIENTS_ELEMENT_BYTES;
    options.place_bytes = options.kept_bytes = DT_GRADIENTS_ELEMENT_BYTES;
    options.slice_bytes = slice_bytes;
    options.slots = slots;
    return options;
}

void ExpectSums(const VirtualRing &ring)
{
    for (const auto &end : ring.ends) {
        uint64_t wrong = UINT64_MAX;
        EXPECT_TRUE(dt_gradients_check(end.get(), &wrong)) << "at byte " << wrong;
    }
}
} // namespace

TEST(Gradients, EveryElementIsTheSumOfAllReplicas)
{
    for (size_t replicas : {2, 3, 4, 7, 64}) {
        for (uint64_t bytes : {uint64_t{512}, uint64_t{520}, uint64_t{4096}, uint64_t{20000}}) {
            for (uint64_t slice_bytes : {uint64_t{16}, uint64_t{1000}, uint64_t{1} << 20}) {
                SCOPED_TRACE(std::to_string(replicas) + " " + std::to_string(bytes) + " " +
                             std::to_string(slice_bytes));
                if (bytes / replicas / slice_bytes > 100)
                    continue; /* many tiny slices add nothing but time */
                VirtualRing ring(Dense(bytes, slice_bytes, 8),
                                 std::vector<struct dt_ring_link>(replicas, {50, 10}));
                for (uint32_t iteration = 0; iteration < 2; iteration++) {
                    ring.Run(iteration, std::vector<int64_t>(replicas, 100));
                    ExpectSums(ring);
                }
            }
        }
    }
}

/* What the replicas have summed up with these numbers of microbatches. */
static std::vector<uint64_t> Sums(const std::vector<int32_t> &counts, uint32_t iteration)
{
    constexpr uint64_t kBytes = 2048;
    VirtualRing ring(Dense(kBytes, 256, 8), std::vector<struct dt_ring_link>(counts.size(), {50, 10}));
    int32_t total = std::accumulate(counts.begin(), counts.end(), 0), first = 0;
    for (int32_t count : counts) {
        ring.shares.push_back({first, count, total});
        first += count;
    }
    ring.Run(iteration, std::vector<int64_t>(counts.size(), 100));
    ExpectSums(ring);
    struct dt_executor_order all = {};
    all.bytes = kBytes;
    std::vector<uint64_t> sums(kBytes / sizeof(uint64_t));
    dt_gradients_pack(ring.ends.back().get(), &all, sums.data());
    return sums;
}

/* However the microbatches are distributed, over however many replicas: the sum is that of the batch. */
TEST(Gradients, TheSumDoesNotDependOnTheDistribution)
{
    const std::vector<uint64_t> even = Sums({8, 8, 8}, 3);
    EXPECT_EQ(Sums({1, 22, 1}, 3), even);
    EXPECT_EQ(Sums({12, 5, 7}, 3), even);
    EXPECT_EQ(Sums({12, 12}, 3), even);
    EXPECT_EQ(Sums({6, 6, 6, 6}, 3), even);
    EXPECT_NE(Sums({8, 8, 8}, 4), even);
    EXPECT_NE(Sums({8, 8, 9}, 3), even) << "another batch";
}

/* Microbatches that two replicas count, or none, are noticed by both. */
TEST(Gradients, FindsAMicrobatchThatIsCountedTwiceOrNotAtAll)
{
    for (struct dt_pipeline_share second : {dt_pipeline_share{3, 5, 8}, {5, 3, 8}, {0, 4, 8}, {4, 5, 8}}) {
        VirtualRing ring(Dense(1024, 512, 8), std::vector<struct dt_ring_link>(2, {50, 10}));
        ring.shares = {{0, 4, 8}, second};
        ring.Run(0, {1, 1});
        for (const auto &end : ring.ends) {
            uint64_t wrong = UINT64_MAX;
            EXPECT_FALSE(dt_gradients_check(end.get(), &wrong)) << second.first << " " << second.count;
            EXPECT_EQ(wrong, 0u);
        }
    }
}

/* Nothing is sent before the device has ended; devices that end at other times change nothing but the time.
 */
TEST(Gradients, WaitsForTheEndOfEachPipeline)
{
    VirtualRing ring(Dense(4096, 512, 2), std::vector<struct dt_ring_link>(3, {50, 10}));
    EXPECT_GT(ring.Run(0, {5, 1000, 20}), 1000);
    ExpectSums(ring);
}

TEST(Gradients, HasNoMoreInFlightThanSlots)
{
    VirtualRing ring(Dense(65536, 512, 3), std::vector<struct dt_ring_link>(2, {5000, 10}));
    ring.Run(0, {1, 1});
    ExpectSums(ring);
    EXPECT_EQ(ring.in_flight_max, 3u);
}

/* Whichever transfer is wrong, each replica that depends on it notices. */
TEST(Gradients, FindsAWrongElement)
{
    uint64_t count = 3 * 2 * 2 * 2; /* replicas, steps of both rounds, slices */
    for (uint64_t spoiled = 0; spoiled < count; spoiled++) {
        VirtualRing ring(Dense(3 * 1024, 512, 8), std::vector<struct dt_ring_link>(3, {50, 10}));
        ASSERT_EQ(dt_gradients_transfers(ring.ends[0].get()), count / 3);
        ring.spoiled = spoiled;
        ring.Run(0, {1, 1, 1});
        unsigned found = 0;
        for (const auto &end : ring.ends) {
            uint64_t wrong = UINT64_MAX;
            found += !dt_gradients_check(end.get(), &wrong);
            EXPECT_EQ(wrong == UINT64_MAX || (wrong < 3 * 1024 && wrong % 8 == 0), true);
        }
        EXPECT_GT(found, 0u) << "transfer " << spoiled;
    }
}

/* The first send of an iteration, as it leaves. */
static std::vector<char> FirstSend(struct dt_gradients_options options, uint32_t iteration)
{
    options.replicas = 2;
    options.first_flow = 7;
    pipeline_test::Gradients gradients(dt_gradients_create(&options));
    struct dt_executor_order order = {};
    dt_gradients_begin(gradients.get(), iteration, {options.replica * 4, 4, 8});
    while (order.flow != 7 && dt_gradients_next(gradients.get(), true, &order))
        continue;
    std::vector<char> data(order.bytes, 'x');
    dt_gradients_pack(gradients.get(), &order, data.data());
    return data;
}

/* Samples: only the beginning of each place is read and written. */
TEST(Gradients, LeavesTheRestOfAPlaceAlone)
{
    struct dt_gradients_options options = {};
    options.places = 12;
    options.place_bytes = 256;
    options.kept_bytes = 64;
    options.slice_bytes = 1024;
    options.slots = 8;
    VirtualRing ring(options, std::vector<struct dt_ring_link>(2, {50, 10}));
    ring.Run(0, {1, 1});
    ExpectSums(ring);

    std::vector<char> data = FirstSend(options, 0);
    ASSERT_EQ(data.size(), 768u);
    for (size_t i = 0; i < data.size(); i++)
        ASSERT_TRUE(i % 256 < 64 || data[i] == 'x') << i;
}

/* Content of another iteration, device, replica or place is other content. */
TEST(Gradients, ContentFollowsFromItsIdentity)
{
    std::set<uint64_t> words;
    for (int32_t device = 0; device < 2; device++) {
        for (int32_t replica = 0; replica < 2; replica++) {
            for (uint32_t iteration = 0; iteration < 2; iteration++) {
                struct dt_gradients_options options = Dense(512, 4096, 8);
                options.device = device;
                options.replica = replica;
                std::vector<char> data = FirstSend(options, iteration);
                std::vector<uint64_t> read(data.size() / sizeof(uint64_t));
                memcpy(read.data(), data.data(), data.size());
                words.insert(read.begin(), read.end());
            }
        }
    }
    EXPECT_EQ(words.size(), 2u * 2 * 2 * 32);
}

TEST(Gradients, SaysWhereItIs)
{
    char text[DT_EXECUTOR_TEXT_BYTES];
    VirtualRing ring(Dense(4096, 512, 8), std::vector<struct dt_ring_link>(2, {50, 10}));
    dt_gradients_begin(ring.ends[0].get(), 0, {0, 4, 8});
    EXPECT_STREQ(dt_gradients_text(ring.ends[0].get(), text),
                 "the gradients: receive of slice 0 of chunk 1, step 0");
}
