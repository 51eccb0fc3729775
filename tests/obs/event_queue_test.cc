/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/event_queue.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace
{
class Queue : public ::testing::Test
{
  protected:
    void Write(dt_event_kind kind, int count = 1)
    {
        dt_event_record event = dt_event_of(kind, 1);
        for (int i = 0; i < count; i++)
            dt_event_write(ring.get(), &event, "%llu", static_cast<unsigned long long>(ring->written));
    }

    /* The numbers of the events that wait. */
    std::vector<uint64_t> Take()
    {
        std::vector<uint64_t> numbers;
        dt_event_record record;
        while (dt_event_queue_take(&queue, &record)) {
            EXPECT_EQ(std::to_string(record.mark - 1), record.text);
            numbers.push_back(record.mark - 1);
        }
        return numbers;
    }

    std::unique_ptr<dt_event_ring> ring = std::make_unique<dt_event_ring>();
    dt_event_queue queue = {};
};

TEST_F(Queue, TakesTheChosenKindsInTheirOrder)
{
    queue.kinds = 1u << DT_EVENT_KIND_PATH | 1u << DT_EVENT_KIND_VERDICT;
    Write(DT_EVENT_KIND_PROCESS);
    Write(DT_EVENT_KIND_PATH);
    Write(DT_EVENT_KIND_VERDICT);
    Write(DT_EVENT_KIND_COMMAND);
    dt_event_queue_fill(&queue, ring.get());
    EXPECT_EQ((std::vector<uint64_t>{1, 2}), Take());
    dt_event_queue_fill(&queue, ring.get());
    EXPECT_EQ((std::vector<uint64_t>{}), Take()) << "once";
    Write(DT_EVENT_KIND_PATH);
    dt_event_queue_fill(&queue, ring.get());
    EXPECT_EQ((std::vector<uint64_t>{4}), Take());
    EXPECT_EQ(0u, queue.dropped);
}

TEST_F(Queue, IsBoundedAndCountsTheRest)
{
    queue.kinds = 1u << DT_EVENT_KIND_PATH;
    Write(DT_EVENT_KIND_PATH, DT_EVENT_QUEUE_MAX + 5);
    Write(DT_EVENT_KIND_DEVICE, 9);
    dt_event_queue_fill(&queue, ring.get());
    EXPECT_EQ(5u, queue.dropped) << "of the chosen kind";
    std::vector<uint64_t> numbers = Take();
    ASSERT_EQ(DT_EVENT_QUEUE_MAX, numbers.size());
    EXPECT_EQ(0u, numbers.front());
    EXPECT_EQ(DT_EVENT_QUEUE_MAX - 1, numbers.back());
    Write(DT_EVENT_KIND_PATH, DT_EVENT_SLOTS + 30);
    dt_event_queue_fill(&queue, ring.get());
    EXPECT_EQ(5u + 30 + DT_EVENT_SLOTS - DT_EVENT_QUEUE_MAX, queue.dropped) << "overwritten ones too";
}

TEST_F(Queue, WaitsForAnEventThatIsBeingWritten)
{
    queue.kinds = 1u << DT_EVENT_KIND_PATH;
    Write(DT_EVENT_KIND_PATH, 3);
    uint64_t mark = ring->records[1].mark;
    ring->records[1].mark = 0;
    dt_event_queue_fill(&queue, ring.get());
    EXPECT_EQ((std::vector<uint64_t>{0}), Take());
    ring->records[1].mark = mark;
    dt_event_queue_fill(&queue, ring.get());
    EXPECT_EQ((std::vector<uint64_t>{1, 2}), Take());
    EXPECT_EQ(0u, queue.dropped);
}

TEST(EventKinds, AreNamesWithCommas)
{
    const struct {
        const char *text;
        uint32_t kinds;
        const char *unknown; /* or nullptr */
    } rows[] = {
        {"path", 1u << DT_EVENT_KIND_PATH, nullptr},
        {"verdict,path", 1u << DT_EVENT_KIND_PATH | 1u << DT_EVENT_KIND_VERDICT, nullptr},
        {"process,device,control,control",
         1u << DT_EVENT_KIND_PROCESS | 1u << DT_EVENT_KIND_DEVICE | 1u << DT_EVENT_KIND_CONTROL, nullptr},
        {"", 0, ""},
        {"path,", 0, ""},
        {"path,slow", 0, "slow"},
        {"Path", 0, "Path"},
        {"path verdict", 0, "path verdict"},
        {"command", 0, "command"}, // it would start itself
    };
    for (const auto &row : rows) {
        uint32_t kinds;
        const char *unknown = nullptr;
        size_t bytes = 0;
        EXPECT_EQ(row.unknown == nullptr, dt_event_kinds_parse(row.text, &kinds, &unknown, &bytes))
            << row.text;
        if (row.unknown)
            EXPECT_EQ(row.unknown, std::string(unknown, bytes)) << row.text;
        else
            EXPECT_EQ(row.kinds, kinds) << row.text;
    }
}
} // namespace
