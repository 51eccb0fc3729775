/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: options that cannot be, and forks. */
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cerrno>

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
