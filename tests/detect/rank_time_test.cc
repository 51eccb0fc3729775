// SPDX-License-Identifier: Apache-2.0
#include "detect/rank_time.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <memory>
#include <vector>

#include "tests/detect/rhythm.h"

using detour_test::DeviceTraffic;
using detour_test::Errors;
using detour_test::Generator;
using detour_test::Message;
using detour_test::Rhythm;

namespace
{
/* The process of one device: two connections to each neighbour. */
class Process
{
  public:
    explicit Process(const DeviceTraffic &device) : traffic(device)
    {
        dt_rank_time_init(&rank);
        for (int c = 0; c < 2; c++) {
            sender[c] = std::make_unique<dt_rank_sender>();
            receiver[c] = std::make_unique<dt_rank_receiver>();
            if (!traffic.sent[c].empty())
                dt_rank_time_add_sender(&rank, sender[c].get(), 10 + static_cast<uint32_t>(c));
            if (!traffic.received[c].empty())
                dt_rank_time_add_receiver(&rank, receiver[c].get(), 10 + static_cast<uint32_t>(c));
        }
    }

    /* Feeds what happened until this time, and evaluates. */
    void Until(uint64_t now_ns)
    {
        for (int c = 0; c < 2; c++) {
            for (; at[c] < traffic.sent[c].size() && traffic.sent[c][at[c]].left_ns <= now_ns; at[c]++)
                dt_rank_time_wanted(sender[c].get(), traffic.sent[c][at[c]].ns,
                                    traffic.sent[c][at[c]].left_ns, 1);
            for (; got[c] < traffic.received[c].size() && traffic.received[c][got[c]].ns <= now_ns; got[c]++)
                dt_rank_time_arrived(receiver[c].get(), traffic.received[c][got[c]].ns, 1);
        }
        dt_rank_time_update(&rank, now_ns, false);
    }

