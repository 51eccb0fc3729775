// SPDX-License-Identifier: Apache-2.0
// The layers' formulas give the published models the number of parameters that they have.
#include "planner/cost/architecture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace
{
const struct dt_gpu kGpu = DT_GPU_H800;
const struct dt_workload kLoad = {&kGpu, 2048, 2048, 1, 1};

/* In billions; `tied`: head and embedding are one matrix. */
double Parameters(const struct dt_architecture &a, bool tied)
{
    const char *type = nullptr;
    double sum = dt_head_cost(&a, &kLoad).parameters;
    if (!tied)
        sum += dt_embedding_cost(&a, &kLoad).parameters;
    for (int i = 0; i < a.layers; i++)
        sum += dt_layer_cost(&a, &kLoad, i, &type).parameters;
    return sum / 1e9;
}

TEST(Architecture, Table5OfAdaPtis)
{
    const struct {
        enum detour_family family;
        int layers;
        double vocabulary, hidden;
    } rows[] = {{DETOUR_FAMILY_GEMMA, 32, 256, 1536},
                {DETOUR_FAMILY_DEEPSEEK, 16, 128, 2048},
                {DETOUR_FAMILY_NEMOTRON_H, 28, 128, 1024}};
    for (const auto &row : rows)
        for (int size = 0; size < DETOUR_MODEL_SIZE_COUNT; size++) {
            struct dt_architecture a =
                dt_architecture_of(row.family, static_cast<enum detour_model_size>(size));
            EXPECT_EQ(a.layers, row.layers * (1 << size));
            EXPECT_DOUBLE_EQ(a.vocabulary, row.vocabulary * 1024 * (1 << size));
            EXPECT_DOUBLE_EQ(a.hidden, row.hidden);
        }
}

// Gemma 3 4B: 3,209 M outside the embedding and 675 M in it (arXiv 2503.19786, Table 1).
TEST(Architecture, Gemma3Has3Point88BillionParameters)
{
    struct dt_architecture a = dt_architecture_of(DETOUR_FAMILY_GEMMA, DETOUR_MODEL_SMALL);
    a.layers = 34;
    a.vocabulary = 262144;
    a.hidden = 2560;
    a.ffn = 10240;
    a.heads = 8;
    a.kv_heads = 4;
    EXPECT_NEAR(Parameters(a, true), 3.209 + 0.675, 0.02);
}

// DeepSeek-V2-Lite: 15.7 B (arXiv 2405.04434, appendix B).
TEST(Architecture, DeepSeekV2LiteHas15Point7BillionParameters)
{
    struct dt_architecture a = dt_architecture_of(DETOUR_FAMILY_DEEPSEEK, DETOUR_MODEL_SMALL);
    a.layers = 27;
    a.vocabulary = 102400;
    EXPECT_NEAR(Parameters(a, false), 15.7, 0.05);
}

// Nemotron-H-8B: 8.1 B.
TEST(Architecture, NemotronH8BHas8Point1BillionParameters)
{
    struct dt_architecture a = dt_architecture_of(DETOUR_FAMILY_NEMOTRON_H, DETOUR_MODEL_SMALL);
    a.layers = 52;
    a.vocabulary = 131072;
    a.hidden = 4096;
    a.ffn = 21504;
    a.heads = 32;
    a.kv_heads = 8;
    a.mamba_heads = 128;
    EXPECT_NEAR(Parameters(a, false), 8.1, 0.05);
}

// Rounded figures, and a vocabulary that the paper does not name.
TEST(Architecture, GptHasTheSizesOfTheZeroBubblePaper)
{
    const double billions[] = {1.5, 6.2, 14.6};
    for (int size = 0; size < DETOUR_MODEL_SIZE_COUNT; size++)
        EXPECT_NEAR(
            Parameters(dt_architecture_of(DETOUR_FAMILY_GPT, static_cast<enum detour_model_size>(size)),
                       true),
            billions[size], 0.012 * billions[size]);
}

TEST(Architecture, NemotronHRepeatsThePatternOfThe8BModel)
{
    struct dt_architecture a = dt_architecture_of(DETOUR_FAMILY_NEMOTRON_H, DETOUR_MODEL_LARGE);
    std::string first, second;
    for (int i = 0; i < 104; i++) {
        const char *type = nullptr;
        dt_layer_cost(&a, &kLoad, i, &type);
        (i < 52 ? first : second) += type[0];
    }
    EXPECT_EQ(first, second);
    EXPECT_EQ(first.substr(0, 9), "mfmfmfmaf");
    EXPECT_EQ(std::count(first.begin(), first.end(), 'm'), 24);
    EXPECT_EQ(std::count(first.begin(), first.end(), 'f'), 24);
    EXPECT_EQ(std::count(first.begin(), first.end(), 'a'), 4);
}

TEST(Architecture, TensorParallelismSharesWorkAndParameters)
{
    struct dt_workload shared = kLoad;
    const char *type = nullptr;
    shared.tensor = 2;
    for (int family = 0; family < DETOUR_FAMILY_COUNT; family++) {
        struct dt_architecture a =
            dt_architecture_of(static_cast<enum detour_family>(family), DETOUR_MODEL_SMALL);
        struct dt_cost alone = dt_layer_cost(&a, &kLoad, 1, &type);
        struct dt_cost half = dt_layer_cost(&a, &shared, 1, &type);
        EXPECT_LT(half.w_s, alone.w_s);
        EXPECT_LT(half.parameters, 0.52 * alone.parameters);
        EXPECT_LT(half.activation_bytes, alone.activation_bytes);
    }
}

TEST(Architecture, ExpertParallelismSharesParametersAndSendsTokens)
{
    struct dt_architecture a = dt_architecture_of(DETOUR_FAMILY_DEEPSEEK, DETOUR_MODEL_SMALL);
    struct dt_workload shared = kLoad;
    const char *type = nullptr;
    shared.expert = 8;
    struct dt_cost alone = dt_layer_cost(&a, &kLoad, 1, &type), eighth = dt_layer_cost(&a, &shared, 1, &type);
    EXPECT_STREQ(type, "moe");
    EXPECT_LT(eighth.parameters, alone.parameters / 5);
    EXPECT_DOUBLE_EQ(dt_layer_cost(&a, &shared, 0, &type).parameters,
                     dt_layer_cost(&a, &kLoad, 0, &type).parameters);
    EXPECT_STREQ(type, "dense");
}
} // namespace
