/* SPDX-License-Identifier: Apache-2.0 */
/* The launcher, with ranks that finish, fail, die, hang and break the protocol. */
#include "job/launch.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "base/clock.h"
#include "job/rendezvous.h"
#include "tests/harness/free_address.h"
#include "tests/job/job_test.h"

namespace
{
using detour_test::FreeAddress;
using detour_test::Job;

bool Barrier(struct dt_job_link *link, struct dt_job_error *error)
{
    return dt_job_exchange(link, nullptr, 0, nullptr, error);
}

/* A job of three ranks, of which rank 1 does something else than to wait for the others. */
int LaunchWithRank1(Job *job, const std::function<bool(struct dt_job_link *, struct dt_job_error *)> &rank1)
{
    job->run_rank = [rank1](struct dt_job_link *link, struct dt_job_error *error) {
        return link->rank == 1 ? rank1(link, error) : Barrier(link, error);
    };
    return job->Launch();
}

void ExpectNoChildren()
{
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD);
}

TEST(JobLaunch, RanksExchangePartsInRankOrder)
{
    Job job(5);
    job.finish_code = 7;
    job.run_rank = [](struct dt_job_link *link, struct dt_job_error *error) {
        unsigned mine = 100 + link->rank, all[5];
        for (int round = 0; round < 50; round++, mine += 1000) {
            if (!dt_job_exchange(link, &mine, sizeof mine, all, error))
                return false;
            for (unsigned rank = 0; rank < 5; rank++) {
                if (all[rank] != 100 + rank + 1000u * round)
                    return dt_job_fail(error, DT_EXIT_FAILED, "rank %u got %u of rank %u", link->rank,
                                       all[rank], rank);
            }
        }
        return true;
    };
    EXPECT_EQ(job.Launch(), 7) << job.error.text;
    EXPECT_EQ(job.finish_count, 1);
    EXPECT_EQ(job.error.exit_code, 0);
    std::sort(job.ends.begin(), job.ends.end());
    EXPECT_EQ(job.ends, (std::vector<std::string>{"rank 0 done", "rank 1 done", "rank 2 done", "rank 3 done",
                                                  "rank 4 done"}));
    ExpectNoChildren();
}

/* A rank's record of a delivery. */
struct Letter {
    uint32_t rank, number;
};

/* To the next rank and to the one opposite, with their own numbers; and what has to arrive. */
bool DeliverAcross(struct dt_job_link *link, struct dt_job_error *error)
{
    const unsigned half = link->ranks / 2, from = (link->rank + half) % link->ranks;
    const Letter mine[] = {{(link->rank + 1) % link->ranks, link->rank}, {from, 10000 + link->rank}};
    size_t count;
    void *payload;
    if (!dt_job_deliver(link, mine, 2, sizeof mine[0], &payload, &count, error))
        return false;
    const Letter *arrived = static_cast<const Letter *>(payload);
    bool has_next = false, has_opposite = false;
    for (size_t i = 0; i < count; i++) {
        has_next |= (arrived[i].rank + 1) % link->ranks == link->rank && arrived[i].number == arrived[i].rank;
        has_opposite |= arrived[i].rank == from && arrived[i].number == 10000 + from;
    }
    free(payload);
    return (count == 2 && has_next && has_opposite) ||
           dt_job_fail(error, DT_EXIT_FAILED, "rank %u got %zu other records", link->rank, count);
}

TEST(JobLaunch, TheLargestJobExchangesGathersAndDelivers)
{
    Job job(DT_JOB_RANKS_MAX);
    job.run_rank = [](struct dt_job_link *link, struct dt_job_error *error) {
        std::vector<uint32_t> all(link->ranks, 0);
        uint32_t mine = 7 * link->rank;
        bool ok = dt_job_exchange(link, &mine, sizeof mine, all.data(), error);
        for (unsigned rank = 0; ok && rank < link->ranks; rank++)
            ok = all[rank] == 7 * rank || dt_job_fail(error, DT_EXIT_FAILED, "wrong part of %u", rank);
        mine = 9 * link->rank;
        ok = ok && DeliverAcross(link, error) && dt_job_gather(link, &mine, sizeof mine, all.data(), error);
        for (unsigned rank = 0; ok && link->rank == 0 && rank < link->ranks; rank++)
            ok = all[rank] == 9 * rank || dt_job_fail(error, DT_EXIT_FAILED, "wrong part of %u", rank);
        return ok;
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_OK) << job.error.text;
    EXPECT_EQ(job.ends.size(), size_t{DT_JOB_RANKS_MAX});
    ExpectNoChildren();
}

