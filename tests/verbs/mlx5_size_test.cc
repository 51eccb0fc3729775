/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes calculated by hand from rdma-core's providers/mlx5/verbs.c. */
#include "verbs/mlx5_size.h"

#include <gtest/gtest.h>

namespace
{
TEST(Mlx5Size, ASendQueueIsAPowerOfTwoOfWholeElements)
{
    EXPECT_EQ(0u, dt_mlx5_send_queue_bytes(0, 64));
    EXPECT_EQ(256u, dt_mlx5_send_queue_bytes(1, 0)) << "192 + 16, in blocks of 64";
    EXPECT_EQ(256u, dt_mlx5_send_queue_bytes(1, 60)) << "192 + 64";
    EXPECT_EQ(512u, dt_mlx5_send_queue_bytes(1, 61)) << "192 + 80: 320";
    EXPECT_EQ(32u << 10, dt_mlx5_send_queue_bytes(96, 64)) << "30,720";
    EXPECT_EQ(64u << 10, dt_mlx5_send_queue_bytes(128, 64)) << "40,960";
    EXPECT_EQ(256u << 10, dt_mlx5_send_queue_bytes(648, 64)) << "207,360";
}

TEST(Mlx5Size, AReceiveQueueIsAPowerOfTwoAndABlockAtLeast)
{
    EXPECT_EQ(0u, dt_mlx5_receive_queue_bytes(0));
    EXPECT_EQ(64u, dt_mlx5_receive_queue_bytes(1));
    EXPECT_EQ(16u << 10, dt_mlx5_receive_queue_bytes(592));
    EXPECT_EQ(16u << 10, dt_mlx5_receive_queue_bytes(1024));
}

TEST(Mlx5Size, BuffersAreWholePages)
{
    EXPECT_EQ((256u + 4u) << 10, dt_mlx5_qp_bytes(648, 64, 1));
    EXPECT_EQ((32u + 16u) << 10, dt_mlx5_qp_bytes(96, 64, 592));
    EXPECT_EQ(4096u, dt_mlx5_cq_bytes(1));
    EXPECT_EQ(4096u, dt_mlx5_cq_bytes(63));
    EXPECT_EQ(8192u, dt_mlx5_cq_bytes(64)) << "one more than asked for";
    EXPECT_EQ(64u << 10, dt_mlx5_cq_bytes(648));
}
} // namespace
