// SPDX-License-Identifier: Apache-2.0
// The cost model against measured times: Table 9 of the Zero Bubble paper, on A100 GPUs.
#include <cmath>

#include "planner/cost/architecture.h"
#include "tests/sched/zero_bubble_table.h"

namespace
{
using sched_test::kZeroBubbleTable;
using sched_test::ZeroBubbleRow;

/* Sequences per microbatch and layers per stage (an inner one) of the paper's models, Table 3. */
struct Stage {
    int32_t hidden;
    int batch;
    int layers;
};
const Stage kStages[] = {{2304, 6, 3}, {4096, 3, 4}, {5120, 1, 3}, {6144, 1, 2}};

const Stage &StageOf(const ZeroBubbleRow &row)
{
    for (const Stage &stage : kStages)
        if (stage.hidden == row.hidden)
            return stage;
    ADD_FAILURE() << "no stage of hidden size " << row.hidden;
    return kStages[0];
}

struct dt_cost CostOf(const ZeroBubbleRow &row, const Stage &stage)
{
    static const struct dt_gpu a100 = DT_GPU_A100;
    struct dt_architecture a = dt_architecture_of(DETOUR_FAMILY_GPT, DETOUR_MODEL_SMALL);
    struct dt_workload load = {&a100, 1024, 1024.0 * stage.batch, 1, 1};
    const char *type = nullptr;

    a.hidden = row.hidden;
    a.ffn = 4 * a.hidden;
    a.heads = a.kv_heads = row.heads;
    a.key_size = a.value_size = a.hidden / a.heads;
    return dt_layer_cost(&a, &load, 1, &type);
}

TEST(CostOfZeroBubble, TimesAreNearTheMeasuredOnes)
{
    double sum = 0;
    int count = 0;

    for (const ZeroBubbleRow &row : kZeroBubbleTable) {
        const Stage &stage = StageOf(row);
        struct dt_cost cost = CostOf(row, stage);
        const double computed_ms[] = {cost.f_s * stage.layers * 1e3, cost.b_s * stage.layers * 1e3,
                                      cost.w_s * stage.layers * 1e3};
        const double measured_ms[] = {row.f_ms, row.b_ms, row.w_ms};
        for (int i = 0; i < 3; i++) {
            double error = computed_ms[i] / measured_ms[i] - 1;
            printf("hidden %d, %d microbatches, %c: %.3f ms computed, %.3f ms measured (%+.1f %%)\n",
                   static_cast<int>(row.hidden), static_cast<int>(row.microbatches), "FBW"[i], computed_ms[i],
                   measured_ms[i], error * 100);
            EXPECT_LT(std::fabs(error), 0.22);
            sum += std::fabs(error);
            count++;
        }
    }
    printf("mean error %.1f %%\n", sum / count * 100);
    EXPECT_LT(sum / count, 0.095);
}
} // namespace
