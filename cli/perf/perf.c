/* SPDX-License-Identifier: Apache-2.0 */
/* `detour perf`: reads the options and the environment, then launches the job or joins it. */
#include "cli/perf/perf.h"

#include <limits.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/param.h"
#include "cli/command.h"
#include "cli/own_plugin.h"
#include "cli/perf/options.h"
#include "cli/perf/pairs.h"
#include "cli/perf/rank.h"
#include "cli/perf/report.h"
#include "job/launch.h"

static int refuse(const char *text)
{
    fprintf(stderr, "detour perf: %s\n", text);
    return DT_EXIT_USAGE;
}

static bool run_rank(void *context, struct dt_job_link *link, struct dt_job_error *error)
{
    const struct dt_perf_report *report = context;

    return dt_perf_rank_run(report->options, link, error);
}

/* Its start, and the info of all ranks behind it. */
static bool take_start(struct dt_perf_report *report, const struct dt_job_frame *frame, const void *payload)
{
    const struct dt_perf_start *start = payload;
    const void *ranks = start + 1;

    if (frame->bytes != sizeof *start + report->options->job.ranks * sizeof(struct dt_perf_rank_info))
        return false;
    dt_perf_report_start(report, start, ranks);
    return true;
}

static bool take_frame(void *context, struct dt_job_launcher *launcher, unsigned rank,
                       const struct dt_job_frame *frame, const void *payload)
{
    struct dt_perf_report *report = context;

    (void)launcher;
    if (frame->kind == DT_PERF_FRAME_START)
        return take_start(report, frame, payload);
    if (frame->kind == DT_PERF_FRAME_ROW && frame->bytes == sizeof(struct dt_perf_row))
        dt_perf_report_row(report, payload);
    else if (frame->kind == DT_PERF_FRAME_STATUS)
        dt_perf_report_status(report, payload, dt_clock_now_ns());
    else if (frame->kind == DT_PERF_FRAME_SAMPLE && frame->bytes == sizeof(struct dt_perf_sample))
        dt_perf_series_add(&report->series, rank, payload);
    else
        return false;
    return true;
}

static int finish(void *context, const struct dt_job_error *error)
{
    struct dt_perf_report *report = context;
    bool is_written = dt_perf_report_finish(report, error);

    return report->wrong || !is_written ? DT_EXIT_FAILED : DT_EXIT_OK;
}

static const struct dt_job_funcs funcs = {.run_rank = run_rank, .take_frame = take_frame, .finish = finish};

int dt_perf_command(int argc, char **argv)
{
    static struct dt_perf_report report;
    static char own_plugin[PATH_MAX];
    struct dt_perf_options options;
    struct dt_job_error error = {0};
    const char *note = NULL;
    int code = dt_perf_options_parse(argc, argv, &options);

    if (code == DT_EXIT_OK && dt_own_plugin_prepare(&note, error.text, sizeof error.text) != DT_OK)
        return refuse(error.text);
    if (code != DT_EXIT_OK)
        return code;
    if (!options.job.plugin_path)
        options.job.plugin_path = dt_own_plugin_find(own_plugin, sizeof own_plugin);
    options.job.log_level = dt_getenv_process(NULL, "NCCL_DEBUG");
    if (options.pairs)
        return dt_perf_pairs_command(&options);
    report.options = &options;
    if (options.job.rank > 0)
        return dt_job_join(&options.job, &funcs, &report);
    if (!dt_perf_report_init(&report, &options, argc, argv, &error))
        return refuse(error.text);
    report.note = note;
    return dt_job_launch(&options.job, &funcs, &report);
}
