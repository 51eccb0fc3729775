// SPDX-License-Identifier: Apache-2.0
// Both rewind engines through the same cases: messages that died on one path arrive by another, whole and
// once.
#include "failover/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/prng.h"
#include "tests/harness/harness.h"
#include "tests/verbs/rig.h"

namespace
{
using rig::Buffer;
using rig::End;

constexpr uint32_t kDepth = 64;
constexpr uint32_t kInline = 100;
constexpr uint32_t kArea = 4096; // of one message
constexpr uint32_t kMessages = 96;

struct Kind {
    const char *name;
    std::unique_ptr<rig::Source> (*make)();
    dt_posting_kind from, to;
    bool is_gone; // the old queue pair was destroyed to fence it
    const dt_replay_engine *engine;
};

/* One write of a message, in terms of the message's area. */
struct Piece {
    uint32_t offset;
    uint32_t bytes;
    uint32_t flags;
};

/* A pair of queue pairs and the keys of both buffers there. */
struct Path {
    std::unique_ptr<End> near, far;
    dt_mr *from = nullptr, *to = nullptr;
    uint64_t id = 0; // upper half of its wr_ids
};

class Rewind : public ::testing::TestWithParam<Kind>
{
  protected:
    void SetUp() override
    {
        size_t count;

        source = GetParam().make();
        ASSERT_EQ(DT_OK, dt_verbs_devices(source->verbs(), &list, &count));
        ASSERT_GE(count, 2u);
        from.assign(kMessages * kArea, 0);
        to.assign(kMessages * kArea, 0);
        for (size_t i = 0; i < from.size(); i++)
            from[i] = static_cast<uint8_t>(1 + i % 251);
        Make(old, list[0], list[1], GetParam().from, 0xa000);
        Make(fresh, list[1], list[0], GetParam().to, 0xb000);
        // what stands in the elements must differ, or a key that was left as it is would pass
        ASSERT_NE(old.from->lkey, fresh.from->lkey);
        ASSERT_NE(old.to->rkey, fresh.to->rkey);
    }

    void TearDown() override
    {
        Free(fresh);
        Free(old);
        for (auto &[device, mr] : spare)
            EXPECT_EQ(DT_OK, dt_mr_deregister(device, mr));
        spare.clear();
        fresh.near.reset(), fresh.far.reset(), old.near.reset(), old.far.reset();
        dt_verbs_devices_free(list);
    }

    void Make(Path &path, const dt_device_info &near, const dt_device_info &far, dt_posting_kind posting,
              uint64_t id)
    {
        dt_qp_options options = {};

        options.sq_depth = kDepth;
        options.rq_depth = kDepth;
        options.inline_bytes = kInline;
        options.posting = posting;
        options.access = DT_MR_REMOTE_WRITE;
        path.near = std::make_unique<End>(source->verbs(), near, options);
        options.posting = DT_POSTING_STD;
        path.far = std::make_unique<End>(source->verbs(), far, options);
        path.id = id;
        rig::Connect(*path.near, *path.far);
        EXPECT_EQ(DT_OK, dt_qp_post_empty_recvs(path.far->qp, kDepth));
        if (&path == &fresh) { // other keys than the first path's
            Spare(path.near->device);
            Spare(path.far->device);
        }
        path.from = Register(path.near->device, from);
        path.to = Register(path.far->device, to);
    }

    void Free(Path &path)
    {
        EXPECT_EQ(DT_OK, dt_mr_deregister(path.near->device, path.from));
        EXPECT_EQ(DT_OK, dt_mr_deregister(path.far->device, path.to));
    }

    static dt_mr *Register(dt_device *device, std::vector<uint8_t> &memory)
    {
        dt_mr *mr = nullptr;
        EXPECT_EQ(DT_OK, dt_mr_register(device, memory.data(), memory.size(),
                                        DT_MR_LOCAL_WRITE | DT_MR_REMOTE_WRITE, &mr));
        return mr;
    }

