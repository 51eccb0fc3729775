/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/pool.h"

#include <gtest/gtest.h>

namespace
{
constexpr uint64_t kMib = 1 << 20;

/* Four devices of 10 ms computations, and messages of 40 MiB, as in PipeMorph. */
class PipelinePool : public ::testing::Test
{
  protected:
    PipelinePool()
    {
        options.devices = 4;
        options.replicas = 1;
        options.microbatches = 32;
        options.iterations = 10;
        options.mode = DT_PIPELINE_DELEGATED;
        options.payload_bytes = 40 * kMib;
        options.f_ns = options.b_ns = options.w_ns = 10000000;
    }
    struct dt_pipeline_pool Pool(int32_t device, int32_t replica = 0, uint32_t cores = 64)
    {
        struct dt_pipeline_pool pool = {};
        EXPECT_TRUE(dt_pipeline_pool_make(&options, {device, replica}, cores, &pool));
        return pool;
    }
    /* So many messages in the pool, and no more than a tenth for granules. */
    void ExpectMessages(uint64_t messages, const struct dt_pipeline_pool &pool)
    {
        EXPECT_GE(pool.bytes, messages * options.payload_bytes);
        EXPECT_LE(pool.bytes, messages * options.payload_bytes * 11 / 10);
        EXPECT_EQ(pool.bytes % kMib, 0u);
    }

    struct dt_pipeline_options options = {};
};
} // namespace

TEST_F(PipelinePool, HoldsWhatIsUnderWay)
{
    ExpectMessages(5, Pool(0));  /* the depth and one: activations alone */
    ExpectMessages(10, Pool(2)); /* and gradients */
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "2-3=60ms,from=4,to=6"));
    ExpectMessages(5, Pool(0));
    ExpectMessages(5 + 5 + 6, Pool(2)); /* 60 ms are six activations */
    ExpectMessages(5 + 6, Pool(3));
    options.f_ns = 20000000;
    ExpectMessages(5 + 5 + 3, Pool(2));
}

TEST_F(PipelinePool, HoldsEverythingForASerialLinkThatIsSlowerThanTheDevice)
{
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "2-3=9ms,serial"));
    ExpectMessages(5, Pool(3));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "2-3=2ms,serial,from=3"));
    ExpectMessages(32, Pool(3));
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "0-1=10000ms"));
    ExpectMessages(32, Pool(0)); /* no more than an iteration has */
}

/* The rates of the iteration in which a device is fastest count, and those after the last one do not. */
TEST_F(PipelinePool, FollowsTheDevices)
{
    ASSERT_TRUE(dt_pipeline_slow_add_link(&options.slow, "0-1=60ms"));
    ASSERT_TRUE(dt_pipeline_slow_add_device(&options.slow, "0=2x,to=9"));
    ExpectMessages(5 + 6, Pool(0));
    options.iterations = 9;
    ExpectMessages(5 + 3, Pool(0));
}

TEST_F(PipelinePool, SmallMessagesHaveTheUsualPool)
{
    options.payload_bytes = 65536;
    EXPECT_EQ(Pool(1).bytes, DT_PIPELINE_POOL_BYTES_MIN);
    EXPECT_EQ(Pool(1).queues, 1u);
}

/* Slices are rounded up to granules one by one; replicas stage gradients, too. */
TEST_F(PipelinePool, CountsSlicesAndGradients)
{
    uint64_t whole = Pool(2).bytes;
    options.mode = DT_PIPELINE_NCCL;
    EXPECT_GT(Pool(2).bytes, whole);
    options.mode = DT_PIPELINE_DELEGATED;
    options.replicas = 2;
    options.gradient_bytes = 64 * kMib;
    EXPECT_GE(Pool(2, 1).bytes, whole + 4 * kMib);
}

TEST_F(PipelinePool, HasThreadsForTheRateAndNoMoreThanCores)
{
    /* 40 MiB of activations and 40 MiB of gradients in 10 ms: 8.4 GB/s */
    EXPECT_EQ(Pool(2, 0, 64).queues, 6u);
    EXPECT_EQ(Pool(2, 0, 12).queues, 3u);
    EXPECT_EQ(Pool(2, 0, 2).queues, 1u);
    options.payload_bytes = 640 * kMib;
    EXPECT_EQ(Pool(2, 0, 1000).queues, 16u);
    EXPECT_LE(Pool(2).bytes, UINT64_C(1) << 36);
}
