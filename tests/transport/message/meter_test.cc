/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/message/meter.h"

#include "detect/sampler.h"
#include "tests/transport/message/ends.h"

namespace
{
uint64_t clock_ns;

class Meter : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        clock_ns = DT_NS_PER_S;
        dt_ticks_init_virtual(
            &ticks, [](void *) { return clock_ns; }, nullptr);
        dt_meter_init(&meter, &ticks, true);
        ASSERT_EQ((uint32_t)DT_METER_SAMPLES_EACH, meter.room);
    }
    void TearDown() override
    {
        dt_meter_fini(&meter);
    }
    /* `count` messages of 10 bytes, each requested 5 us and submitted 3 us before it is complete. */
    void Send(uint32_t count)
    {
        for (uint32_t i = 0; i < count; i++) {
            clock_ns += 5000;
            dt_meter_sent(&meter, clock_ns - 5000, clock_ns - 3000, 10);
        }
    }
    uint64_t Samples()
    {
        return meter.head - meter.tail;
    }
    dt_sample Take()
    {
        const dt_sample *sample = dt_meter_sample(&meter);
        dt_sample taken = {};
        EXPECT_NE(nullptr, sample);
        if (sample)
            taken = *sample;
        dt_meter_taken(&meter);
        return taken;
    }
    dt_ticks ticks = {};
    dt_meter meter = {};
};

TEST_F(Meter, LeavesASampleOfEachMessage)
{
    EXPECT_EQ(nullptr, dt_meter_sample(&meter));
    Send(1);
    dt_sample sample = Take();
    EXPECT_EQ(DT_NS_PER_S, sample.requested);
    EXPECT_EQ(DT_NS_PER_S + 2000, sample.submitted);
    EXPECT_EQ(DT_NS_PER_S + 5000, sample.done);
    EXPECT_EQ(10u, sample.bytes);
    EXPECT_EQ(1u, sample.messages);
    EXPECT_EQ(nullptr, dt_meter_sample(&meter));
    EXPECT_EQ(1u, meter.row->message_count);
    EXPECT_EQ(10u, meter.row->payload_bytes);
    EXPECT_EQ(3000u, meter.row->service_ns);
    EXPECT_EQ(1u, meter.row->service_count[dt_page_service_bucket(3000)]);
}

TEST_F(Meter, InASampleOfSeveralMessagesNoTimeIsMissing)
{
    const uint32_t kMessages = DT_METER_SAMPLES_EACH + DT_METER_MERGED;
    Send(kMessages);
    ASSERT_EQ((uint64_t)DT_METER_SAMPLES_EACH + 1, Samples());
    EXPECT_EQ((uint64_t)DT_METER_MERGED, meter.merged);
    EXPECT_FALSE(meter.is_keeping);
    dt_sample last = {};
    for (uint32_t i = 0; i < DT_METER_SAMPLES_EACH; i++)
        last = Take();
    dt_sample merged = Take();
    EXPECT_EQ((uint64_t)DT_METER_MERGED, merged.messages);
    EXPECT_EQ(10ull * DT_METER_MERGED, merged.bytes);
    EXPECT_EQ(3000ull * DT_METER_MERGED, merged.service);
    EXPECT_EQ(2000ull * (DT_METER_MERGED - 1), merged.idle);
    EXPECT_EQ(merged.idle, merged.waited) << "the next message was requested all that time";
    EXPECT_EQ(last.done, merged.requested);
    EXPECT_EQ(clock_ns, merged.done);
    EXPECT_EQ(merged.done - merged.submitted, merged.service + merged.idle);
}

TEST_F(Meter, AFullRingKeepsAllMessagesUntilThereIsRoom)
{
    const uint32_t kMessages = 100000;
    Send(kMessages);
    EXPECT_EQ((uint64_t)DT_METER_SAMPLES, Samples());
    EXPECT_TRUE(meter.is_keeping);
    uint64_t messages = 0, bytes = 0, previous_ns = 0;
    while (Samples() > 0) {
        dt_sample sample = Take();
        messages += sample.messages;
        bytes += sample.bytes;
        EXPECT_LT(previous_ns, sample.done);
        previous_ns = sample.done;
    }
    EXPECT_EQ(kMessages, messages + meter.kept.messages);
    Send(1); /* carries those that were kept */
    dt_sample rest = Take();
    EXPECT_EQ(kMessages + 1, messages + rest.messages);
    EXPECT_EQ(10ull * (kMessages + 1), bytes + rest.bytes);
    EXPECT_FALSE(meter.is_keeping);
    EXPECT_EQ(0u, meter.kept.messages);
    EXPECT_EQ(kMessages, meter.row->message_count - 1);
}

