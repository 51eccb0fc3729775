/* SPDX-License-Identifier: Apache-2.0 */
/* The last stage of a pipeline in virtual time: what its connections leave, and what the page says. */
#include "transport/pace.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "tests/harness/harness.h"
#include "transport/message/create.h"
#include "transport/message/receiver.h"
#include "transport/net_state.h"

namespace
{
const uint64_t kMs = 1000000;

class Pace : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        nic.environment = &environment;
        dt_ticks_init_virtual(&environment.ticks, Now, &now_ns);
        dt_page_options options = {nullptr, 1, "x", 0, 0, "", DT_PAGE_RANK_UNKNOWN};
        ASSERT_EQ(DT_OK, dt_page_open(&options, &page));
        dt_pace_init(&pace);
        connection = dt_connection_create(&nic, false);
        snprintf(connection->peer, sizeof connection->peer, "hostb:7 (soft0)");
        ASSERT_EQ(DT_OK, dt_pace_add(&pace, &mutex, dt_receiver_of(connection)));
        dt_rank_time_add_sender(&pace.time, sender.get(), dt_pace_peer("hostb:7 (soft3)"));
    }
    void TearDown() override
    {
        dt_rank_time_remove_sender(&pace.time, sender.get());
        dt_pace_remove(&pace, &mutex, dt_receiver_of(connection));
        EXPECT_EQ(nullptr, dt_receiver_of(connection)->rank);
        dt_path_group_release(&connection->group);
        dt_page_close(page);
    }

    static uint64_t Now(void *arg)
    {
        return *static_cast<uint64_t *>(arg);
    }

    /* An activation arrives, is computed, and the gradient is wanted; 8 of them and a pause. */
    void Iterate(uint64_t compute_ns, bool is_disturbed = false)
    {
        for (int i = 0; i < 8; i++) {
            now_ns += 2 * kMs;
            dt_receiver_stamp(dt_receiver_of(connection), sequence++);
            dt_pace_feed(&mutex, dt_receiver_of(connection));
            now_ns += compute_ns;
            dt_rank_time_wanted(sender.get(), now_ns, now_ns, 1);
        }
        now_ns += 100 * kMs;
        dt_pace_judge(&pace, page, is_disturbed, now_ns);
    }

    const dt_page_pace &Shown() const
    {
        return pace.shown;
    }

    /* Of the events of this kind, the last one; text "" if there is none. */
    dt_event_record LastEvent(uint64_t *count)
    {
        dt_event_record last = {}, record;
        *count = 0;
        for (uint64_t number = 0; dt_event_read(dt_page_events(page), number, &record); number++) {
            if (record.kind == DT_EVENT_KIND_COMPUTATION) {
                last = record;
                ++*count;
            }
        }
        return last;
    }

    uint64_t now_ns = 1000 * kMs;
    uint64_t sequence = 0;
    dt_environment environment = {};
    dt_nic nic = {};
    dt_page *page = nullptr;
    dt_pace pace;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    dt_connection *connection = nullptr;
    std::unique_ptr<dt_rank_sender> sender = std::make_unique<dt_rank_sender>();
};

TEST_F(Pace, ASlowComputationIsShownAndEnds)
{
    uint64_t count;
    for (int i = 0; i < 80; i++)
        Iterate(4 * kMs);
    EXPECT_EQ((8 * 6 + 100) * kMs, Shown().iteration_ns);
    EXPECT_NEAR(8 * 4e6, static_cast<double>(Shown().compute_ns), 8 * 600) << "a stamp has 512 ticks";
    EXPECT_GT(Shown().iterations, 60u);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Shown().verdict);
    LastEvent(&count);
    EXPECT_EQ(0u, count);

    uint64_t changed_ns = now_ns;
    for (int i = 0; i < 20; i++)
        Iterate(8 * kMs);
    EXPECT_EQ((8 * 10 + 100) * kMs, Shown().iteration_ns);
    EXPECT_NEAR(8 * 8e6, static_cast<double>(Shown().compute_ns), 8 * 600);
    EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Shown().verdict);
    EXPECT_NEAR(2000, static_cast<double>(Shown().factor_permille), 20);
    EXPECT_NEAR(static_cast<double>(changed_ns), static_cast<double>(Shown().since_ns), 600e6);
    dt_event_record event = LastEvent(&count);
    EXPECT_EQ(1u, count);
    EXPECT_EQ(6u, event.cause);
    EXPECT_EQ(static_cast<uint32_t>(DT_PAGE_VERDICT_SLOW), event.verdict);
    EXPECT_NE(nullptr, strstr(event.text, "this rank's computation")) << event.text;

    for (int i = 0; i < 80; i++)
        Iterate(4 * kMs);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Shown().verdict);
    EXPECT_EQ(0u, Shown().since_ns);
    LastEvent(&count);
    EXPECT_EQ(2u, count);
}

/* A link of the process is slow: the gaps may be waits for it. */
TEST_F(Pace, WhileALinkIsSlowTheComputationIsNotJudged)
{
    for (int i = 0; i < 80; i++)
        Iterate(4 * kMs);
    for (int i = 0; i < 40; i++)
        Iterate(8 * kMs, true);
    EXPECT_EQ(DT_PAGE_VERDICT_HEALTHY, Shown().verdict);
    EXPECT_NEAR(8 * 8e6, static_cast<double>(Shown().compute_ns), 8 * 600) << "shown nevertheless";
    for (int i = 0; i < 20; i++)
        Iterate(8 * kMs);
    EXPECT_EQ(DT_PAGE_VERDICT_SLOW, Shown().verdict);
}
} // namespace
