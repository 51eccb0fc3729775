// SPDX-License-Identifier: Apache-2.0
// The ring of the `local` wire alone, both ends in one thread: what goes in comes out, room is never given
// away twice, and whatever the other end writes into the shared memory, nothing outside it is touched.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "base/prng.h"
#include "softrnic/local_copy.h"
#include "softrnic/local_ring.h"

namespace
{
class LocalRing : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        // A page that faults on either side of the memory.
        bytes_ = sizeof(dt_local_shared) + 2 * kPage;
        area_ = static_cast<char *>(mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ASSERT_EQ(mprotect(area_ + kPage, sizeof(dt_local_shared), PROT_READ | PROT_WRITE), 0);
        shared_ = reinterpret_cast<dt_local_shared *>(area_ + kPage);
        dt_local_ring_init(&producer_, shared_, true);
        dt_local_ring_init(&consumer_, shared_, false);
        dt_prng_init(&prng_, kSeed);
    }
    void TearDown() override
    {
        munmap(area_, bytes_);
    }

    dt_packet MakePacket(uint32_t number, const std::vector<uint8_t> &payload)
    {
        dt_packet packet = {};

        packet.psn = number;
        packet.psn_count = number + 1;
        packet.op = DT_PACKET_WRITE;
        packet.flags = DT_PACKET_FIRST;
        packet.imm = ~number;
        packet.remote_addr = number * 3ull;
        packet.payload_bytes = payload.size();
        size_t at = 0;
        // In up to four pieces.
        while (at < payload.size()) {
            size_t piece =
                packet.iov_count == 3 ? payload.size() - at : dt_prng_between(&prng_, 1, payload.size() - at);
            packet.iov[packet.iov_count++] = {const_cast<uint8_t *>(payload.data()) + at, piece};
            at += piece;
        }
        return packet;
    }

    static constexpr size_t kPage = 4096;
    static constexpr uint64_t kSeed = 4711;
    size_t bytes_;
    char *area_;
    dt_local_shared *shared_;
    dt_local_ring producer_, consumer_;
    dt_prng prng_;
};

TEST_F(LocalRing, RecordsComeOutAsTheyWentIn)
{
    std::deque<std::pair<dt_packet, std::vector<uint8_t>>> inside;
    uint32_t number = 0, taken = 0, refused = 0, remote = 0;
    printf("seed %llu\n", static_cast<unsigned long long>(kSeed));

    shared_->can_fetch = 1;
    for (int step = 0; step < 200000; step++) {
        if (dt_prng_chance(&prng_, 1, 2)) {
            static const uint64_t limits[] = {0, 8, 300, 20000, 600000};
            std::vector<uint8_t> payload(
                dt_prng_below(&prng_, limits[dt_prng_below(&prng_, step % 50 ? 3 : 5)] + 1));
            for (size_t i = 0; i < payload.size(); i += 97)
                payload[i] = static_cast<uint8_t>(number + i);
            inside.emplace_back(dt_packet{}, std::move(payload));
            inside.back().first = MakePacket(number, inside.back().second);
            bool has_room = dt_local_ring_has_room(&producer_);
            bool must_copy = dt_prng_chance(&prng_, 1, 3);
            bool done = dt_local_ring_push(&producer_, &inside.back().first, must_copy);
            bool is_promised =
                has_room && !must_copy && inside.back().second.size() <= DT_LOCAL_SEGMENT_BYTES_MAX;
            ASSERT_TRUE(done || !is_promised) << "there was room";
            refused += !done;
            if (!done)
                inside.pop_back();
            else
                number++;
        } else {
            dt_packet packet;
            dt_local_payload payload;
            bool any = dt_local_ring_peek(&consumer_, &packet, &payload);
            ASSERT_EQ(any, !inside.empty());
            if (!any)
                continue;
            const auto &[wanted, bytes] = inside.front();
            ASSERT_EQ(packet.psn, wanted.psn);
            ASSERT_EQ(packet.psn_count, wanted.psn_count);
            ASSERT_EQ(packet.imm, wanted.imm);
            ASSERT_EQ(packet.remote_addr, wanted.remote_addr);
            ASSERT_EQ(payload.bytes, bytes.size());
            std::vector<uint8_t> landed(bytes.size());
            if (payload.kind == DT_LOCAL_REMOTE) {
                ASSERT_EQ(dt_fetch(getpid(), payload.iov, payload.iov_count, 0, landed.data(), landed.size()),
                          0);
            } else if (!bytes.empty()) {
                dt_copy_ascending(landed.data(), payload.data, landed.size());
            }
            remote += payload.kind == DT_LOCAL_REMOTE;
            ASSERT_EQ(landed, bytes);
            dt_local_ring_pop(&consumer_);
            inside.pop_front();
            taken++;
        }
    }
    EXPECT_GT(taken, 50000u);
    EXPECT_GT(refused, 10u);
    EXPECT_GT(remote, 10u);
    EXPECT_FALSE(producer_.is_broken || consumer_.is_broken);
}

