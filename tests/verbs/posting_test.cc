/* SPDX-License-Identifier: Apache-2.0 */
/* What queue.h promises, for both posting back ends on every kind of RNIC. */
#include <gtest/gtest.h>

#include <cstring>
#include <deque>

#include "base/prng.h"
#include "tests/harness/harness.h"
#include "tests/verbs/rig.h"

namespace
{
using rig::Buffer;
using rig::End;

constexpr uint32_t kDepth = 16;
constexpr uint32_t kInline = 100;
constexpr uint64_t kRecvId = 0xfedcba9876543210;

class Posting : public ::testing::TestWithParam<rig::Kind>
{
  protected:
    void SetUp() override
    {
        source = GetParam().make();
        ASSERT_EQ(DT_OK, dt_verbs_devices(source->verbs(), &list, &count));
        ASSERT_GE(count, 2u);
        a = std::make_unique<End>(source->verbs(), list[0], Options());
        b = std::make_unique<End>(source->verbs(), list[1], Options());
        rig::Connect(*a, *b);
        from = std::make_unique<Buffer>(a->device, 65536);
        to = std::make_unique<Buffer>(b->device, 65536);
        for (size_t i = 0; i < 65536; i++)
            from->data()[i] = static_cast<uint8_t>(i * 31 + i / 256);
    }

    void TearDown() override
    {
        from.reset(), to.reset(); // before their devices
        a.reset(), b.reset();
        dt_verbs_devices_free(list);
    }

    static dt_qp_options Options()
    {
        dt_qp_options options = {};
        options.sq_depth = kDepth;
        options.rq_depth = kDepth;
        options.inline_bytes = kInline;
        options.recv_wr_id = kRecvId;
        options.posting = GetParam().posting;
        options.access = DT_MR_REMOTE_WRITE | DT_MR_REMOTE_READ;
        options.psn = 0xfffff0; // wraps soon
        return options;
    }

    dt_write Write(size_t offset, uint32_t bytes, uint64_t wr_id, uint32_t flags = DT_POST_SIGNALED)
    {
        dt_write write = {};
        write.local_addr = from->addr(offset);
        write.remote_addr = to->addr(offset);
        write.wr_id = wr_id;
        write.bytes = bytes;
        write.lkey = from->mr()->lkey;
        write.rkey = to->mr()->rkey;
        write.flags = flags;
        return write;
    }

    enum dt_status Post(const std::vector<dt_write> &writes)
    {
        enum dt_status status = dt_qp_post_write(a->qp, writes.data(), static_cast<unsigned>(writes.size()));
        dt_qp_ring(a->qp);
        return status;
    }

    void ExpectArrived(size_t offset, size_t bytes)
    {
        EXPECT_EQ(0, memcmp(from->data() + offset, to->data() + offset, bytes)) << "at " << offset;
    }

    std::unique_ptr<rig::Source> source;
    dt_device_info *list = nullptr;
    size_t count = 0;
    std::unique_ptr<End> a, b;
    std::unique_ptr<Buffer> from, to;
};

TEST_P(Posting, AWriteArrivesAndCompletesWithItsId)
{
    ASSERT_EQ(DT_OK, Post({Write(64, 1000, 0x1122334455667788)}));
    auto done = a->Poll(1);

    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(0x1122334455667788u, done[0].wr_id);
    EXPECT_EQ(DT_WC_SUCCESS, done[0].status);
    EXPECT_EQ(DT_WC_SEND, done[0].direction);
    EXPECT_EQ(dt_qp_number(a->qp), done[0].qpn);
    EXPECT_EQ(0u, dt_qp_sends_outstanding(a->qp));
    ExpectArrived(64, 1000);
    EXPECT_EQ(0, to->data()[63]);
    EXPECT_EQ(0, to->data()[1064]);
}

TEST_P(Posting, AnImmediateSurfacesInAZeroLengthReceive)
{
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(b->qp, 2));
    dt_write write = Write(0, 333, 7, DT_POST_SIGNALED | DT_POST_IMM);
    write.imm = 0x89abcdef;
    ASSERT_EQ(DT_OK, Post({write}));
    auto done = b->Poll(1);

    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(kRecvId, done[0].wr_id);
    EXPECT_EQ(DT_WC_RECV, done[0].direction);
    EXPECT_EQ(DT_WC_SUCCESS, done[0].status);
    EXPECT_TRUE(done[0].has_imm);
    EXPECT_EQ(0x89abcdefu, done[0].imm);
    EXPECT_EQ(333u, done[0].bytes);
    EXPECT_EQ(dt_qp_number(b->qp), done[0].qpn);
    EXPECT_EQ(1u, dt_qp_recvs_outstanding(b->qp));
    ExpectArrived(0, 333);
    EXPECT_EQ(1u, a->Poll(1).size());
}

TEST_P(Posting, ZeroBytesMoveNothingAndUseNoKeys)
{
    dt_write write = {};
    write.wr_id = 5;
    write.flags = DT_POST_SIGNALED;
    ASSERT_EQ(DT_OK, Post({write}));
    auto done = a->Poll(1);

    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(DT_WC_SUCCESS, done[0].status);
    EXPECT_EQ(5u, done[0].wr_id);
}

