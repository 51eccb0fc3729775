// SPDX-License-Identifier: Apache-2.0
// The control socket of a program on the drop-in library, called as `detour nic` does.
#include "dropin/control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "obs/client.h"
#include "obs/runtime_dir.h"
#include "softrnic/softrnic.h"

namespace
{
class Control : public ::testing::Test
{
  protected:
    void SetUp() override
    {
        char reason[512];

        ASSERT_NE(nullptr, mkdtemp(folder_));
        setenv("DETOUR_RUNTIME_DIR", folder_, 1);
        ASSERT_EQ(DT_OK, dt_params_load(&params_, dt_getenv_process, nullptr, reason, sizeof reason))
            << reason;
        ASSERT_EQ(DT_OK, dt_runtime_dir_open(folder_, 1, &dir_, reason, sizeof reason)) << reason;
        dt_dropin_control_start(&params_);
    }

    void TearDown() override
    {
        dt_runtime_dir_close(&dir_);
        std::string remove = std::string("rm -r ") + folder_;
        EXPECT_EQ(0, system(remove.c_str()));
    }

    enum dt_status Call(const char *line)
    {
        return dt_client_call(&dir_, getpid(), line, 10000, answer_, sizeof answer_);
    }

    char folder_[32] = "/tmp/detour-dropin.XXXXXX";
    struct dt_params params_;
    struct dt_runtime_dir dir_;
    char answer_[8192];
};

TEST_F(Control, ListsDevicesAndPullsACable)
{
    ibv_device **devices = dt_soft_get_device_list(nullptr);
    ibv_context *context = dt_soft_open_device(devices[0]);
    ibv_port_attr port = {};

    EXPECT_EQ(DT_OK, Call("nic list"));
    EXPECT_STREQ("soft0 soft up, soft1 soft up", answer_);
    EXPECT_EQ(DT_OK, Call("nic soft0 down")) << answer_;
    ASSERT_EQ(0, dt_soft_query_port(context, 1, reinterpret_cast<_compat_ibv_port_attr *>(&port)));
    EXPECT_NE(IBV_PORT_ACTIVE, port.state);
    EXPECT_EQ(DT_OK, Call("nic soft0 up")) << answer_;
    EXPECT_EQ(DT_NOT_FOUND, Call("nic soft1 down")) << answer_; // not open in this process
    EXPECT_EQ(DT_INVALID, Call("nic soft0 sideways"));
    EXPECT_NE(DT_OK, Call("inject list")); // rules are the plugin's

    dt_soft_close_device(context);
    dt_soft_free_device_list(devices);
}
} // namespace
