/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: options that cannot be, and forks. */
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include "base/param.h"
#include "tests/harness/harness.h"
#include "verbs/object.h"
#include "verbs/verbs.h"

namespace
{
TEST(Open, AnUnknownKindIsInvalidAndTheReasonGoesToTheCaller)
{
    char reason[100] = "";
    dt_verbs_options options = {};
    dt_verbs *verbs = nullptr;

    options.kind = static_cast<dt_verbs_kind>(7);
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    EXPECT_EQ(DT_INVALID, dt_verbs_open(&options, &verbs));
    EXPECT_STREQ("verbs: kind 7 is neither system nor soft", reason);
    options.reason = nullptr;
    detour_test::ExpectWarning("verbs: kind 7 is neither system nor soft");
    EXPECT_EQ(DT_INVALID, dt_verbs_open(&options, &verbs));
}

using Environment = std::map<std::string, std::string>;

const char *Get(void *arg, const char *name)
{
    auto *environment = static_cast<const Environment *>(arg);
    auto found = environment->find(name);
    return found == environment->end() ? nullptr : found->second.c_str();
}

/* What devices, GIDs and partition keys are chosen by has the values of the settings. */
TEST(Open, SettingsReachTheLibrary)
{
    Environment environment = {{"DETOUR_SOFT_DEVICES", "3"},
                               {"NCCL_IB_GID_INDEX", "5"},
                               {"NCCL_IB_ROUTABLE_FLID_GID_INDEX", "4"},
                               {"NCCL_IB_PKEY", "2"},
                               {"NCCL_IB_PKEY_VALUE", "0x8111"},
                               {"NCCL_IB_ROCE_VERSION_NUM", "1"},
                               {"NCCL_IB_ADDR_FAMILY", "AF_INET6"},
                               {"NCCL_IB_ADDR_RANGE", "fd00::/8"},
                               {"DETOUR_MLX5_LIB", "libmlx5.so.7"}};
    char error[256];
    dt_params params;
    dt_verbs_options options = {};
    dt_verbs *verbs = nullptr;
    dt_device_info *list = nullptr;
    size_t count = 0;

    ASSERT_EQ(DT_OK, dt_params_load(&params, Get, &environment, error, sizeof error)) << error;
    options.kind = DT_VERBS_SOFT;
    dt_verbs_options_take(&options, &params);
    ASSERT_EQ(DT_OK, dt_verbs_open(&options, &verbs));
    EXPECT_TRUE(verbs->has_gid_index);
    EXPECT_EQ(5u, verbs->gid_index);
    EXPECT_EQ(4u, verbs->flid_gid_index);
    EXPECT_EQ(2u, verbs->pkey_index);
    EXPECT_EQ(0x8111u, verbs->pkey_value);
    EXPECT_EQ(1u, verbs->gid_wish.version);
    EXPECT_EQ(AF_INET6, verbs->gid_wish.family);
    EXPECT_EQ(8u, verbs->gid_wish.bits);
    EXPECT_STREQ("libmlx5.so.7", verbs->mlx5_library);
    dt_verbs_close(verbs);

    environment = {{"DETOUR_SOFT_DEVICES", "3"}};
    ASSERT_EQ(DT_OK, dt_params_load(&params, Get, &environment, error, sizeof error)) << error;
    dt_verbs_options_take(&options, &params);
    ASSERT_EQ(DT_OK, dt_verbs_open(&options, &verbs));
    EXPECT_FALSE(verbs->has_gid_index);
    EXPECT_EQ(DT_OK, dt_verbs_devices(verbs, &list, &count));
    EXPECT_EQ(3u, count);
    dt_verbs_devices_free(list);
    dt_verbs_close(verbs);
}

TEST(Open, ALibraryThatCannotBeUsedIsReplacedByTheDefaultOneIfItMayBe)
{
    char reason[300] = "";
    dt_verbs_options options = {};
    dt_verbs *verbs = nullptr;

    options.kind = DT_VERBS_SYSTEM;
    options.library = "/nonexistent/libibverbs.so";
    options.reason = reason;
    options.reason_bytes = sizeof reason;
    EXPECT_EQ(DT_NOT_FOUND, dt_verbs_open(&options, &verbs));
    EXPECT_NE(nullptr, strstr(reason, options.library)) << reason;
    EXPECT_TRUE(detour_test::LoggedLines().empty());

    options.library_or_default = true;
    dt_status status = dt_verbs_open(&options, &verbs); /* as far as this host has libibverbs */
    ASSERT_FALSE(detour_test::LoggedLines().empty());
    std::string line = detour_test::LoggedLines().front();
    EXPECT_EQ(0u, line.find("[verbs-default] verbs: cannot load the verbs library: /nonexistent/")) << line;
    EXPECT_NE(std::string::npos, line.find("; libibverbs.so.1 is loaded instead")) << line;
    if (status == DT_OK)
        dt_verbs_close(verbs);
    else
        EXPECT_EQ(nullptr, strstr(reason, "/nonexistent")) << reason;
}

TEST(ForkInit, IsCalledBeforeTheFirstDeviceIsLookedForAndARefusalIsNoError)
{
    void *library = dlopen(STUB_VERBS, RTLD_NOW);
    ASSERT_NE(nullptr, library) << dlerror();
    int *calls = static_cast<int *>(dlsym(library, "stub_fork_init_calls"));
    int *error = static_cast<int *>(dlsym(library, "stub_fork_init_error"));
    dt_verbs_options options = {};
    dt_verbs *verbs;

    options.kind = DT_VERBS_SYSTEM;
    options.library = STUB_VERBS;
    ASSERT_EQ(DT_OK, dt_verbs_open(&options, &verbs));
    EXPECT_EQ(1, *calls);
    dt_verbs_close(verbs);
    *error = EINVAL;
    ASSERT_EQ(DT_OK, dt_verbs_open(&options, &verbs));
    EXPECT_EQ("[verbs-fork] verbs: ibv_fork_init: Invalid argument; children of this process may disturb it",
              detour_test::LoggedLines().back());
    dt_verbs_close(verbs);
    dlclose(library);
}
} // namespace