/* A job of 40 ranks whose launcher has these limits of descriptors; prints how it ends. */
void LaunchWithDescriptors(rlim_t soft, rlim_t hard)
{
    struct rlimit limit = {soft, hard};
    Job job(40);
    setrlimit(RLIMIT_NOFILE, &limit);
    job.run_rank = Barrier;
    int code = job.Launch();
    fprintf(stderr, "%s\n", code ? job.error.text : "all ranks met");
    _exit(code);
}

TEST(JobLaunch, DescriptorsForAllRanksAreThereBeforeOneIsStarted)
{
    EXPECT_EXIT(LaunchWithDescriptors(32, 128), testing::ExitedWithCode(DT_EXIT_OK), "^all ranks met\n$");
    EXPECT_EXIT(LaunchWithDescriptors(32, 64), testing::ExitedWithCode(DT_EXIT_USAGE),
                "^40 ranks need 72 open files in the process of rank 0, which may have 64; raise its limit "
                "\\(ulimit -Hn\\)\n$");
}

TEST(JobLaunch, FramesOfTheCommandGoBothWays)
{
    Job job(2);
    std::vector<std::string> taken;
    job.run_rank = [](struct dt_job_link *link, struct dt_job_error *error) {
        static std::string answer;
        link->take = [](void *, const struct dt_job_frame *frame, const void *payload) {
            answer = std::to_string(frame->kind) + static_cast<const char *>(payload);
        };
        if (link->rank == 0)
            dt_job_frame_send(link->fd, 65, "question", 8);
        else if (!dt_job_link_read(link, error) || answer != "66answer")
            return dt_job_fail(error, DT_EXIT_FAILED, "got '%s'", answer.c_str());
        return Barrier(link, error);
    };
    job.take_frame = [&taken](struct dt_job_launcher *launcher, unsigned rank, unsigned kind,
                              const std::string &payload) {
        taken.push_back(std::to_string(rank) + " " + std::to_string(kind) + " " + payload);
        dt_job_launcher_send(launcher, 1, 66, "answer", 6);
        return true;
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_OK) << job.error.text;
    EXPECT_EQ(taken, std::vector<std::string>{"0 65 question"});
}

/* Rank 2 dies behind its part, and its end arrives together with the last part: the answer finds it gone
 * first. */
