/* SPDX-License-Identifier: Apache-2.0 */
/* Replay: the elements of a failed queue pair, copied to another one with the fields of that one. */
#include "verbs/wqe_copy.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/verbs/rig.h"

namespace
{
using rig::Buffer;
using rig::End;

constexpr uint32_t kDepth = 16;
constexpr size_t kBytes = 16384;

/* An old pair of queue pairs, which fails, and a new one between other buffers of the same devices. */
class WqeCopy : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        source = rig::MakeFake();
        ASSERT_EQ(DT_OK, dt_verbs_devices(source->verbs(), &list, &count));
        ASSERT_GE(count, 2u);
        old_a = MakeEnd(0, DT_POSTING_DV);
        old_b = MakeEnd(1, DT_POSTING_DV);
        new_a = MakeEnd(0, DT_POSTING_DV);
        new_b = MakeEnd(1, DT_POSTING_DV);
        rig::Connect(*old_a, *old_b);
        rig::Connect(*new_a, *new_b);
        from = std::make_unique<Buffer>(old_a->device, kBytes);
        old_to = std::make_unique<Buffer>(old_b->device, kBytes);
        new_to = std::make_unique<Buffer>(new_b->device, kBytes);
        ASSERT_EQ(DT_OK,
                  dt_mr_register(new_a->device, from->data(), kBytes, DT_MR_LOCAL_WRITE, &from_on_new));
        for (size_t i = 0; i < kBytes; i++)
            from->data()[i] = static_cast<uint8_t>(i * 31 + i / 256);
        source->Hold();
    }

    void TearDown() override
    {
        EXPECT_EQ(DT_OK, dt_mr_deregister(new_a->device, from_on_new));
        from.reset(), old_to.reset(), new_to.reset(); // before their devices
        old_a.reset(), old_b.reset(), new_a.reset(), new_b.reset();
        dt_verbs_devices_free(list);
    }

    std::unique_ptr<End> MakeEnd(size_t device, dt_posting_kind posting)
    {
        dt_qp_options options = {};
        options.sq_depth = kDepth;
        options.rq_depth = kDepth;
        options.inline_bytes = 64;
        options.posting = posting;
        options.access = DT_MR_REMOTE_WRITE;
        return std::make_unique<End>(source->verbs(), list[device], options);
    }

    void Post(uint64_t wr_id, size_t offset, uint32_t bytes, uint32_t flags = 0)
    {
        dt_write write = {};
        write.local_addr = from->addr(offset);
        write.remote_addr = old_to->addr(offset);
        write.wr_id = wr_id;
        write.bytes = bytes;
        write.lkey = from->mr()->lkey;
        write.rkey = old_to->mr()->rkey;
        write.flags = flags;
        ASSERT_EQ(DT_OK, dt_qp_post_write(old_a->qp, &write, 1));
    }

    dt_status Copy(const std::vector<uint64_t> &wr_ids)
    {
        const dt_replay_map map = {this, [](void *, uint64_t wr_id) { return wr_id + 100; },
                                   [](void *arg, uint64_t, uint64_t, uint32_t, uint32_t *lkey) {
                                       *lkey = static_cast<WqeCopy *>(arg)->from_on_new->lkey;
                                       return true;
                                   },
                                   [](void *arg, uint64_t, uint64_t, uint64_t *addr, uint32_t *rkey) {
                                       auto *self = static_cast<WqeCopy *>(arg);
                                       *addr = self->new_to->addr(*addr - self->old_to->addr());
                                       *rkey = self->new_to->mr()->rkey;
                                       return self->has_remote;
                                   }};
        dt_status status =
            dt_qp_copy_wqes(old_a->qp, new_a->qp, wr_ids.data(), static_cast<uint32_t>(wr_ids.size()), &map);
        if (status == DT_OK)
            dt_qp_ring(new_a->qp);
        return status;
    }

    void ExpectArrived(size_t offset, size_t bytes)
    {
        EXPECT_EQ(0, memcmp(from->data() + offset, new_to->data() + offset, bytes)) << "at " << offset;
    }

    std::unique_ptr<rig::Source> source;
    dt_device_info *list = nullptr;
    size_t count = 0;
    std::unique_ptr<End> old_a, old_b, new_a, new_b;
    std::unique_ptr<Buffer> from, old_to, new_to;
    dt_mr *from_on_new = nullptr;
    bool has_remote = true;
};