TEST_P(Posting, InlinePayloadIsTakenWhenPosted)
{
    uint8_t local[kInline];
    memcpy(local, from->data(), sizeof local);
    for (uint32_t bytes : {1u, 12u, 28u, 29u, 44u, kInline}) {
        dt_write write = Write(0, bytes, bytes, DT_POST_SIGNALED | DT_POST_INLINE);
        write.local_addr = reinterpret_cast<uint64_t>(local);
        write.lkey = 0;
        source->Hold();
        ASSERT_EQ(DT_OK, dt_qp_post_write(a->qp, &write, 1));
        memset(local, 0xaa, sizeof local);
        dt_qp_ring(a->qp);
        source->Resume();
        ASSERT_EQ(1u, a->Poll(1).size());
        ExpectArrived(0, bytes);
        memcpy(local, from->data(), sizeof local);
    }
}

TEST_P(Posting, TooMuchInlinePostsNothing)
{
    EXPECT_EQ(kInline, dt_qp_inline_bytes(a->qp));
    EXPECT_EQ(DT_INVALID, Post({Write(0, 8, 1), Write(0, kInline + 1, 2, DT_POST_INLINE)}));
    EXPECT_EQ(0u, dt_qp_sends_outstanding(a->qp));
    ASSERT_EQ(DT_OK, Post({Write(0, 8, 3)}));
    EXPECT_EQ(3u, a->Poll(1).at(0).wr_id);
}

TEST_P(Posting, AChainIsPostedWholeOrNotAtAll)
{
    std::vector<dt_write> chain;
    for (uint32_t i = 0; i <= kDepth; i++)
        chain.push_back(Write(i * 100, 100, i));
    EXPECT_EQ(DT_FULL, Post(chain));
    EXPECT_EQ(0u, dt_qp_sends_outstanding(a->qp));
    chain.pop_back();
    source->Hold();
    ASSERT_EQ(DT_OK, Post(chain));
    EXPECT_EQ(0u, dt_qp_room(a->qp));
    source->Resume();
    auto done = a->Poll(kDepth);
    ASSERT_EQ(kDepth, done.size());
    for (uint32_t i = 0; i < kDepth; i++)
        EXPECT_EQ(i, done[i].wr_id);
    ExpectArrived(0, kDepth * 100);
}

// Largest elements, so that the ring of dv is as full as it gets.
TEST_P(Posting, AFullQueueRefusesAndOverwritesNothing)
{
    source->Hold();
    uint32_t posted = 0;
    while (posted < 1000 &&
           Post({Write(posted * kInline, kInline, posted, DT_POST_SIGNALED | DT_POST_INLINE)}) == DT_OK)
        posted++;
    EXPECT_EQ(kDepth, posted);
    dt_read read = {};
    EXPECT_EQ(DT_FULL, dt_qp_post_read(a->qp, &read));
    source->Resume();
    EXPECT_EQ(kDepth, a->Poll(kDepth).size());
    ExpectArrived(0, kDepth * kInline);
    EXPECT_EQ(kDepth, dt_qp_room(a->qp));
}

// Past 65536 blocks, where mlx5's index wraps, and past the ring's end at every offset within an element.
TEST_P(Posting, UnsignaledWorkIsReclaimedAcrossWrapAround)
{
    std::vector<dt_write> chain;
    for (uint32_t i = 0; i + 1 < kDepth; i++)
        chain.push_back(Write(i * kInline, i % 3 ? kInline : 30, i, i % 3 ? uint32_t{DT_POST_INLINE} : 0));
    chain.push_back(Write(8192, 8, 99));
    for (int round = 0; round < 2200; round++) {
        from->data()[0] = static_cast<uint8_t>(round);
        ASSERT_EQ(DT_OK, Post(chain)) << round;
        auto done = a->Poll(1);
        ASSERT_EQ(1u, done.size()) << round;
        ASSERT_EQ(99u, done[0].wr_id) << round;
        ASSERT_EQ(kDepth, dt_qp_room(a->qp)) << round;
        ASSERT_EQ(from->data()[0], to->data()[0]) << round;
    }
    for (uint32_t i = 0; i + 1 < kDepth; i++)
        ExpectArrived(i * kInline, i % 3 ? kInline : 30);
}

