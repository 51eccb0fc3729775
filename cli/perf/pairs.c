/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/pairs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cli/arg.h"
#include "cli/command.h"
#include "cli/perf/pairs_judge.h"
#include "cli/perf/pairs_rank.h"
#include "cli/perf/pairs_report.h"
#include "job/launch.h"

struct command {
    const struct dt_perf_options *options;
    FILE *json; /* or NULL */
    bool has_times;
    struct dt_perf_pairs_times times;
};

static bool run_rank(void *context, struct dt_job_link *link, struct dt_job_error *error)
{
    const struct command *command = context;

    return dt_perf_pairs_rank_run(command->options, link, error);
}

static bool take_frame(void *context, struct dt_job_launcher *launcher, unsigned rank,
                       const struct dt_job_frame *frame, const void *payload)
{
    struct command *command = context;

    (void)launcher;
    if (frame->kind != DT_PERF_FRAME_PAIRS || rank != 0 || frame->bytes != sizeof command->times)
        return false;
    memcpy(&command->times, payload, sizeof command->times);
    command->has_times = true;
    return true;
}

static int report(struct command *command, struct detour_arena *arena)
{
    struct detour_error error = {.status = DETOUR_OK};
    struct dt_perf_pairs_result result;

    if (!arena || dt_perf_pairs_judge(arena, command->options->pairs, command->options->job.ranks,
                                      command->options->slow_permille, &command->times, &result, &error)) {
        dt_arg_refuse("detour perf", "%s", arena ? error.text : "out of memory");
        return DT_EXIT_FAILED;
    }
    dt_perf_pairs_print(stdout, command->options, &command->times, &result);
    if (!command->json || dt_perf_pairs_print_json(command->json, command->options, &command->times, &result))
        return DT_EXIT_OK;
    dt_arg_refuse("detour perf", "%s: could not be written", command->options->json_path);
    return DT_EXIT_FAILED;
}

static int finish(void *context, const struct dt_job_error *error)
{
    struct command *command = context;
    struct detour_arena *arena = detour_arena_create();
    int code = DT_EXIT_OK;

    if (error->exit_code)
        fprintf(stderr, "detour perf: %s\n", error->text);
    else if (!command->has_times)
        code = dt_arg_refuse("detour perf", "rank 0 has sent no times") ? DT_EXIT_FAILED : DT_EXIT_OK;
    else
        code = report(command, arena);
    detour_arena_destroy(arena);
    if (command->json && fclose(command->json) != 0) {
        dt_arg_refuse("detour perf", "%s: %s", command->options->json_path, strerror(errno));
        code = DT_EXIT_FAILED;
    }
    return code;
}

int dt_perf_pairs_command(const struct dt_perf_options *options)
{
    static const struct dt_job_funcs funcs = {
        .run_rank = run_rank, .take_frame = take_frame, .finish = finish};
    static struct command command;

    command.options = options;
    if (options->job.rank > 0)
        return dt_job_join(&options->job, &funcs, &command);
    if (options->json_path && !(command.json = fopen(options->json_path, "w"))) {
        dt_arg_refuse("detour perf", "-J %s: %s", options->json_path, strerror(errno));
        return DT_EXIT_USAGE;
    }
    return dt_job_launch(&options->job, &funcs, &command);
}
