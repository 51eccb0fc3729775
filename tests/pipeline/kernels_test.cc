// SPDX-License-Identifier: Apache-2.0
#include "pipeline/kernels.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/pipeline/virtual_run.h"
#include "tests/sched/sched_test.h"

using namespace pipeline_test;
using namespace sched_test;

namespace
{
struct Deleter {
    void operator()(struct dt_pipeline_kernels *kernels) const
    {
        dt_pipeline_kernels_destroy(kernels);
    }
};

/* The kernels of device 1 of three, whose stage has a neighbor on each side. */
class Kernels : public ::testing::Test
{
  protected:
    void Begin(const char *launch, const std::vector<struct detour_action> &actions, uint32_t slices = 1,
               uint32_t slots = 8)
    {
        Profile profile = Profile::Uniform(3, 4, 10, 10, 10);
        ASSERT_TRUE(dt_pipeline_flows_init(&flows_, profile.get(), 1));
        kernels_.reset(dt_pipeline_kernels_create(dt_pipeline_launch_find(launch), slices, slots));
        ASSERT_TRUE(dt_pipeline_kernels_begin(kernels_.get(), actions.data(), actions.size(), &flows_));
    }

    void TearDown() override
    {
        dt_pipeline_flows_free(&flows_);
    }

    static struct detour_action Action(enum detour_action_kind kind, int32_t microbatch = 0)
    {
        return {microbatch, 1, static_cast<uint8_t>(kind), 0};
    }

    /* What has become possible: "3+1" one slice of action 3, "2@50" action 2 has arrived at 50. */
    std::string Events()
    {
        std::string text;
        struct dt_pipeline_kernels_event event;
        while (dt_pipeline_kernels_next(kernels_.get(), &event))
            text += (text.empty() ? "" : " ") + std::to_string(event.action) +
                    (event.kind == DT_KERNELS_TRANSFER ? "+" + std::to_string(event.slices)
                                                       : "@" + std::to_string(event.at_ns));
        return text;
    }

    void Launch(size_t action, uint64_t ready_ns)
    {
        dt_pipeline_kernels_launch(kernels_.get(), action, ready_ns);
    }

    void Post(size_t action, uint64_t now_ns, int slices = 1)
    {
        for (int i = 0; i < slices; i++)
            dt_pipeline_kernels_posted(kernels_.get(), action, now_ns);
    }

    void Complete(size_t action, uint64_t now_ns, int slices = 1)
    {
        for (int i = 0; i < slices; i++)
            dt_pipeline_kernels_completed(kernels_.get(), action, now_ns);
    }

    uint64_t EndOf(size_t action)
    {
        return dt_pipeline_kernels_end_ns(kernels_.get(), dt_pipeline_kernels_of(kernels_.get(), action));
    }

    struct dt_pipeline_flows flows_ = {};
    std::unique_ptr<struct dt_pipeline_kernels, Deleter> kernels_;
};
} // namespace

TEST_F(Kernels, ASendWaitsForTheTransferOfTheSendBeforeItToAnotherPeer)
{
    Begin("batched", {Action(DETOUR_ACTION_SEND_F), Action(DETOUR_ACTION_F), Action(DETOUR_ACTION_SEND_B)});
    Launch(0, 5);
    EXPECT_EQ(Events(), "0+1");
    Post(0, 5);
    Launch(2, 6);
    EXPECT_EQ(Events(), "") << "the kernel runs, its transfer is not permitted";
    EXPECT_EQ(EndOf(0), 5u) << "its only slice has a slot";
    Complete(0, 30);
    EXPECT_EQ(Events(), "2+1");
    Post(2, 30);
    EXPECT_EQ(Events(), "");
    EXPECT_EQ(EndOf(2), 30u);
}

TEST_F(Kernels, APairHasItsOwnCommunicator)
{
    Begin("isend", {Action(DETOUR_ACTION_SEND_F), Action(DETOUR_ACTION_F), Action(DETOUR_ACTION_SEND_B)});
    Launch(0, 5);
    Launch(2, 6);
    EXPECT_EQ(Events(), "0+1 2+1");
    Post(2, 6);
    EXPECT_EQ(Events(), "");
    EXPECT_EQ(EndOf(2), 6u);
}

TEST_F(Kernels, AReceiveIsPostedAheadAndHoldsItsPlaceUntilTheMessageIsThere)
{
    Begin("batched", {Action(DETOUR_ACTION_RECV_F), Action(DETOUR_ACTION_W), Action(DETOUR_ACTION_SEND_F),
                      Action(DETOUR_ACTION_RECV_F, 1)});
    EXPECT_EQ(Events(), "0+1") << "before any launch; the second receive waits for the first";
    Post(0, 0);
    Launch(0, 10);
    Launch(2, 20);
    uint64_t start_ns;
    EXPECT_EQ(Events(), "");
    EXPECT_TRUE(dt_pipeline_kernels_has_started(kernels_.get(), 0, &start_ns));
    EXPECT_FALSE(dt_pipeline_kernels_has_started(kernels_.get(), 2, &start_ns));
    Complete(0, 50);
    EXPECT_EQ(Events(), "0@50 3+1 2+1");
    EXPECT_TRUE(dt_pipeline_kernels_has_started(kernels_.get(), 2, &start_ns));
    EXPECT_EQ(start_ns, 50u);
    EXPECT_TRUE(dt_pipeline_kernels_has_started(kernels_.get(), 3, &start_ns)) << "batched with the send";
}

