/* SPDX-License-Identifier: Apache-2.0 */
/* A job whose ranks are functions of a test: forked by the launcher, as a command's ranks are. */
#ifndef DETOUR_TESTS_JOB_TEST_H
#define DETOUR_TESTS_JOB_TEST_H

#include <functional>
#include <string>
#include <vector>

#include "base/exit.h"
#include "job/launch.h"
#include "job/rank.h"

namespace detour_test
{
struct Job {
    struct dt_job_options options = {};
    std::function<bool(struct dt_job_link *, struct dt_job_error *)> run_rank;
    std::function<bool(struct dt_job_launcher *, unsigned, unsigned, const std::string &)> take_frame;
    std::vector<std::string> ends; // "rank 1 done", "rank 0 lost", in their order
    struct dt_job_error error = {};
    int finish_code = DT_EXIT_OK;
    int finish_count = 0;

    explicit Job(unsigned ranks)
    {
        options.command = "test job";
        options.ranks = ranks;
        options.rank = -1;
        options.timeout_s = 120;
        options.plugin_path = DETOUR_PLUGIN;
    }

    int Launch()
    {
        return dt_job_launch(&options, Funcs(), this);
    }

    int Join()
    {
        return dt_job_join(&options, Funcs(), this);
    }

    static const struct dt_job_funcs *Funcs()
    {
        static const struct dt_job_funcs funcs = {RunRank, TakeFrame, RankEnded, Finish};
        return &funcs;
    }

  private:
    static bool RunRank(void *context, struct dt_job_link *link, struct dt_job_error *error)
    {
        return static_cast<Job *>(context)->run_rank(link, error);
    }

    static bool TakeFrame(void *context, struct dt_job_launcher *launcher, unsigned rank,
                          const struct dt_job_frame *frame, const void *payload)
    {
        Job *job = static_cast<Job *>(context);
        return job->take_frame &&
               job->take_frame(launcher, rank, frame->kind,
                               std::string(static_cast<const char *>(payload), frame->bytes));
    }

    static void RankEnded(void *context, unsigned rank, bool completed)
    {
        static_cast<Job *>(context)->ends.push_back("rank " + std::to_string(rank) +
                                                    (completed ? " done" : " lost"));
    }

    static int Finish(void *context, const struct dt_job_error *error)
    {
        Job *job = static_cast<Job *>(context);
        job->error = *error;
        job->finish_count++;
        return job->finish_code;
    }
};
} // namespace detour_test

#endif
