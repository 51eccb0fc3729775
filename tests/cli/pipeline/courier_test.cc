/* SPDX-License-Identifier: Apache-2.0 */
/* Two devices, in one or two replicas, whose couriers share a plugin that moves bytes inside this process. */
#include "cli/pipeline/courier.h"

#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cli/pipeline/plan.h"

namespace
{
/* A connection: what was sent and not yet received. Both ends have the same one as comm. */
struct Wire {
    std::deque<std::string> messages;
};

struct Request {
    Wire *wire;
    char *data; /* of a receive; nullptr: of a send */
    int size;
};

int refusals;                 /* calls that give no request yet */
std::deque<Request> requests; /* of the present test, also those that an error leaves open */
void (*spoil)(std::string *message);

ncclResult_t Isend(void *comm, void *data, int size, int, void *, void **request)
{
    *request = nullptr;
    if (refusals > 0 && refusals--)
        return ncclSuccess;
    std::string message(static_cast<char *>(data), static_cast<size_t>(size));
    if (spoil)
        spoil(&message);
    static_cast<Wire *>(comm)->messages.push_back(message);
    requests.push_back({static_cast<Wire *>(comm), nullptr, size});
    *request = &requests.back();
    return ncclSuccess;
}

ncclResult_t Irecv(void *comm, int, void **data, int *sizes, int *, void **, void **request)
{
    requests.push_back({static_cast<Wire *>(comm), static_cast<char *>(*data), *sizes});
    *request = &requests.back();
    return ncclSuccess;
}

ncclResult_t TestOf(void *request, int *done, int *sizes)
{
    auto *r = static_cast<Request *>(request);
    *done = !r->data || !r->wire->messages.empty();
    if (*done && r->data) {
        const std::string &message = r->wire->messages.front();
        memcpy(r->data, message.data(), message.size());
        *sizes = static_cast<int>(message.size());
        r->wire->messages.pop_front();
    }
    return ncclSuccess;
}

class PipelineCourier : public ::testing::Test
{
  protected:
    static constexpr uint64_t kBytes = 5000;

    explicit PipelineCourier(int replicas = 1)
    {
        refusals = 0;
        requests.clear();
        spoil = nullptr;
        net.name = "Memory";
        net.isend = Isend;
        net.irecv = Irecv;
        net.test = TestOf;
        options.devices = 2;
        options.replicas = replicas;
        options.microbatches = 3;
        options.algorithm = DETOUR_ALGORITHM_1F1B;
        options.f_ns = options.b_ns = options.w_ns = 1;
        struct detour_error reason;
        EXPECT_TRUE(dt_pipeline_plan_make(&plan, &options, &reason)) << reason.text;
        for (int i = 0; i < 2 * replicas; i++)
            MakeDevice(i);
    }

    struct dt_gradients *MakeGradients(struct dt_pipeline_position position, size_t first_flow)
    {
        struct dt_gradients_options made = {};
        made.device = position.device;
        made.replica = position.replica;
        made.replicas = options.replicas;
        made.places = 1000;
        made.place_bytes = made.kept_bytes = DT_GRADIENTS_ELEMENT_BYTES;
        made.slice_bytes = 1024;
        made.slots = kSlots;
        made.first_flow = first_flow;
        return dt_gradients_create(&made);
    }

    void MakeDevice(int i)
    {
        struct dt_executor_options made = {};
        made.device = i % 2;
        made.mode = DT_PIPELINE_NCCL;
        made.message_bytes = kBytes;
        made.slice_bytes = 2048;
        executor.push_back(dt_executor_create(&made, &plan.profile));
        struct dt_pipeline_position position = {i % 2, i / 2};
        size_t flows = dt_executor_flow_count(executor[i]);
        gradients.push_back(options.replicas > 1 ? MakeGradients(position, flows) : nullptr);
        struct dt_pipeline_courier_options made_too = {
            executor[i], kBytes, options.microbatches, 2, position, gradients[i], kSlots, 1024, nullptr};
        courier.push_back(dt_pipeline_courier_create(&made_too));
        plugin.emplace_back();
        plugin[i].net = &net;
        plugin[i].rank = static_cast<unsigned>(i);
        struct dt_job_connection *connections = dt_pipeline_courier_connections(courier[i]);
        ASSERT_EQ(dt_pipeline_courier_connection_count(courier[i]), flows + (gradients[i] ? 2 : 0));
        for (size_t k = 0; k < dt_pipeline_courier_connection_count(courier[i]); k++) {
            unsigned own = static_cast<unsigned>(i), peer = connections[k].peer;
            bool sends = connections[k].sends;
            buffers.emplace_back(connections[k].buffer_bytes);
            connections[k].buffer = buffers.back().data();
            connections[k].comm = &wires[{sends ? own : peer, sends ? peer : own, connections[k].channel}];
        }
    }

    ~PipelineCourier() override
    {
        for (size_t i = 0; i < courier.size(); i++) {
            dt_pipeline_courier_destroy(courier[i]);
            dt_gradients_destroy(gradients[i]);
            dt_executor_destroy(executor[i]);
        }
        dt_pipeline_plan_free(&plan);
    }

