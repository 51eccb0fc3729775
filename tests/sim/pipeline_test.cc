// SPDX-License-Identifier: Apache-2.0
/*
 * Pipelines in virtual time: what libdetour-sched predicts and what the executor measures through the plugin
 * are the same up to what messages cost, in every mode and placement; runs are repeatable; a slow link acts
 * as it should.
 */
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tests/sim/pipeline_loop.h"
#include "pipeline/ring_model.h"
#include "tests/sim/pipeline_sim.h"
#include "tests/sim/pipeline_work.h"
#include "tests/sim/trace.h"

namespace
{
constexpr int64_t kMs = 1000000;

/* Equal stages of 10 ms; stage s is on device s % devices. */
class Pipeline : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        dt_trace_start(DT_TRACE_OFF);
        arena = detour_arena_create();
        ASSERT_TRUE(arena);
    }
    void TearDown() override
    {
        detour_arena_destroy(arena);
    }
    void Make(int32_t stage_count, int32_t devices, int32_t microbatches, detour_algorithm algorithm,
              int64_t delay_ns = 0, int32_t slow_link = 0)
    {
        detour_options plan_options = {};
        detour_error error = {};
        detour_plan *plan = nullptr;
        detour_report *report = nullptr;
        detour_program *program = nullptr;

        plan_options.algorithm = algorithm;
        stages.assign(stage_count, detour_stage{});
        links.assign(stage_count, detour_link{});
        for (int32_t i = 0; i < stage_count; i++) {
            stages[i].f_ns = stages[i].b_ns = stages[i].w_ns = 10 * kMs;
            stages[i].device = i % devices;
            links[i].forward_ns = links[i].backward_ns = kLatencyNs;
        }
        profile = {};
        profile.stage_count = stage_count;
        profile.device_count = devices;
        profile.microbatch_count = microbatches;
        profile.stages = stages.data();
        profile.links = links.data();
        ASSERT_EQ(DETOUR_OK, detour_generate(arena, &profile, &plan_options, &plan, &error)) << error.text;
        ASSERT_EQ(DETOUR_OK, detour_program_create(arena, &profile, plan->schedule, &program, &error))
            << error.text;
        healthy_links = links;
        schedule = plan->schedule;
        links[slow_link].forward_ns += delay_ns;
        links[slow_link].backward_ns += delay_ns;
        ASSERT_EQ(DETOUR_OK, detour_simulate(arena, &profile, plan->schedule, &report, &error)) << error.text;
        predicted_ns = (uint64_t)report->makespan_ns;
        slow = {};
        slow.link = slow_link;
        slow.delay_ns = (uint64_t)delay_ns;
        options = {};
        options.profile = &profile;
        options.program = program;
        options.message_bytes = 4096;
        options.slots = 8;
        options.slice_bytes = 1 << 20;
        options.rate_bytes_per_s = 50000000000;
        options.latency_ns = kLatencyNs;
        options.to_host_bytes_per_s = options.to_gpu_bytes_per_s = 50000000000;
        options.pool_bytes = 64 << 20;
        options.slow = &slow;
        options.slow_count = delay_ns > 0;
        options.iteration_count = 2;
        options.seed = 1;
    }
    std::vector<dt_pipeline_sim_result> RunAll()
    {
        std::vector<dt_pipeline_sim_result> results(options.iteration_count);
        char failure[DT_PIPELINE_SIM_TEXT_BYTES];

        EXPECT_TRUE(dt_pipeline_sim_run(&options, results.data(), failure)) << failure;
        return results;
    }
    dt_pipeline_sim_result Run()
    {
        return RunAll().back();
    }
    /* The same with a schedule that follows the delays; how often it changes goes to *changes. */
    std::vector<dt_pipeline_sim_result> RunFollowing(uint32_t *changes)
    {
        detour_profile healthy = profile;
        healthy.links = healthy_links.data();
        dt_pipeline_loop *loop = dt_pipeline_loop_create(&healthy, &healthy, schedule);
        options.after = dt_pipeline_loop_after;
        options.after_arg = loop;
        std::vector<dt_pipeline_sim_result> results = RunAll();
        *changes = dt_pipeline_loop_changes(loop);
        dt_pipeline_loop_destroy(loop);
        return results;
    }
    void AddReplicas(int32_t replicas)
    {
        options.replicas = replicas;
        options.gradient_bytes = 64 << 20;
        options.slice_bytes = 4 << 20;
        options.slots = 8;
    }
    /* When all sums are there, if every pipeline takes the predicted time. */
    uint64_t RingEndNs()
    {
        dt_gradients_options gradients = dt_pipeline_sim_gradients(&options, {0, 0});
        const auto serial_ns = (int64_t)(gradients.slice_bytes * 1000000000 / options.rate_bytes_per_s);
        std::vector<dt_ring_link> ring_links(options.replicas, {(int64_t)kLatencyNs, serial_ns});
        std::vector<int64_t> ended_ns(options.replicas, (int64_t)predicted_ns);
        dt_ring ring = {options.replicas, dt_gradients_slices(&gradients), gradients.slots,
                        ring_links.data()};

        return (uint64_t)dt_ring_end_ns(&ring, ended_ns.data());
    }
    /* A message may cost this much more than the profile says: copies, the clear-to-send, the flush. */
    void ExpectAsPredicted(const dt_pipeline_sim_result &result)
    {
        EXPECT_GE(result.iteration_ns, predicted_ns);
        EXPECT_LT(result.iteration_ns, predicted_ns + predicted_ns / 200);
    }

    static constexpr uint64_t kLatencyNs = 5000;
    detour_arena *arena = nullptr;
    std::vector<detour_stage> stages;
    std::vector<detour_link> links;
    detour_profile profile;
    dt_pipeline_slow_link slow;
    dt_pipeline_sim_options options;
    uint64_t predicted_ns = 0;
    std::vector<detour_link> healthy_links;
    detour_schedule *schedule = nullptr;
};

