// SPDX-License-Identifier: Apache-2.0
// A job for the tests of remedies: two replicas of two stages, 16 microbatches, 8 * 10 + 10 = 90 ms an
// iteration, with the ranks 0 to 3 at its positions, and what is slow of it.
#ifndef DETOUR_TESTS_CONTROLLER_SLOW_JOB_H
#define DETOUR_TESTS_CONTROLLER_SLOW_JOB_H

#include <gtest/gtest.h>

#include <vector>

#include "base/clock.h"
#include "controller/remedy.h"

class SlowJob : public ::testing::Test
{
  protected:
    static constexpr int64_t kMs = DT_NS_PER_MS;

    explicit SlowJob(int64_t s3_cost_ns)
    {
        cluster.name = "job";
        cluster.replica_count = cluster.stage_count = 2;
        cluster.microbatch_count = 16;
        cluster.stage_ns = stage_ns;
        cluster.cost_ns[DETOUR_STEP_S2] = 2000 * kMs;
        cluster.cost_ns[DETOUR_STEP_S3] = s3_cost_ns;
        cluster.cost_ns[DETOUR_STEP_S4] = 10000000 * kMs;
    }
    void Find(dt_finding_kind kind, uint32_t rank, uint32_t peer, double factor, int64_t delay_ms)
    {
        dt_finding finding = {};

        finding.number = findings.size() + 1;
        finding.kind = kind;
        finding.state = DT_FINDING_GOES_ON;
        finding.rank = rank;
        finding.peer_rank = peer;
        finding.factor = factor;
        finding.delay_ns = (uint64_t)(delay_ms * kMs);
        findings.push_back(finding);
    }
    dt_situation Situation() const
    {
        dt_situation situation = {};

        situation.findings = findings.data();
        situation.finding_count = findings.size();
        situation.slow = slow.data();
        situation.slow_count = slow.size();
        situation.links = links.data();
        situation.link_count = links.size();
        situation.job_starts = job_starts;
        return situation;
    }

    const int64_t stage_ns[2] = {10 * kMs, 10 * kMs};
    detour_cluster cluster = {};
    std::vector<dt_finding> findings;
    std::vector<dt_slow_link> slow;
    std::vector<dt_known_link> links;
    uint32_t job_starts = 1;
    uint64_t now_ns = 1;
};

#endif
