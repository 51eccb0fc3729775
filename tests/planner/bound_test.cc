// SPDX-License-Identifier: Apache-2.0
// The parts of the bound by hand. optimize_test.cc has the enumeration of all pipelines of tiny models.
#include "planner/bound.h"

#include "tests/planner/planner_test.h"

using namespace planner_test;

namespace
{
struct detour_model_bound Bound(Model &model)
{
    Arena arena;
    struct detour_model_bound bound = {};
    EXPECT_EQ(detour_model_lower_bound(arena, model.get(), &bound, nullptr), DETOUR_OK);
    EXPECT_GE(bound.makespan_ns, std::max({bound.chain_ns, bound.layer_ns, bound.work_ns, bound.memory_ns}));
    return bound;
}
} // namespace

TEST(Bound, ChainIsOneMicrobatchWithItsMessages)
{
    Model model = Model::Uniform(4, 2);
    model.microbatches = 1;
    model.Links({5 * kMs, 0, false});
    EXPECT_EQ(Bound(model).chain_ns, (4 * 3 + 3 + 2 * 5) * kMs);
    model.devices[0].speed_permille = 2000;
    EXPECT_EQ(Bound(model).chain_ns, (4 * 3 + 3) * kMs / 2 + 2 * 5 * kMs) << "at the speed of the fastest";
}

TEST(Bound, TheHeaviestLayerFollowsThoseBeforeIt)
{
    Model model = Model::Uniform(4, 2);
    model.microbatches = 10;
    model.layers[3].w_ns = 30 * kMs;
    struct detour_model_bound bound = Bound(model);
    EXPECT_EQ(bound.heaviest_layer, 3);
    EXPECT_EQ(bound.layer_ns, (3 * 1 + 10 * 33) * kMs);
    EXPECT_EQ(bound.makespan_ns, bound.layer_ns);
}

TEST(Bound, WorkBeginsLaterOnEachDevice)
{
    Model model = Model::Uniform(8, 4);
    model.microbatches = 10;
    /* 4 T - (0 + 1 + 2 + 3) ms >= 10 * 8 * 6 ms */
    EXPECT_NEAR(static_cast<double>(Bound(model).work_ns), 121.5 * kMs, 4);
}

TEST(Bound, LayersAreNotDivisible)
{
    Model model = Model::Uniform(9, 4);
    model.microbatches = 10;
    /* One device has 3 layers; the others may be late, so nothing is added to that. */
    EXPECT_NEAR(static_cast<double>(Bound(model).packing_ns), 180.0 * kMs, 0.001 * 180 * kMs);
}

/* The device of the heavy layer waits for its input, and meanwhile can do only F of its other layers. */
TEST(Bound, BesideTheHeaviestLayerThereIsTimeOnlyOnceItsInputIsThere)
{
    Model model = Model::Uniform(8, 3);
    model.microbatches = 4;
    model.layers[7].w_ns = 12 * kMs;
    /* Three layers on each of the other devices, one beside the heavy one: 7 ms, then 4 times 15 + 2 + 3 ms.
     */
    EXPECT_NEAR(static_cast<double>(Bound(model).packing_ns), 87.0 * kMs, 0.001 * 87 * kMs);
    std::swap(model.layers[0], model.layers[7]);
    EXPECT_NEAR(static_cast<double>(Bound(model).packing_ns), 84.0 * kMs, 0.001 * 84 * kMs) << "no wait";
}

TEST(Bound, ActivationsAreHeldFromForwardToBackward)
{
    Model model = Model::Uniform(2, 2);
    model.microbatches = 100;
    for (struct detour_model_device &device : model.devices)
        device.capacity_bytes = 940;
    /* 40 bytes for 6 ms, 40 for 3 ms, 100 times, in 2 * (940 - 900) bytes */
    EXPECT_NEAR(static_cast<double>(Bound(model).memory_ns), 100.0 * (40 * 6 + 40 * 3) / 80 * kMs,
                0.01 * kMs);
    EXPECT_EQ(Bound(model).over_bytes, 0);
    model.devices[0].capacity_bytes = 900;
    EXPECT_EQ(Bound(model).over_bytes, 40);
}
