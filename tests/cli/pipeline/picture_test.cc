/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/picture.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "tests/pipeline/virtual_run.h"

namespace
{
/* A run of which each operation took 1 ms longer than the model knows. */
struct Picture {
    struct dt_pipeline_options options = {};
    struct dt_pipeline_timeline timeline = {};
    struct dt_pipeline_picture picture = {};
    struct detour_error error = {};

    Picture()
    {
        struct dt_pipeline_plan plan;
        options.devices = 2;
        options.replicas = 1;
        options.microbatches = 4;
        options.mode = DT_PIPELINE_DELEGATED;
        options.algorithm = DETOUR_ALGORITHM_1F1B;
        options.timeline_iteration = 7;
        options.f_ns = options.b_ns = options.w_ns = 10000000;
        EXPECT_TRUE(dt_pipeline_slow_add_link(&options.slow, "0-1=5ms,from=7,to=8"));
        EXPECT_TRUE(dt_pipeline_plan_make(&plan, &options, &error)) << error.text;
        struct dt_executor_options made = {};
        made.mode = options.mode;
        made.message_bytes = 4096;
        pipeline_test::VirtualRun run(&plan.profile, made);
        run.permille = {1100, 1100};
        run.Run(plan.program);
        for (size_t d = 0; d < 2; d++)
            Keep(d, run[d], plan.program);
        dt_pipeline_plan_free(&plan);
    }

    ~Picture()
    {
        dt_pipeline_picture_free(&picture);
        dt_pipeline_timeline_free(&timeline);
    }

    bool Make()
    {
        return dt_pipeline_picture_make(&picture, &options, &timeline, &error);
    }

    std::string Write(enum detour_format format)
    {
        struct detour_text text = {};

        EXPECT_TRUE(dt_pipeline_picture_write(&picture, format, &text, &error)) << error.text;
        return std::string(text.data, text.bytes);
    }

  private:
    void Keep(size_t device, const struct dt_executor *executor, const struct detour_program *program)
    {
        struct dt_pipeline_timeline_device &to = timeline.devices[device];

        to.count = program->first[device + 1] - program->first[device];
        to.begin_ns = dt_executor_get_account(executor).start_ns;
        to.records = static_cast<struct dt_pipeline_record *>(calloc(to.count, sizeof *to.records));
        for (size_t i = 0; i < to.count; i++)
            to.records[i] = {dt_executor_spans(executor)[i], program->actions[program->first[device] + i]};
    }
};
} // namespace

/* 1F1B, 2 stages, 4 microbatches of 10 ms each: 4 * 30 ms and 30 ms; the run had no delay and 11 ms. */
TEST(PipelinePicture, PredictsWhatWasSlowInItsIteration)
{
    Picture p;
    ASSERT_TRUE(p.Make()) << p.error.text;
    struct dt_pipeline_plan plan;
    ASSERT_TRUE(dt_pipeline_plan_make(&plan, &p.options, &p.error));
    EXPECT_EQ(p.picture.makespan_ns, dt_pipeline_plan_predict_ns(&plan, NULL, 7));
    EXPECT_GT(p.picture.makespan_ns, dt_pipeline_plan_predict_ns(&plan, NULL, 6));
    dt_pipeline_plan_free(&plan);
    std::string svg = p.Write(DETOUR_FORMAT_SVG);
    EXPECT_NE(svg.find("iteration 7: 165.00 ms, predicted "), std::string::npos) << svg.substr(0, 2000);
    EXPECT_NE(svg.find(">measured<"), std::string::npos);
    EXPECT_NE(svg.find("<title>F of microbatch 0, stage 0: 0 to 11 ms</title>"), std::string::npos);
    EXPECT_NE(svg.find("<title>F of microbatch 0, stage 0: 0 to 10 ms</title>"), std::string::npos);
    EXPECT_NE(p.Write(DETOUR_FORMAT_TRACE).find("device 1, measured"), std::string::npos);
}

TEST(PipelinePicture, JsonHasOperationsAndMessages)
{
    Picture p;
    ASSERT_TRUE(p.Make()) << p.error.text;
    json_t *timeline = dt_pipeline_picture_json(&p.picture);
    ASSERT_TRUE(timeline);
    json_t *operations = json_object_get(timeline, "operations");
    json_t *first = json_array_get(operations, 0);
    EXPECT_EQ(json_integer_value(json_object_get(timeline, "iteration")), 7);
    EXPECT_EQ(json_array_size(operations), p.picture.measured.schedule->op_count);
    EXPECT_EQ(json_array_size(json_object_get(timeline, "messages")), 8u);
    EXPECT_STREQ(json_string_value(json_object_get(first, "kind")), "F");
    EXPECT_EQ(json_real_value(json_object_get(first, "end_ms")), 11);
    json_decref(timeline);
}

TEST(PipelinePicture, AnIncompleteIterationIsRefused)
{
    Picture p;
    p.timeline.devices[1].count--;
    EXPECT_FALSE(p.Make());
    EXPECT_NE(p.error.text[0], '\0');
    EXPECT_EQ(p.picture.arena, nullptr);
}
