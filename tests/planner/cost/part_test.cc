// SPDX-License-Identifier: Apache-2.0
#include "planner/cost/part.h"

#include <gtest/gtest.h>

namespace
{
// A GPU of round numbers: with the shares of constants.h, 1e12 FLOP/s of products and 1e9 bytes/s of memory.
const struct dt_gpu kGpu = {"round", 1e12 / DT_SHARE_GEMM, 1e9 / DT_SHARE_MEMORY, 1e9 / DT_SHARE_NETWORK, 1,
                            1};

TEST(Kernel, TakesTheLongestOfComputingMemoryAndLaunch)
{
    EXPECT_DOUBLE_EQ(dt_kernel_s(&kGpu, DT_SHARE_GEMM, 3e12, 1e9), 3);
    EXPECT_DOUBLE_EQ(dt_kernel_s(&kGpu, DT_SHARE_GEMM, 1e12, 2e9), 2);
    EXPECT_DOUBLE_EQ(dt_kernel_s(&kGpu, DT_SHARE_GEMM, 1, 1), DT_KERNEL_S);
    EXPECT_DOUBLE_EQ(dt_kernel_s(&kGpu, DT_SHARE_GEMM / 2, 3e12, 0), 6);
}

TEST(Linear, HasThreeProductsOfOneSize)
{
    struct dt_cost cost = {};
    dt_cost_linear(&cost, &kGpu, 1e4, 1e4,
                   5e3); // 1e12 FLOPs; 2 bytes for each of 2e8 values, 8 for gradients
    EXPECT_DOUBLE_EQ(cost.f_s, 1);
    EXPECT_DOUBLE_EQ(cost.b_s, 1);
    EXPECT_DOUBLE_EQ(cost.w_s, 1);
    EXPECT_DOUBLE_EQ(cost.parameters, 5e7);
    EXPECT_DOUBLE_EQ(cost.activation_bytes, 2e8);         // the input
    EXPECT_DOUBLE_EQ(cost.activation_w_bytes, 2e8 + 1e8); // and the gradient of the output
}

TEST(Linear, OfFewTokensIsLimitedByMemory)
{
    struct dt_cost cost = {};
    dt_cost_linear(&cost, &kGpu, 1, 1e4, 1e4);
    EXPECT_DOUBLE_EQ(cost.f_s, 2 * (2e4 + 1e8) / 1e9);
    EXPECT_DOUBLE_EQ(cost.w_s, (2 * 2e4 + 8e8) / 1e9);
}

TEST(Experts, ShareTheTokensAndHaveParametersEach)
{
    struct dt_cost one = {}, eight = {};
    dt_cost_experts(&one, &kGpu, 1, 1e4, 1e4, 5e3);
    dt_cost_experts(&eight, &kGpu, 8, 1e4, 1e4, 5e3);
    EXPECT_DOUBLE_EQ(eight.parameters, 8 * one.parameters);
    EXPECT_DOUBLE_EQ(eight.activation_bytes, one.activation_bytes);
    EXPECT_DOUBLE_EQ(eight.f_s, (2 * 1e4 * 1.5e4 + 2 * 8 * 5e7) / 1e9); // 1.1 s of memory
}

TEST(Pointwise, PassesOverTheElements)
{
    struct dt_cost cost = {};
    const struct dt_pointwise shape = {1, 3, 2, 5, 2};
    dt_cost_pointwise(&cost, &kGpu, 1e9, &shape);
    EXPECT_DOUBLE_EQ(cost.f_s, 6);
    EXPECT_DOUBLE_EQ(cost.b_s, 10);
    EXPECT_DOUBLE_EQ(cost.w_s, 0);
    EXPECT_DOUBLE_EQ(cost.activation_bytes, 4e9);
    EXPECT_DOUBLE_EQ(cost.activation_w_bytes, 0);
    dt_cost_pointwise(&(cost = {}), &kGpu, 1, &shape);
    EXPECT_DOUBLE_EQ(cost.b_s, 2 * DT_KERNEL_S);
}

TEST(Attention, HalfOfTheScoresAreMasked)
{
    struct dt_cost cost = {};
    const struct dt_attention shape = {4096, 4096, 16, 16, 128, 128};
    double flops = 2.0 * 4096 * 4096 * 16 * 256 / 2;
    dt_cost_attention(&cost, &kGpu, &shape);
    EXPECT_DOUBLE_EQ(cost.f_s, flops / (DT_SHARE_ATTENTION * kGpu.flops));
    EXPECT_DOUBLE_EQ(cost.b_s, cost.f_s * 2.5);
    EXPECT_DOUBLE_EQ(cost.activation_bytes, 2.0 * 4096 * 4 * 16 * 128); // queries, keys, values, outputs
}

TEST(UnfusedAttention, KeepsItsScores)
{
    struct dt_cost fused = {}, unfused = {};
    const struct dt_attention shape = {1024, 1024, 16, 16, 128, 128};
    dt_cost_attention(&fused, &kGpu, &shape);
    dt_cost_unfused_attention(&unfused, &kGpu, &shape);
    EXPECT_DOUBLE_EQ(unfused.activation_bytes - fused.activation_bytes, 2.5 * 2 * 1024 * 1024 * 16);
    EXPECT_GT(unfused.f_s, 2 * fused.f_s);
}

TEST(Scan, GrowsWithTheTokensAndNotWithTheSequence)
{
    struct dt_cost once = {}, twice = {};
    struct dt_scan shape = {4096, 32, 64, 8, 128};
    dt_cost_scan(&once, &kGpu, &shape);
    shape.tokens *= 2;
    dt_cost_scan(&twice, &kGpu, &shape);
    EXPECT_DOUBLE_EQ(twice.f_s, 2 * once.f_s);
    EXPECT_DOUBLE_EQ(twice.activation_bytes, 2 * once.activation_bytes);
    EXPECT_DOUBLE_EQ(once.activation_bytes, 2.0 * 4096 * (2 * 2048 + 2048));
}

TEST(Collective, NothingIsSentToOneself)
{
    struct dt_cost cost = {};
    dt_cost_all_reduce(&cost, &kGpu, 1, 1e9);
    dt_cost_all_to_all(&cost, &kGpu, 1, 1e9);
    EXPECT_DOUBLE_EQ(cost.f_s, 0);
    dt_cost_all_reduce(&cost, &kGpu, 4, 1e9);
    EXPECT_DOUBLE_EQ(cost.f_s, 1.5);
    EXPECT_DOUBLE_EQ(cost.b_s, 1.5);
    dt_cost_all_to_all(&cost, &kGpu, 4, 1e9);
    EXPECT_DOUBLE_EQ(cost.f_s, 1.5 + 0.75);
    EXPECT_DOUBLE_EQ(cost.w_s, 0);
}
} // namespace
