/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/event.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/atomics.h"

namespace
{
TEST(Events, TheRingKeepsTheNewest)
{
    auto ring = std::make_unique<dt_event_ring>();
    dt_event_record record;

    for (uint64_t i = 0; i < DT_EVENT_SLOTS + 10; i++)
        dt_event_write(ring.get(), i, DT_EVENT_KIND_PROCESS, UINT32_MAX, static_cast<int64_t>(i), "note");
    EXPECT_FALSE(dt_event_read(ring.get(), 9, &record));
    ASSERT_TRUE(dt_event_read(ring.get(), 10, &record));
    EXPECT_EQ(10, record.value);
    ASSERT_TRUE(dt_event_read(ring.get(), DT_EVENT_SLOTS + 9, &record));
    EXPECT_FALSE(dt_event_read(ring.get(), DT_EVENT_SLOTS + 10, &record));
}

TEST(Events, LongTextsAreCutAndKindsHaveTexts)
{
    auto ring = std::make_unique<dt_event_ring>();
    dt_event_record record;

    dt_event_write(ring.get(), 0, DT_EVENT_KIND_CONTROL, 0, 0, "%s", std::string(300, 'y').c_str());
    ASSERT_TRUE(dt_event_read(ring.get(), 0, &record));
    EXPECT_EQ(DT_EVENT_TEXT_BYTES - 1, strlen(record.text));
    for (uint32_t kind = 0; kind < DT_EVENT_KIND_COUNT; kind++)
        EXPECT_STRNE("unknown", dt_event_kind_text(kind));
    EXPECT_STREQ("unknown", dt_event_kind_text(DT_EVENT_KIND_COUNT));
}

// Writers that are less than a ring apart; every record read is one that was written.
TEST(Events, ReadersNeverSeeAMixedRecord)
{
    auto ring = std::make_unique<dt_event_ring>();
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> turn[3] = {};
    std::vector<std::thread> writers;
    uint64_t seen = 0;

    for (uint64_t w = 0; w < 3; w++) {
        writers.emplace_back([&, w] {
            for (uint64_t i = 0; i < 20000; turn[w] = ++i) {
                while (i > std::min({turn[0].load(), turn[1].load(), turn[2].load()}) + DT_EVENT_SLOTS / 4)
                    std::this_thread::yield();
                dt_event_write(ring.get(), i * 3 + w, DT_EVENT_KIND_PROCESS, static_cast<uint32_t>(i * 3 + w),
                               static_cast<int64_t>(i * 3 + w), "%llu",
                               static_cast<unsigned long long>(i * 3 + w));
            }
        });
    }
    std::thread reader([&] {
        while (!stop) {
            uint64_t written = dt_load_acquire(&ring->written);
            for (uint64_t number = written > 64 ? written - 64 : 0; number < written; number++) {
                dt_event_record record;
                if (!dt_event_read(ring.get(), number, &record))
                    continue;
                seen++;
                ASSERT_EQ(record.time_ns, record.subject);
                ASSERT_EQ(record.time_ns, static_cast<uint64_t>(record.value));
                ASSERT_EQ(std::to_string(record.time_ns), record.text);
            }
        }
    });
    for (std::thread &writer : writers)
        writer.join();
    stop = true;
    reader.join();
    dt_event_record last;
    EXPECT_TRUE(dt_event_read(ring.get(), 59999, &last));
}
} // namespace
