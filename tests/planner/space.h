/* SPDX-License-Identifier: Apache-2.0 */
/* A model prepared for the search, and pipelines of it. */
#ifndef DETOUR_TESTS_PLANNER_SPACE_H
#define DETOUR_TESTS_PLANNER_SPACE_H

#include "planner/pipeline.h"
#include "tests/planner/random_model.h"

namespace planner_test
{
/* Keeps the arena in which everything is. */
class Space
{
  public:
    explicit Space(Model &model)
    {
        EXPECT_EQ(dt_space_create(arena_, model.get(), &space_, nullptr), DETOUR_OK);
    }
    operator const struct dt_space *() const
    {
        return space_;
    }
    struct detour_arena *arena() const
    {
        return arena_;
    }
    struct dt_pipeline *Pipeline(const std::vector<int32_t> &first_layer,
                                 const std::vector<int32_t> &device) const
    {
        struct dt_pipeline *pipeline = dt_pipeline_create(arena_, space_);
        pipeline->stage_count = static_cast<int32_t>(device.size());
        std::copy(first_layer.begin(), first_layer.end(), pipeline->first_layer);
        std::copy(device.begin(), device.end(), pipeline->device);
        return pipeline;
    }

  private:
    Arena arena_;
    struct dt_space *space_ = nullptr;
};

inline std::vector<int32_t> FirstLayers(const struct dt_pipeline *pipeline)
{
    return {pipeline->first_layer, pipeline->first_layer + pipeline->stage_count + 1};
}

inline std::vector<int32_t> Devices(const struct dt_pipeline *pipeline)
{
    return {pipeline->device, pipeline->device + pipeline->stage_count};
}
} // namespace planner_test

#endif
