// SPDX-License-Identifier: Apache-2.0
// The traces are frozen: results of the judge that docs/detection.md reports are about these.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <utility>

#include "base/digest.h"
#include "tests/controller/cluster_trace.h"

namespace
{
uint64_t Add(uint64_t digest, uint64_t value)
{
    return dt_digest_add(digest, &value, sizeof value);
}

TEST(ClusterTrace, IncidentsAreTheFrozenOnes)
{
    auto trace = std::make_unique<cluster_trace>();
    uint64_t digest = DT_DIGEST_EMPTY;

    for (int kind = 0; kind < TRACE_KIND_COUNT; kind++)
        for (int band = 0; band < TRACE_BAND_COUNT; band++)
            for (uint64_t seed = 1; seed <= 1000; seed++) {
                cluster_trace_draw(trace.get(), static_cast<trace_kind>(kind), static_cast<trace_band>(band),
                                   seed);
                for (uint32_t i = 0; i < trace->incident_count; i++) {
                    const trace_incident &one = trace->incidents[i];
                    for (uint64_t value :
                         {uint64_t(one.kind), uint64_t(one.band), uint64_t(one.rank), uint64_t(one.peer),
                          uint64_t(one.factor), uint64_t(one.factor_link), one.start_ns, one.duration_ns,
                          one.ramp_ns})
                        digest = Add(digest, value);
                }
            }
    EXPECT_EQ(digest, 5777851029733226782ull);
}

TEST(ClusterTrace, ValuesAreTheFrozenOnes)
{
    auto trace = std::make_unique<cluster_trace>();
    uint64_t digest = DT_DIGEST_EMPTY;

    cluster_trace_start(trace.get(), TRACE_KIND_NIC, TRACE_BAND_SLOW, 7);
    for (int tick = 0; tick < 400; tick++) {
        cluster_trace_step(trace.get());
        if (tick % 4 != 3)
            continue;
        // Rounded far beyond the differences between mathematical libraries.
        for (uint32_t link = 0; link < TRACE_LINKS; link += 97)
            digest = Add(digest, uint64_t(std::lround(trace->service_ns[link] / 1000)));
        for (uint32_t rank = 0; rank < TRACE_RANKS; rank += 97)
            digest = Add(digest, uint64_t(std::lround(trace->compute_ns[rank] / 1000)));
    }
    EXPECT_EQ(digest, 11624680594237145983ull);
}

TEST(ClusterTrace, EachRankSendsToItsNeighborsInThePipelineAndInTheRing)
{
    std::set<std::pair<uint32_t, uint32_t>> pairs;

    for (uint32_t i = 0; i < TRACE_LINKS; i++) {
        trace_link link = cluster_trace_link(i);
        uint32_t from_stage = link.from / TRACE_REPLICAS, to_stage = link.to / TRACE_REPLICAS;

        ASSERT_LT(link.from, uint32_t(TRACE_RANKS));
        ASSERT_LT(link.to, uint32_t(TRACE_RANKS));
        EXPECT_NE(cluster_trace_host(link.from), cluster_trace_host(link.to));
        EXPECT_EQ(link.is_ring, from_stage == to_stage);
        EXPECT_TRUE(link.is_ring || link.from % TRACE_REPLICAS == link.to % TRACE_REPLICAS);
        EXPECT_TRUE(pairs.insert({link.from, link.to}).second);
    }
}

TEST(ClusterTrace, DelaysOfPipeMorphHaveItsMedianAndItsMean)
{
    auto trace = std::make_unique<cluster_trace>();
    uint32_t count = 0, above_median = 0, above_last = 0;
    double sum = 0;

    for (uint64_t seed = 1; count < 3000; seed++) {
        cluster_trace_start(trace.get(), TRACE_KIND_FLUCTUATING, TRACE_BAND_SLOW, seed);
        const trace_incident &incident = trace->incidents[0];
        uint32_t link = 0;
        while (cluster_trace_link(link).from != incident.rank || cluster_trace_link(link).to != incident.peer)
            link++;
        while (trace->next_tick < TRACE_TICKS) {
            cluster_trace_step(trace.get());
            uint64_t middle_ns = trace->tick * TRACE_TICK_NS + TRACE_TICK_NS / 2;
            if (middle_ns < incident.start_ns || middle_ns >= incident.start_ns + incident.duration_ns)
                continue;
            double delay_ms = (trace->service_ns[link] - trace->link_base[link]) / 1e6;
            sum += delay_ms;
            above_median += delay_ms > 13.0;
            above_last += delay_ms > 79.3;
            count++;
        }
    }
    EXPECT_NEAR(sum / count, 22.3, 2.5);
    EXPECT_NEAR(double(above_median) / count, 0.5, 0.05);
    EXPECT_NEAR(double(above_last) / count, 0.01, 0.01);
}
} // namespace
