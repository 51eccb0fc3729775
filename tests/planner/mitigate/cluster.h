/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs and their slowness, with their arrays. */
#ifndef DETOUR_TESTS_PLANNER_MITIGATE_CLUSTER_H
#define DETOUR_TESTS_PLANNER_MITIGATE_CLUSTER_H

#include <utility>

#include "detour/mitigate.h"
#include "tests/sched/sched_test.h"

namespace mitigate_test
{
using sched_test::Arena;
using sched_test::kMs;

/* `get()` is valid until the next change or move. */
struct Cluster {
    int32_t replicas = 2;
    int32_t stages = 2;
    int32_t microbatches = 16;
    std::vector<int64_t> stage_ns;
    std::vector<int32_t> nodes;
    int64_t message_bytes = 1000000;
    int64_t gradient_bytes = 500000000;
    int64_t bytes_per_s = 10000000000;
    int64_t latency_ns = 10000;
    std::vector<int64_t> costs = {0, kMs, 1000 * kMs, 100000 * kMs};
    int64_t state_bytes = 0;
    int64_t copy_bytes_per_s = 0;
    std::vector<int32_t> machines;

    Cluster() = default;
    /* Stages of 10 ms, messages of 0.1 ms, gradients of 50 ms to be exchanged. */
    Cluster(int32_t replica_count, int32_t stage_count, int32_t microbatch_count)
        : replicas(replica_count), stages(stage_count), microbatches(microbatch_count),
          stage_ns(static_cast<size_t>(stage_count), 10 * kMs)
    {
    }

    const struct detour_cluster *get()
    {
        cluster_ = {"test",
                    replicas,
                    stages,
                    microbatches,
                    stage_ns.data(),
                    message_bytes,
                    gradient_bytes,
                    bytes_per_s,
                    latency_ns,
                    nodes.empty() ? nullptr : nodes.data(),
                    {},
                    state_bytes,
                    copy_bytes_per_s,
                    machines.empty() ? nullptr : machines.data()};
        for (size_t step = 0; step < costs.size(); step++)
            cluster_.cost_ns[step] = costs[step];
        return &cluster_;
    }

    /* As many nodes on each, in the order of their numbers. */
    void SetMachines(int32_t size)
    {
        machines.clear();
        for (int32_t node = 0; node < replicas * stages; node++)
            machines.push_back(node / size);
    }

  private:
    struct detour_cluster cluster_ = {};
};

struct Slowness {
    std::vector<struct detour_slow_node> nodes;
    std::vector<struct detour_slow_link> links;

    Slowness() = default;
    Slowness(std::vector<struct detour_slow_node> slow_nodes, std::vector<struct detour_slow_link> slow_links)
        : nodes(std::move(slow_nodes)), links(std::move(slow_links))
    {
    }

    const struct detour_slowness *get()
    {
        slowness_ = {static_cast<int32_t>(nodes.size()), static_cast<int32_t>(links.size()), nodes.data(),
                     links.data()};
        return &slowness_;
    }

  private:
    struct detour_slowness slowness_ = {};
};

/* A random job of at most `nodes_max` nodes, and up to three slow nodes and links each. */
inline Cluster RandomCluster(struct dt_prng *prng, int32_t nodes_max)
{
    const auto replicas = static_cast<int32_t>(dt_prng_between(prng, 1, static_cast<uint64_t>(nodes_max)));
    const auto stages =
        static_cast<int32_t>(dt_prng_between(prng, 1, static_cast<uint64_t>(nodes_max / replicas)));
    Cluster cluster(replicas, stages, replicas * static_cast<int32_t>(dt_prng_between(prng, 1, 12)));
    for (int64_t &stage_ns : cluster.stage_ns)
        stage_ns = static_cast<int64_t>(dt_prng_between(prng, 8, 12)) * kMs;
    cluster.gradient_bytes = static_cast<int64_t>(dt_prng_below(prng, 800)) * 1000000;
    cluster.message_bytes = static_cast<int64_t>(dt_prng_below(prng, 30)) * 1000000;
    return cluster;
}

inline Slowness RandomSlowness(struct dt_prng *prng, const Cluster &cluster)
{
    const auto count = static_cast<uint64_t>(cluster.replicas * cluster.stages);
    Slowness slowness;
    for (uint64_t k = dt_prng_below(prng, 4); k > 0; k--)
        slowness.nodes.push_back({static_cast<int32_t>(dt_prng_below(prng, count)),
                                  static_cast<int32_t>(dt_prng_between(prng, 1000, 3000)),
                                  dt_prng_chance(prng, 1, 4) ? 4000 : 1000});
    for (uint64_t k = dt_prng_below(prng, 4); k > 0 && count > 1; k--) {
        const auto a = static_cast<int32_t>(dt_prng_below(prng, count));
        const auto b = static_cast<int32_t>(dt_prng_below(prng, count - 1));
        slowness.links.push_back({a, b < a ? b : b + 1,
                                  static_cast<int32_t>(dt_prng_between(prng, 1000, 9000)),
                                  dt_prng_chance(prng, 1, 2) ? 5 * kMs : 0});
    }
    return slowness;
}
} // namespace mitigate_test

#endif