TEST_F(Pipeline, TakesAsLongAsPredicted)
{
    for (auto algorithm :
         {DETOUR_ALGORITHM_1F1B, DETOUR_ALGORITHM_ZB, DETOUR_ALGORITHM_ZB_H1, DETOUR_ALGORITHM_GPIPE}) {
        for (auto mode : {DT_PIPELINE_NCCL, DT_PIPELINE_HOSTPATH, DT_PIPELINE_DELEGATED}) {
            SCOPED_TRACE(std::string(detour_algorithm_name(algorithm)) + " " + dt_pipeline_mode_name(mode));
            Make(4, 4, 8, algorithm);
            options.mode = mode;
            dt_pipeline_sim_result result = Run();
            ExpectAsPredicted(result);
            EXPECT_EQ(4u * 8 * 3 * 10 * kMs, result.compute_ns);
            EXPECT_EQ(2u * 2 * 3 * 8, result.transfers); // each is ordered at both ends
        }
    }
}

TEST_F(Pipeline, RunsSeveralStagesOfADevice)
{
    for (auto mode : {DT_PIPELINE_NCCL, DT_PIPELINE_HOSTPATH, DT_PIPELINE_DELEGATED}) {
        Make(8, 4, 8, DETOUR_ALGORITHM_INTERLEAVED);
        options.mode = mode;
        ExpectAsPredicted(Run());
    }
}

TEST_F(Pipeline, RunsTwoDevicesThatAreNeighborsTwice)
{
    Make(4, 2, 6,
         DETOUR_ALGORITHM_INTERLEAVED); // links 0 and 2, and link 1 the other way, join the same devices
    ExpectAsPredicted(Run());
}

/* Latency and bandwidth of each link are those of the profile, as plans of files have them. */
TEST_F(Pipeline, LinksMayBeThoseOfTheProfile)
{
    Make(4, 4, 8, DETOUR_ALGORITHM_ZB, 3 * kMs, 1);
    options.message_bytes = 8 << 20;
    for (detour_link &link : links)
        link.forward_serial_ns = link.backward_serial_ns = kMs;
    detour_report *report = nullptr;
    ASSERT_EQ(DETOUR_OK, detour_simulate(arena, &profile, schedule, &report, nullptr));
    predicted_ns = (uint64_t)report->makespan_ns;
    options.slow_count = 0;
    EXPECT_LT(Run().iteration_ns, predicted_ns - 3 * kMs) << "the usual wires are faster";
    options.has_own_links = true;
    ExpectAsPredicted(Run());
}

