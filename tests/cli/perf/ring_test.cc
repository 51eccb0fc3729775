/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/ring.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "tests/harness/harness.h"

namespace
{
/* One rank's ring; 3 devices. */
struct Ring {
    struct dt_job_net net = {};
    struct dt_perf_ring ring = {};

    Ring(unsigned rank, unsigned ranks, unsigned channels, unsigned distances)
    {
        net.rank = rank;
        net.ranks = ranks;
        net.plugin.device_count = 3;
        EXPECT_TRUE(dt_perf_ring_init(&ring, &net, channels, distances, 4096));
    }

    ~Ring()
    {
        dt_perf_ring_free(&ring);
    }
};

/* (from, to, channel) of each connection that a rank sends or receives over. */
std::multiset<std::tuple<unsigned, unsigned, unsigned>> Edges(unsigned ranks, unsigned channels,
                                                              unsigned distances, bool sends)
{
    std::multiset<std::tuple<unsigned, unsigned, unsigned>> edges;
    for (unsigned rank = 0; rank < ranks; rank++) {
        Ring r(rank, ranks, channels, distances);
        for (size_t i = 0; i < dt_perf_ring_count(&r.ring); i++) {
            const struct dt_job_connection &c = r.ring.connections[i];
            if (c.sends == sends)
                edges.insert(sends ? std::make_tuple(rank, c.peer, c.channel)
                                   : std::make_tuple(c.peer, rank, c.channel));
        }
    }
    return edges;
}

/* Also with distances beyond the number of ranks, which lead to the same peers again. */
TEST(PerfRing, EveryConnectionHasItsCounterpart)
{
    for (unsigned ranks : {1u, 2u, 5u}) {
        for (unsigned distances : {1u, 2u, 4u, 7u}) {
            auto sending = Edges(ranks, 3, distances, true);
            EXPECT_EQ(sending, Edges(ranks, 3, distances, false));
            for (const auto &edge : sending)
                EXPECT_EQ(sending.count(edge), 1u) << "two connections would share their handles";
        }
    }
}

TEST(PerfRing, ChannelsTakeTheDevicesInTurn)
{
    Ring r(1, 4, 5, 2);
    for (unsigned channel = 0; channel < 5; channel++) {
        for (unsigned distance = 1; distance <= 2; distance++) {
            const struct dt_job_connection *to = dt_perf_ring_sending(&r.ring, channel, distance);
            const struct dt_job_connection *from = dt_perf_ring_receiving(&r.ring, channel, distance);
            EXPECT_TRUE(to->sends);
            EXPECT_FALSE(from->sends);
            EXPECT_EQ(to->peer, (1 + distance) % 4);
            EXPECT_EQ(from->peer, (1 + 4 - distance) % 4);
            EXPECT_EQ(to->dev, static_cast<int>(channel % 3));
            EXPECT_EQ(from->dev, to->dev);
            EXPECT_EQ(dt_perf_ring_channel(&r.ring, to), channel);
            EXPECT_EQ(dt_perf_ring_channel(&r.ring, from), channel);
            EXPECT_EQ(to->buffer_bytes, 4096u);
        }
    }
}

TEST(PerfRing, ShortMemoryIsReported)
{
    struct dt_job_net net = {};
    struct dt_perf_ring ring;
    net.ranks = 2;
    net.plugin.device_count = 1;
    detour_test_fail_alloc(0);
    EXPECT_FALSE(dt_perf_ring_init(&ring, &net, 1, 1, 4096));
}
} // namespace
