/* SPDX-License-Identifier: Apache-2.0 */
#include "detect/processor.h"

#include <gtest/gtest.h>

#include <vector>

namespace
{
const uint64_t kMs = 1000000, kSecond = 1000 * kMs;

/* Rounds of 100 ms, each with these milliseconds of it. */
struct Load {
    double run_ms, wait_ms;
};

bool Explains(const std::vector<Load> &loads, double in_flight_ms, double factor, bool is_overdue = false)
{
    std::vector<dt_processor_thread> threads(loads.size());
    std::vector<const dt_processor_thread *> pointers;
    dt_processor_flight flight = {};
    for (const dt_processor_thread &thread : threads)
        pointers.push_back(&thread);
    for (int round = 0; round <= 20; round++) {
        uint64_t now_ns = kSecond + static_cast<uint64_t>(round) * 100 * kMs;
        for (size_t i = 0; i < loads.size(); i++) {
            dt_processor_times times = {static_cast<uint64_t>(loads[i].run_ms * round * 1e6),
                                        static_cast<uint64_t>(loads[i].wait_ms * round * 1e6)};
            dt_processor_thread_add(&threads[i], &times, now_ns);
        }
        dt_processor_flight_add(&flight, static_cast<uint64_t>(in_flight_ms * round * 1e6), is_overdue,
                                now_ns);
    }
    return dt_processor_part(pointers.data(), static_cast<uint32_t>(pointers.size()), &flight, factor) >=
           DT_PROCESSOR_PART;
}

TEST(Processor, ExplainsWhatItsWaitsAreLongEnoughFor)
{
    const struct {
        const char *name;
        std::vector<Load> loads;
        double in_flight_ms, factor;
        bool is_overdue, explains;
    } rows[] = {
        {"eight programs on two processors", {{22, 78}}, 100, 8, false, true},
        {"an idle host, the link is slow", {{99, 0.1}}, 100, 8, false, false},
        {"a few waits, the link is slow", {{90, 10}}, 100, 8, false, false},
        {"waits of 1.1 times are enough for a factor of 1.1", {{94, 6}}, 100, 1.1, false, true},
        {"a sleeping thread that waits at each wake-up", {{1, 6}}, 8, 8, false, true},
        {"a spinning thread's waits fall mostly between messages", {{50, 50}}, 4, 8, false, true},
        {"and then a small part of them is a small part of the messages'", {{80, 20}}, 4, 8, false, false},
        {"both threads together", {{70, 30}, {1, 20}}, 100, 8, false, true},
        {"a message that is overdue, on a busy host", {{30, 70}}, 0, 100, true, true},
        {"a message that is overdue, on an idle host", {{100, 0}}, 0, 100, true, false},
        {"nothing in flight", {{22, 78}}, 0, 8, false, false},
        {"not slow", {{22, 78}}, 100, 1, false, false},
        {"no factor is known", {{22, 78}}, 100, 0, false, false},
        {"no thread is known", {}, 100, 8, false, false},
        {"service times of messages that overlap", {{22, 78}}, 5000, 8, false, true},
    };
    for (const auto &row : rows)
        EXPECT_EQ(row.explains, Explains(row.loads, row.in_flight_ms, row.factor, row.is_overdue))
            << row.name;
}

TEST(Processor, ForgetsABusyTime)
{
    dt_processor_thread thread = {};
    dt_processor_flight flight = {};
    const dt_processor_thread *threads[] = {&thread};
    dt_processor_times times = {};
    uint64_t now_ns = kSecond, service_ns = 0;
    auto rounds = [&](int count, uint64_t wait_ms) {
        for (int i = 0; i < count; i++) {
            now_ns += 100 * kMs;
            times.wait_ns += wait_ms * kMs;
            times.run_ns += (100 - wait_ms) * kMs;
            service_ns += 100 * kMs;
            dt_processor_thread_add(&thread, &times, now_ns);
            dt_processor_flight_add(&flight, service_ns, false, now_ns);
        }
        return dt_processor_part(threads, 1, &flight, 8) >= DT_PROCESSOR_PART;
    };
    EXPECT_FALSE(rounds(1, 80)) << "one reading has no difference";
    EXPECT_TRUE(rounds(1, 80));
    EXPECT_TRUE(rounds(20, 80));
    EXPECT_FALSE(rounds(10, 0)) << "a second later";
    EXPECT_FALSE(rounds(50, 0));
    EXPECT_TRUE(rounds(20, 80));
}

TEST(Processor, StartsAnewWithAnotherThreadOrRow)
{
    dt_processor_thread thread = {};
    dt_processor_times one = {5 * kSecond, 5 * kSecond}, later = {5 * kSecond, 6 * kSecond}, other = {1, 1};
    dt_processor_thread_add(&thread, &one, kSecond);
    dt_processor_thread_add(&thread, &later, 2 * kSecond);
    EXPECT_DOUBLE_EQ(1, thread.wait_s);
    dt_processor_thread_add(&thread, &other, 3 * kSecond);
    EXPECT_DOUBLE_EQ(0, thread.wait_s) << "the number of the thread was used again";
    dt_processor_thread_add(&thread, &one, 2 * kSecond);
    EXPECT_DOUBLE_EQ(0, thread.window_s) << "time never runs backwards";
    dt_processor_flight flight = {};
    dt_processor_flight_add(&flight, 500 * kMs, false, kSecond);
    dt_processor_flight_add(&flight, 700 * kMs, false, 2 * kSecond);
    EXPECT_DOUBLE_EQ(0.2, flight.busy_s);
    dt_processor_flight_add(&flight, 1, false, 3 * kSecond);
    EXPECT_DOUBLE_EQ(0, flight.busy_s);
}
} // namespace
