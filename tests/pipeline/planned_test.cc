// SPDX-License-Identifier: Apache-2.0
// What `detour sched optimize` finds, and each baseline with its placement, through the executor in virtual
// time: the run takes the time of the model, to the nanosecond.
#include <set>
#include <string>

#include "detour/optimize.h"
#include "tests/pipeline/virtual_run.h"
#include "tests/sched/sched_test.h"

using namespace pipeline_test;
using sched_test::Arena;

namespace
{
const struct detour_optimization *Optimize(struct detour_arena *arena, enum detour_family family, bool slow)
{
    struct detour_family_options which = {};
    struct detour_optimize_options options = {};
    struct detour_optimization *result = nullptr;
    struct detour_model *model = nullptr;
    struct detour_error error = {};
    which.family = family;
    which.tensor_parallel = 2;
    which.expert_parallel = 8;
    EXPECT_EQ(detour_model_of_family(arena, &which, &model, &error), DETOUR_OK) << error.text;
    std::vector<struct detour_model_link> links(
        model->links, model->links + static_cast<ptrdiff_t>(model->device_count) * model->device_count);
    std::vector<struct detour_model_device> devices(model->devices, model->devices + model->device_count);
    links[1].latency_ns += slow ? 40000000 : 0; /* from device 0 to device 1 */
    devices[2].speed_permille = slow ? 700 : 1000;
    struct detour_model changed = *model;
    changed.links = links.data();
    changed.devices = devices.data();
    options.budget = 300000;
    EXPECT_EQ(detour_optimize(arena, &changed, &options, &result, &error), DETOUR_OK) << error.text;
    return result;
}

/* The placement as text: "01233210". */
std::string RunAsModelled(const struct detour_profile *profile, const struct detour_plan *plan)
{
    Arena arena;
    struct detour_program *program = nullptr;
    struct detour_error error = {};
    struct dt_executor_options options = {};
    std::string placement;
    for (int32_t i = 0; i < profile->stage_count; i++)
        placement += std::to_string(profile->stages[i].device);
    SCOPED_TRACE(placement);
    EXPECT_EQ(detour_program_create(arena, profile, plan->schedule, &program, &error), DETOUR_OK)
        << error.text;
    EXPECT_EQ(detour_program_check(arena, profile, program, &error), DETOUR_OK) << error.text;
    options.mode = DT_PIPELINE_DELEGATED;
    options.message_bytes = 64;
    EXPECT_EQ(VirtualRun(profile, options).Run(program), static_cast<uint64_t>(plan->makespan_ns));
    return placement;
}
} // namespace

TEST(Planned, EveryPlacementTakesTheTimeOfTheModel)
{
    std::set<std::string> placements;
    for (int family = 0; family < DETOUR_FAMILY_COUNT; family++) {
        for (bool slow : {false, true}) {
            Arena arena;
            const struct detour_optimization *result =
                Optimize(arena, static_cast<enum detour_family>(family), slow);
            SCOPED_TRACE(std::string(detour_family_name(static_cast<enum detour_family>(family))) +
                         (slow ? ", a slow link and a slow device" : ""));
            for (const struct detour_pipeline &baseline : result->baselines)
                if (baseline.plan)
                    placements.insert(RunAsModelled(baseline.profile, baseline.plan));
            placements.insert(RunAsModelled(result->tuned.profile, result->tuned.plan));
            placements.insert(RunAsModelled(result->best.profile, result->best.plan));
        }
    }
    for (const char *placement : {"0123", "01230123", "01233210"})
        EXPECT_TRUE(placements.count(placement)) << placement << ": no pipeline has this placement";
}

/* Two waves are a baseline only where they beat one. */
TEST(Planned, TwoWavesTakeTheTimeOfTheModel)
{
    sched_test::Profile profile = sched_test::Profile::Uniform(16, 8, 10, 11, 9);
    std::vector<int32_t> device(16);
    Arena arena;
    ASSERT_EQ(detour_placement_fill(DETOUR_PLACEMENT_WAVE, 16, 4, device.data(), nullptr), DETOUR_OK);
    for (size_t i = 0; i < device.size(); i++)
        profile.stages[i].device = device[i];
    for (size_t i = 0; i + 1 < device.size(); i++)
        profile.Delay(i, static_cast<int64_t>(i % 5));
    EXPECT_EQ(RunAsModelled(profile.get(), sched_test::Generate(arena, profile, DETOUR_ALGORITHM_HANAYO)),
              "0123321001233210");
}