TEST_F(WqeCopy, RunsAreSentOnTheNewQueuePairAndEachCompletesOnce)
{
    Post(1, 0, 1000);
    Post(1, 1000, 1000, DT_POST_SIGNALED);
    Post(2, 4000, 500, DT_POST_SIGNALED);
    Post(3, 8000, 20, DT_POST_SIGNALED | DT_POST_INLINE);
    ASSERT_EQ(DT_OK, Copy({3, 1}));
    EXPECT_EQ(3u, dt_qp_sends_outstanding(new_a->qp));
    source->Resume();
    auto done = new_a->Poll(2);
    ASSERT_EQ(2u, done.size());
    EXPECT_EQ(101u, done[0].wr_id) << "in the order of the old queue";
    EXPECT_EQ(103u, done[1].wr_id);
    EXPECT_EQ(DT_WC_SUCCESS, done[0].status);
    EXPECT_EQ(0u, dt_qp_sends_outstanding(new_a->qp));
    ExpectArrived(0, 2000);
    ExpectArrived(8000, 20);
    EXPECT_EQ(0, new_to->data()[4000]) << "not named";
}

TEST_F(WqeCopy, AWrIdThatIsNotInTheQueueCopiesNothing)
{
    Post(1, 0, 1000);
    EXPECT_EQ(DT_NOT_FOUND, Copy({1, 9}));
    EXPECT_EQ(0u, dt_qp_sends_outstanding(new_a->qp));
    EXPECT_EQ(DT_OK, Copy({}));
}

TEST_F(WqeCopy, ARunThatWasOverwrittenInPartIsNotFound)
{
    source->Resume();
    // The first run begins before the oldest element that the ring still holds.
    for (int i = 0; i < 400; i++) {
        Post(i < 390 ? 1 : 2, 0, 100, DT_POST_SIGNALED);
        dt_qp_ring(old_a->qp);
        ASSERT_EQ(1u, old_a->Poll(1).size());
    }
    EXPECT_EQ(DT_NOT_FOUND, Copy({1}));
    EXPECT_EQ(DT_OK, Copy({2}));
    EXPECT_EQ(10u, dt_qp_sends_outstanding(new_a->qp));
}

TEST_F(WqeCopy, WithoutRoomNothingIsCopied)
{
    dt_write write = {};

    for (uint32_t i = 0; i + 1 < kDepth; i++)
        ASSERT_EQ(DT_OK, dt_qp_post_write(new_a->qp, &write, 1));
    Post(1, 0, 10);
    Post(1, 10, 10);
    EXPECT_EQ(DT_FULL, Copy({1}));
    EXPECT_EQ(1u, dt_qp_room(new_a->qp));
}

TEST_F(WqeCopy, AMapWithoutAnEquivalentCopiesNothing)
{
    Post(1, 0, 1000);
    has_remote = false;
    EXPECT_EQ(DT_INVALID, Copy({1}));
    EXPECT_EQ(kDepth, dt_qp_room(new_a->qp));
}

TEST_F(WqeCopy, OnlyQueuePairsOfDvAreCopied)
{
    std::unique_ptr<End> std_a = MakeEnd(0, DT_POSTING_STD);
    const dt_replay_map map = {};
    uint64_t wr_id = 1;

    EXPECT_EQ(DT_UNSUPPORTED, dt_qp_copy_wqes(std_a->qp, new_a->qp, &wr_id, 1, &map));
    EXPECT_EQ(DT_UNSUPPORTED, dt_qp_copy_wqes(new_a->qp, std_a->qp, &wr_id, 1, &map));
    EXPECT_EQ(DT_INVALID, dt_qp_copy_wqes(new_a->qp, new_a->qp, &wr_id, 1, &map)) << "onto itself";
}
} // namespace