TEST_F(Pipeline, IsRepeatable)
{
    for (auto mode : {DT_PIPELINE_NCCL, DT_PIPELINE_HOSTPATH, DT_PIPELINE_DELEGATED}) {
        Make(4, 4, 8, DETOUR_ALGORITHM_ZB, 25 * kMs, 2);
        options.mode = mode;
        options.message_bytes = 8 << 20;
        dt_pipeline_sim_result first = Run(), second = Run();
        EXPECT_EQ(first.iteration_ns, second.iteration_ns);
        EXPECT_EQ(first.complete_ns, second.complete_ns);
        EXPECT_EQ(first.wait_ns, second.wait_ns);
        EXPECT_EQ(first.held_ns, second.held_ns);
    }
}

/* With receives posted early and no slots that can run out, the delay of a link acts as the profile's
 * latency. */
TEST_F(Pipeline, ASlowLinkActsAsPredictedOnceDelegated)
{
    for (int32_t link : {0, 2}) {
        Make(4, 4, 12, DETOUR_ALGORITHM_ZB, 60 * kMs, link);
        options.mode = DT_PIPELINE_DELEGATED;
        dt_pipeline_sim_result result = Run();
        ExpectAsPredicted(result);
        EXPECT_EQ(0u, result.held_ns);
    }
}

/* A receive that the program reaches late delays its message by the link's latency once more. */
TEST_F(Pipeline, TheHostPathAloneLeavesReceivesLate)
{
    Make(4, 4, 12, DETOUR_ALGORITHM_ZB, 60 * kMs, 0);
    options.mode = DT_PIPELINE_HOSTPATH;
    dt_pipeline_sim_result result = Run();
    EXPECT_GT(result.iteration_ns, predicted_ns + predicted_ns / 4);
    EXPECT_EQ(0u, result.held_ns);
}

/* One message fits the slots: the second send waits for the first, and the computation behind it, too. */
TEST_F(Pipeline, ASlowLinkHoldsBackComputationWithoutTheHostPath)
{
    Make(4, 4, 12, DETOUR_ALGORITHM_ZB, 60 * kMs, 0);
    options.message_bytes = 8 << 20;
    dt_pipeline_sim_result blocked = Run();
    options.mode = DT_PIPELINE_HOSTPATH;
    dt_pipeline_sim_result freed = Run();

    EXPECT_GT(blocked.held_ns, 100u * kMs);
    EXPECT_EQ(0u, freed.held_ns);
    EXPECT_GT(blocked.iteration_ns, freed.iteration_ns * 5 / 4);
}

/* The receiver compares every stamp: a wrong byte in the last one of a message is found, and which message it
 * was. */
TEST_F(Pipeline, FindsAWrongByte)
{
    dt_pipeline_sim_result result;
    char failure[DT_PIPELINE_SIM_TEXT_BYTES];

    for (auto mode : {DT_PIPELINE_NCCL, DT_PIPELINE_HOSTPATH, DT_PIPELINE_DELEGATED}) {
        Make(4, 4, 8, DETOUR_ALGORITHM_ZB);
        options.mode = mode;
        options.message_bytes = 8 << 20;
        options.iteration_count = 1;
        options.spoiled_send = 5;
        EXPECT_FALSE(dt_pipeline_sim_run(&options, &result, failure));
        EXPECT_NE(nullptr, strstr(failure, "a message has another content than was sent")) << failure;
    }
}

/* A message that finds no room in the pool goes directly; nothing is lost, nothing hangs. */
TEST_F(Pipeline, AFullPoolIsNoDeadEnd)
{
    Make(4, 4, 8, DETOUR_ALGORITHM_ZB, 30 * kMs, 1);
    options.mode = DT_PIPELINE_DELEGATED;
    options.message_bytes = 8 << 20;
    for (uint64_t pool_bytes : {64 << 20, 8 << 20, 4096}) {
        options.pool_bytes = pool_bytes;
        EXPECT_GE(Run().iteration_ns, predicted_ns) << pool_bytes;
    }
}

