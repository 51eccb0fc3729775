/* SPDX-License-Identifier: Apache-2.0 */
/* A rank's watch over its work: stalls, errors, the end of the job, ticks. The plugin is Detour's. */
#include "job/rank.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "tests/job/job_test.h"

namespace
{
using detour_test::Job;

struct Fixture {
    struct dt_job_rank rank = {};

    Fixture(const Job &job, struct dt_job_link *link, struct dt_job_error *error)
    {
        rank.options = &job.options;
        rank.link = link;
        rank.error = error;
    }

    /* Loads the plugin and starts the threads; no connections. */
    bool Start()
    {
        return dt_job_rank_load(&rank) && dt_job_rank_connect(&rank, nullptr, 0);
    }
};

/* Runs `work` on the progress thread of every rank of a job; a time limit is the work's alone. */
int Launch(Job *job, dt_job_func *work, const char *doing, unsigned timeout_s = 120)
{
    job->run_rank = [job, work, doing, timeout_s](struct dt_job_link *link, struct dt_job_error *error) {
        Fixture fixture(*job, link, error);
        if (!fixture.Start())
            return false;
        job->options.timeout_s = timeout_s;
        dt_job_rank_doing(&fixture.rank, "%s %d", doing, 1);
        return dt_job_rank_do_work(&fixture.rank, work, &fixture.rank) && dt_job_rank_close(&fixture.rank);
    };
    return job->Launch();
}

void Hang(void *)
{
    for (;;)
        pause();
}

void Fail(void *arg)
{
    dt_job_fail(&static_cast<struct dt_job_rank *>(arg)->work_error, DT_EXIT_USAGE, "the work failed");
}

/* Until its rank had two ticks meanwhile, which rank.context counts. */
void AwaitTicks(void *arg)
{
    struct dt_job_rank *rank = static_cast<struct dt_job_rank *>(arg);
    while (*static_cast<std::atomic<int> *>(rank->context) < 2) {
        usleep(1000);
        __atomic_fetch_add(&rank->net.heartbeat, 1, __ATOMIC_RELAXED);
    }
}

constexpr uint64_t kTickNs = DT_JOB_TICK_MS * 1000000ull, kLimitNs = 10 * kTickNs;

TEST(JobWatch, WorkThatAdvancesMayTakeLongerThanTheTimeLimit)
{
    struct dt_job_watch watch;
    uint64_t now_ns = 77;
    dt_job_watch_begin(&watch, 5, now_ns);
    for (uint64_t beat = 5; beat < 15; beat++) {
        for (int ticks = 0; ticks < 10; ticks++, now_ns += kTickNs) {
            ASSERT_TRUE(dt_job_watch_continue(&watch, beat, now_ns, kLimitNs)) << now_ns;
        }
    }
    EXPECT_FALSE(dt_job_watch_continue(&watch, 14, now_ns, kLimitNs));
}

/* However long the process did not run: the work had no time either. */
TEST(JobWatch, OnlyTimeOfTheWatchCounts)
{
    struct dt_job_watch watch;
    dt_job_watch_begin(&watch, 5, 0);
    EXPECT_TRUE(dt_job_watch_continue(&watch, 5, 100 * kLimitNs, kLimitNs));
    for (int looks = 0; looks < 3; looks++) {
        EXPECT_TRUE(dt_job_watch_continue(&watch, 5, (200 + looks * 100) * kLimitNs, kLimitNs));
    }
    EXPECT_FALSE(dt_job_watch_continue(&watch, 5, 500 * kLimitNs, kLimitNs));
}

TEST(JobRank, WorkThatMakesNoProgressFails)
{
    Job job(1);
    EXPECT_EQ(Launch(&job, Hang, "hanging", 1), DT_EXIT_FAILED);
    EXPECT_STREQ(job.error.text, "rank 0: no progress for 1 s while hanging 1");
}

TEST(JobRank, AnErrorOfTheWorkIsTheRanksError)
{
    Job job(2);
    EXPECT_EQ(Launch(&job, Fail, "failing"), DT_EXIT_USAGE);
    EXPECT_STREQ(job.error.text, "the work failed");
}

/* A joined rank learns of another's failure while its own worker hangs. */
TEST(JobRank, TheEndOfTheJobInterruptsTheWait)
{
    Job job(2);
    job.options.timeout_s = 3600;
    job.run_rank = [&job](struct dt_job_link *link, struct dt_job_error *error) {
        Fixture fixture(job, link, error);
        if (!fixture.Start())
            return false;
        if (link->rank == 1)
            return dt_job_fail(error, DT_EXIT_FAILED, "rank 1 ends the job");
        return dt_job_rank_do_work(&fixture.rank, Hang, nullptr);
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_FAILED);
    EXPECT_STREQ(job.error.text, "rank 1 ends the job");
}

TEST(JobRank, TicksComeWhileWorkIsInProgressAndAtItsEnd)
{
    Job job(1);
    job.run_rank = [&job](struct dt_job_link *link, struct dt_job_error *error) {
        Fixture fixture(job, link, error);
        std::atomic<int> ticks{0};
        if (!fixture.Start())
            return false;
        fixture.rank.tick = [](void *context, uint64_t) { ++*static_cast<std::atomic<int> *>(context); };
        fixture.rank.context = &ticks;
        if (!dt_job_rank_do_work(
                &fixture.rank, [](void *) {}, nullptr))
            return false;
        if (ticks < 1)
            return dt_job_fail(error, DT_EXIT_FAILED, "no tick at the end");
        ticks = 0;
        if (!dt_job_rank_do_work(&fixture.rank, AwaitTicks, &fixture.rank))
            return false;
        return dt_job_rank_close(&fixture.rank);
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_OK) << job.error.text;
}

TEST(JobRank, APluginThatIsMissingIsBadInput)
{
    Job job(1);
    job.options.plugin_path = "/nowhere/libx.so";
    EXPECT_EQ(Launch(&job, Fail, "failing"), DT_EXIT_USAGE);
    EXPECT_EQ(std::string(job.error.text).rfind("cannot load the plugin: /nowhere/libx.so", 0), 0u)
        << job.error.text;
}
} // namespace
