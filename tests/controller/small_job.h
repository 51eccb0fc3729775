// SPDX-License-Identifier: Apache-2.0
// A small job for the tests of the judge: 16 ranks in a ring, one NIC each, 4 per host, without noise but for
// a ripple.
#ifndef DETOUR_TESTS_CONTROLLER_SMALL_JOB_H
#define DETOUR_TESTS_CONTROLLER_SMALL_JOB_H

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "controller/judge.h"

struct SmallJob {
    static constexpr uint32_t kRanks = 16, kPerHost = 4;
    static constexpr uint64_t kStepNs = 250000000;

    // Factors by rank or (from, to); a test changes them between steps.
    std::function<double(uint32_t, uint32_t)> link = [](uint32_t, uint32_t) { return 1.0; };
    std::function<double(uint32_t)> compute = [](uint32_t) { return 1.0; };
    std::function<double(const std::string &)> waits = [](const std::string &) { return 0.0; };
    std::function<double(uint32_t)> rank_waits = [](uint32_t) {
        return 0.0;
    }; // or of its host, if those are more
    std::function<uint32_t(uint32_t, uint32_t)> cause = [](uint32_t, uint32_t) { return 0; };
    uint64_t iteration_ns = 500000000; // as all ranks report it; 0: none since their last report
    std::function<bool(uint32_t)> is_silent = [](uint32_t) { return false; };
    std::unique_ptr<dt_judge, void (*)(dt_judge *)> judge{dt_judge_create(64, kRanks), dt_judge_destroy};
    uint64_t now_ns = 1000000000;
    uint64_t steps = 0;
    std::vector<dt_finding> findings;

    static std::string Host(uint32_t rank)
    {
        return "h" + std::to_string(rank / kPerHost);
    }

    static dt_link_report Link(uint32_t from, uint32_t to, uint64_t service_ns, uint64_t time_ns)
    {
        dt_link_report report = {};

        report.from_rank = from;
        report.to_rank = to;
        std::snprintf(report.host, sizeof report.host, "%s", Host(from).c_str());
        std::snprintf(report.peer_host, sizeof report.peer_host, "%s", Host(to).c_str());
        std::snprintf(report.nic, sizeof report.nic, "rnic%u", from % kPerHost);
        std::snprintf(report.peer_nic, sizeof report.peer_nic, "rnic%u", to % kPerHost);
        report.service_ns = service_ns;
        report.transfer_bytes = 1 << 20;
        report.samples = 16;
        report.time_ns = time_ns;
        return report;
    }

    static dt_rank_report Rank(uint32_t rank, uint64_t compute_ns, double share, uint64_t time_ns,
                               uint64_t iteration_ns = 500000000)
    {
        dt_rank_report report = {};

        report.rank = rank;
        std::snprintf(report.host, sizeof report.host, "%s", Host(rank).c_str());
        report.iteration_ns = iteration_ns;
        report.compute_ns = compute_ns;
        report.processor_share = share;
        report.samples = 1;
        report.time_ns = time_ns;
        return report;
    }

    // A ripple of 1 %, the same in every run.
    double Ripple(uint32_t salt) const
    {
        return 1 + 0.01 * std::sin(double(steps * 37 + salt * 11));
    }

    // Reports of all links (the four nearest ranks of each NIC, both ways) and ranks, then a decision.
    void Step()
    {
        now_ns += kStepNs;
        steps++;
        for (uint32_t rank = 0; rank < kRanks; rank++) {
            if (is_silent(rank))
                continue;
            for (uint32_t distance : {kPerHost, 2 * kPerHost, 3 * kPerHost}) {
                uint32_t to = (rank + distance) % kRanks;
                dt_link_report report =
                    Link(rank, to, uint64_t(1e6 * link(rank, to) * Ripple(rank + to)), now_ns);
                report.cause = cause(rank, to);
                dt_judge_add_link(judge.get(), &report);
            }
            double share = std::max(waits(Host(rank)), rank_waits(rank));
            dt_rank_report report =
                Rank(rank, uint64_t(1e8 * compute(rank) * Ripple(rank)), share, now_ns, iteration_ns);
            dt_judge_add_rank(judge.get(), &report);
        }
        uint32_t count = 0;
        const dt_finding *list = dt_judge_decide(judge.get(), now_ns, &count);
        findings.assign(list, list + count);
    }

    void Steps(int number)
    {
        for (int i = 0; i < number; i++)
            Step();
    }

    // Steps until there is a finding; its first state, or nothing after `limit` steps.
    std::vector<dt_finding> StepsToFinding(int limit)
    {
        for (int i = 0; i < limit; i++) {
            Step();
            if (!findings.empty())
                return findings;
        }
        return {};
    }
};

#endif
