// SPDX-License-Identifier: Apache-2.0
#include "hostpath/copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <vector>

#include "base/prng.h"

namespace
{
// A lane in virtual time: a chunk takes latency_ns plus its bytes at one byte per ns, one after the other.
struct Lane {
    dt_copy_lane lane; // first: the callbacks get it
    struct Chunk {
        uint8_t *to;
        const uint8_t *from;
        size_t bytes;
        uint32_t flags;
        uint32_t ticket;
        uint64_t due_ns;
    };
    std::deque<Chunk> in_flight;
    std::vector<Chunk> all;
    uint64_t now_ns = 1000;
    uint64_t latency_ns = 10;
    int starts_left = -1; // then starting fails; -1: never
    int polls_left = -1;  // then polling fails
    bool is_full = false; // starting returns DT_AGAIN
    uint32_t finished = 0;

    explicit Lane(uint32_t depth = 4)
    {
        static const dt_copy_lane_ops ops = {Start, Poll};

        dt_copy_lane_init(&lane, &ops, depth);
    }

    static Lane *Of(dt_copy_lane *lane)
    {
        return reinterpret_cast<Lane *>(lane);
    }

    static dt_status Start(dt_copy_lane *lane, void *to, const void *from, size_t bytes, uint32_t flags,
                           uint32_t ticket)
    {
        Lane *self = Of(lane);

        if (self->is_full)
            return DT_AGAIN;
        if (self->starts_left >= 0 && self->starts_left-- == 0) {
            self->starts_left = 0;
            return DT_SYSTEM;
        }
        uint64_t begin = self->in_flight.empty() ? self->now_ns : self->in_flight.back().due_ns;
        Chunk chunk = {
            static_cast<uint8_t *>(to),      static_cast<const uint8_t *>(from), bytes, flags, ticket,
            begin + self->latency_ns + bytes};
        self->in_flight.push_back(chunk);
        self->all.push_back(chunk);
        return DT_OK;
    }

    static dt_status Poll(dt_copy_lane *lane, uint64_t now_ns, uint32_t *ticket)
    {
        Lane *self = Of(lane);

        if (self->polls_left >= 0 && self->polls_left-- == 0)
            return DT_SYSTEM;
        while (!self->in_flight.empty() && self->in_flight.front().due_ns <= now_ns) {
            const Chunk &chunk = self->in_flight.front();

            memcpy(chunk.to, chunk.from, chunk.bytes);
            self->finished = chunk.ticket;
            self->in_flight.pop_front();
        }
        *ticket = self->finished;
        return DT_OK;
    }

    void Progress(uint64_t ns = 0)
    {
        now_ns += ns;
        dt_copy_lane_progress(&lane, now_ns);
    }

    void Drain()
    {
        for (int i = 0; i < 100000 && !dt_copy_lane_is_idle(&lane); i++)
            Progress(50);
        ASSERT_TRUE(dt_copy_lane_is_idle(&lane));
    }
};

std::vector<uint8_t> Noise(size_t bytes, uint64_t seed = 7)
{
    std::vector<uint8_t> data(bytes);

    for (size_t i = 0; i < bytes; i++)
        data[i] = static_cast<uint8_t>((i * 167 + seed * 31) ^ (i >> 8));
    return data;
}

TEST(Copy, OfNothingIsDoneAtOnce)
{
    Lane lane;
    dt_copy copy = {};

    dt_copy_start(&copy, &lane.lane, nullptr, nullptr, 0, 1, 0);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
    EXPECT_TRUE(dt_copy_lane_is_idle(&lane.lane));
    EXPECT_TRUE(lane.all.empty());
}

TEST(Copy, ArrivesWholeInAnySizeAndChunks)
{
    for (size_t bytes : {1u, 2u, 7u, 127u, 128u, 129u, 999u, 1000u, 1001u, 4096u, 10007u}) {
        for (uint32_t chunk : {1u, 128u, 1000u, 4096u, 20000u}) {
            Lane lane;
            std::vector<uint8_t> from = Noise(bytes), to(bytes + 1, 0xee);
            dt_copy copy = {};

            dt_copy_start(&copy, &lane.lane, to.data(), from.data(), bytes, chunk, 0);
            EXPECT_EQ(dt_copy_state(&copy), DT_COPY_RUNNING);
            lane.Drain();
            EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
            EXPECT_EQ(dt_copy_done_bytes(&copy), bytes);
            EXPECT_EQ(memcmp(to.data(), from.data(), bytes), 0);
            EXPECT_EQ(to[bytes], 0xee) << "nothing behind the end is touched";
            EXPECT_EQ(lane.all.size(), (bytes + chunk - 1) / chunk);
        }
    }
}

TEST(Copy, ChunksAreSeenInOrderWhileOthersAreOnTheirWay)
{
    Lane lane(2);
    std::vector<uint8_t> from = Noise(1000), to(1000);
    dt_copy copy = {};

    dt_copy_start(&copy, &lane.lane, to.data(), from.data(), 1000, 250, 0);
    lane.Progress();
    EXPECT_EQ(lane.in_flight.size(), 2u) << "as many as the lane's depth";
    EXPECT_EQ(dt_copy_done_bytes(&copy), 0u);
    lane.Progress(260); // the first has arrived: it can be sent on while the second is copied
    EXPECT_EQ(dt_copy_done_bytes(&copy), 250u);
    EXPECT_EQ(memcmp(to.data(), from.data(), 250), 0);
    EXPECT_EQ(lane.in_flight.size(), 2u) << "the third has taken its place";
    lane.Progress(259);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 250u);
    lane.Progress(1);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 500u);
    lane.Progress(520);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 1000u);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
}