    void Spare(dt_device *device)
    {
        extra.emplace_back(8192);
        for (int i = 0; i < 3; i++) {
            dt_mr *mr = nullptr;
            EXPECT_EQ(DT_OK, dt_mr_register(device, extra.back().data() + 4096 * (i % 2), 100u + 1000u * i,
                                            DT_MR_LOCAL_WRITE, &mr));
            spare.emplace_back(device, mr);
        }
    }

    /* The work requests of message m on a path, as its connection builds them. */
    std::vector<dt_write> Build(const Path &path, uint32_t m)
    {
        std::vector<dt_write> writes;

        for (const Piece &piece : messages[m]) {
            dt_write write = {};
            size_t at = m * kArea + piece.offset;
            write.local_addr = reinterpret_cast<uint64_t>(from.data()) + at;
            write.remote_addr = reinterpret_cast<uint64_t>(to.data()) + at;
            write.wr_id = path.id | m;
            write.bytes = piece.bytes;
            write.lkey = piece.flags & DT_POST_INLINE ? 0 : path.from->lkey;
            write.rkey = path.to->rkey;
            write.imm = 0x1000 + m;
            write.flags = piece.flags;
            writes.push_back(write);
        }
        writes.back().flags |= DT_POST_IMM | DT_POST_SIGNALED;
        return writes;
    }

    void Post(uint32_t m, const std::vector<Piece> &pieces)
    {
        messages[m] = pieces;
        auto writes = Build(old, m);
        ASSERT_EQ(DT_OK, dt_qp_post_write(old.near->qp, writes.data(), static_cast<unsigned>(writes.size())));
        dt_qp_ring(old.near->qp);
    }

    /* Posts message m and waits until it is complete at both ends. */
    void Deliver(uint32_t m, const std::vector<Piece> &pieces)
    {
        Post(m, pieces);
        ASSERT_EQ(1u, old.near->Poll(1).size());
        ASSERT_EQ(1u, old.far->Poll(1).size());
        ASSERT_EQ(DT_OK, dt_qp_post_empty_recvs(old.far->qp, 1));
    }

    /* From now on nothing posted on the old path arrives, and then it is fenced at both ends. */
    void Cut()
    {
        source->Hold();
    }
    void Fence()
    {
        ASSERT_EQ(DT_OK, dt_qp_fail(old.far->qp));
        ASSERT_EQ(DT_OK, dt_qp_fail(old.near->qp));
        source->Resume();
        while (dt_qp_sends_outstanding(old.near->qp))
            ASSERT_FALSE(old.near->Poll(1).empty());
    }

    /* What a connection offers the engines. */
    dt_replay_source Source()
    {
        dt_replay_source out = {};

        out.arg = out.map.arg = this;
        out.map.wr_id = [](void *arg, uint64_t wr_id) {
            return static_cast<Rewind *>(arg)->fresh.id | (wr_id & 0xfff);
        };
        out.map.local = [](void *arg, uint64_t, uint64_t addr, uint32_t bytes, uint32_t *lkey) {
            auto *self = static_cast<Rewind *>(arg);
            EXPECT_EQ(self->old.from->lkey, *lkey);
            EXPECT_GE(addr, reinterpret_cast<uint64_t>(self->from.data()));
            EXPECT_LE(addr + bytes, reinterpret_cast<uint64_t>(self->from.data()) + self->from.size());
            *lkey = self->fresh.from->lkey;
            return !self->is_unknown;
        };
        out.map.remote = [](void *arg, uint64_t, uint64_t, uint64_t *, uint32_t *rkey) {
            auto *self = static_cast<Rewind *>(arg);
            EXPECT_EQ(self->old.to->rkey, *rkey);
            *rkey = self->fresh.to->rkey;
            return true;
        };
        out.post = [](void *arg, dt_qp *qp, uint64_t wr_id) {
            auto *self = static_cast<Rewind *>(arg);
            auto writes = self->Build(self->fresh, wr_id & 0xfff);
            EXPECT_EQ(self->fresh.near->qp, qp);
            return dt_qp_post_write(qp, writes.data(), static_cast<unsigned>(writes.size()));
        };
        return out;
    }

