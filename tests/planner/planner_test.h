/* SPDX-License-Identifier: Apache-2.0 */
/* Models that own their arrays, for the tests of planner/. */
#ifndef DETOUR_TESTS_PLANNER_TEST_H
#define DETOUR_TESTS_PLANNER_TEST_H

#include <utility>
#include <vector>

#include "detour/model.h"
#include "tests/sched/sched_test.h"

namespace planner_test
{
using sched_test::Arena;
using sched_test::kMs;

/* A partition with its arrays; `get()` is valid until the next change or move. */
struct Partition {
    std::vector<int32_t> first_layer;
    std::vector<int32_t> device;

    Partition() = default;
    Partition(std::vector<int32_t> first_layers, std::vector<int32_t> devices)
        : first_layer(std::move(first_layers)), device(std::move(devices))
    {
    }

    const struct detour_partition *get()
    {
        partition_ = {static_cast<int32_t>(device.size()), first_layer.data(), device.data()};
        return &partition_;
    }

  private:
    struct detour_partition partition_ = {};
};

/* A model with its arrays; likewise. */
struct Model {
    std::vector<struct detour_layer> layers;
    std::vector<struct detour_model_device> devices;
    std::vector<struct detour_model_link> links; /* empty: messages take no time */
    int32_t microbatches = 4;
    struct detour_partition fixed = {};
    struct detour_model_replicas replicas = {};

    /* Equal layers of 1 ms F, 2 ms B and 3 ms W with distinct sizes, on equal devices without limits. */
    static Model Uniform(size_t layer_count, size_t device_count)
    {
        Model model;
        struct detour_layer layer = {};
        layer.type = "layer";
        layer.f_ns = kMs;
        layer.b_ns = 2 * kMs;
        layer.w_ns = 3 * kMs;
        layer.parameter_bytes = 100;
        layer.gradient_bytes = 200;
        layer.optimizer_bytes = 600;
        layer.activation_bytes = 40;
        layer.activation_w_bytes = 10;
        layer.message_bytes = 1000;
        model.layers.assign(layer_count, layer);
        model.devices.assign(device_count, {0, 1000});
        return model;
    }

    /* Every pair of devices gets the same link. */
    Model &Links(struct detour_model_link link)
    {
        links.assign(devices.size() * devices.size(), link);
        return *this;
    }

    const struct detour_model *get()
    {
        model_ = {"test",
                  static_cast<int32_t>(layers.size()),
                  static_cast<int32_t>(devices.size()),
                  microbatches,
                  layers.data(),
                  devices.data(),
                  links.empty() ? nullptr : links.data(),
                  fixed,
                  replicas};
        return &model_;
    }

  private:
    struct detour_model model_ = {};
};
} // namespace planner_test

#endif