TEST_P(Posting, TheKthSignalledCompletionIsTheKthSignalledWorkRequest)
{
    const uint64_t seed = 20261120;
    dt_prng prng;
    uint64_t next_id = 1;
    std::deque<uint64_t> expected;

    RecordProperty("seed", std::to_string(seed));
    dt_prng_init(&prng, seed);
    for (int round = 0; round < 3000; round++) {
        std::vector<dt_write> chain;
        for (uint64_t n = dt_prng_between(&prng, 1, 4); n > 0; n--) {
            bool is_inline = dt_prng_chance(&prng, 1, 2);
            bool is_signaled = n == 1 || dt_prng_chance(&prng, 1, 3);
            auto bytes = static_cast<uint32_t>(dt_prng_between(&prng, 0, is_inline ? kInline : 5000));
            chain.push_back(Write(dt_prng_below(&prng, 60000), bytes, next_id,
                                  (is_inline ? uint32_t{DT_POST_INLINE} : 0) |
                                      (is_signaled ? uint32_t{DT_POST_SIGNALED} : 0)));
            if (is_signaled)
                expected.push_back(next_id);
            next_id++;
        }
        while (dt_qp_room(a->qp) < chain.size()) {
            auto done = a->Poll(1);
            ASSERT_EQ(1u, done.size()) << "seed " << seed;
            ASSERT_EQ(expected.front(), done[0].wr_id) << "seed " << seed;
            expected.pop_front();
        }
        ASSERT_EQ(DT_OK, Post(chain)) << "seed " << seed;
    }
    auto rest = a->Poll(expected.size());
    ASSERT_EQ(expected.size(), rest.size());
    for (size_t i = 0; i < rest.size(); i++)
        EXPECT_EQ(expected[i], rest[i].wr_id) << "seed " << seed;
}

TEST_P(Posting, AReadBringsTheBytesAndAFenceIsAccepted)
{
    Buffer sink(a->device, 4096);
    memcpy(to->data(), from->data() + 100, 4096);
    dt_read read = {};
    read.local_addr = sink.addr();
    read.remote_addr = to->addr();
    read.wr_id = 77;
    read.bytes = 4096;
    read.lkey = sink.mr()->lkey;
    read.rkey = to->mr()->rkey;
    read.flags = 0;
    ASSERT_EQ(DT_OK, dt_qp_post_read(a->qp, &read));
    ASSERT_EQ(DT_OK, Post({Write(8192, 16, 78, DT_POST_SIGNALED | DT_POST_FENCE)}));
    auto done = a->Poll(1);
    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(78u, done[0].wr_id);
    EXPECT_EQ(0, memcmp(sink.data(), from->data() + 100, 4096));
}

// The failing one is not signaled: it is reported all the same, and so is everything after it.
TEST_P(Posting, AfterAnErrorEverythingIsReportedInOrder)
{
    dt_write bad = Write(0, 8, 3, 0);
    bad.rkey ^= 0x00ffff00;
    source->Hold();
    ASSERT_EQ(DT_OK, Post({Write(0, 8, 1), Write(8, 8, 2, 0), bad, Write(16, 8, 4),
                           Write(24, 8, 5, DT_POST_INLINE)}));
    source->Resume();
    auto done = a->Poll(4);

    ASSERT_EQ(4u, done.size());
    EXPECT_EQ(1u, done[0].wr_id);
    EXPECT_EQ(DT_WC_SUCCESS, done[0].status);
    EXPECT_EQ(3u, done[1].wr_id);
    EXPECT_EQ(DT_WC_REMOTE_ACCESS, done[1].status);
    EXPECT_EQ(DT_WC_CLASS_CALLER, dt_wc_status_class(DT_PROVIDER_SOFT, done[1].status));
    EXPECT_EQ(4u, done[2].wr_id);
    EXPECT_EQ(DT_WC_FLUSHED, done[2].status);
    EXPECT_EQ(5u, done[3].wr_id);
    EXPECT_EQ(DT_WC_FLUSHED, done[3].status);
    for (const dt_completion &completion : done)
        EXPECT_EQ(DT_WC_SEND, completion.direction);
    EXPECT_EQ(0u, dt_qp_sends_outstanding(a->qp));
    ExpectArrived(0, 16);
    EXPECT_EQ(0, to->data()[16]);
}

TEST_P(Posting, FailingTheQpFlushesEveryReceiveAndLaterPosts)
{
    ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(a->qp, kDepth));
    EXPECT_EQ(DT_FULL, dt_qp_post_empty_recvs(a->qp, 1));
    ASSERT_EQ(DT_OK, dt_qp_fail(a->qp));
    auto done = a->Poll(kDepth);
    ASSERT_EQ(kDepth, done.size());
    for (const dt_completion &completion : done) {
        EXPECT_EQ(DT_WC_FLUSHED, completion.status);
        EXPECT_EQ(DT_WC_RECV, completion.direction);
        EXPECT_EQ(kRecvId, completion.wr_id);
        EXPECT_FALSE(completion.has_imm);
    }
    EXPECT_EQ(0u, dt_qp_recvs_outstanding(a->qp));

    ASSERT_EQ(DT_OK, Post({Write(0, 8, 42)})); // a marker
    done = a->Poll(1);
    ASSERT_EQ(1u, done.size());
    EXPECT_EQ(42u, done[0].wr_id);
    EXPECT_EQ(DT_WC_FLUSHED, done[0].status);
    EXPECT_EQ(0, to->data()[0]);
}

INSTANTIATE_TEST_SUITE_P(All, Posting, ::testing::ValuesIn(rig::Kinds()),
                         [](const auto &test) { return std::string(test.param.name); });
} // namespace