/* Two iterations ask for a change; its proposal and the confirmations take one round each. */
TEST_F(Pipeline, FollowsASlowLinkFromAnAgreedIterationOn)
{
    uint32_t changes;
    Make(4, 4, 16, DETOUR_ALGORITHM_ZB, 60 * kMs, 2);
    options.mode = DT_PIPELINE_DELEGATED;
    options.iteration_count = 8;
    std::vector<dt_pipeline_sim_result> results = RunFollowing(&changes);
    EXPECT_EQ(1u, changes);
    for (uint32_t i = 1; i < options.iteration_count; i++) {
        uint64_t like_ns = results[i < 4 ? 0 : 4].iteration_ns;
        EXPECT_LT(results[i].iteration_ns, like_ns + kMs) << i;
        EXPECT_GT(results[i].iteration_ns, like_ns - kMs) << i;
    }
    EXPECT_LT(results[4].iteration_ns, predicted_ns - 100 * kMs);
}

TEST_F(Pipeline, KeepsItsScheduleOnHealthyLinks)
{
    for (auto mode : {DT_PIPELINE_NCCL, DT_PIPELINE_HOSTPATH, DT_PIPELINE_DELEGATED}) {
        uint32_t changes;
        Make(4, 4, 16, DETOUR_ALGORITHM_ZB);
        options.mode = mode;
        options.iteration_count = 6;
        RunFollowing(&changes);
        EXPECT_EQ(0u, changes) << dt_pipeline_mode_name(mode);
    }
}

/* Two and three replicas of four devices: the pipelines, and a ring of the model's time behind them. */
TEST_F(Pipeline, ReplicasSumUpTheirGradients)
{
    for (int32_t replicas : {2, 3}) {
        for (auto mode : {DT_PIPELINE_NCCL, DT_PIPELINE_HOSTPATH, DT_PIPELINE_DELEGATED}) {
            SCOPED_TRACE(std::to_string(replicas) + " " + dt_pipeline_mode_name(mode));
            Make(4, 4, 8, DETOUR_ALGORITHM_ZB);
            AddReplicas(replicas);
            options.mode = mode;
            dt_pipeline_sim_result result = Run();
            EXPECT_GE(result.pipeline_ns, predicted_ns);
            EXPECT_LT(result.pipeline_ns, predicted_ns + predicted_ns / 200);
            EXPECT_GT(result.iteration_ns, RingEndNs() - predicted_ns / 100) << "slices may be shorter";
            EXPECT_LT(result.iteration_ns, RingEndNs() + predicted_ns / 100);
            EXPECT_EQ((uint64_t)replicas * 4 * 8 * 3 * 10 * kMs, result.compute_ns);
        }
    }
}

/* Each slice takes the delay of its share of a message: the link decides the time of the all-reduce. */
TEST_F(Pipeline, ASlowLinkBetweenReplicasHoldsBackGradients)
{
    Make(4, 4, 8, DETOUR_ALGORITHM_ZB, 20 * kMs, 1);
    AddReplicas(2);
    slow.is_dp = true;
    slow.is_serial = true;
    options.message_bytes = 8 << 20;
    dt_pipeline_sim_result result = Run();
    EXPECT_LT(result.pipeline_ns, 400u * kMs) << "no message of the pipelines meets it";
    /* 64 MiB in slices of 4 MiB, 10 ms each; device 1 ends before the pipeline does */
    EXPECT_GT(result.iteration_ns, result.pipeline_ns + 13 * 10 * kMs);
    EXPECT_LT(result.iteration_ns, result.pipeline_ns + 17 * 10 * kMs);
}

/* A replica with a slow device has fewer microbatches: it no longer holds back the other, and the sums are
 * still those of the global batch (compared element by element at the end of each iteration). */
TEST_F(Pipeline, ASlowReplicaHasFewerMicrobatches)
{
    dt_pipeline_slow_device half = {1, 1, 2000};
    Make(4, 4, 12, DETOUR_ALGORITHM_ZB);
    AddReplicas(2);
    uint64_t healthy_ns = Run().iteration_ns;
    options.slow_device = &half;
    options.slow_device_count = 1;
    std::vector<dt_pipeline_sim_result> even = RunAll();
    EXPECT_GE(even[1].iteration_ns, 12u * 2 * 30 * kMs);

    std::vector<dt_pipeline_sim_variant> variants;
    for (int32_t microbatches : {16, 8}) {
        detour_profile shape = profile;
        detour_options plan_options = {};
        detour_plan *plan = nullptr;
        detour_program *program = nullptr;
        plan_options.algorithm = DETOUR_ALGORITHM_ZB;
        shape.microbatch_count = microbatches;
        ASSERT_EQ(DETOUR_OK, detour_generate(arena, &shape, &plan_options, &plan, nullptr));
        ASSERT_EQ(DETOUR_OK, detour_program_create(arena, &shape, plan->schedule, &program, nullptr));
        variants.push_back({shape, program});
    }
    options.variants = variants.data();
    options.variant_count = variants.size();
    ASSERT_TRUE(dt_pipeline_shares_add(&options.shares, "16,8@1"));
    std::vector<dt_pipeline_sim_result> results = RunAll();
    EXPECT_EQ(results[0].iteration_ns, even[0].iteration_ns) << "the counts change in iteration 1";
    EXPECT_LT(results[1].iteration_ns, even[1].iteration_ns * 3 / 4);
    EXPECT_GT(results[1].iteration_ns, healthy_ns);
    /* a device in five computations takes twice the time */
    EXPECT_EQ(results[1].compute_ns, (16u * 4 + 8 * 5) * 30 * kMs);
}

