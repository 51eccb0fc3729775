// SPDX-License-Identifier: Apache-2.0
// The pause that the planner charges for an exchange of nodes against the move of their states through the
// plugin's entry points.
#include "tests/sim/move_sim.h"

#include <gtest/gtest.h>

#include <cmath>

namespace
{
constexpr uint64_t kMiB = 1 << 20, kRate = 50000000000, kLatency = 10000;
constexpr double kNear = 0.001;

/* How far the model is from what was executed, of that. */
double Error(const struct dt_move_sim_options &options)
{
    uint64_t took_ns = 0;
    int64_t model_ns = 0;
    EXPECT_TRUE(dt_move_sim_run(&options, &took_ns));
    EXPECT_TRUE(dt_move_sim_model(&options, &model_ns));
    return std::abs(static_cast<double>(model_ns) / static_cast<double>(took_ns) - 1);
}

TEST(Move, AnExchangeTakesWhatThePlannerStates)
{
    EXPECT_LT(Error({2, 16 * kMiB, kRate, kLatency, 1000, 0}), kNear);
    EXPECT_LT(Error({2, 100 * kMiB + 17, kRate, kLatency, 1000, 0}), kNear);
    EXPECT_LT(Error({2, 256 * kMiB, kRate, kLatency, 1000, 0}), kNear);
    EXPECT_LT(Error({2, 256 * kMiB, kRate, 100, 1000, 0}), kNear);
    EXPECT_LT(Error({2, 256 * kMiB, kRate, 500000, 1000, 0}), kNear);
}

TEST(Move, ACircleTakesWhatThePlannerStates)
{
    EXPECT_LT(Error({3, 256 * kMiB, kRate, kLatency, 1000, 0}), kNear);
    EXPECT_LT(Error({4, 256 * kMiB, kRate, 500000, 1000, 0}), kNear);
}

TEST(Move, ASlowLinkTakesWhatThePlannerStates)
{
    EXPECT_LT(Error({2, 128 * kMiB, kRate, kLatency, 8400, 0}), kNear);
    EXPECT_LT(Error({3, 128 * kMiB, kRate, kLatency, 8400, 0}), kNear);
    EXPECT_LT(Error({2, 128 * kMiB, kRate, kLatency, 1000, 5000000}), kNear);
    EXPECT_LT(Error({3, 128 * kMiB, kRate, kLatency, 1000, 5000000}), kNear);
}
} // namespace
