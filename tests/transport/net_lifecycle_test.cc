/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of a process: which are listed, under which names, and what a filter leaves. */
#include "transport/net.h"

#include "tests/harness/harness.h"
#include "tests/transport/two_nets.h"

namespace
{
using detour_test::Net;

TEST(DeviceList, HasEveryDeviceWithAnActivePortUnderItsName)
{
    Net net{1};
    ASSERT_EQ(2u, dt_net_device_count(net.net));
    EXPECT_STREQ("soft0", dt_net_device_name(net.net, 0));
    EXPECT_STREQ("soft1", dt_net_device_name(net.net, 1));
    EXPECT_EQ(1u, dt_net_device_info(net.net, 0)->port);
}

TEST(DeviceList, IsTheFirstThatTheFilterAllows)
{
    Net net{1,
            [](dt_params &params, dt_net_options &) { snprintf(params.hca, sizeof params.hca, "=soft1"); }};
    ASSERT_EQ(1u, dt_net_device_count(net.net));
    EXPECT_STREQ("soft1", dt_net_device_name(net.net, 0));
}

TEST(DeviceList, ThatIsEmptyMeansNoNet)
{
    dt_params params;
    char error[256];
    dt_net *net = nullptr;
    Net valid{1};
    dt_net_options options = {};
    ASSERT_EQ(DT_OK, dt_params_load(&params, detour_test::NoEnvironment, nullptr, error, sizeof error));
    snprintf(params.hca, sizeof params.hca, "=mlx5_9");
    options.params = &params;
    options.verbs = valid.verbs;
    options.network = dt_network_tcp();
    options.random = detour_test::Random;
    options.random_arg = &valid.generator;
    EXPECT_EQ(DT_UNSUPPORTED, dt_net_create(&options, &net));
}

TEST(NetProgress, WithoutConnectionsIsIdle)
{
    Net net{1};
    EXPECT_EQ(DT_NEVER_NS, dt_net_progress(net.net, DT_NS_PER_S));
    dt_net_stop_threads(net.net); // harmless without threads
}
} // namespace
