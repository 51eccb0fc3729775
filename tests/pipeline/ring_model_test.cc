/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline/ring_model.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/pipeline/virtual_ring.h"

using pipeline_test::VirtualRing;

namespace
{
struct dt_gradients_options Options(uint64_t slices, uint64_t replicas, uint32_t slots)
{
    struct dt_gradients_options options = {};
    options.place_bytes = options.kept_bytes = DT_GRADIENTS_ELEMENT_BYTES;
    options.places = 2 * slices * replicas;
    options.slice_bytes = 2 * DT_GRADIENTS_ELEMENT_BYTES;
    options.slots = slots;
    return options;
}
} // namespace

/* The gradients' own state machine on links of that kind takes the modeled time, to the nanosecond. */
TEST(RingModel, IsTheTimeOfTheAllReduce)
{
    std::mt19937 random(1);
    auto below = [&](int64_t bound) { return static_cast<int64_t>(random() % static_cast<uint64_t>(bound)); };
    for (int i = 0; i < 400; i++) {
        auto replicas = static_cast<uint64_t>(2 + below(5));
        auto slices = static_cast<uint64_t>(1 + below(12));
        auto slots = static_cast<uint32_t>(1 + below(10));
        std::vector<struct dt_ring_link> links(replicas);
        std::vector<int64_t> ended_ns(replicas);
        for (uint64_t r = 0; r < replicas; r++) {
            links[r] = {1 + below(1000), below(3) ? below(300) : 0};
            ended_ns[r] = 1 + below(5000);
        }
        SCOPED_TRACE("case " + std::to_string(i) + ": " + std::to_string(replicas) + " replicas, " +
                     std::to_string(slices) + " slices, " + std::to_string(slots) + " slots");
        VirtualRing virtual_ring(Options(slices, replicas, slots), links);
        ASSERT_EQ(dt_gradients_transfers(virtual_ring.ends[0].get()), slices * 2 * (replicas - 1));
        struct dt_ring ring = {static_cast<int32_t>(replicas), slices, slots, links.data()};
        ASSERT_EQ(dt_ring_end_ns(&ring, ended_ns.data()), virtual_ring.Run(0, ended_ns));
    }
}

/* The formula in ring_model.h. */
TEST(RingModel, HasAClosedFormOnEqualLinks)
{
    for (int32_t replicas : {2, 3, 8}) {
        for (int64_t slices : {1, 4, 16}) {
            for (int64_t latency_ns : {0, 100, 5000}) {
                const int64_t serial_ns = 30, step_ns = std::max(slices * serial_ns, serial_ns + latency_ns);
                std::vector<struct dt_ring_link> links(static_cast<size_t>(replicas),
                                                       {latency_ns, serial_ns});
                std::vector<int64_t> ended_ns(static_cast<size_t>(replicas), 1000);
                struct dt_ring ring = {replicas, static_cast<uint64_t>(slices), 1000, links.data()};
                EXPECT_EQ(dt_ring_end_ns(&ring, ended_ns.data()),
                          1000 + step_ns * (2 * replicas - 3) + slices * serial_ns + latency_ns);
            }
        }
    }
}