    /* False at the first error. */
    bool Run(uint32_t iteration)
    {
        struct dt_executor_order order;
        struct dt_executor_work work = {&plan.profile, plan.program, iteration, 1000};
        for (size_t i = 0; i < courier.size(); i++) {
            if (gradients[i])
                dt_gradients_begin(gradients[i], iteration,
                                   {static_cast<int32_t>(i) / 2, 1, options.replicas});
            EXPECT_TRUE(dt_executor_begin(executor[i], &work, now_ns));
        }
        for (int round = 0; round < 1000; round++, now_ns += 1) {
            bool is_done = true;
            for (size_t i = 0; i < courier.size(); i++) {
                while (Next(i, &order))
                    dt_pipeline_courier_take(courier[i], &order);
                if (!dt_pipeline_courier_progress(courier[i], &plugin[i], &completed, &error))
                    return false;
                is_done &=
                    dt_executor_is_done(executor[i]) && (!gradients[i] || dt_gradients_is_done(gradients[i]));
            }
            if (is_done) {
                for (struct dt_pipeline_courier *one : courier)
                    dt_pipeline_courier_reset(one);
                return true;
            }
        }
        ADD_FAILURE() << "the run hangs";
        return false;
    }

    bool Next(size_t i, struct dt_executor_order *order)
    {
        return dt_executor_next(executor[i], UINT64_MAX / 2, order) ||
               (gradients[i] &&
                dt_gradients_next(gradients[i], dt_executor_get_account(executor[i]).end_ns > 0, order));
    }

    ncclNet_v8_t net = {};
    struct dt_pipeline_options options = {};
    struct dt_pipeline_plan plan = {};
    static constexpr uint32_t kSlots = 2;
    /* By rank. */
    std::vector<struct dt_executor *> executor;
    std::vector<struct dt_gradients *> gradients;
    std::vector<struct dt_pipeline_courier *> courier;
    std::deque<struct dt_job_plugin> plugin;
    std::map<std::tuple<unsigned, unsigned, unsigned>, Wire> wires; /* from, to, channel */
    std::deque<std::vector<char>> buffers;
    struct dt_job_error error = {};
    uint64_t completed = 0, now_ns = 1;
};

class PipelineCourierOfReplicas : public PipelineCourier
{
  protected:
    PipelineCourierOfReplicas() : PipelineCourier(2) {}
};
} // namespace

TEST_F(PipelineCourierOfReplicas, CarriesGradients)
{
    for (uint32_t iteration = 0; iteration < 2; iteration++) {
        ASSERT_TRUE(Run(iteration)) << error.text;
        for (struct dt_gradients *one : gradients) {
            uint64_t wrong = 0;
            EXPECT_TRUE(dt_gradients_check(one, &wrong)) << wrong;
        }
    }
    const uint64_t messages = 2 * 2 * 3 * 3; /* replicas, directions, microbatches, slices */
    const uint64_t slices = 2 * 2 * 2 * 4;   /* replicas, devices, steps, slices */
    EXPECT_EQ(completed, 2u * 2u * (messages + slices)) << "iterations, ends";
}

TEST_F(PipelineCourierOfReplicas, NoticesAShortSliceOfGradients)
{
    spoil = [](std::string *message) {
        if (message->size() < 1666)
            message->pop_back();
    };
    EXPECT_FALSE(Run(0));
    EXPECT_NE(std::string(error.text).find("the gradients: receive of slice 0 of chunk "), std::string::npos)
        << error.text;
    EXPECT_NE(std::string(error.text).find("bytes instead of 1000"), std::string::npos) << error.text;
}

TEST_F(PipelineCourier, CarriesEverySlice)
{
    EXPECT_TRUE(Run(0)) << error.text;
    EXPECT_EQ(completed, 2u * 2 * 3 * 3) << "ends, directions, microbatches, slices";
    EXPECT_TRUE(Run(1)) << error.text;
}

TEST_F(PipelineCourier, AsksAgainWhereThePluginHasNoRequest)
{
    refusals = 5;
    EXPECT_TRUE(Run(0)) << error.text;
    EXPECT_EQ(refusals, 0);
}

TEST_F(PipelineCourier, NoticesAFlippedBit)
{
    spoil = [](std::string *message) { (*message)[1000] = static_cast<char>((*message)[1000] ^ 1); };
    EXPECT_FALSE(Run(0));
    EXPECT_STREQ(error.text,
                 "rank 1: activation of microbatch 0 from stage 0, iteration 0, slice 0 is wrong from "
                 "byte 1000 of 1666 on");
}

TEST_F(PipelineCourier, NoticesAnotherMessage)
{
    spoil = [](std::string *message) { (*message)[0]++; };
    EXPECT_FALSE(Run(7));
    EXPECT_STREQ(
        error.text,
        "rank 1: activation of microbatch 0 from stage 0, iteration 8, slice 0 has arrived in the place "
        "of activation of microbatch 0 from stage 0, iteration 7, slice 0");
}

TEST_F(PipelineCourier, NoticesAShortMessage)
{
    spoil = [](std::string *message) { message->pop_back(); };
    EXPECT_FALSE(Run(0));
    EXPECT_NE(std::string(error.text).find("has 1665 bytes instead of 1666"), std::string::npos)
        << error.text;
}