// A full ring refuses, and reports it in advance; the sleepers' questions see the room that a pop makes.
TEST_F(LocalRing, FullIsFull)
{
    std::vector<uint8_t> payload(100);
    dt_packet packet = MakePacket(1, payload), out;
    dt_local_payload got;
    uint32_t count = 0;

    shared_->can_fetch = 1;
    while (dt_local_ring_has_room(&producer_)) {
        ASSERT_TRUE(dt_local_ring_push(&producer_, &packet, false));
        count++;
    }
    EXPECT_GT(count, 1000u);
    shared_->producer_sleeps = 1;
    EXPECT_FALSE(dt_local_ring_has_more_room(&producer_));
    for (int i = 0; i < 10; i++) {
        ASSERT_TRUE(dt_local_ring_peek(&consumer_, &out, &got));
        dt_local_ring_pop(&consumer_);
    }
    EXPECT_TRUE(dt_local_ring_is_waited_for(&consumer_));
    EXPECT_FALSE(dt_local_ring_is_waited_for(&consumer_)) << "once";
    EXPECT_TRUE(dt_local_ring_has_more_room(&producer_));
    // Without permission to look, large payload needs the bounce area, which has an end too.
    shared_->can_fetch = 0;
    std::vector<uint8_t> large(DT_LOCAL_SEGMENT_BYTES_MAX);
    packet = MakePacket(2, large);
    count = 0;
    while (dt_local_ring_has_room(&producer_)) {
        ASSERT_TRUE(dt_local_ring_push(&producer_, &packet, false));
        count++;
    }
    EXPECT_EQ(count, DT_LOCAL_BOUNCE_BYTES / DT_LOCAL_SEGMENT_BYTES_MAX);
    while (dt_local_ring_peek(&consumer_, &out, &got))
        dt_local_ring_pop(&consumer_);
    EXPECT_TRUE(dt_local_ring_has_room(&producer_));
}

// Payload that stays at the sender takes a record of two units, so that 1 GiB of it would fit;
// acknowledgements of the other direction, which queue behind it, could then not arrive in time.
TEST_F(LocalRing, WaitingPayloadIsBounded)
{
    std::vector<uint8_t> payload(DT_LOCAL_SEGMENT_BYTES_MAX);
    dt_packet packet = MakePacket(1, payload), out;
    dt_local_payload got;
    uint64_t waiting_bytes = 0;

    shared_->can_fetch = 1;
    for (int round = 0; round < 3; round++) {
        while (dt_local_ring_has_room(&producer_)) {
            ASSERT_TRUE(dt_local_ring_push(&producer_, &packet, false));
            waiting_bytes += payload.size();
        }
        EXPECT_EQ(waiting_bytes, DT_LOCAL_WAITING_BYTES_MAX);
        // The room of one segment is given back with it, and seen.
        ASSERT_TRUE(dt_local_ring_peek(&consumer_, &out, &got));
        EXPECT_EQ(got.kind, DT_LOCAL_REMOTE);
        dt_local_ring_pop(&consumer_);
        waiting_bytes -= payload.size();
        EXPECT_TRUE(dt_local_ring_has_more_room(&producer_));
    }
    // A consumer that claims more than there was breaks the ring.
    while (dt_local_ring_has_room(&producer_))
        ASSERT_TRUE(dt_local_ring_push(&producer_, &packet, false));
    shared_->payload_tail += DT_LOCAL_WAITING_BYTES_MAX + 1;
    EXPECT_FALSE(dt_local_ring_has_room(&producer_));
    EXPECT_TRUE(producer_.is_broken);
}

