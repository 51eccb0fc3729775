// SPDX-License-Identifier: Apache-2.0
#include "detect/iteration.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <random>
#include <string>

#include "tests/detect/busy_traffic.h"
#include "tests/detect/rhythm.h"

using detour_test::Change;
using detour_test::DeviceTraffic;
using detour_test::Errors;
using detour_test::Generator;
using detour_test::Message;
using detour_test::Rhythm;

namespace
{
const double kBound = 0.012; /* FALCON, Fig. 12 */

std::vector<Rhythm> Cases()
{
    std::vector<Rhythm> cases;
    uint64_t seed = 1;
    for (int devices : {2, 3, 4, 8}) {
        for (int microbatches : {4, 8, 16, 32}) {
            for (bool has_w : {false, true}) {
                for (double noise : {0.05}) {
                    for (int chunks : {1, 4}) {
                        Rhythm r;
                        r.devices = devices;
                        r.microbatches = microbatches;
                        r.has_w = has_w;
                        r.noise = noise;
                        r.chunks = chunks;
                        r.has_barrier = seed % 2;
                        r.f_ms = 2 + static_cast<double>(seed % 5);
                        r.b_ms = r.f_ms * 1.1;
                        r.w_ms = r.f_ms * 0.9;
                        r.seed = seed++;
                        cases.push_back(r);
                    }
                }
            }
        }
    }
    return cases;
}

/* The true mean time of the iterations [from, to) of a device. */
double Truth(const DeviceTraffic &device, int from, int to)
{
    return (device.begin_ms[to] - device.begin_ms[from]) / (to - from);
}

/* Feeds a device's sends in the order of time, as a plugin does, and compares each complete iteration, from
 * `from` on, with the truth at that time. */
struct Watch {
    explicit Watch(const DeviceTraffic &device) : traffic(device)
    {
        for (auto &connection : connections) {
            connection = std::make_unique<dt_iteration>();
            dt_iteration_init(connection.get());
        }
    }

    const dt_iteration *Vote() const
    {
        const dt_iteration *both[] = {connections[0].get(), connections[1].get()};
        return dt_iteration_vote(both, 2);
    }

    /* The iteration in which it was found first, or -1. */
    int Run(int from, int to, Errors *single, Errors *mean)
    {
        size_t at[2] = {0, 0};
        int found = -1, window = -1;
        double sum = 0;
        int count = 0;
        for (;;) {
            int c = at[0] < traffic.sent[0].size() && (at[1] >= traffic.sent[1].size() ||
                                                       traffic.sent[0][at[0]].ns <= traffic.sent[1][at[1]].ns)
                        ? 0
                        : 1;
            if (at[c] >= traffic.sent[c].size())
                return found;
            const Message &message = traffic.sent[c][at[c]++];
            if (!dt_iteration_add(connections[c].get(), message.ns, 1) || Vote() != connections[c].get())
                continue;
            if (found < 0)
                found = message.iteration;
            int i = message.iteration - 1; /* the complete one */
            if (i < from || i >= to)
                continue;
            double ms = static_cast<double>(dt_iteration_ns(connections[c].get())) / 1e6;
            single->all.push_back(std::fabs(ms / Truth(traffic, i, i + 1) - 1));
            if (window < 0)
                window = i;
            sum += ms;
            if (++count == 10) {
                mean->all.push_back(std::fabs(sum / 10 / Truth(traffic, window, i + 1) - 1));
                window = -1;
                sum = count = 0;
            }
        }
    }

    const DeviceTraffic &traffic;
    std::unique_ptr<dt_iteration> connections[2];
};

struct Result {
    Errors single, mean;
    int found_latest = 0, devices = 0, lost = 0;

    void Add(const Rhythm &r, int from, int to)
    {
        AddTraffic(Generator(r).Run(), from, to);
    }

    void AddTraffic(const std::vector<DeviceTraffic> &traffic, int from, int to)
    {
        for (const DeviceTraffic &device : traffic) {
            Watch watch(device);
            int found = watch.Run(from, to, &single, &mean);
            devices++;
            lost += found < 0 || found > from;
            found_latest = std::max(found_latest, found);
        }
    }

