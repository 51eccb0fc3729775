/* SPDX-License-Identifier: Apache-2.0 */
#include "hostpath/staged/eager_place.h"

#include "tests/hostpath/staged/staged_ends.h"
#include "transport/session/channel.h"

namespace
{
class EagerPlace : public detour_test::StagedEnds
{
};

TEST_F(EagerPlace, IsReleasedByTheRowOfALaterIrecv)
{
    AwaitGrant();
    SendEagerly(100);
    dt_eager_place *place = &eager->place[0];
    ASSERT_EQ(DT_EAGER_WRITTEN, place->state);
    dt_staged *entry = place->entry;
    ASSERT_NE(nullptr, entry);
    EXPECT_EQ(place, dt_eager_place_of(s, entry));
    dt_cts_entry row = {};
    row.takes_eager = 1;
    row.released[0] = (uint8_t)(place->generation + 1); // of another use
    dt_eager_read_row(s, &row);
    EXPECT_EQ(DT_EAGER_WRITTEN, place->state);
    row.released[0] = (uint8_t)place->generation;
    dt_eager_read_row(s, &row);
    EXPECT_EQ(DT_EAGER_FREE, place->state);
    EXPECT_EQ(DT_EAGER_RELEASED, entry->eager);
    EXPECT_TRUE(dt_eager_was_sent(s, entry));
    EXPECT_TRUE(eager->is_accepted);
    row.takes_eager = 0;
    dt_eager_read_row(s, &row);
    EXPECT_FALSE(eager->is_accepted);
    ASSERT_NE(nullptr, Irecv(100));
    AwaitDelivery();
}

TEST_F(EagerPlace, ACompletionOfAnEarlierUseIsIgnored)
{
    dt_eager_place *place = &eager->place[3];
    dt_work work = {};

    place->state = DT_EAGER_WRITTEN;
    place->generation = 5;
    work.kind = DT_WORK_EAGER;
    work.sequence = 4 << 3 | 3;
    dt_eager_completed(s, &work);
    EXPECT_FALSE(place->is_counted);
    work.sequence = 5 << 3 | 3;
    dt_eager_completed(s, &work);
    EXPECT_TRUE(place->is_counted);
    uint32_t completions = sender->completions;
    dt_eager_completed(s, &work); // counted once
    EXPECT_EQ(completions, sender->completions);
    place->state = DT_EAGER_FREE;
}

TEST_F(EagerPlace, OnlyAGrantIsAcceptedAndOnlyTheFirstCounts)
{
    dt_grant grant = {};
    uint8_t bytes[DT_FRAME_BYTES_MAX];
    dt_writer writer = {bytes, sizeof bytes, 0, false};
    dt_frame frame = {};

    ASSERT_TRUE(Until([&] { return eager->is_granted != 0; }));
    dt_grant first = eager->grant;
    grant.addr = 0x1000;
    grant.bytes = 4096;
    grant.path_mask = 1;
    dt_grant_encode(&grant, sender->path_count, &writer);
    frame.type = DT_FRAME_GRANT;
    frame.body = bytes + DT_FRAME_HEADER_BYTES;
    frame.bytes = (uint32_t)(writer.used - DT_FRAME_HEADER_BYTES);
    EXPECT_EQ(DT_OK, dt_eager_frame(s, &frame));
    EXPECT_EQ(first.addr, eager->grant.addr);
    frame.bytes--;
    EXPECT_EQ(DT_PROTOCOL, dt_eager_frame(s, &frame));
    frame.bytes++;
    frame.type = DT_FRAME_PATH;
    EXPECT_EQ(DT_PROTOCOL, dt_eager_frame(s, &frame));
}

TEST(EagerPlaceDeath, AFreePlaceIsReservedBeforeItIsWritten)
{
    dt_eager_place place = {};
    EXPECT_DEATH(dt_eager_place_set(&place, DT_EAGER_WRITTEN), "transitions");
}

TEST_F(EagerPlace, EntriesThatAreTooLongAreNoCandidates)
{
    AwaitGrant();
    dt_request *fits = Isend(eager->grant.bytes);
    EXPECT_EQ(1u, eager->candidates);
    dt_request *is_too_long = Isend(eager->grant.bytes + 1);
    EXPECT_EQ(1u, eager->candidates);
    Wait(fits);
    Wait(is_too_long);
    ASSERT_NE(nullptr, Irecv(kBytes));
    ASSERT_NE(nullptr, Irecv(kBytes));
    AwaitDelivery();
    EXPECT_EQ(0u, eager->candidates);
}
} // namespace