    dt_status Run(const std::vector<uint32_t> &wanted, uint32_t *done = nullptr,
                  const dt_replay_engine *expected = nullptr)
    {
        const dt_replay_engine *engine = nullptr;
        std::vector<uint64_t> wr_ids;
        dt_replay_source connection = Source();
        uint32_t moved = 0;

        for (uint32_t m : wanted)
            wr_ids.push_back(old.id | m);
        dt_replay rewind = {GetParam().is_gone ? nullptr : old.near->qp, fresh.near->qp, wr_ids.data(),
                            static_cast<uint32_t>(wr_ids.size()), &connection};
        dt_status status = dt_replay_run(&rewind, done ? done : &moved, &engine);
        EXPECT_EQ(expected ? expected : GetParam().engine, engine);
        if (status == DT_OK && !done) {
            EXPECT_EQ(wanted.size(), moved);
        }
        return status;
    }

    /* All of these, and nothing else, came by the new path: at both ends, in order, with every byte. */
    void ExpectArrived(const std::vector<uint32_t> &wanted)
    {
        auto sent = fresh.near->Poll(wanted.size());
        auto arrived = fresh.far->Poll(wanted.size());

        ASSERT_EQ(wanted.size(), sent.size());
        ASSERT_EQ(wanted.size(), arrived.size());
        for (size_t i = 0; i < wanted.size(); i++) {
            EXPECT_EQ(DT_WC_SUCCESS, sent[i].status);
            EXPECT_EQ(fresh.id | wanted[i], sent[i].wr_id);
            EXPECT_EQ(DT_WC_SUCCESS, arrived[i].status);
            EXPECT_EQ(0x1000 + wanted[i], arrived[i].imm);
            EXPECT_EQ(messages[wanted[i]].back().bytes, arrived[i].bytes);
        }
        EXPECT_EQ(0u, dt_qp_sends_outstanding(fresh.near->qp));
        for (uint32_t m : wanted)
            ExpectBytes(m, true);
    }

    /* Message m's area holds the pieces (or nothing), and zeros beside them. */
    void ExpectBytes(uint32_t m, bool is_there)
    {
        std::vector<uint8_t> expected(kArea, 0);

        for (const Piece &piece : messages[m]) {
            if (is_there)
                memcpy(&expected[piece.offset], &from[m * kArea + piece.offset], piece.bytes);
        }
        EXPECT_EQ(0, memcmp(expected.data(), &to[m * kArea], kArea)) << "message " << m;
    }

