// SPDX-License-Identifier: Apache-2.0
// Parameters are known after every iteration, and a wrong, missing or doubled sum is found.
#include "cli/pipeline/parameters.h"

#include <gtest/gtest.h>

#include <vector>

#include "pipeline/gradients.h"

namespace
{
constexpr uint64_t kCount = 100;

/* The sums of an iteration of 8 microbatches. */
std::vector<uint64_t> Sums(int32_t device, uint32_t iteration)
{
    std::vector<uint64_t> sums(kCount);
    const uint64_t factor =
        dt_gradients_factor(device, iteration, 0, 3) + dt_gradients_factor(device, iteration, 3, 8);
    for (uint64_t i = 0; i < kCount; i++)
        sums[i] = dt_gradients_element(factor, i);
    return sums;
}

TEST(Parameters, AreKnownAfterEveryIteration)
{
    struct dt_pipeline_parameters parameters = {};
    uint64_t wrong = 0;
    ASSERT_TRUE(dt_pipeline_parameters_create(&parameters, 2, kCount));
    for (uint32_t iteration = 0; iteration < 5; iteration++) {
        EXPECT_TRUE(dt_pipeline_parameters_check(&parameters, 2, iteration, 8, &wrong)) << iteration;
        dt_pipeline_parameters_add(&parameters, Sums(2, iteration).data());
        EXPECT_FALSE(dt_pipeline_parameters_check(&parameters, 2, iteration, 8, &wrong)); /* one too many */
    }
    EXPECT_FALSE(dt_pipeline_parameters_check(&parameters, 1, 5, 8, &wrong)); /* of another device */
    EXPECT_TRUE(dt_pipeline_parameters_check(&parameters, 2, 5, 8, &wrong));
    parameters.elements[7]++;
    EXPECT_FALSE(dt_pipeline_parameters_check(&parameters, 2, 5, 8, &wrong));
    EXPECT_EQ(wrong, 7u);
    dt_pipeline_parameters_free(&parameters);
    EXPECT_EQ(parameters.elements, nullptr);
}
} // namespace
