/* SPDX-License-Identifier: Apache-2.0 */
#include "job/error.h"

#include <gtest/gtest.h>

#include <string>

#include "base/exit.h"

namespace
{
TEST(JobError, TheFirstErrorStands)
{
    struct dt_job_error error = {};
    EXPECT_FALSE(dt_job_fail(&error, DT_EXIT_USAGE, "first %d", 1));
    uint64_t when_ns = error.when_ns;
    EXPECT_FALSE(dt_job_fail(&error, DT_EXIT_FAILED, "second"));
    EXPECT_EQ(error.exit_code, DT_EXIT_USAGE);
    EXPECT_STREQ(error.text, "first 1");
    EXPECT_EQ(error.when_ns, when_ns);
    EXPECT_GT(when_ns, 0u);
}

TEST(JobError, ALongTextIsCut)
{
    struct dt_job_error error = {};
    std::string text(2 * sizeof error.text, 'x');
    dt_job_fail(&error, DT_EXIT_FAILED, "%s", text.c_str());
    EXPECT_EQ(error.text, text.substr(0, sizeof error.text - 1));
}
} // namespace
