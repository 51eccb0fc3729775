/* SPDX-License-Identifier: Apache-2.0 */
/* What the connections of a process share of the host path: made as DETOUR_HOSTPATH says, placed once. */
#include "hostpath/hostpath.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>

namespace
{
class Hostpath : public ::testing::Test
{
  protected:
    dt_status Open(const char *mode)
    {
        char error[256];
        EXPECT_EQ(DT_OK, dt_params_load(
                             &params, [](void *, const char *) -> const char * { return nullptr; }, nullptr,
                             error, sizeof error));
        snprintf(params.hostpath, sizeof params.hostpath, "%s", mode);
        snprintf(params.cuda_library, sizeof params.cuda_library, "libno-such-cuda.so.1");
        params.hostpath_bytes = 1 << 20;
        return dt_hostpath_open(&hostpath, &params, false);
    }
    void TearDown() override
    {
        dt_hostpath_close(&hostpath);
    }

    dt_params params;
    dt_hostpath hostpath = {};
};

TEST_F(Hostpath, OffTakesNoMemory)
{
    ASSERT_EQ(DT_OK, Open("off"));
    EXPECT_FALSE(hostpath.is_on);
    EXPECT_EQ(nullptr, hostpath.pool.base);
}

TEST_F(Hostpath, OnAndAutoHaveAPoolOfTheRequestedSize)
{
    for (const char *mode : {"on", "auto"}) {
        dt_hostpath_close(&hostpath);
        hostpath = {};
        ASSERT_EQ(DT_OK, Open(mode));
        EXPECT_TRUE(hostpath.is_on);
        EXPECT_EQ(strcmp(mode, "auto") == 0 ? DT_HOSTPATH_AUTO : DT_HOSTPATH_ON, (int)hostpath.mode);
        EXPECT_EQ(1u << 20, hostpath.pool.bytes);
        void *at = dt_pool_alloc(&hostpath.pool, 4096);
        EXPECT_NE(nullptr, at);
        dt_pool_free(&hostpath.pool, at, 4096);
    }
}

TEST_F(Hostpath, IsPlacedOnce)
{
    ASSERT_EQ(DT_OK, Open("on"));
    dt_hostpath_place(&hostpath, -1); // an unknown node: any memory
    EXPECT_TRUE(hostpath.is_placed);
    dt_hostpath_place(&hostpath, 0);
    void *at = dt_pool_alloc(&hostpath.pool, 4096);
    ASSERT_NE(nullptr, at);
    memset(at, 1, 4096);
    dt_pool_free(&hostpath.pool, at, 4096);
}

TEST_F(Hostpath, MemoryThatAReceiverHasNotReturnedIsABug)
{
    ASSERT_EQ(DT_OK, Open("on"));
    hostpath.granted_bytes = 4096;
    EXPECT_DEATH(dt_hostpath_close(&hostpath), "broken invariant at .*granted_bytes == 0");
    hostpath.granted_bytes = 0;
}
} // namespace