TEST_F(Kernels, AMessageThatArrivesBeforeItsKernelIsThereWhenTheKernelRuns)
{
    Begin("batched", {Action(DETOUR_ACTION_RECV_F), Action(DETOUR_ACTION_W), Action(DETOUR_ACTION_RECV_B)});
    EXPECT_EQ(Events(), "0+1");
    Post(0, 0);
    Complete(0, 7);
    EXPECT_EQ(Events(), "") << "it is in NCCL's buffer, which the second receive needs";
    Launch(0, 10);
    EXPECT_EQ(Events(), "2+1 0@10");
}

TEST_F(Kernels, OnlyTheSlotsAreFilledAheadOfTheKernel)
{
    Begin("isend", {Action(DETOUR_ACTION_RECV_F)}, 5, 2);
    EXPECT_EQ(Events(), "0+2");
    Post(0, 0, 2);
    Complete(0, 7, 2);
    EXPECT_EQ(Events(), "");
    Launch(0, 10);
    EXPECT_EQ(Events(), "0+3");
    Post(0, 10, 3);
    Complete(0, 12, 3);
    EXPECT_EQ(Events(), "0@12");
    EXPECT_TRUE(dt_pipeline_kernels_are_done(kernels_.get()));
}

TEST_F(Kernels, ABatchEndsAtAComputationAndBehindAReceiveForIt)
{
    Begin("batched", {Action(DETOUR_ACTION_SEND_F), Action(DETOUR_ACTION_RECV_F, 1),
                      Action(DETOUR_ACTION_RECV_B), Action(DETOUR_ACTION_RECV_F, 2),
                      Action(DETOUR_ACTION_WAIT_B), Action(DETOUR_ACTION_B), Action(DETOUR_ACTION_SEND_B)});
    std::string kernels;
    for (size_t action : {0, 1, 2, 3, 6})
        kernels += std::to_string(dt_pipeline_kernels_of(kernels_.get(), action));
    EXPECT_EQ(kernels, "00012");
    EXPECT_EQ(dt_pipeline_kernels_count(kernels_.get()), 3u);
    EXPECT_FALSE(dt_pipeline_kernels_are_done(kernels_.get()));
}

/* Every way of launching ends every iteration, with the same computing time; none is faster than delegation.
 */
TEST(KernelsRun, EveryLaunchEndsRandomPipelines)
{
    struct dt_prng prng;
    dt_prng_init(&prng, 7);
    for (int i = 0; i < 60; i++) {
        Profile profile = RandomProfile(&prng, RandomLimits{6, 10, 12, true, false, true});
        SCOPED_TRACE(Describe(profile));
        Arena arena;
        struct detour_error error = {};
        struct detour_options options = {};
        options.algorithm = DETOUR_ALGORITHM_BEAM;
        struct detour_plan *plan = nullptr;
        struct detour_program *program = nullptr;
        ASSERT_EQ(detour_generate(arena, profile.get(), &options, &plan, &error), DETOUR_OK) << error.text;
        ASSERT_EQ(detour_program_create(arena, profile.get(), plan->schedule, &program, &error), DETOUR_OK);
        for (unsigned k = 0; const struct dt_pipeline_launch *launch = dt_pipeline_launch_at(k); k++) {
            SCOPED_TRACE(launch->name);
            struct dt_executor_options made = {};
            made.mode = DT_PIPELINE_NCCL;
            made.launch = launch;
            made.message_bytes = 1000;
            made.slice_bytes = i % 2 ? 0 : 100;
            VirtualRun run(profile.get(), made);
            uint64_t first_ns = run.Run(program);
            if (!made.slice_bytes) { /* a slice's part of a serial delay is rounded down */
                EXPECT_GE(first_ns, static_cast<uint64_t>(plan->makespan_ns));
            }
            EXPECT_EQ(run.Run(program, 1), first_ns);
        }
    }
}

TEST(KernelsRun, AReceiveThatHoldsItsPlaceAddsTheDelaysOfBothDirections)
{
    Profile profile = Profile::Uniform(2, 16, 10, 10, 10);
    profile.links[0].forward_ns = profile.links[0].backward_ns = 60;
    Arena arena;
    struct detour_error error = {};
    struct detour_options options = {};
    options.algorithm = DETOUR_ALGORITHM_ZB_H1;
    struct detour_plan *plan = nullptr;
    struct detour_program *program = nullptr;
    ASSERT_EQ(detour_generate(arena, profile.get(), &options, &plan, &error), DETOUR_OK) << error.text;
    ASSERT_EQ(detour_program_create(arena, profile.get(), plan->schedule, &program, &error), DETOUR_OK);
    std::vector<uint64_t> took_ns;
    for (const char *name : {"sends", "isend", "batched", "batched-free"}) {
        struct dt_executor_options made = {};
        made.mode = DT_PIPELINE_NCCL;
        made.launch = dt_pipeline_launch_find(name);
        made.message_bytes = 8000;
        made.slice_bytes = 1000;
        took_ns.push_back(VirtualRun(profile.get(), made).Run(program));
    }
    EXPECT_LT(took_ns[0], 16u * 120) << "sends: the delays of activations and gradients overlap";
    EXPECT_GE(took_ns[1], 15u * 120);
    EXPECT_GE(took_ns[2], 15u * 120);
    EXPECT_GE(took_ns[3], 15u * 120) << "not a matter of hardware queues";
}