    std::unique_ptr<rig::Source> source;
    dt_device_info *list = nullptr;
    std::vector<uint8_t> from, to;
    std::vector<std::vector<uint8_t>> extra;
    std::vector<std::pair<dt_device *, dt_mr *>> spare;
    std::map<uint32_t, std::vector<Piece>> messages;
    Path old, fresh;
    bool is_unknown = false; // the map has no key for local memory
};

const std::vector<Piece> kPlain = {{0, 1000, 0}};
const std::vector<Piece> kEmpty = {{0, 0, 0}};
const std::vector<Piece> kInlined = {{8, 100, DT_POST_INLINE}};
const std::vector<Piece> kSized = {{0, 512, 0}, {512, 512, 0}, {4000, 8, DT_POST_INLINE}, {1024, 300, 0}};

TEST_P(Rewind, MissingMessagesArriveByTheOtherPath)
{
    Deliver(0, kPlain);
    Cut();
    Post(1, kPlain);
    Post(2, kEmpty);
    Post(3, kInlined);
    Post(4, kSized);
    Fence();
    for (uint32_t m = 1; m <= 4; m++)
        ExpectBytes(m, false);
    ASSERT_EQ(DT_OK, Run({1, 2, 3, 4}));
    ExpectArrived({1, 2, 3, 4});
}

TEST_P(Rewind, MessagesThatAreNotListedStayAsTheyAre)
{
    Cut();
    for (uint32_t m = 0; m < 6; m++)
        Post(m, m % 2 ? kSized : kInlined);
    Fence();
    ASSERT_EQ(DT_OK, Run({1, 4}));
    ExpectArrived({1, 4});
    for (uint32_t m : {0, 2, 3, 5})
        ExpectBytes(m, false);
}

TEST_P(Rewind, AnAcknowledgedMessageCanBePostedAgainToo)
{
    Deliver(0, kSized);
    Deliver(1, kInlined);
    Fence();
    std::fill(to.begin(), to.end(), 0);
    ASSERT_EQ(DT_OK, Run({0, 1}));
    ExpectArrived({0, 1});
}

TEST_P(Rewind, NothingToDoIsNothing)
{
    Post(0, kPlain);
    ASSERT_EQ(1u, old.near->Poll(1).size());
    Fence();
    EXPECT_EQ(DT_OK, Run({}, nullptr, GetParam().is_gone ? &dt_replay_repost : GetParam().engine));
    EXPECT_EQ(0u, dt_qp_sends_outstanding(fresh.near->qp));
}

TEST_P(Rewind, TheRestIsLeftWhenThereIsNoRoom)
{
    std::vector<uint32_t> wanted;
    uint32_t done = 0;

    Cut();
    for (uint32_t m = 0; m < 16; m++) {
        Post(m, kSized); // four work requests each: all of kDepth
        wanted.push_back(m);
    }
    Fence();
    messages[90] = kPlain; // one is in the new queue already
    auto other = Build(fresh, 90);
    ASSERT_EQ(DT_OK, dt_qp_post_write(fresh.near->qp, other.data(), 1));
    // copying is all or nothing, so the other engine does what can be done
    EXPECT_EQ(DT_FULL, Run(wanted, &done, &dt_replay_repost));
    EXPECT_EQ(15u, done);
    wanted.pop_back();
    wanted.insert(wanted.begin(), 90);
    ExpectArrived(wanted);
    ExpectBytes(15, false);
}

TEST_P(Rewind, AQueuePairThatFailedTakesNothing)
{
    Cut();
    Post(0, kPlain);
    Fence();
    ASSERT_EQ(DT_OK, dt_qp_fail(fresh.near->qp));
    dt_status status = Run({0});
    if (status == DT_OK) { // dv learns it from the completion
        auto sent = fresh.near->Poll(1);
        ASSERT_EQ(1u, sent.size());
        EXPECT_EQ(DT_WC_FLUSHED, sent[0].status);
    }
    ExpectBytes(0, false);
}

/* Random messages behind a random number of complete ones, so that the queue's end lies anywhere in them. */
TEST_P(Rewind, RandomMessagesAnywhereInTheQueue)
{
    const uint64_t seed = 1;
    dt_prng random;

    dt_prng_init(&random, seed);
    for (int round = 0; round < 12; round++) {
        uint32_t before = static_cast<uint32_t>(dt_prng_below(&random, 70));
        uint32_t count = 1 + static_cast<uint32_t>(dt_prng_below(&random, 16));
        std::vector<uint32_t> wanted;

        SCOPED_TRACE("seed 1, round " + std::to_string(round));
        if (round) {
            TearDown();
            source.reset();
            messages.clear();
            SetUp();
        }
        auto draw = [&] {
            std::vector<Piece> pieces;
            for (uint64_t n = dt_prng_below(&random, 4), at = 0;; n--) {
                bool is_inline = dt_prng_chance(&random, 1, 2);
                auto bytes = static_cast<uint32_t>(dt_prng_below(&random, is_inline ? kInline + 1 : 900));
                pieces.push_back(
                    {static_cast<uint32_t>(at), bytes, is_inline ? uint32_t(DT_POST_INLINE) : 0u});
                at += bytes;
                if (!n)
                    return pieces;
            }
        };
        for (uint32_t i = 0; i < before; i++)
            Deliver(i % 64, draw());
        std::fill(to.begin(), to.end(), 0);
        Cut();
        for (uint32_t m = 70; m < 70 + count; m++) {
            Post(m, draw());
            if (dt_prng_chance(&random, 2, 3))
                wanted.push_back(m);
        }
        Fence();
        ASSERT_EQ(DT_OK, Run(wanted));
        ExpectArrived(wanted);
        for (uint32_t m = 70; m < 70 + count; m++) {
            if (!std::count(wanted.begin(), wanted.end(), m))
                ExpectBytes(m, false);
        }
    }
}

/* What only the copying engine has to decide. */
class Copying : public Rewind
{
};

TEST_P(Copying, OverwrittenElementsArePostedAgain)
{
    Deliver(0, kSized);
    for (uint32_t i = 0; i < 200; i++) // nine blocks each
        Deliver(1 + i % 8,
                {{0, 100, DT_POST_INLINE}, {100, 100, DT_POST_INLINE}, {200, 100, DT_POST_INLINE}});
    Fence();
    std::fill(to.begin(), to.end(), 0);
    ASSERT_EQ(DT_OK, Run({0}, nullptr, &dt_replay_repost));
    ExpectArrived({0});
}

TEST_P(Copying, AKeyThatTheMapLacksMovesNothing)
{
    uint32_t done;
    dt_replay_source connection = Source();
    uint64_t wr_ids[] = {old.id | 0, old.id | 1};
    dt_replay rewind = {old.near->qp, fresh.near->qp, wr_ids, 2, &connection};

    Cut();
    Post(0, kInlined);
    Post(1, kPlain);
    Fence();
    is_unknown = true;
    EXPECT_EQ(DT_INVALID, dt_replay_wqe.post(&rewind, &done));
    EXPECT_EQ(0u, done);
    EXPECT_EQ(0u, dt_qp_sends_outstanding(fresh.near->qp));
}

TEST_P(Copying, AMessageThatWasNeverPostedIsNotFound)
{
    uint32_t done;
    dt_replay_source connection = Source();
    uint64_t wr_ids[] = {old.id | 0, old.id | 7};
    dt_replay rewind = {old.near->qp, fresh.near->qp, wr_ids, 2, &connection};

    EXPECT_EQ(DT_NOT_FOUND, dt_replay_wqe.post(&rewind, &done)); // an empty queue
    Cut();
    Post(0, kInlined);
    Fence();
    EXPECT_EQ(DT_NOT_FOUND, dt_replay_wqe.post(&rewind, &done));
    EXPECT_EQ(0u, dt_qp_sends_outstanding(fresh.near->qp));
}

constexpr auto kDv = DT_POSTING_DV;
constexpr auto kStd = DT_POSTING_STD;

const Kind kKinds[] = {
    {"fake_dv_to_dv", rig::MakeFake, kDv, kDv, false, &dt_replay_wqe},
    {"fake_std_to_std", rig::MakeFake, kStd, kStd, false, &dt_replay_repost},
    {"fake_dv_gone", rig::MakeFake, kDv, kDv, true, &dt_replay_repost},
    {"soft_dv_to_dv", rig::MakeSoft, kDv, kDv, false, &dt_replay_wqe},
    {"soft_std_to_std", rig::MakeSoft, kStd, kStd, false, &dt_replay_repost},
    {"soft_dv_to_std", rig::MakeSoft, kDv, kStd, false, &dt_replay_repost},
    {"soft_std_to_dv", rig::MakeSoft, kStd, kDv, false, &dt_replay_repost},
    {"soft_dv_gone", rig::MakeSoft, kDv, kDv, true, &dt_replay_repost},
};
const Kind kCopyingKinds[] = {kKinds[0], kKinds[3]};

std::string NameOf(const ::testing::TestParamInfo<Kind> &kind)
{
    return kind.param.name;
}

INSTANTIATE_TEST_SUITE_P(Rnics, Rewind, ::testing::ValuesIn(kKinds), NameOf);
INSTANTIATE_TEST_SUITE_P(Rnics, Copying, ::testing::ValuesIn(kCopyingKinds), NameOf);
} // namespace
