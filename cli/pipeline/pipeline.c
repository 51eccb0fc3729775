/* SPDX-License-Identifier: Apache-2.0 */
/* `detour pipeline`: reads the options and the environment, then launches the job or joins it. */
#include "cli/pipeline/pipeline.h"

#include <limits.h>
#include <stdio.h>

#include "base/param.h"
#include "cli/command.h"
#include "cli/own_plugin.h"
#include "cli/pipeline/options.h"
#include "cli/pipeline/plan.h"
#include "cli/pipeline/rank.h"
#include "cli/pipeline/report.h"
#include "job/launch.h"

static int refuse(const char *text)
{
    fprintf(stderr, "detour pipeline: %s\n", text);
    return DT_EXIT_USAGE;
}

static bool run_rank(void *context, struct dt_job_link *link, struct dt_job_error *error)
{
    const struct dt_pipeline_report *report = context;

    return dt_pipeline_rank_run(report->options, link, error);
}

static bool take_frame(void *context, struct dt_job_launcher *launcher, unsigned rank,
                       const struct dt_job_frame *frame, const void *payload)
{
    struct dt_pipeline_report *report = context;

    (void)launcher;
    if (frame->kind == DT_PIPELINE_FRAME_RECORDS)
        return dt_pipeline_timeline_take(
            &report->timeline, rank, payload, frame->bytes,
            dt_pipeline_timeline_records_max(DT_PIPELINE_STAGES_MAX,
                                             dt_pipeline_options_microbatches_max(report->options)));
    if (rank != 0 || frame->kind != DT_PIPELINE_FRAME_ITERATION ||
        frame->bytes != sizeof(struct dt_pipeline_iteration))
        return false;
    dt_pipeline_report_iteration(context, payload);
    return true;
}

static int finish(void *context, const struct dt_job_error *error)
{
    const struct dt_pipeline_report *report = context;

    if (!dt_pipeline_report_finish(context, error))
        return DT_EXIT_FAILED;
    return report->is_restart ? DT_EXIT_RESTART : DT_EXIT_OK;
}

static const struct dt_job_funcs funcs = {.run_rank = run_rank, .take_frame = take_frame, .finish = finish};

/* Refuses a schedule that does not exist for these options before any process is started. */
static int check_plan(const struct dt_pipeline_options *options)
{
    struct dt_pipeline_plan plan;
    struct detour_error error;
    bool made = dt_pipeline_plan_make(&plan, options, &error);

    dt_pipeline_plan_free(&plan);
    if (made)
        return DT_EXIT_OK;
    if (options->input && options->input->schedule)
        fprintf(stderr, "detour pipeline: --plan: %s\n", error.text);
    else
        fprintf(stderr, "detour pipeline: --schedule %s: %s\n", detour_algorithm_name(options->algorithm),
                error.text);
    return error.status == DETOUR_NO_MEMORY ? DT_EXIT_FAILED : DT_EXIT_USAGE;
}

int dt_pipeline_command(int argc, char **argv)
{
    static struct dt_pipeline_report report;
    static char own_plugin[PATH_MAX];
    static struct dt_pipeline_input input; /* the ranks read it until they end */
    struct dt_pipeline_options options;
    struct dt_job_error error = {0};
    const char *note = NULL;
    int code = dt_pipeline_options_parse(argc, argv, &options, &input);

    if (code == DT_EXIT_OK)
        code = check_plan(&options);
    if (code != DT_EXIT_OK)
        return code;
    if (dt_own_plugin_prepare(&note, error.text, sizeof error.text) != DT_OK)
        return refuse(error.text);
    if (!options.job.plugin_path)
        options.job.plugin_path = dt_own_plugin_find(own_plugin, sizeof own_plugin);
    options.job.log_level = dt_getenv_process(NULL, "NCCL_DEBUG");
    report.options = &options;
    if (options.job.rank > 0)
        return dt_job_join(&options.job, &funcs, &report);
    if (!dt_pipeline_report_init(&report, &options, &error))
        return refuse(error.text);
    report.note = note;
    dt_pipeline_report_start(&report);
    return dt_job_launch(&options.job, &funcs, &report);
}