TEST_F(Meter, MessagesBeforeAPauseAreASampleOfTheirOwn)
{
    Send(DT_METER_SAMPLES_EACH + 3);
    ASSERT_EQ((uint64_t)DT_METER_SAMPLES_EACH, Samples());
    ASSERT_EQ(3u, meter.kept.messages);
    uint64_t before_ns = clock_ns;
    clock_ns += 2 * DT_SAMPLER_IDLE_NS;
    Send(1);
    ASSERT_EQ((uint64_t)DT_METER_SAMPLES_EACH + 1, Samples());
    EXPECT_EQ(1u, meter.kept.messages);
    for (uint32_t i = 0; i < DT_METER_SAMPLES_EACH; i++)
        Take();
    dt_sample sample = Take();
    EXPECT_EQ(3u, sample.messages);
    EXPECT_EQ(before_ns, sample.done);
    EXPECT_EQ(2 * 2000u, sample.idle);
}

TEST_F(Meter, TheTimeOfARequestIsThatOfItsFirstCall)
{
    dt_meter_waits(&meter);
    uint64_t first = clock_ns;
    clock_ns += 100;
    dt_meter_waits(&meter);
    EXPECT_EQ(first, meter.requested);
    dt_meter_refused(&meter);
    EXPECT_EQ(1u, meter.row->refused_count);
}

TEST_F(Meter, WithoutMemoryForARingNothingIsSampledAndAllIsCounted)
{
    dt_meter small = {};
    detour_test_fail_alloc(0);
    dt_meter_init(&small, &ticks, true);
    ASSERT_TRUE(detour_test_alloc_failed());
    EXPECT_EQ(0u, small.room);
    clock_ns += 100;
    dt_meter_sent(&small, clock_ns - 100, clock_ns - 50, 10);
    EXPECT_EQ(nullptr, dt_meter_sample(&small));
    EXPECT_EQ(1u, small.row->message_count);
    EXPECT_EQ(50u, small.row->service_ns);
    dt_meter_fini(&small);
}

TEST_F(Meter, TheTagNamesTheRankUntilThereAreSeveral)
{
    dt_meter_tag(&meter, 3);
    EXPECT_EQ(3, meter.row->from_rank);
    dt_meter_tag(&meter, 3);
    EXPECT_EQ(3, meter.row->from_rank);
    dt_meter_tag(&meter, 4);
    EXPECT_EQ(DT_PAGE_RANK_SEVERAL, meter.row->from_rank);
}

class MeterRow : public detour_test::Ends
{
  protected:
    void TearDown() override
    {
        Ends::TearDown();
        dt_page_close(page);
    }
    dt_page *page = nullptr;
};

TEST_F(MeterRow, IsOnThePageFromOpenToClose)
{
    dt_page_options options = {};
    ASSERT_EQ(DT_OK, dt_page_open(&options, &page));
    EXPECT_EQ(&sender->meter.own, sender->meter.row) << "without a page it is the connection's own";
    sender->environment->page = page;
    dt_meter_open(sender, 77);
    dt_page_connection *row = sender->meter.row;
    ASSERT_NE(&sender->meter.own, row);
    EXPECT_EQ((uint32_t)DT_PAGE_ROW_USED, row->row.state);
    EXPECT_EQ(sender->id, row->id);
    EXPECT_EQ(77u, row->opened_ns);
    EXPECT_EQ(2u, row->path_count);
    EXPECT_STREQ("soft0", row->path[0].own);
    EXPECT_STREQ("soft1", row->path[1].own);
    EXPECT_EQ(0u, row->path_now);
    sender->current = &sender->path[1];
    dt_meter_path(sender);
    EXPECT_EQ(1u, row->path_now);
    sender->current = nullptr;
    dt_meter_path(sender);
    EXPECT_EQ(UINT32_MAX, row->path_now);
    sender->current = &sender->path[0];
    dt_meter_close(sender);
    EXPECT_EQ((uint32_t)DT_PAGE_ROW_FREE, row->row.state);
    EXPECT_EQ(&sender->meter.own, sender->meter.row);
    dt_meter_close(sender); /* harmless */
    sender->environment->page = nullptr;
}
} // namespace
