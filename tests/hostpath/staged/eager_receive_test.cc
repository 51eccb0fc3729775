/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/eager_receive.h"

#include "tests/hostpath/staged/staged_ends.h"
#include "transport/protocol/immediate.h"

namespace
{
class EagerReceive : public detour_test::StagedEnds
{
  protected:
    /* A payload of 10 bytes in this place, for part `index` of those with the tag from message `first` on. */
    bool Arrive(uint32_t place, uint32_t generation, uint64_t first, uint32_t tag, uint32_t index,
                uint32_t bytes = 10)
    {
        auto *header = reinterpret_cast<dt_eager_header *>(r->eager->memory + place * DT_EAGER_HEADER_STRIDE);
        *header = {first, tag, index, bytes, generation};
        memset(r->eager->memory + DT_EAGER_HEADERS_BYTES + (size_t)place * r->eager->bytes, 'a' + (int)place,
               10);
        return Immediate(DT_IMM_EAGER, place, generation);
    }
    bool Immediate(dt_imm_kind kind, uint32_t place, uint64_t sequence)
    {
        dt_completion completion = {};
        completion.has_imm = true;
        completion.imm = dt_imm_encode(kind, place, sequence);
        return kind == DT_IMM_TAKE ? dt_eager_take(r, &receiver->path[0], &completion)
                                   : dt_eager_arrive(r, &receiver->path[0], &completion);
    }
    dt_eager_arrival_state StateOf(uint32_t place)
    {
        return (dt_eager_arrival_state)r->eager->arrival[place].state;
    }
};

TEST_F(EagerReceive, APayloadFindsItsIrecvByTagAndIndexInAnyOrder)
{
    EXPECT_TRUE(Arrive(0, 1, 0, 7, 1)); // the second with tag 7
    EXPECT_TRUE(Arrive(1, 1, 0, 7, 0)); // the first
    ASSERT_NE(nullptr, Irecv(10, 6, 0));
    EXPECT_EQ(DT_ARRIVAL_WAITING, StateOf(0));
    EXPECT_EQ(DT_ARRIVAL_WAITING, StateOf(1));
    dt_request *first = Irecv(10, 7, 100);
    EXPECT_EQ(DT_ARRIVAL_NONE, StateOf(1));
    EXPECT_EQ('b', to[100]);
    dt_request *second = Irecv(10, 7, 200);
    EXPECT_EQ(DT_ARRIVAL_NONE, StateOf(0));
    EXPECT_EQ('a', to[200]);
    EXPECT_TRUE(IsDone(first));
    EXPECT_TRUE(IsDone(second));
    EXPECT_EQ(DT_RECV_OPEN, dt_receiver_slot(r, 1)->state); // until its TAKE
    EXPECT_EQ(1u, r->eager->released[0]);
    EXPECT_EQ(1u, r->eager->released[1]);
    EXPECT_TRUE(Immediate(DT_IMM_TAKE, 1, 1));
    EXPECT_EQ(DT_RECV_FREE, dt_receiver_slot(r, 1)->state);
    EXPECT_TRUE(Immediate(DT_IMM_TAKE, 0, 2));
}

TEST_F(EagerReceive, AnIrecvThatIsPostedAlreadyIsFoundAsWell)
{
    dt_request *receive = Irecv(10, 3);
    EXPECT_TRUE(Arrive(2, 9, 0, 3, 0));
    EXPECT_EQ('c', to[0]);
    EXPECT_TRUE(IsDone(receive));
    EXPECT_EQ(9u, r->eager->arrived[2]);
}

TEST_F(EagerReceive, WithoutItsIrecvTheTakeIdentifiesTheMessage)
{
    dt_request *receive = Irecv(10, 3);
    EXPECT_TRUE(Arrive(2, 9, 0, 4, 0)); // another tag: it cannot be found by itself
    EXPECT_FALSE(IsDone(receive));
    EXPECT_TRUE(Immediate(DT_IMM_TAKE, 2, 0));
    EXPECT_TRUE(IsDone(receive));
    EXPECT_EQ('c', to[0]);
}

TEST_F(EagerReceive, MalformedArrivalsAreRejected)
{
    EXPECT_FALSE(Arrive(0, 1, 0, 7, 0, r->eager->bytes + 1));
    EXPECT_TRUE(Arrive(0, 2, 0, 7, 0));
    EXPECT_FALSE(Arrive(0, 3, 0, 7, 0));         // the place is in use
    EXPECT_FALSE(Immediate(DT_IMM_EAGER, 1, 5)); // no such generation there
    EXPECT_FALSE(Immediate(DT_IMM_TAKE, 0, 0));  // no such message
    ASSERT_NE(nullptr, Irecv(5, 8));
    EXPECT_FALSE(Immediate(DT_IMM_TAKE, 0, 0)); // the payload is longer than its buffer
    EXPECT_FALSE(Immediate(DT_IMM_TAKE, 1, 0)); // nothing is in that place
}

TEST_F(EagerReceive, ADiscardFreesThePlaceOfThatGenerationAndNoOther)
{
    EXPECT_TRUE(Arrive(0, 4, 0, 7, 0));
    EXPECT_TRUE(Immediate(DT_IMM_EAGER, 0, DT_IMM_EAGER_UNWANTED | 3));
    EXPECT_EQ(DT_ARRIVAL_WAITING, StateOf(0));
    EXPECT_TRUE(Immediate(DT_IMM_EAGER, 0, DT_IMM_EAGER_UNWANTED | 4));
    EXPECT_EQ(DT_ARRIVAL_NONE, StateOf(0));
    EXPECT_EQ(4u, r->eager->released[0]);
    EXPECT_TRUE(Immediate(DT_IMM_EAGER, 0, DT_IMM_EAGER_UNWANTED | 4)); // repeated
}

TEST_F(EagerReceive, AGroupedReceiveTakesNothing)
{
    void *data[2] = {to.data(), to.data() + 100};
    uint32_t bytes[2] = {10, 10};
    int tags[2] = {1, 2};
    dt_memory *memories[2] = {to_memory, to_memory};
    dt_request *request = nullptr;

    ASSERT_EQ(DT_OK, dt_irecv(receiver, 2, data, bytes, tags, memories, &request));
    ASSERT_NE(nullptr, request);
    EXPECT_TRUE(Arrive(0, 1, 0, 2, 0));
    EXPECT_EQ(DT_ARRIVAL_WAITING, StateOf(0));
    EXPECT_FALSE(r->eager->arrival[0].is_tracked); // its part is found, and does not take it
    EXPECT_FALSE(Immediate(DT_IMM_TAKE, 0, 0));
}

TEST_F(EagerReceive, ALargeCopyIsFinishedByTheTestingThread)
{
    AwaitGrant();
    ASSERT_LT(300000u, r->eager->bytes);
    SendEagerly(300000);
    dt_request *receive = Irecv(300000);
    EXPECT_EQ(DT_PAYLOAD_STORE, dt_receiver_slot(r, r->next - 1)->source);
    EXPECT_EQ(1u, r->side_open);
    int calls = 0;
    while (!IsDone(receive) && calls < 100)
        calls++;
    EXPECT_LT(calls, 10);
    EXPECT_EQ(0u, r->side_open);
    EXPECT_EQ(0, memcmp(from.data(), to.data(), 300000));
    dt_eager_finish_copies(r);
    AwaitDelivery();
}
} // namespace
