/* SPDX-License-Identifier: Apache-2.0 */
/* Random models, and every partition and placement of a tiny one. */
#ifndef DETOUR_TESTS_PLANNER_RANDOM_MODEL_H
#define DETOUR_TESTS_PLANNER_RANDOM_MODEL_H

#include <functional>

#include "tests/planner/planner_test.h"

namespace planner_test
{
/* How random models differ; every property is drawn independently of the others. */
struct ModelLimits {
    uint64_t layers_max = 14;
    uint64_t devices_max = 4;
    uint64_t microbatches_max = 10;
    bool memory = true;
};

/* A few types of layers, one heavy layer at times; devices of different speed, slow links and limits at
 * times. */
inline Model RandomModel(struct dt_prng *prng, const ModelLimits &limits)
{
    size_t devices = dt_prng_between(prng, 1, limits.devices_max);
    Model model = Model::Uniform(dt_prng_between(prng, devices, limits.layers_max), devices);
    static const char *const kTypes[] = {"embedding", "attention", "expert", "head"};
    int64_t needed = 0;
    for (struct detour_layer &layer : model.layers) {
        uint64_t type = dt_prng_below(prng, 3);
        int64_t weight = static_cast<int64_t>(type + 1) * (dt_prng_chance(prng, 1, 8) ? 6 : 1);
        layer.type = kTypes[type];
        layer.f_ns = weight * static_cast<int64_t>(dt_prng_between(prng, 1, 3));
        layer.b_ns = weight * static_cast<int64_t>(dt_prng_between(prng, 0, 3));
        layer.w_ns = weight * static_cast<int64_t>(dt_prng_between(prng, 0, 3));
        layer.bw_ns = dt_prng_chance(prng, 1, 4) ? layer.b_ns + layer.w_ns - layer.w_ns / 2 : 0;
        layer.activation_bytes = 10 * weight;
        layer.activation_w_bytes = static_cast<int64_t>(dt_prng_between(prng, 0, 10)) * weight;
        needed += layer.parameter_bytes + layer.gradient_bytes + layer.optimizer_bytes + 20 * weight;
    }
    model.microbatches = static_cast<int32_t>(dt_prng_between(prng, 1, limits.microbatches_max));
    bool equal = dt_prng_chance(prng, 2, 3), limited = limits.memory && dt_prng_chance(prng, 1, 2);
    for (struct detour_model_device &device : model.devices) {
        device.speed_permille = equal ? 1000 : static_cast<int32_t>(dt_prng_between(prng, 500, 1500));
        if (limited)
            device.capacity_bytes = needed * static_cast<int64_t>(dt_prng_between(prng, 9, 18)) /
                                    (10 * static_cast<int64_t>(devices));
    }
    if (dt_prng_chance(prng, 1, 2)) {
        model.Links(
            {static_cast<int64_t>(dt_prng_below(prng, 3)), 1000000000000, dt_prng_chance(prng, 1, 4)});
        for (struct detour_model_link &link : model.links)
            if (dt_prng_chance(prng, 1, 6))
                link.latency_ns = 20;
    }
    return model;
}

/* Every cut into stages with every placement that uses all devices. */
inline void ForEachPartition(Model &model, const std::function<void(Partition &)> &visit)
{
    const int32_t layers = static_cast<int32_t>(model.layers.size());
    const int32_t devices = static_cast<int32_t>(model.devices.size());
    for (uint32_t cuts = 0; cuts < 1u << (layers - 1); cuts++) {
        Partition partition;
        partition.first_layer = {0};
        for (int32_t l = 1; l < layers; l++)
            if (cuts & 1u << (l - 1))
                partition.first_layer.push_back(l);
        size_t stages = partition.first_layer.size();
        partition.first_layer.push_back(layers);
        partition.device.assign(stages, 0);
        for (bool more = true; more;) {
            if (detour_partition_check(model.get(), partition.get(), nullptr) == DETOUR_OK)
                visit(partition);
            more = false;
            for (size_t i = 0; i < stages && !more; i++) {
                partition.device[i] = (partition.device[i] + 1) % devices;
                more = partition.device[i] != 0;
            }
        }
    }
}
} // namespace planner_test

#endif