TEST(JobLaunch, ARankThatIsLostWhileOthersAreServedIsLostOnce)
{
    struct Shared {
        std::atomic<int> begun;
        std::atomic<pid_t> rank2;
    };
    auto *shared = static_cast<Shared *>(
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(MAP_FAILED, static_cast<void *>(shared));
    Job job(3);
    job.run_rank = [shared](struct dt_job_link *link, struct dt_job_error *error) {
        if (link->rank == 2)
            shared->rank2 = getpid();
        if (link->rank == 0)
            dt_job_frame_send(link->fd, 65, "", 0);
        shared->begun++;
        return Barrier(link, error);
    };
    job.take_frame = [shared](struct dt_job_launcher *, unsigned, unsigned, const std::string &) {
        siginfo_t info;
        while (shared->begun < 3)
            usleep(1000);
        usleep(100000); /* for their parts; without them the test shows less, and does not fail */
        kill(shared->rank2, SIGKILL);
        EXPECT_EQ(0, waitid(P_PID, static_cast<id_t>(shared->rank2), &info, WEXITED | WNOWAIT));
        return true;
    };
    EXPECT_EQ(job.Launch(), DT_EXIT_FAILED);
    EXPECT_EQ(std::string(job.error.text),
              "rank 2 (pid " + std::to_string(shared->rank2) + ") was killed by signal 9 (Killed)");
    EXPECT_EQ(1, std::count(job.ends.begin(), job.ends.end(), "rank 2 lost"));
    munmap(shared, sizeof(Shared));
    ExpectNoChildren();
}

TEST(JobLaunch, ARankThatFailsEndsTheJobWithItsReason)
{
    Job job(3);
    EXPECT_EQ(LaunchWithRank1(&job,
                              [](struct dt_job_link *, struct dt_job_error *error) {
                                  return dt_job_fail(error, DT_EXIT_USAGE, "rank 1 does not want to");
                              }),
              DT_EXIT_USAGE);
    EXPECT_STREQ(job.error.text, "rank 1 does not want to");
    EXPECT_EQ(job.finish_count, 1);
    ExpectNoChildren();
}

/* Ranks report that they cannot reach a dead peer before its death is known: the death is the cause. */
TEST(JobLaunch, ADeathIsTheCauseOfTheErrorsAroundIt)
{
    const uint64_t kLateNs = 200000000; // the launcher waits somewhat longer for the death
    auto *at_ns = static_cast<std::atomic<uint64_t> *>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    uint64_t error_ns, death_ns;
    ASSERT_NE(MAP_FAILED, static_cast<void *>(at_ns));
    do { // again, where a busy machine let rank 1 live for longer
        for (int rank = 0; rank < 3; rank++)
            at_ns[rank] = 0;
        Job job(3);
        job.run_rank = [at_ns](struct dt_job_link *link, struct dt_job_error *error) {
            if (link->rank == 1)
                usleep(50000);
            at_ns[link->rank] = dt_clock_now_ns();
            if (link->rank == 1)
                raise(SIGKILL);
            return dt_job_fail(error, DT_EXIT_FAILED, "rank %u cannot reach rank 1", link->rank);
        };
        EXPECT_EQ(job.Launch(), DT_EXIT_FAILED);
        error_ns = std::min(at_ns[0].load(), at_ns[2].load());
        death_ns = at_ns[1];
        if (death_ns && death_ns < error_ns + kLateNs) {
            EXPECT_NE(std::string(job.error.text).find("was killed by signal 9 (Killed)"), std::string::npos)
                << job.error.text;
            EXPECT_NE(std::find(job.ends.begin(), job.ends.end(), "rank 1 lost"), job.ends.end());
        }
    } while (!death_ns || death_ns >= error_ns + kLateNs);
    munmap(at_ns, 4096);
}

TEST(JobLaunch, ARankThatExitsEarlyIsNamed)
{
    for (int code : {0, 3}) {
        Job job(3);
        EXPECT_EQ(LaunchWithRank1(
                      &job, [code](struct dt_job_link *, struct dt_job_error *) -> bool { _exit(code); }),
                  DT_EXIT_FAILED);
        EXPECT_NE(std::string(job.error.text).find("ended early with exit code " + std::to_string(code)),
                  std::string::npos)
            << job.error.text;
        ExpectNoChildren();
    }
}

TEST(JobLaunch, ARankThatHangsAfterItsWorkIsNamedAndKilled)
{
    Job job(3);
    job.options.timeout_s = 1;
    EXPECT_EQ(LaunchWithRank1(&job,
                              [](struct dt_job_link *link, struct dt_job_error *error) {
                                  atexit([] { pause(); });
                                  return Barrier(link, error);
                              }),
              DT_EXIT_FAILED);
    EXPECT_NE(std::string(job.error.text).find("has not ended after its work was done"), std::string::npos)
        << job.error.text;
    ExpectNoChildren();
}

TEST(JobLaunch, ARankThatStallsInsideAFrameIsLost)
{
    Job job(3);
    job.options.timeout_s = 1;
    EXPECT_EQ(LaunchWithRank1(&job,
                              [](struct dt_job_link *link, struct dt_job_error *) -> bool {
                                  struct dt_job_frame frame = {DT_JOB_FRAME_EXCHANGE, 100};
                                  EXPECT_EQ(write(link->fd, &frame, sizeof frame), ssize_t(sizeof frame));
                                  for (;;)
                                      pause();
                              }),
              DT_EXIT_FAILED);
    EXPECT_STREQ(job.error.text, "rank 1 is lost: its connection to the launcher is closed or broken");
    ExpectNoChildren();
}

TEST(JobLaunch, AFrameThatTheLauncherDoesNotKnowEndsTheJob)
{
    for (unsigned kind : {0u, unsigned(DT_JOB_FRAME_HELLO), 63u, 64u, 0xFFFFFFFFu}) {
        Job job(3);
        EXPECT_EQ(LaunchWithRank1(&job,
                                  [kind](struct dt_job_link *link, struct dt_job_error *error) {
                                      dt_job_frame_send(link->fd, kind, "x", 1);
                                      return Barrier(link, error);
                                  }),
                  DT_EXIT_FAILED);
        EXPECT_EQ(job.error.text,
                  "rank 1 sent an unknown frame (kind " + std::to_string(kind) + ", 1 bytes)");
        ExpectNoChildren();
    }
}

TEST(JobLaunch, PartsOfDifferentSizeEndTheJob)
{
    Job job(3);
    EXPECT_EQ(LaunchWithRank1(&job,
                              [](struct dt_job_link *link, struct dt_job_error *error) {
                                  char mine = 0, all[3];
                                  return dt_job_exchange(link, &mine, 1, all, error);
                              }),
              DT_EXIT_FAILED);
    EXPECT_STREQ(job.error.text, "ranks 0 and 1 disagree on an exchange: 0 and 1 bytes");
    ExpectNoChildren();
}

/* A job whose rank 1 sends its launcher a signal; prints what the command is given at the end. */
void InterruptOneself(int signal_number)
{
    Job job(2);
    pid_t launcher = getpid();
    job.run_rank = [launcher, signal_number](struct dt_job_link *link, struct dt_job_error *) -> bool {
        if (link->rank == 1)
            kill(launcher, signal_number);
        for (;;)
            pause();
    };
    struct dt_job_funcs funcs = *Job::Funcs();
    funcs.finish = [](void *, const struct dt_job_error *error) {
        bool has_children = waitpid(-1, nullptr, WNOHANG) != -1;
        fprintf(stderr, "%s, %s\n", error->text, has_children ? "ranks are left" : "no ranks are left");
        return 0;
    };
    dt_job_launch(&job.options, &funcs, &job);
}

/* The command reports first, then the launcher dies of the signal. */
TEST(JobLaunch, AnInterruptedLauncherEndsItsRanksAndDiesOfTheSignal)
{
    for (int signal_number : {SIGINT, SIGTERM})
        EXPECT_EXIT(InterruptOneself(signal_number), testing::KilledBySignal(signal_number),
                    "interrupted by signal .*, no ranks are left");
}

/* ---- Ranks that are started one by one. ---- */

/* Starts rank `rank` of a job in a process of its own. */
pid_t Join(Job *job, int rank)
{
    pid_t pid = fork();
    if (pid == 0) {
        job->options.rank = rank;
        _exit(job->Join());
    }
    return pid;
}

int ExitCode(pid_t pid)
{
    int status;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(JobLaunch, RanksOfOtherProcessesJoin)
{
    Job job(3);
    std::string root = FreeAddress();
    job.options.rendezvous = root.c_str();
    job.run_rank = Barrier;
    pid_t one = Join(&job, 1), two = Join(&job, 2);
    job.options.rank = 0;
    EXPECT_EQ(job.Launch(), DT_EXIT_OK) << job.error.text;
    EXPECT_EQ(ExitCode(one), DT_EXIT_OK);
    EXPECT_EQ(ExitCode(two), DT_EXIT_OK);
}

TEST(JobLaunch, AJoinedRankThatDiesEndsTheJobForAll)
{
    Job job(3);
    std::string root = FreeAddress();
    job.options.rendezvous = root.c_str();
    job.run_rank = [](struct dt_job_link *link, struct dt_job_error *error) {
        if (link->rank == 2)
            raise(SIGKILL);
        return Barrier(link, error);
    };
    pid_t one = Join(&job, 1), two = Join(&job, 2);
    job.options.rank = 0;
    EXPECT_EQ(job.Launch(), DT_EXIT_FAILED);
    EXPECT_STREQ(job.error.text, "rank 2 is lost: its connection to the launcher is closed or broken");
    EXPECT_EQ(ExitCode(one), DT_EXIT_FAILED);
    EXPECT_EQ(ExitCode(two), -SIGKILL);
}
} // namespace
