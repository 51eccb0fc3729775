/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: options that cannot be, and forks. */
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "tests/harness/harness.h"
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
