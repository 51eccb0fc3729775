// SPDX-License-Identifier: Apache-2.0
// The stand-ins of tests/nccl that need no NCCL: number formats, reductions, layouts, streams and events.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

extern "C" {
#include <cuda_runtime.h>

#include "tests/nccl/kernels/layout.h"
#include "tests/nccl/kernels/reduce.h"
#include "tests/nccl/kernels/small_float.h"
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, void (*function)(void *), void *data);
}

namespace
{
TEST(SmallFloat, EveryValueOfEightBitsSurvivesARoundTrip)
{
    for (int bits = 0; bits < 256; bits++) {
        auto value = static_cast<uint8_t>(bits);

        if (!std::isnan(nh_from_e4m3(value))) {
            EXPECT_EQ(value, nh_to_e4m3(nh_from_e4m3(value))) << bits;
        }
        if (std::isfinite(nh_from_e5m2(value))) {
            EXPECT_EQ(value, nh_to_e5m2(nh_from_e5m2(value))) << bits;
        }
    }
}

TEST(SmallFloat, HasTheLimitsOfTheFormats)
{
    EXPECT_EQ(448.f, nh_from_e4m3(0x7e)); // Micikevicius et al., table 1
    EXPECT_EQ(57344.f, nh_from_e5m2(0x7b));
    EXPECT_EQ(std::ldexp(1.f, -9), nh_from_e4m3(1));
    EXPECT_EQ(std::ldexp(1.f, -16), nh_from_e5m2(1));
    EXPECT_EQ(0x7e, nh_to_e4m3(1e6f)); // saturates
    EXPECT_EQ(1.0f, nh_from_bfloat16(0x3f80));
    EXPECT_EQ(0x3f80, nh_to_bfloat16(1.001f));
    EXPECT_EQ(1.5f, nh_from_float16(0x3e00));
}

TEST(SmallFloat, RoundsHalfwayCasesToEven)
{
    EXPECT_EQ(nh_to_e4m3(16.f), nh_to_e4m3(17.f)); // neighbors 16 and 18
    EXPECT_EQ(nh_to_e4m3(20.f), nh_to_e4m3(19.f)); // 18 and 20
}

double Reduced(enum nh_operation operation, enum nh_type type, uint64_t argument, double a, double b)
{
    struct nh_reduction reduction = {operation, type, argument};
    alignas(8) char left[8], right[8], out[8];

    nh_set(type, left, 0, a);
    nh_set(type, right, 0, b);
    nh_reduce_before(&reduction, left, left, 1);
    nh_reduce_before(&reduction, right, right, 1);
    nh_reduce(&reduction, out, left, right, 1);
    nh_reduce_after(&reduction, out, 1);
    return nh_get(type, out, 0);
}

TEST(Reduce, EveryTypeAddsAndMultiplies)
{
    for (int i = 0; i < NH_TYPES; i++) {
        auto type = static_cast<enum nh_type>(i);

        EXPECT_EQ(5, Reduced(NH_SUM, type, 0, 2, 3)) << i;
        EXPECT_EQ(6, Reduced(NH_PROD, type, 0, 2, 3)) << i;
    }
}

TEST(Reduce, MinimumAndMaximumOfSignedAndUnsignedIntegers)
{
    EXPECT_EQ(-3, Reduced(NH_MIN_MAX, NH_INT8, 0x80, -3, 2));
    EXPECT_EQ(2, Reduced(NH_MIN_MAX, NH_INT8, 0x80 ^ 0xff, -3, 2));
    EXPECT_EQ(200, Reduced(NH_MIN_MAX, NH_UINT8, 0xff, 200, 2));
    EXPECT_EQ(-3, Reduced(NH_MIN_MAX, NH_INT64, 1ull << 63, -3, 2));
    EXPECT_EQ(2.5, Reduced(NH_MIN_MAX, NH_FLOAT32, 1, -3, 2.5));
    EXPECT_EQ(-3, Reduced(NH_MIN_MAX, NH_FLOAT64, 0, -3, 2.5));
}

TEST(Reduce, AveragesOfIntegersAreCutTowardsZero)
{
    EXPECT_EQ(-2, Reduced(NH_SUM_POST_DIV, NH_INT32, 2 * 2 + 1, -3, -2));
    EXPECT_EQ(2, Reduced(NH_SUM_POST_DIV, NH_UINT32, 2 * 2, 3, 2));
    EXPECT_EQ(127, Reduced(NH_SUM_POST_DIV, NH_UINT8, 2 * 2, 200, 54));
}

TEST(Reduce, AveragesOfFloatingPointNumbersAreScaledFirst)
{
    float half = 0.5f;
    uint64_t argument = 0;

    memcpy(&argument, &half, sizeof half);
    EXPECT_EQ(2.5, Reduced(NH_PRE_MUL_SUM, NH_FLOAT32, argument, 3, 2));
}

TEST(Layout, AReleaseWithoutARowIsRefused)
{
    EXPECT_EQ(nullptr, nh_layout_of(22810));
    EXPECT_EQ(nullptr, nh_layout_of(0));
    EXPECT_EQ(22809, nh_layout_of(22809)->version);
    for (int i = 0; nh_layout_row(i + 1); i++)
        EXPECT_LT(nh_layout_row(i)->version, nh_layout_row(i + 1)->version);
}

struct Gate {
    std::atomic<bool> is_open{false};
    std::atomic<int> passed{0};
};

void WaitAtGate(void *argument)
{
    auto *gate = static_cast<Gate *>(argument);

    while (!gate->is_open)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    gate->passed++;
}

TEST(Stream, IsAsynchronousAndWaitsForTheEventOfAnother)
{
    cudaStream_t first, second;
    cudaEvent_t event;
    Gate gate, open;

    open.is_open = true;
    ASSERT_EQ(cudaSuccess, cudaStreamCreate(&first));
    ASSERT_EQ(cudaSuccess, cudaStreamCreate(&second));
    ASSERT_EQ(cudaSuccess, cudaEventCreate(&event));
    EXPECT_EQ(cudaSuccess, cudaEventQuery(event)); // never recorded: complete
    EXPECT_EQ(cudaSuccess, cudaLaunchHostFunc(first, WaitAtGate, &gate));
    EXPECT_EQ(cudaSuccess, cudaEventRecord(event, first));
    EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(event));
    EXPECT_EQ(cudaSuccess, cudaStreamWaitEvent(second, event, 0));
    EXPECT_EQ(cudaSuccess, cudaLaunchHostFunc(second, WaitAtGate, &open));
    EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(second));
    EXPECT_EQ(0, open.passed);
    gate.is_open = true;
    EXPECT_EQ(cudaSuccess, cudaStreamSynchronize(second));
    EXPECT_EQ(1, gate.passed);
    EXPECT_EQ(1, open.passed);
    EXPECT_EQ(cudaSuccess, cudaEventQuery(event));
    EXPECT_EQ(cudaSuccess, cudaStreamDestroy(first));
    EXPECT_EQ(cudaSuccess, cudaEventSynchronize(event)); // the event outlives its stream
    EXPECT_EQ(cudaSuccess, cudaStreamDestroy(second));
    EXPECT_EQ(cudaSuccess, cudaEventDestroy(event));
}

TEST(Memory, PageableSourcesAreReadBeforeACopyReturns)
{
    cudaStream_t stream;
    Gate gate;
    void *device;
    int local = 7, back = 0;

    ASSERT_EQ(cudaSuccess, cudaStreamCreate(&stream));
    ASSERT_EQ(cudaSuccess, cudaMalloc(&device, sizeof local));
    EXPECT_EQ(cudaSuccess, cudaLaunchHostFunc(stream, WaitAtGate, &gate));
    EXPECT_EQ(cudaSuccess, cudaMemcpyAsync(device, &local, sizeof local, cudaMemcpyHostToDevice, stream));
    local = 8;
    gate.is_open = true;
    EXPECT_EQ(cudaSuccess, cudaMemcpyAsync(&back, device, sizeof back, cudaMemcpyDeviceToHost, stream));
    EXPECT_EQ(7, back); // a copy to pageable memory has ended when it returns
    EXPECT_EQ(cudaSuccess, cudaFree(device));
    EXPECT_EQ(cudaErrorInvalidValue, cudaFree(&local));
    EXPECT_EQ(cudaSuccess, cudaStreamDestroy(stream));
}
} // namespace
