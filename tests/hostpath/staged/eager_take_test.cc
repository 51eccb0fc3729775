/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/eager_take.h"

#include "hostpath/staged/eager_place.h"

#include "tests/hostpath/staged/staged_ends.h"
#include "transport/message/send.h"

namespace
{
class EagerTake : public detour_test::StagedEnds
{
  protected:
    /* A message with one staged part, whose payload is in a place; not posted. */
    dt_send_slot *Prepare()
    {
        AwaitGrant();
        SendEagerly(100);
        place = &eager->place[0];
        entry = place->entry;
        EXPECT_NE(nullptr, entry);
        dt_send_slot *slot = SlotOf(s->next);
        dt_list_remove(&entry->node);
        slot->parts = 1;
        slot->entry[0].takes_eager = 1;
        dt_stage_slot(s, slot)->mask = 1;
        dt_stage_slot(s, slot)->entry[0] = entry;
        return slot;
    }
    void Restore(dt_send_slot *slot)
    {
        dt_stage_slot(s, slot)->mask = 0;
        dt_list_push_back(&stage->queue, &entry->node);
        ASSERT_NE(nullptr, Irecv(100));
        AwaitDelivery();
    }
    dt_resume Resume(uint32_t generation)
    {
        dt_resume resume = {};
        resume.eager[0] = (uint8_t)generation;
        return resume;
    }
    dt_eager_place *place = nullptr;
    dt_staged *entry = nullptr;
};

TEST_F(EagerTake, FollowsThePayloadOnItsPathUntilThatIsConfirmed)
{
    dt_send_slot *slot = Prepare();
    EXPECT_TRUE(dt_eager_is_any(s, slot));
    EXPECT_TRUE(dt_eager_has_passed_gate(s, slot));
    dt_send_body body = dt_eager_choose_body(s, slot);
    EXPECT_EQ(DT_BODY_TAKE, body.kind);
    EXPECT_EQ(0u, body.place);
    EXPECT_EQ(place->path, body.path);
    EXPECT_EQ(place->epoch, body.epoch);
    place->is_confirmed = true;
    EXPECT_EQ(DT_PATHS_MAX, dt_eager_choose_body(s, slot).path);
    place->is_confirmed = false;
    Restore(slot);
}

TEST_F(EagerTake, AReceiveThatDoesNotTakeItGetsThePayloadAndThePlaceIsDiscarded)
{
    dt_send_slot *slot = Prepare();
    slot->entry[0].takes_eager = 0;
    slot->part[0].bytes = 100;
    EXPECT_EQ(DT_BODY_DATA, dt_eager_choose_body(s, slot).kind);
    EXPECT_EQ(DT_EAGER_DISCARD_PENDING, place->state);
    EXPECT_EQ(1u, eager->discards);
    EXPECT_EQ((uint8_t)DT_EAGER_NONE, entry->eager);
    EXPECT_EQ(nullptr, place->entry);
    ASSERT_TRUE(Until([&] {
        dt_connection_progress(sender);
        dt_connection_progress(receiver);
        return Arrivals() == 0;
    }));
    EXPECT_EQ(DT_EAGER_DISCARD_SENT, place->state);
    EXPECT_EQ(0u, eager->discards);
    Restore(slot);
}

TEST_F(EagerTake, APayloadThatWasTakenCannotBeAskedForAgain)
{
    dt_send_slot *slot = Prepare();
    dt_cts_entry row = {};
    row.released[0] = (uint8_t)place->generation;
    dt_eager_read_row(s, &row);
    slot->entry[0].takes_eager = 0;
    detour_test::ExpectWarning("asks for its payload again");
    EXPECT_EQ(DT_BODY_PENDING, dt_eager_choose_body(s, slot).kind);
    EXPECT_EQ(DT_PROTOCOL, (int)sender->failing);
    dt_stage_slot(s, slot)->mask = 0;
    dt_list_push_back(&stage->queue, &entry->node);
}

TEST_F(EagerTake, SettlingConfirmsArrivedPayloads)
{
    dt_send_slot *slot = Prepare();
    dt_resume resume = Resume(place->generation);
    dt_path other = sender->path[place->path];
    other.epoch++;
    dt_eager_settle(&other, &resume); // another epoch decides nothing
    EXPECT_FALSE(place->is_confirmed);
    dt_eager_settle(&sender->path[place->path], &resume);
    EXPECT_TRUE(place->is_confirmed);
    EXPECT_EQ(DT_EAGER_WRITTEN, place->state);
    place->is_confirmed = false;
    Restore(slot);
}

TEST_F(EagerTake, PayloadsThatDidNotArriveAreSentAgain)
{
    dt_send_slot *slot = Prepare();
    dt_resume resume = Resume(place->generation - 1);
    slot->body.kind = DT_BODY_TAKE;
    slot->body.place = 0;
    dt_stage_slot(s, slot)->taken_generation = place->generation;
    dt_eager_settle(&sender->path[place->path], &resume);
    EXPECT_TRUE(place->is_lost);
    EXPECT_EQ(DT_EAGER_FREE, place->state);
    EXPECT_EQ((uint8_t)DT_EAGER_NONE, entry->eager);
    EXPECT_FALSE(dt_eager_announce_again(s, slot));
    EXPECT_EQ(0u, s->again);
    slot->part[0].bytes = 100;
    EXPECT_EQ(DT_BODY_DATA, dt_eager_choose_body(s, slot).kind);
    /* The receiver has it, in truth: the connection ends here. */
    dt_stage_slot(s, slot)->mask = 0;
    dt_list_push_back(&stage->queue, &entry->node);
}

TEST_F(EagerTake, ATakeThatWasLostAloneIsPostedAgainOnce)
{
    dt_send_slot *slot = Prepare();
    slot->body.kind = DT_BODY_TAKE;
    slot->state = DT_SEND_DONE;
    dt_stage_slot(s, slot)->taken_generation = 0;
    EXPECT_TRUE(dt_eager_announce_again(s, slot));
    EXPECT_TRUE(dt_eager_announce_again(s, slot));
    EXPECT_EQ(1u, s->again);
    dt_path *current = sender->current;
    sender->current = nullptr;
    EXPECT_EQ(0u, dt_eager_resend_takes(s));
    sender->current = current;
    s->again = 0;
    eager->take_again = 0;
    slot->state = DT_SEND_FREE;
    Restore(slot);
}
} // namespace