TEST(Copy, LaneServesCopiesInTheOrderTheyCame)
{
    Lane lane(4);
    std::vector<uint8_t> from = Noise(900), to(900);
    dt_copy copy[3] = {};

    for (int i = 0; i < 3; i++)
        dt_copy_start(&copy[i], &lane.lane, &to[i * 300], &from[i * 300], 300, 200, 0);
    lane.Progress();
    EXPECT_EQ(lane.in_flight.size(), 4u) << "two copies share the lane";
    lane.Progress(320);
    EXPECT_EQ(dt_copy_state(&copy[0]), DT_COPY_DONE);
    EXPECT_EQ(dt_copy_state(&copy[1]), DT_COPY_RUNNING);
    lane.Drain();
    EXPECT_EQ(dt_copy_state(&copy[2]), DT_COPY_DONE);
    EXPECT_EQ(to, from);
}

TEST(Copy, WaitsWhileTheLaneTakesNothing)
{
    Lane lane;
    std::vector<uint8_t> from = Noise(100), to(100);
    dt_copy copy = {};

    lane.is_full = true;
    dt_copy_start(&copy, &lane.lane, to.data(), from.data(), 100, 100, 0);
    lane.Progress(1000);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_RUNNING);
    EXPECT_FALSE(dt_copy_lane_is_idle(&lane.lane));
    lane.is_full = false;
    lane.Drain();
    EXPECT_EQ(to, from);
}

TEST(Copy, AChunkThatCannotBeStartedFailsItsCopyAlone)
{
    Lane lane(2);
    std::vector<uint8_t> from = Noise(600), to(600);
    dt_copy copy = {}, other = {};

    lane.starts_left = 2;
    dt_copy_start(&copy, &lane.lane, to.data(), from.data(), 500, 100, 0);
    lane.Progress();
    lane.Progress(110);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILING) << "the third chunk failed, the second is on its way";
    lane.starts_left = -1;
    dt_copy_start(&other, &lane.lane, &to[500], &from[500], 100, 100, 0);
    lane.Progress(110);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILED);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 200u);
    EXPECT_EQ(memcmp(to.data(), from.data(), 200), 0);
    lane.Drain();
    EXPECT_EQ(dt_copy_state(&other), DT_COPY_DONE);
}

TEST(Copy, AnAbandonedCopyStartsNoFurtherChunk)
{
    Lane lane(2);
    std::vector<uint8_t> from = Noise(1000), to(1000), next(100);
    dt_copy copy = {}, other = {};

    dt_copy_start(&copy, &lane.lane, to.data(), from.data(), 1000, 100, 0);
    dt_copy_start(&other, &lane.lane, next.data(), from.data(), 100, 100, 0);
    lane.Progress();
    dt_copy_abandon(&copy);
    dt_copy_abandon(&copy);
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILING);
    lane.Drain();
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_FAILED);
    EXPECT_EQ(dt_copy_done_bytes(&copy), 200u);
    EXPECT_EQ(dt_copy_state(&other), DT_COPY_DONE);

    dt_copy_start(&copy, &lane.lane, to.data(), from.data(), 100, 100, 0);
    lane.Progress();
    dt_copy_abandon(&copy); // all of it is on its way
    lane.Drain();
    EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
}