    void Print(const char *name)
    {
        printf(
            "%-28s %5zu means of 10: error p50 %.3f%% p99 %.3f%% max %.3f%%; %6zu iterations: p50 %.3f%% p99 "
            "%.3f%% max %.3f%%; %d devices, latest found in iteration %d, %d late\n",
            name, mean.all.size(), 100 * mean.Quantile(0.5), 100 * mean.Quantile(0.99),
            100 * mean.Quantile(1), single.all.size(), 100 * single.Quantile(0.5),
            100 * single.Quantile(0.99), 100 * single.Quantile(1), devices, found_latest, lost);
    }
};

TEST(Iteration, OfPipelinesHasAnErrorOfAtMostFalcons)
{
    Result result;
    for (const Rhythm &r : Cases())
        result.Add(r, 40, 79);
    result.Print("steady");
    EXPECT_EQ(result.lost, 0);
    EXPECT_LE(result.mean.Quantile(1), kBound);
}

/* All of these from iteration 30 on; the errors are those from iteration 33 on. */
TEST(Iteration, SurvivesStragglersSlowLinksAndANewSchedule)
{
    Result straggler, link, schedule;
    for (Rhythm r : Cases()) {
        r.changes = {{30, 1 << 30, static_cast<int>(r.seed % r.devices), 1.2 + 0.3 * (r.seed % 6), 0}};
        straggler.Add(r, 33, 79);
        r.changes = {{30, 1 << 30, static_cast<int>(r.seed % (r.devices - 1)), 1, 5.0 * (1 + r.seed % 6)}};
        link.Add(r, 33, 79);
        r.changes.clear();
        r.schedule_change = 30;
        schedule.Add(r, 33, 79);
    }
    for (auto [name, result] :
         {std::pair{"a straggler", &straggler}, {"a slow link", &link}, {"another schedule", &schedule}}) {
        result->Print(name);
        EXPECT_EQ(result->lost, 0) << name;
        EXPECT_LE(result->mean.Quantile(1), kBound) << name;
    }
}

/* One message of a thousand is not seen: the later iterations are not moved. */
TEST(Iteration, SurvivesMissedMessages)
{
    Result result;
    for (Rhythm r : Cases()) {
        r.missed = 0.001;
        result.Add(r, 40, 79);
    }
    result.Print("1 of 1000 messages missed");
    EXPECT_EQ(result.lost, 0);
    EXPECT_LE(result.mean.Quantile(0.99), kBound);
}

/* The messages of a device that a busy processor delays: one in four of the iterations [from, to), by a mean
 * of `mean_ms`, and with it all that follow. */
std::vector<Message> Delayed(const std::vector<Message> &sent, double mean_ms, uint64_t seed, int from,
                             int to = 1 << 30)
{
    std::mt19937_64 random(seed);
    std::exponential_distribution<double> delay(1 / mean_ms);
    std::vector<Message> late = sent;
    double shift_ms = 0;

    for (Message &message : late) {
        if (message.iteration >= from && message.iteration < to && random() % 4 == 0)
            shift_ms += delay(random);
        message.ns += static_cast<uint64_t>(shift_ms * 1e6);
    }
    return late;
}

/* However irregular the pauses become, the number of an iteration's messages stays. */
TEST(Iteration, OnABusyProcessorHasAsManyMessagesAsBefore)
{
    int connections = 0, changed = 0;

    for (Rhythm r : Cases()) {
        r.iterations = 150;
        r.changes = {{30, 1 << 30, static_cast<int>(r.seed % (r.devices - 1)), 1, 15}};
        for (const DeviceTraffic &device : Generator(r).Run()) {
            for (const std::vector<Message> &sent : device.sent) {
                auto connection = std::make_unique<dt_iteration>();
                uint64_t period = 0;
                bool is_changed = false;

                dt_iteration_init(connection.get());
                for (const Message &message : Delayed(sent, 4 * r.f_ms, r.seed, 30)) {
                    dt_iteration_add(connection.get(), message.ns, 1);
                    if (message.iteration < 30)
                        period = connection->period;
                    is_changed |= connection->period != period;
                }
                if (period == static_cast<uint64_t>(r.microbatches * r.chunks)) {
                    connections++;
                    changed += is_changed;
                }
            }
        }
    }
    printf("busy: %d connections, %d with another number of messages at some time\n", connections, changed);
    EXPECT_GT(connections, 300);
    EXPECT_EQ(changed, 0);
}

/* While the first 30 iterations are irregular, a connection may find a multiple of its messages. */
TEST(Iteration, AfterAnIrregularStartHasTheMessagesOfOneIterationAndKeepsThem)
{
    int connections = 0, wrong = 0;

    for (Rhythm r : Cases()) {
        const uint64_t truth = static_cast<uint64_t>(r.microbatches * r.chunks);
        const int settled = 30 + 1280 / r.microbatches; /* a burst per microbatch */

        r.iterations = settled + 20;
        for (const DeviceTraffic &device : Generator(r).Run()) {
            for (const std::vector<Message> &sent : device.sent) {
                auto connection = std::make_unique<dt_iteration>();
                bool is_wrong = false;

                dt_iteration_init(connection.get());
                for (const Message &message : Delayed(sent, 8 * r.f_ms, r.seed, 0, 30)) {
                    dt_iteration_add(connection.get(), message.ns, 1);
                    is_wrong |= message.iteration >= settled && connection->period != truth;
                }
                connections += !sent.empty();
                wrong += is_wrong;
            }
        }
    }
    printf("irregular start: %d connections, %d with another number of messages\n", connections, wrong);
    EXPECT_EQ(connections, 416);
    EXPECT_EQ(wrong, 0);
}

/*
 * A link that is slow from the first iteration on makes the pauses of its connections alike, or alternate, so
 * that two or three of them look like the iteration; with an irregular start beside it, other numbers do,
 * too.
 */
TEST(Iteration, OnALinkThatIsSlowFromTheStartHasAnErrorOfAtMostFalcons)
{
    for (bool is_irregular : {false, true}) {
        for (double slow : {2.0, 5.0}) {
            Result result;

            for (Rhythm r : Cases()) {
                const int settled = 30 + 1280 / r.microbatches; /* a burst per microbatch */

                if (r.chunks > 1) /* the pauses are the same */
                    continue;
                r.iterations = settled + 22;
                r.changes = {{0, 1 << 30, static_cast<int>(r.seed % (r.devices - 1)), 1, slow * r.f_ms}};
                std::vector<DeviceTraffic> traffic = Generator(r).Run();
                for (DeviceTraffic &device : traffic) {
                    for (std::vector<Message> &sent : device.sent)
                        sent = is_irregular ? Delayed(sent, 8 * r.f_ms, r.seed, 0, 30) : sent;
                }
                result.AddTraffic(traffic, settled, settled + 21);
            }
            result.Print(is_irregular ? "slow and irregular start" : "slow from the start");
            EXPECT_EQ(result.lost, 0);
            EXPECT_LE(result.mean.Quantile(1), kBound);
        }
    }
}

/* Two iterations correlate better than one: they are not the period. */
TEST(Iteration, OfRecordedTrafficOfABusyMachineIsNoMultiple)
{
    auto connection = std::make_unique<dt_iteration>();
    uint64_t ns = 1000000;

    dt_iteration_init(connection.get());
    dt_iteration_add(connection.get(), ns, 1);
    for (uint32_t pause : detour_test::kBusyPauses) {
        ns += pause * UINT64_C(10000);
        dt_iteration_add(connection.get(), ns, 1);
        EXPECT_TRUE(connection->period == 0 || connection->period == detour_test::kBusyMessages)
            << connection->period;
    }
    EXPECT_EQ(connection->period, static_cast<uint64_t>(detour_test::kBusyMessages));
}

/* On a busy processor two messages may be one burst; each iteration has 8 all the same. */
TEST(Iteration, MergedBurstsDoNotChangeTheNumberOfMessages)
{
    uint32_t eights = 0;

    for (uint64_t seed = 1; seed <= 20; seed++) {
        auto connection = std::make_unique<dt_iteration>();
        std::mt19937_64 random(seed);
        uint64_t ns = 1000000;

        dt_iteration_init(connection.get());
        for (int i = 0; i < 400; i++) {
            ns += (i % 8 == 0 ? 30 : i % 2 ? 8 : 12) * UINT64_C(1000000) + random() % 400000;
            dt_iteration_add(connection.get(), random() % 40 ? ns : connection->last_ns + 1, 1);
            EXPECT_EQ(connection->period % 8, 0u) << connection->period;
        }
        eights += connection->period == 8;
    }
    EXPECT_GE(eights, 15u);
}

/* Six iterations come at once, and end one of the times before and after them. */
TEST(Iteration, ABurstOfSeveralIterationsEndsOneOfThem)
{
    auto connection = std::make_unique<dt_iteration>();
    uint64_t ns = 1000000;
    int shorter = 0;

    dt_iteration_init(connection.get());
    for (int i = 0; i < 16 * 80; i++) {
        ns += (i % 16 == 0 ? 30 : i % 2 ? 5 : 6) * UINT64_C(1000000);
        if (dt_iteration_add(connection.get(), ns, i == 16 * 40 + 3 ? 97 : 1))
            shorter += dt_iteration_ns(connection.get()) < 90 * UINT64_C(1000000);
    }
    EXPECT_LE(shorter, 1);
    EXPECT_EQ(connection->period, 16u);
}

/* One burst for each iteration: its messages are the iteration's. */
TEST(Iteration, OfOneBurstMayGrow)
{
    auto connection = std::make_unique<dt_iteration>();
    uint64_t ns = 1000000;

    dt_iteration_init(connection.get());
    for (int i = 0; i < 600; i++) {
        ns += 50 * UINT64_C(1000000);
        dt_iteration_add(connection.get(), ns, i < 200 ? 12 : 20);
        if (i == 199) {
            EXPECT_EQ(connection->period, 12u);
        }
    }
    EXPECT_EQ(connection->period, 20u);
}

/* On a very busy processor only the alternation of the microbatches is left: no iteration of two messages. */
TEST(Iteration, PausesThatAlternateWithNoiseHaveNoPeriod)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        auto connection = std::make_unique<dt_iteration>();
        std::mt19937_64 random(seed);
        std::lognormal_distribution<double> noise(0, 0.5);
        uint64_t ns = 1000000;

