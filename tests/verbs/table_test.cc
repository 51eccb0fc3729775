/* SPDX-License-Identifier: Apache-2.0 */
/* What Detour does with a table of verbs before a device of its own exists. */
#include "verbs/table.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "tests/verbs/fake_verbs.h"

namespace
{
class Table : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake::Reset();
    }
    void TearDown() override
    {
        EXPECT_EQ(0, fake::TheWorld().live);
    }
    fake::Port &FirstPort()
    {
        return fake::TheWorld().devices[0]->ports[0];
    }
    /* The port of the first device; -1: it was not opened. */
    int Query(ibv_port_attr *attr, uint32_t *speed)
    {
        ibv_context *context = dt_open_by_name(fake::Table(), "fake0");
        if (!context)
            return -1;
        int error = dt_table_query_port(fake::Table(), context, 1, attr, speed);
        fake::Table()->close_device(context);
        return error;
    }
};

TEST_F(Table, OpensADeviceByItsName)
{
    ibv_context *context = dt_open_by_name(fake::Table(), "fake1");

    ASSERT_NE(nullptr, context);
    EXPECT_STREQ("fake1", fake::Table()->get_device_name(context->device));
    fake::Table()->close_device(context);
}

TEST_F(Table, ReportsWhyADeviceIsNotOpened)
{
    errno = 0;
    EXPECT_EQ(nullptr, dt_open_by_name(fake::Table(), "fake9"));
    EXPECT_EQ(ENODEV, errno);
    fake::Fail("create_context", EPERM);
    EXPECT_EQ(nullptr, dt_open_by_name(fake::Table(), "fake0"));
    EXPECT_EQ(EPERM, errno);
    fake::Fail("get_device_list", ENOMEM);
    EXPECT_EQ(nullptr, dt_open_by_name(fake::Table(), "fake0"));
    EXPECT_EQ(ENOMEM, errno);
}

TEST_F(Table, TheWiderSpeedIsTakenWhereTheLibraryHasIt)
{
    ibv_port_attr attr;
    uint32_t speed = 0;

    FirstPort().speed = 128;
    EXPECT_EQ(0, Query(&attr, &speed));
    EXPECT_EQ(128u, speed);
    FirstPort().speed_ex = 256;
    EXPECT_EQ(0, Query(&attr, &speed));
    EXPECT_EQ(256u, speed);
    EXPECT_EQ(0, Query(&attr, nullptr)) << "the speed is optional";
}

TEST_F(Table, AContextWithoutQueryPortIsAskedThroughTheOlderFunction)
{
    ibv_port_attr attr;
    uint32_t speed = 0;

    fake::TheWorld().whole_contexts = false;
    FirstPort().lid = 77;
    EXPECT_EQ(0, Query(&attr, &speed));
    EXPECT_EQ(77u, attr.lid);
    EXPECT_EQ(FirstPort().speed, speed);
    fake::Fail("query_port", EIO);
    EXPECT_EQ(EIO, Query(&attr, &speed));
}
} // namespace
