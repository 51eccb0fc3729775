/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/send_multi.h"

#include "tests/transport/message/ends.h"
#include "transport/message/send.h"
#include "transport/message/receive.h"
#include "transport/message/send_path.h"
#include "transport/protocol/immediate.h"
#include "transport/protocol/work_id.h"

namespace
{
constexpr uint32_t kChunkBytes = 64 << 10;

/* Two queue pairs per path, and writes of 64 KiB at most. */
class SendMulti : public detour_test::Ends
{
  protected:
    explicit SendMulti(int qps = 2, bool is_split = true)
        : Ends([=](dt_params &params, dt_net_options &options) {
              params.qps_per_path = qps;
              params.split_data = is_split;
              options.chunk_bytes = kChunkBytes;
          })
    {
    }
    void Receive(std::vector<uint32_t> part_bytes)
    {
        void *data[DT_PARTS_MAX];
        int tag[DT_PARTS_MAX];
        dt_memory *memory[DT_PARTS_MAX];
        size_t count = part_bytes.size();
        uint32_t offset = 0;
        for (size_t i = 0; i < count; i++) {
            data[i] = to.data() + offset;
            tag[i] = (int)i;
            memory[i] = to_memory;
            offset += part_bytes[i];
        }
        ASSERT_EQ(DT_OK, dt_irecv(receiver, (int)count, data, part_bytes.data(), tag, memory, &receive));
        ASSERT_TRUE(Until([&] { return (slot = dt_sender_matching_slot(s)) != nullptr; }));
        bool is_complete = false;
        offset = 0;
        for (size_t i = 0; i < count; i++) {
            is_complete = dt_sender_fill_part(slot, (int)i, from.data() + offset, part_bytes[i], from_memory);
            slot->part[i].ready_bytes = part_bytes[i];
            offset += part_bytes[i];
        }
        ASSERT_TRUE(is_complete);
        dt_sender_hand_over(s, slot);
        EXPECT_EQ(DT_BODY_SIZED, slot->body.kind);
    }
    void Finish(std::vector<uint32_t> part_bytes)
    {
        int bytes[DT_PARTS_MAX] = {};
        uint32_t total = 0;
        Wait(receive, bytes);
        for (size_t i = 0; i < part_bytes.size(); i++) {
            EXPECT_EQ((int)part_bytes[i], bytes[i]) << "part " << i;
            total += part_bytes[i];
        }
        EXPECT_EQ(0, memcmp(from.data(), to.data(), total));
    }
    uint32_t Room(uint32_t q)
    {
        return dt_qp_room(sender->path[0].qp[q]);
    }
    dt_request *receive = nullptr;
    dt_send_slot *slot = nullptr;
};

TEST_F(SendMulti, PartsOfAllSizesArriveWithTheirSizes)
{
    const std::vector<uint32_t> kParts = {
        0, 1, 64, 65, 4096, kChunkBytes, kChunkBytes + 1, 5 * kChunkBytes + 77};
    Receive(kParts);
    ASSERT_FALSE(HasFailure());
    EXPECT_TRUE(dt_sender_post_oldest(s));
    EXPECT_EQ(DT_SEND_POSTED, slot->state);
    EXPECT_EQ(2u, slot->qps_left);
    Finish(kParts);
}

TEST_F(SendMulti, EachQueuePairTakesItsShareInChunks)
{
    Receive({4 * kChunkBytes});
    ASSERT_FALSE(HasFailure());
    uint32_t room[] = {Room(0), Room(1)};
    EXPECT_EQ(DT_OK, dt_sender_post_shares(&sender->path[0], 0, slot));
    EXPECT_EQ(3u, room[0] - Room(0)) << "two chunks and the size record";
    EXPECT_EQ(0u, room[1] - Room(1));
    EXPECT_EQ(DT_OK, dt_sender_post_shares(&sender->path[0], 1, slot));
    EXPECT_EQ(2u, room[1] - Room(1)) << "two chunks";
    dt_qp_ring(sender->path[0].qp[0]);
    dt_qp_ring(sender->path[0].qp[1]);
    dt_sender_mark_posted(&sender->path[0], slot);
    s->next_post++;
    Finish({4 * kChunkBytes});
}

TEST_F(SendMulti, AMessageIsCompleteOnlyWithTheSharesOfAllQueuePairs)
{
    Receive({4 * kChunkBytes});
    ASSERT_FALSE(HasFailure());
    EXPECT_EQ(DT_OK, dt_sender_post_shares(&sender->path[0], 0, slot));
    dt_qp_ring(sender->path[0].qp[0]);
    for (int i = 0; i < 50; i++) {
        Step();
        EXPECT_FALSE(IsDone(receive));
    }
    EXPECT_EQ(DT_OK, dt_sender_post_shares(&sender->path[0], 1, slot));
    dt_qp_ring(sender->path[0].qp[1]);
    dt_sender_mark_posted(&sender->path[0], slot);
    s->next_post++;
    Finish({4 * kChunkBytes});
}

TEST_F(SendMulti, WithoutRoomForAllOfItNothingIsPosted)
{
    const std::vector<uint32_t> kParts(DT_PARTS_MAX, 1);
    Receive(kParts);
    ASSERT_FALSE(HasFailure());
    dt_path *path = &sender->path[0];
    dt_write filler = {};
    filler.wr_id = path->payload_id[1] + (1ull << 32); /* of another epoch: its completion is ignored */
    filler.remote_addr = path->peer_control_addr;
    filler.rkey = path->peer_control_rkey;
    while (Room(1) >= DT_WRITES_PER_MESSAGE_MAX)
        ASSERT_EQ(DT_OK, dt_qp_post_write(path->qp[1], &filler, 1));
    uint32_t room[] = {Room(0), Room(1)};
    EXPECT_EQ(DT_FULL, dt_sender_post_all(path, slot));
    EXPECT_EQ(room[0], Room(0));
    EXPECT_EQ(room[1], Room(1));
}

/* Messages in turn over three queue pairs. */
class SendTurns : public SendMulti
{
  protected:
    SendTurns() : SendMulti(3, false) {}
    std::vector<uint32_t> Rooms()
    {
        return {Room(0), Room(1), Room(2)};
    }
    void Fill(uint32_t q)
    {
        dt_path *path = &sender->path[0];
        dt_write filler = {};
        filler.wr_id = path->payload_id[q] + (1ull << 32); /* of another epoch: its completion is ignored */
        filler.remote_addr = path->peer_control_addr;
        filler.rkey = path->peer_control_rkey;
        while (Room(q) >= DT_WRITES_PER_PART_MAX)
            ASSERT_EQ(DT_OK, dt_qp_post_write(path->qp[q], &filler, 1));
    }
};

TEST_F(SendTurns, EachMessageGoesOverTheQueuePairAfterTheOneBefore)
{
    const std::vector<std::vector<uint32_t>> kMessages = {
        {100}, {0}, {5 * kChunkBytes + 77}, {1, 0, kChunkBytes + 1}, {64}, {4096, 65}, {kChunkBytes}};
    for (uint64_t sequence = 0; sequence < kMessages.size(); sequence++) {
        memset(to.data(), 0, kBytes);
        Receive(kMessages[sequence]);
        ASSERT_FALSE(HasFailure());
        std::vector<uint32_t> rooms = Rooms();
        EXPECT_TRUE(dt_sender_post_oldest(s));
        EXPECT_EQ(1u, slot->qps_left);
        for (uint32_t q = 0; q < 3; q++)
            EXPECT_EQ(q == sequence % 3, Room(q) < rooms[q])
                << "message " << sequence << ", queue pair " << q;
        Finish(kMessages[sequence]);
        PollUntilComplete(slot);
        ASSERT_FALSE(HasFailure());
        dt_sender_report_parts(slot, slot->parts);
    }
}

TEST_F(SendTurns, OnlyTheRoomOfItsOwnQueuePairCounts)
{
    Fill(1);
    Fill(2);
    Receive({1});
    ASSERT_FALSE(HasFailure());
    EXPECT_TRUE(dt_sender_post_oldest(s));
    Finish({1});
    Receive({1});
    ASSERT_FALSE(HasFailure());
    Fill(1);
    EXPECT_EQ(DT_FULL, dt_sender_post_all(&sender->path[0], slot));
}

TEST_F(SendTurns, AnArrivalOnTheQueuePairOfAnotherMessageFailsTheConnection)
{
    Receive({1});
    ASSERT_FALSE(HasFailure());
    dt_completion completion = {};
    completion.wr_id = dt_work_encode(DT_WORK_RECEIVE, 0, 1, 0, 0);
    completion.status = DT_WC_SUCCESS;
    completion.has_imm = true;
    completion.imm = dt_imm_encode(DT_IMM_DATA, 0, 0);
    completion.bytes = 1;
    detour_test::ExpectWarning("an arrival that is no open message's");
    dt_receiver_handle(r, &receiver->path[0], &completion);
    EXPECT_EQ(DT_PROTOCOL, (int)receiver->failing);
}

class SendLast : public SendMulti
{
  protected:
    SendLast() : SendMulti(1) {}
};

/* As on InfiniBand: only a write without an immediate may take another route than the queue pair's. */
TEST_F(SendMulti, AboveTheThresholdTheImmediateComesWithAnEmptyWrite)
{
    sender->adaptive_bytes = 8192;
    Receive({3 * kChunkBytes, 8192, 8193, 0});
    ASSERT_FALSE(HasFailure());
    uint32_t room[] = {Room(0), Room(1)};
    EXPECT_TRUE(dt_sender_post_oldest(s));
    /* part 0: shares of a chunk and a half; part 2: a share; each with an empty write, and a record on the
       first queue pair. Parts 1 and 3 go with their immediates. */
    EXPECT_EQ((2u + 1 + 1) + 1 + (1 + 1 + 1) + 1, room[0] - Room(0));
    EXPECT_EQ((2u + 1) + 1 + (1 + 1) + 1, room[1] - Room(1));
    Finish({3 * kChunkBytes, 8192, 8193, 0});
}

TEST_F(SendMulti, AsManyChunksAsThereMayBeHaveAnEmptyWriteAfterThem)
{
    sender->adaptive_bytes = 0;
    sender->chunk_bytes = DT_CHUNK_BYTES_MIN;
    Receive({kBytes});
    ASSERT_FALSE(HasFailure());
    uint32_t room = Room(0);
    EXPECT_TRUE(dt_sender_post_oldest(s));
    EXPECT_EQ((uint32_t)DT_WRITES_PER_PART_MAX, room - Room(0));
    Finish({kBytes});
}

TEST_F(SendLast, AboveTheThresholdASingleWriteHasAnEmptyOneAfterIt)
{
    sender->adaptive_bytes = 8192;
    for (uint32_t bytes : {0u, 1u, 8192u, 8193u, kChunkBytes, kChunkBytes + 1})
        Transfer(bytes);
    EXPECT_EQ(DT_BODY_DATA, SlotOf(2)->body.kind);
    EXPECT_EQ(DT_BODY_SIZED, SlotOf(3)->body.kind);
}

TEST_F(SendLast, AboveTheThresholdTheRestGoesInAWriteOfItsOwn)
{
    const uint32_t kTotal = 4 * kChunkBytes, kPosted = 3 * kChunkBytes;
    sender->adaptive_bytes = 8192;
    Receive({kTotal});
    ASSERT_FALSE(HasFailure());
    memcpy(to.data(), from.data(), kPosted); /* as the earlier writes would have */
    uint32_t room = Room(0);
    EXPECT_EQ(DT_OK, dt_sender_post_last(&sender->path[0], slot, kPosted));
    EXPECT_EQ(3u, room - Room(0));
    dt_qp_ring(sender->path[0].qp[0]);
    dt_sender_mark_posted(&sender->path[0], slot);
    s->next_post++;
    Finish({kTotal});
}

TEST_F(SendLast, PostsTheRestWithTheSizeRecord)
{
    const uint32_t kTotal = 4 * kChunkBytes, kPosted = 3 * kChunkBytes;
    Receive({kTotal});
    ASSERT_FALSE(HasFailure());
    memcpy(to.data(), from.data(), kPosted); /* as the earlier writes would have */
    uint32_t room = Room(0);
    EXPECT_EQ(DT_OK, dt_sender_post_last(&sender->path[0], slot, kPosted));
    EXPECT_EQ(2u, room - Room(0));
    dt_qp_ring(sender->path[0].qp[0]);
    dt_sender_mark_posted(&sender->path[0], slot);
    s->next_post++;
    Finish({kTotal});
}
} // namespace