        dt_iteration_init(connection.get());
        for (int i = 0; i < 800; i++) {
            ns += static_cast<uint64_t>((i % 2 ? 12e6 : 4e6) * noise(random));
            dt_iteration_add(connection.get(), ns, 1);
            EXPECT_NE(connection->period, 2u) << i;
        }
    }
}

/* The job first does two different iterations in turn, later one on a busy processor: 16 is not known any
 * more. */
TEST(Iteration, AMultipleThatNothingSupportsIsDoubtful)
{
    auto connection = std::make_unique<dt_iteration>();
    const dt_iteration *all[] = {connection.get()};
    std::mt19937_64 random(1);
    std::exponential_distribution<double> delay(1 / 3e6);
    uint64_t ns = 1000000;

    dt_iteration_init(connection.get());
    for (int i = 0; i < 8 * 150; i++) {
        const bool is_first = i < 8 * 30;
        ns += (i % 8 == 0                            ? 30
               : i % 8 == 5 && is_first && i / 8 % 2 ? 19
               : i % 2                               ? 9
                                                     : 5) *
              UINT64_C(1000000);
        ns += is_first ? random() % 400000 : static_cast<uint64_t>(delay(random));
        dt_iteration_add(connection.get(), ns, 1);
        if (i == 8 * 30) {
            EXPECT_EQ(connection->period, 16u);
        }
    }
    EXPECT_TRUE(connection->period == 8 || connection->is_doubtful) << connection->period;
    EXPECT_EQ(dt_iteration_vote(all, 1) == nullptr, connection->is_doubtful);
}
} // namespace