    const DeviceTraffic &traffic;
    dt_rank_time rank;
    std::unique_ptr<dt_rank_sender> sender[2];
    std::unique_ptr<dt_rank_receiver> receiver[2];
    size_t at[2] = {0, 0}, got[2] = {0, 0};
};

std::vector<Rhythm> Cases(int iterations)
{
    std::vector<Rhythm> cases;
    uint64_t seed = 1;
    for (int devices : {2, 4, 8}) {
        for (int microbatches : {8, 16}) {
            for (bool has_w : {false, true}) {
                for (double noise : {0.04}) {
                    for (int chunks : {1, 4}) {
                        Rhythm r;
                        r.devices = devices;
                        r.microbatches = microbatches;
                        r.has_w = has_w;
                        r.noise = noise;
                        r.chunks = chunks;
                        r.has_barrier = seed % 2;
                        r.f_ms = 2 + static_cast<double>(seed % 3);
                        r.b_ms = r.f_ms * 1.1;
                        r.w_ms = r.f_ms * 0.9;
                        r.iterations = iterations;
                        r.seed = seed++;
                        cases.push_back(r);
                    }
                }
            }
        }
    }
    return cases;
}

struct Totals {
    Errors compute, iteration, over; /* `over`: by how much the gap is longer than the computations */
    int devices = 0, unknown = 0, slow_right = 0, slow_wrong = 0, slow_missed = 0;
    int after = 0; /* iterations from the change to the verdict */
};

/* Iterations until `change` are healthy; device `slow` of -1 is none. */
void Judge(const Rhythm &r, int slow, int change, Totals *totals)
{
    std::vector<DeviceTraffic> traffic = Generator(r).Run();
    for (size_t d = 0; d < traffic.size(); d++) {
        Process process(traffic[d]);
        const std::vector<double> &begin = traffic[d].begin_ms;
        bool was_slow = false;
        double compute = 0, truth = 0, time = 0;
        int count = 0, first_slow = -1;
        for (int i = 1; i + 1 < r.iterations; i++) {
            process.Until(static_cast<uint64_t>((begin[i + 1] - 0.001) * 1e6));
            was_slow |= dt_rank_time_verdict(&process.rank).is_slow;
            if (was_slow && first_slow < 0)
                first_slow = i;
            if (i < 20 || i > change)
                continue;
            compute += static_cast<double>(process.rank.compute_ns) / 1e6;
            time += static_cast<double>(process.rank.iteration_ns) / 1e6;
            truth += traffic[d].compute_ms[i];
            count++;
        }
        totals->devices++;
        totals->unknown += compute == 0;
        totals->compute.all.push_back(std::fabs(compute / truth - 1));
        totals->over.all.push_back(compute / truth - 1);
        totals->iteration.all.push_back(std::fabs(time / (begin[change + 1] - begin[20]) - 1));
        if (static_cast<int>(d) != slow) {
            totals->slow_wrong += was_slow;
        } else if (!was_slow) {
            totals->slow_missed++;
        } else {
            totals->slow_right++;
            totals->after = std::max(totals->after, first_slow - change);
        }
    }
}

void Print(const char *name, Totals *totals)
{
    printf("%-12s %4d devices: computing gap: shorter than the truth by p50 %.2f%% p90 %.2f%% max %.2f%%, %d "
           "unknown; iteration "
           "time: "
           "max %.3f%%; named slow %d rightly (at most %d iterations later), %d wrongly, %d missed\n",
           name, totals->devices, 100 * totals->compute.Quantile(0.5), 100 * totals->compute.Quantile(0.9),
           100 * totals->compute.Quantile(1), totals->unknown, 100 * totals->iteration.Quantile(1),
           totals->slow_right, totals->after, totals->slow_wrong, totals->slow_missed);
}

TEST(RankTime, OfHealthyPipelinesIsExactAndTheGapALowerBound)
{
    Totals totals;
    for (const Rhythm &r : Cases(100))
        Judge(r, -1, 90, &totals);
    Print("healthy", &totals);
    EXPECT_EQ(totals.unknown, 0);
    EXPECT_EQ(totals.slow_wrong, 0);
    EXPECT_LE(totals.iteration.Quantile(1), 0.012);
    EXPECT_LE(totals.over.Quantile(1), 0.02);
}

TEST(RankTime, NamesTheStragglerAlone)
{
    Totals totals;
    for (Rhythm r : Cases(160)) {
        int slow = static_cast<int>(r.seed % r.devices);
        r.changes = {{100, 1 << 30, slow, 1.3 + 0.2 * (r.seed % 5), 0}};
        Judge(r, slow, 99, &totals);
    }
    Print("straggler", &totals);
    EXPECT_EQ(totals.slow_wrong, 0);
    EXPECT_EQ(totals.slow_missed, 0);
}

/* The detector of links is not asked: a device beside the link has only its own times. */
TEST(RankTime, OfASlowLinkIsAlmostNeverSlow)
{
    Totals totals;
    for (Rhythm r : Cases(160)) {
        r.changes = {{100, 130, static_cast<int>(r.seed % (r.devices - 1)), 1, 3.0 * (1 + r.seed % 6)}};
        Judge(r, -1, 99, &totals);
    }
    Print("slow link", &totals);
    /* The gap of a device elsewhere in the pipeline may become longer with the other moments of its inputs.
     */
    EXPECT_LE(totals.slow_wrong, 1);
}

/* A transfer of 16 messages, of which eight are in flight: on a slow link the others are wanted later, when
 * the input has long been there. */
TEST(RankTime, OfASlowLinkThatSplitsBurstsIsNotSlow)
{
    for (bool is_delay : {false, true}) {
        Totals totals;
        for (Rhythm r : Cases(160)) {
            if (r.chunks > 1)
                continue; /* the same once more */
            const double ms = is_delay ? 2.0 * static_cast<double>(1 + r.seed % 6)
                                       : 10.0 * static_cast<double>(1 + r.seed % 6);
            r.chunks = 16;
            r.window = 8;
            r.changes = {{100, 1 << 30, static_cast<int>(r.seed % (r.devices - 1)), 1, is_delay ? 0 : ms,
                          is_delay ? ms : 0}};
            Judge(r, -1, 99, &totals);
        }
        Print(is_delay ? "delayed link" : "narrow link", &totals);
        EXPECT_LE(totals.slow_wrong, 1);
        EXPECT_LE(totals.iteration.Quantile(1), 0.012);
    }
}

/* While the number of messages of an iteration is in doubt, no time of it is reported. */
TEST(RankTime, IsUnknownWhileThePeriodIsDoubtful)
{
    auto rank = std::make_unique<dt_rank_time>();
    auto sender = std::make_unique<dt_rank_sender>();
    uint64_t ns = 1000000;
    int i = 0;
    auto run = [&](int iterations) {
        for (int end = i + 8 * iterations; i < end; i++) {
            ns += (i % 8 == 0 ? 30 : i % 8 == 5 ? 9 : 5) * UINT64_C(1000000);
            dt_rank_time_wanted(sender.get(), ns, ns + 100000, 1);
            dt_rank_time_update(rank.get(), ns, false);
        }
        return rank->iteration_ns;
    };

    dt_rank_time_init(rank.get());
    dt_rank_time_add_sender(rank.get(), sender.get(), 1);
    EXPECT_EQ(run(20), 69000000u);
    const uint64_t samples = rank->whole.sample_count;
    EXPECT_GT(samples, 0u);
    sender->iteration.is_doubtful = true;
    EXPECT_EQ(run(5), 0u);
    sender->iteration.is_doubtful = false;
    EXPECT_EQ(run(5), 69000000u);
    EXPECT_GT(rank->whole.sample_count, samples) << "what is healthy is still known";
}

// The messages of further senders cost nothing; the first of them follows when one that counted is removed.
TEST(RankTime, OnlyTheFirstSendersCount)
{
    auto rank = std::make_unique<dt_rank_time>();
    std::vector<std::unique_ptr<dt_rank_sender>> senders;

    dt_rank_time_init(rank.get());
    for (int i = 0; i < DT_RANK_TIME_SENDERS + 2; i++) {
        senders.push_back(std::make_unique<dt_rank_sender>());
        dt_rank_time_add_sender(rank.get(), senders.back().get(), 1);
    }
    auto noted = [&](size_t i) {
        uint64_t before = senders[i]->left_count;
        dt_rank_time_wanted(senders[i].get(), 1000, 2000, 1);
        return senders[i]->left_count - before;
    };
    EXPECT_EQ(1u, noted(0));
    EXPECT_EQ(1u, noted(DT_RANK_TIME_SENDERS - 1));
    EXPECT_EQ(0u, noted(DT_RANK_TIME_SENDERS));
    dt_rank_time_remove_sender(rank.get(), senders[DT_RANK_TIME_SENDERS + 1].get()); // it did not count
    EXPECT_EQ(0u, noted(DT_RANK_TIME_SENDERS));
    dt_rank_time_remove_sender(rank.get(), senders[3].get());
    EXPECT_EQ(1u, noted(DT_RANK_TIME_SENDERS));
    for (size_t i = 0; i < DT_RANK_TIME_SENDERS + 1; i++) {
        if (i != 3)
            dt_rank_time_remove_sender(rank.get(), senders[i].get());
        dt_rank_time_update(rank.get(), DT_RANK_TIME_SETTLE_NS * i, false);
    }
    EXPECT_EQ(0u, rank->counted);
}
} // namespace
