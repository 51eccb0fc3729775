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
/* A record whose numbers are all `number`. */
void Write(dt_event_ring *ring, dt_event_kind kind, uint64_t number, const std::string &text)
{
    dt_event_record content = dt_event_of(kind, number);

    content.subject = static_cast<uint32_t>(number);
    content.value = static_cast<int64_t>(number);
    content.delay_ns = content.connection = number;
    dt_event_write(ring, &content, "%s", text.c_str());
}

TEST(Events, TheRingKeepsTheNewest)
{
    auto ring = std::make_unique<dt_event_ring>();
    dt_event_record record;

    for (uint64_t i = 0; i < DT_EVENT_SLOTS + 10; i++)
        Write(ring.get(), DT_EVENT_KIND_PROCESS, i, "note");
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

    Write(ring.get(), DT_EVENT_KIND_CONTROL, 0, std::string(300, 'y'));
    ASSERT_TRUE(dt_event_read(ring.get(), 0, &record));
    EXPECT_EQ(DT_EVENT_TEXT_BYTES - 1, strlen(record.text));
    for (uint32_t kind = 0; kind < DT_EVENT_KIND_COUNT; kind++)
        EXPECT_STRNE("unknown", dt_event_kind_text(kind));
    EXPECT_STREQ("unknown", dt_event_kind_text(DT_EVENT_KIND_COUNT));
}

TEST(Events, AnEventHasWhatIsKnownOfIt)
{
    auto ring = std::make_unique<dt_event_ring>();
    dt_event_record content = dt_event_of(DT_EVENT_KIND_DEVICE, 5), record;

    dt_event_write(ring.get(), &content, "gone");
    ASSERT_TRUE(dt_event_read(ring.get(), 0, &record));
    EXPECT_EQ(UINT32_MAX, record.subject);
    EXPECT_EQ(0u, record.connection);
    EXPECT_EQ(-1, record.path);
    EXPECT_EQ(-1, record.from_rank);
    EXPECT_EQ(DT_EVENT_NO_VERDICT, record.verdict);
    EXPECT_STREQ("", record.nic);
    content.path = 3;
    memset(content.nic, 'n', sizeof content.nic);
    memset(content.peer_nic, 'n', sizeof content.peer_nic);
    memset(content.next_nic, 'n', sizeof content.next_nic);
    memset(content.peer, 'p', sizeof content.peer);
    dt_event_write(ring.get(), &content, "gone");
    ASSERT_TRUE(dt_event_read(ring.get(), 1, &record));
    EXPECT_EQ(3, record.path);
    for (const char *text : {record.nic, record.peer_nic, record.next_nic})
        EXPECT_EQ(std::string(31, 'n'), text) << "a reader ends texts, whatever was written";
    EXPECT_EQ(std::string(95, 'p'), record.peer);
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
                Write(ring.get(), DT_EVENT_KIND_PROCESS, i * 3 + w, std::to_string(i * 3 + w));
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
                ASSERT_EQ(record.time_ns, record.connection);
                ASSERT_EQ(record.time_ns, record.delay_ns);
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
