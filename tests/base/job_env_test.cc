/* SPDX-License-Identifier: Apache-2.0 */
#include "base/job_env.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace
{
using Environment = std::map<std::string, std::string>;

const char *Get(void *arg, const char *name)
{
    const Environment &environment = *static_cast<const Environment *>(arg);
    auto found = environment.find(name);
    return found == environment.end() ? nullptr : found->second.c_str();
}

bool Find(Environment environment, struct dt_job_env *env)
{
    return dt_job_env_find(env, Get, &environment);
}

TEST(JobEnv, EveryLauncherIsFound)
{
    const char *const names[][3] = {{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                    {"mpirun", "PMI_RANK", "PMI_SIZE"},
                                    {"torchrun", "RANK", "WORLD_SIZE"},
                                    {"srun", "SLURM_PROCID", "SLURM_NTASKS"}};
    for (const auto &name : names) {
        struct dt_job_env env;
        ASSERT_TRUE(Find({{name[1], "3"}, {name[2], "8"}}, &env)) << name[1];
        EXPECT_STREQ(env.launcher, name[0]);
        EXPECT_EQ(env.rank, 3u);
        EXPECT_EQ(env.ranks, 8u);
    }
}

TEST(JobEnv, TheInnermostLauncherCounts)
{
    struct dt_job_env env;
    ASSERT_TRUE(
        Find({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}, &env));
    EXPECT_EQ(env.rank, 5u);
    EXPECT_EQ(env.ranks, 6u);
}

TEST(JobEnv, BothVariablesMustBeNumbers)
{
    struct dt_job_env env;
    EXPECT_FALSE(Find({}, &env));
    EXPECT_FALSE(Find({{"RANK", "1"}}, &env));
    for (const char *bad : {"", "x", "-1", " 1", "1x", "4294967296", "99999999999999999999999"}) {
        EXPECT_FALSE(Find({{"RANK", bad}, {"WORLD_SIZE", "2"}}, &env)) << bad;
        EXPECT_FALSE(Find({{"RANK", "1"}, {"WORLD_SIZE", bad}}, &env)) << bad;
    }
}

TEST(JobEnv, TheSettingComesBeforeTheLauncher)
{
    Environment launched = {{"RANK", "5"}, {"WORLD_SIZE", "6"}}, none,
                huge = {{"RANK", "2147483648"}, {"WORLD_SIZE", "6"}};
    EXPECT_EQ(0, dt_job_env_rank(0, Get, &launched));
    EXPECT_EQ(5, dt_job_env_rank(DT_PARAM_RANK_AUTO, Get, &launched));
    EXPECT_EQ(-1, dt_job_env_rank(DT_PARAM_RANK_AUTO, Get, &none));
    EXPECT_EQ(7, dt_job_env_rank(7, Get, &none));
    EXPECT_EQ(-1, dt_job_env_rank(DT_PARAM_RANK_AUTO, Get, &huge)) << "no field has room for it";
}
} // namespace