/* The host path sends a large message in pieces, whose stamps arrive whatever their length is. */
TEST_F(Pipeline, ChecksMessagesOfManyLengths)
{
    for (auto mode : {DT_PIPELINE_HOSTPATH, DT_PIPELINE_DELEGATED}) {
        for (uint64_t quarters : {1, 3, 5, 11, 13, 20, 24, 29}) {
            SCOPED_TRACE(std::to_string(quarters) + " x 256K, " + dt_pipeline_mode_name(mode));
            Make(2, 2, 4, DETOUR_ALGORITHM_ZB);
            options.mode = mode;
            options.message_bytes = quarters << 18;
            ASSERT_NE(0u, dt_pipeline_sim_stamp_bytes(&options));
            Run();
        }
    }
    options.message_bytes = 5000000;
    EXPECT_EQ(0u, dt_pipeline_sim_stamp_bytes(&options)) << "pieces of 312576 bytes";
    options.message_bytes = 5 << 20;
    EXPECT_EQ(64u << 10, dt_pipeline_sim_stamp_bytes(&options));
    options.replicas = 2;
    EXPECT_EQ(0u, dt_pipeline_sim_stamp_bytes(&options)) << "gradients need the largest blocks";
}

/* A slow link of one replica slows the other down as well, through their sums. */
TEST_F(Pipeline, AReplicaWaitsForTheOther)
{
    Make(4, 4, 8, DETOUR_ALGORITHM_ZB);
    AddReplicas(2);
    uint64_t healthy_ns = Run().iteration_ns;
    slow.link = 2;
    slow.replica = 1;
    slow.delay_ns = 60 * kMs;
    options.slow_count = 1;
    uint64_t of_one_ns = Run().iteration_ns;
    slow.replica = DT_PIPELINE_SIM_EVERY_REPLICA;
    uint64_t of_all_ns = Run().iteration_ns;
    EXPECT_GT(of_one_ns, healthy_ns + 60 * kMs);
    EXPECT_LT(of_one_ns, of_all_ns + of_all_ns / 100);
    EXPECT_GT(of_one_ns, of_all_ns - of_all_ns / 100);
}

TEST_F(Pipeline, FindsAWrongGradient)
{
    dt_pipeline_sim_result result;
    char failure[DT_PIPELINE_SIM_TEXT_BYTES];

    for (auto mode : {DT_PIPELINE_NCCL, DT_PIPELINE_DELEGATED}) {
        Make(4, 4, 8, DETOUR_ALGORITHM_ZB);
        AddReplicas(2);
        options.mode = mode;
        options.iteration_count = 1;
        options.spoiled_send = 2 * 2 * 3 * 8 + 8 * 2 * 8; // the last one: of hosts x steps x slices
        EXPECT_FALSE(dt_pipeline_sim_run(&options, &result, failure));
        EXPECT_NE(nullptr, strstr(failure, "a gradient is not the sum over the replicas")) << failure;
    }
}

TEST_F(Pipeline, HasSixtyFourDevices)
{
    Make(64, 64, 16, DETOUR_ALGORITHM_1F1B);
    options.iteration_count = 1;
    options.mode = DT_PIPELINE_DELEGATED;
    options.message_bytes = 8 << 20;
    dt_pipeline_sim_result result = Run();
    EXPECT_GE(result.iteration_ns, predicted_ns);
    EXPECT_LT(result.iteration_ns, predicted_ns + predicted_ns / 20);
}
} // namespace
