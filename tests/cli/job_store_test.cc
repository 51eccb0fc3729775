// SPDX-License-Identifier: Apache-2.0
#include "cli/job_store.h"

#include <cstdlib>
#include <string>

#include "cli/command.h"
#include "tests/cli/served.h"

namespace
{
/* What is left in argv of an URL, of which the command has all. */
std::string Left(std::string url)
{
    const std::string given = url;

    EXPECT_EQ(given, dt_job_store_take(url.data()));
    return url;
}

TEST(JobStore, HidesUserAndPasswordInTheArgument)
{
    EXPECT_EQ("redis://***********@head:7000/1", Left("redis://user:secret@head:7000/1"));
    EXPECT_EQ("redis://*******@head", Left("redis://:secret@head"));
    EXPECT_EQ("redis://head", Left("redis://head"));
    EXPECT_EQ("memory:", Left("memory:"));
    EXPECT_EQ("", Left(""));
    /* No URLs, but perhaps with a password. */
    EXPECT_EQ("*************@head", Left("//user:secret@head"));
    EXPECT_EQ("redis://************@h", Left("redis://user:secret@@h"));
    EXPECT_EQ("redis://*****************@h", Left("redis://user:se@cr://et/1@h"));
}

TEST(JobStore, OfTheEnvironment)
{
    unsetenv("DETOUR_REDIS");
    EXPECT_EQ(nullptr, dt_job_store_of_environment());
    setenv("DETOUR_REDIS", "", 1);
    EXPECT_EQ(nullptr, dt_job_store_of_environment());
    setenv("DETOUR_REDIS", "redis://head", 1);
    EXPECT_STREQ("redis://head", dt_job_store_of_environment());
    unsetenv("DETOUR_REDIS");
}

TEST(JobStore, ItsNameIsThatOfTheSlurmJob)
{
    unsetenv("SLURM_JOB_ID");
    EXPECT_STREQ("job", dt_job_store_name());
    setenv("SLURM_JOB_ID", "4711", 1);
    EXPECT_STREQ("4711", dt_job_store_name());
    for (const char *none : {"", "a:b", "a b"}) {
        setenv("SLURM_JOB_ID", none, 1);
        EXPECT_STREQ("job", dt_job_store_name());
    }
    unsetenv("SLURM_JOB_ID");
}

TEST(JobStore, AHolderIsUniqueAndAName)
{
    const std::string host(63, 'h');
    char one[DT_STORE_NAME_BYTES], two[DT_STORE_NAME_BYTES];

    dt_job_store_holder(host.c_str(), one);
    dt_job_store_holder(host.c_str(), two);
    EXPECT_TRUE(dt_store_is_name(one));
    EXPECT_STRNE(one, two);
}

TEST(JobStore, OpensWithAnExitCode)
{
    struct dt_store *store = nullptr;

    ASSERT_EQ(DT_EXIT_OK, dt_job_store_open("detour test", nullptr, "job", &store));
    store->ops->close(store);
    testing::internal::CaptureStderr();
    EXPECT_EQ(DT_EXIT_USAGE, dt_job_store_open("detour test", "http://h", "job", &store));
    EXPECT_EQ("detour test: the URL of the store: expected redis[s]://[USER:PASSWORD@]HOST[:PORT][/DB]\n",
              testing::internal::GetCapturedStderr());
}

TEST(JobStore, FilesForTlsAreOfTheEnvironment)
{
    struct dt_store *store = nullptr;

    for (const char *name : {"DETOUR_REDIS_CA", "DETOUR_REDIS_CERT", "DETOUR_REDIS_KEY"})
        setenv(name, "/nowhere/file.pem", 1);
    testing::internal::CaptureStderr();
    int code = dt_job_store_open("detour test", "rediss://u:secret@h", "job", &store);
    std::string line = testing::internal::GetCapturedStderr();
    for (const char *name : {"DETOUR_REDIS_CERT", "DETOUR_REDIS_KEY", "DETOUR_REDIS_CA"})
        unsetenv(name);
    EXPECT_EQ(line.find("secret"), std::string::npos) << line;
    if (code == DT_EXIT_FAILED)
        GTEST_SKIP() << line; /* no libhiredis or no OpenSSL here */
    EXPECT_EQ(DT_EXIT_USAGE, code);
    EXPECT_EQ(0u, line.find("detour test: DETOUR_REDIS_CA=/nowhere/file.pem: expected a file in PEM format"))
        << line;
}
} // namespace