TEST(Copy, ABrokenLaneFailsEverythingInItAndAllThatComes)
{
    Lane lane(4);
    std::vector<uint8_t> from = Noise(800), to(800);
    dt_copy copy[4] = {};

    dt_copy_start(&copy[0], &lane.lane, &to[0], &from[0], 200, 100, 0);
    dt_copy_start(&copy[1], &lane.lane, &to[200], &from[200], 200, 100, 0);
    dt_copy_start(&copy[2], &lane.lane, &to[400], &from[400], 200, 100, 0);
    lane.Progress();
    lane.Progress(110);
    EXPECT_EQ(dt_copy_done_bytes(&copy[0]), 100u);
    lane.polls_left = 0;
    lane.Progress(10000);
    EXPECT_EQ(dt_copy_state(&copy[0]), DT_COPY_FAILED);
    EXPECT_EQ(dt_copy_done_bytes(&copy[0]), 100u) << "what had arrived is still good";
    EXPECT_EQ(dt_copy_state(&copy[1]), DT_COPY_FAILED);
    EXPECT_EQ(dt_copy_state(&copy[2]), DT_COPY_FAILED);
    EXPECT_TRUE(dt_copy_lane_is_idle(&lane.lane));
    dt_copy_start(&copy[3], &lane.lane, &to[600], &from[600], 200, 100, 0);
    EXPECT_EQ(dt_copy_state(&copy[3]), DT_COPY_FAILED);
}

TEST(Copy, IntoPolledMemorySplitsNoLine)
{
    for (size_t shift : {0u, 8u, 64u, 120u}) {
        Lane lane;
        std::vector<uint8_t> from = Noise(5000);
        alignas(128) static uint8_t to[6000];
        dt_copy copy = {};

        lane.all.clear();
        dt_copy_start(&copy, &lane.lane, to + shift, from.data(), 5000, 1000, DT_COPY_POLLED);
        lane.Drain();
        EXPECT_EQ(memcmp(to + shift, from.data(), 5000), 0);
        for (size_t i = 0; i + 1 < lane.all.size(); i++) {
            EXPECT_EQ((reinterpret_cast<uintptr_t>(lane.all[i].to) + lane.all[i].bytes) % 128, 0u);
            EXPECT_LE(lane.all[i].bytes, 1000u);
            EXPECT_EQ(lane.all[i].flags, static_cast<uint32_t>(DT_COPY_POLLED));
        }
    }
}

TEST(Copy, TicketsWrap)
{
    Lane lane(4);
    std::vector<uint8_t> from = Noise(1000), to(1000);

    lane.lane.started = lane.lane.finished = lane.finished = UINT32_MAX - 3;
    for (int round = 0; round < 3; round++) {
        dt_copy copy = {};

        memset(to.data(), 0, to.size());
        dt_copy_start(&copy, &lane.lane, to.data(), from.data(), 1000, 100, 0);
        lane.Drain();
        EXPECT_EQ(dt_copy_state(&copy), DT_COPY_DONE);
        EXPECT_EQ(to, from);
    }
}

// Random work, compared with what it should have come to.
TEST(Copy, RandomWalk)
{
    for (uint64_t seed = 1; seed <= 300; seed++) {
        dt_prng prng;
        dt_prng_init(&prng, seed);
        Lane lane(1 + static_cast<uint32_t>(dt_prng_below(&prng, DT_COPY_DEPTH_MAX)));
        std::vector<uint8_t> from = Noise(40000, seed), to(40000);
        std::vector<dt_copy> copies(20);
        std::vector<size_t> at(20), bytes(20);
        size_t next = 0;

        for (size_t i = 0; i < copies.size(); i++) {
            copies[i] = {};
            at[i] = next;
            bytes[i] = dt_prng_below(&prng, 2001);
            next += bytes[i];
        }
        if (dt_prng_below(&prng, 4) == 0)
            lane.polls_left = static_cast<int>(dt_prng_below(&prng, 60));
        if (dt_prng_below(&prng, 4) == 0)
            lane.starts_left = static_cast<int>(dt_prng_below(&prng, 60));
        for (size_t i = 0; i < copies.size(); i++) {
            dt_copy_start(&copies[i], &lane.lane, &to[at[i]], &from[at[i]], bytes[i],
                          1 + static_cast<uint32_t>(dt_prng_below(&prng, 500)), 0);
            lane.Progress(dt_prng_below(&prng, 1000));
        }
        lane.Drain();
        for (size_t i = 0; i < copies.size(); i++) {
            uint64_t done = dt_copy_done_bytes(&copies[i]);

            ASSERT_TRUE(dt_copy_is_finished(&copies[i])) << "seed " << seed;
            ASSERT_EQ(copies[i].in_flight, 0u);
            if (dt_copy_state(&copies[i]) == DT_COPY_DONE)
                ASSERT_EQ(done, bytes[i]) << "seed " << seed;
            else
                ASSERT_LT(done, bytes[i]) << "seed " << seed;
            ASSERT_EQ(memcmp(&to[at[i]], &from[at[i]], done), 0) << "seed " << seed;
        }
    }
}
} // namespace
