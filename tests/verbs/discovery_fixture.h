/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of the scripted verbs library, for tests that change a device and list the devices again. */
#ifndef DETOUR_TESTS_VERBS_DISCOVERY_FIXTURE_H
#define DETOUR_TESTS_VERBS_DISCOVERY_FIXTURE_H

#include <gtest/gtest.h>

#include "tests/verbs/fake_verbs.h"
#include "verbs/device.h"

class DiscoveryFixture : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        fake::Reset();
        ASSERT_EQ(DT_OK, dt_verbs_open_table(fake::Table(), &verbs));
    }

    void TearDown() override
    {
        dt_verbs_devices_free(list);
        dt_verbs_close(verbs);
        EXPECT_EQ(0, fake::TheWorld().live) << "an object was not released";
    }

    enum dt_status List()
    {
        dt_verbs_devices_free(list);
        list = nullptr;
        return dt_verbs_devices(verbs, &list, &count);
    }

    fake::Port &FirstPort()
    {
        return fake::TheWorld().devices[0]->ports[0];
    }

    dt_verbs *verbs = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;
};

#endif