// Garbage in units, counters and bounce places: the consumer takes packets or gives up; it never reads
// outside (the guard pages would kill the test, and the sanitizers watch).
TEST_F(LocalRing, GarbageIsRefused)
{
    uint32_t broken = 0, delivered = 0;

    printf("seed %llu\n", static_cast<unsigned long long>(kSeed));
    for (int round = 0; round < 3000; round++) {
        dt_packet packet;
        dt_local_payload payload;
        std::vector<uint8_t> bytes(dt_prng_below(&prng_, 1000));

        memset(static_cast<void *>(shared_), 0, offsetof(dt_local_shared, units));
        dt_local_ring_init(&producer_, shared_, true);
        dt_local_ring_init(&consumer_, shared_, false);
        shared_->can_fetch = static_cast<uint32_t>(dt_prng_below(&prng_, 2));
        for (int i = 0; i < 20; i++) {
            packet = MakePacket(static_cast<uint32_t>(i), bytes);
            dt_local_ring_push(&producer_, &packet, false);
        }
        for (int i = 0; i < 5; i++) {
            // Anywhere in what was written, or a counter.
            uint8_t *at = dt_prng_chance(&prng_, 1, 5) ? reinterpret_cast<uint8_t *>(&shared_->head)
                                                       : shared_->units + dt_prng_below(&prng_, 20 * 64);
            at[dt_prng_below(&prng_, 4)] = static_cast<uint8_t>(dt_prng_next(&prng_));
        }
        for (int i = 0; i < 10000 && dt_local_ring_peek(&consumer_, &packet, &payload); i++) {
            uint8_t sum = 0;
            if (payload.kind == DT_LOCAL_HERE)
                for (uint64_t k = 0; k < payload.bytes; k++)
                    sum = static_cast<uint8_t>(sum + payload.data[k]);
            ASSERT_LE(payload.kind == DT_LOCAL_REMOTE ? payload.iov_count : 0,
                      static_cast<uint32_t>(DT_PACKET_IOV_MAX));
            dt_local_ring_pop(&consumer_);
            delivered += 1 + (sum & 0);
        }
        broken += consumer_.is_broken;
    }
    EXPECT_GT(broken, 100u);
    EXPECT_GT(delivered, 1000u);
    // The producer's side: counters that the consumer cannot have written.
    dt_local_ring_init(&producer_, shared_, true);
    shared_->tail = 12345;
    std::vector<uint8_t> payload(100);
    dt_packet packet = MakePacket(1, payload);
    while (dt_local_ring_has_room(&producer_))
        dt_local_ring_push(&producer_, &packet, false);
    EXPECT_TRUE(producer_.is_broken);
    dt_local_ring_init(&producer_, shared_, true);
    shared_->can_fetch = 0;
    shared_->bounce_tail = 99;
    EXPECT_FALSE(dt_local_ring_has_room(&producer_));
    EXPECT_TRUE(producer_.is_broken);
}

TEST(LocalCopy, AllAlignmentsAndLengths)
{
    std::vector<uint8_t> from(600), to(600);

    for (size_t i = 0; i < from.size(); i++)
        from[i] = static_cast<uint8_t>(i * 7 + 1);
    for (size_t src = 0; src < 9; src++)
        for (size_t dst = 0; dst < 17; dst++)
            for (size_t bytes : {0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 127, 128, 129, 300}) {
                std::fill(to.begin(), to.end(), 0);
                dt_copy_ascending(&to[dst], &from[src], bytes);
                ASSERT_EQ(memcmp(&to[dst], &from[src], bytes), 0) << src << " " << dst << " " << bytes;
                ASSERT_EQ(std::count(to.begin(), to.end(), 0),
                          static_cast<long>(to.size() - bytes) +
                              std::count(&from[src], &from[src] + bytes, 0));
            }
}

TEST(LocalCopy, FetchTakesTheRangeAsked)
{
    char a[] = "abcdef", b[] = "ghijkl", out[20] = {};
    iovec iov[2] = {{a, 6}, {b, 6}};

    EXPECT_EQ(dt_fetch(getpid(), iov, 2, 4, out, 5), 0);
    EXPECT_STREQ(out, "efghi");
    EXPECT_EQ(dt_fetch(getpid(), iov, 2, 8, out, 5), EINVAL) << "longer than the list";
    EXPECT_EQ(dt_fetch(getpid(), iov, 2, 0, out, 0), 0);
    iov[1].iov_base = nullptr;
    EXPECT_EQ(dt_fetch(getpid(), iov, 2, 4, out, 5), EFAULT);
    EXPECT_EQ(dt_fetch(0x7ffffff0, iov, 1, 0, out, 5), ESRCH);
}
} // namespace
