/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched optimize`: partition, placement and schedule of a model. */
#include "cli/sched/optimize.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

enum { PROGRESS_NS = 100000000 };

struct progress {
    uint64_t next_ns;
    bool shown;
};

/* A line on standard error that overwrites itself. */
static bool show_progress(void *arg, const struct detour_optimize_progress *now)
{
    struct progress *progress = arg;

    if (dt_clock_now_ns() < progress->next_ns)
        return false;
    progress->next_ns = dt_clock_now_ns() + PROGRESS_NS;
    progress->shown = true;
    fprintf(stderr, "\r\033[K%s: %3.0f %% of the budget", now->phase,
            100 * (double)now->effort / (double)now->budget);
    if (now->best_ns)
        fprintf(stderr, ", best %.3f ms, %.2f %% above the bound", (double)now->best_ns / 1e6,
                100 * ((double)now->best_ns / (double)now->lower_bound_ns - 1));
    fflush(stderr);
    return false;
}

static int read_model(struct dt_sched_run *run, struct detour_model **model)
{
    const char *path = run->options->optimize.model_path;
    size_t bytes;
    char *data;

    int code = dt_sched_read_file(run, path, &data, &bytes);
    if (code != DT_EXIT_OK)
        return code;
    if (detour_model_from_json(run->arena, dt_sched_name_of(path), data, bytes, model, &run->error))
        code = dt_sched_fail(run, NULL);
    free(data);
    return code;
}

static int search_model(struct dt_sched_run *run, const struct detour_model *model,
                        struct detour_optimization **result)
{
    struct progress progress = {.next_ns = dt_clock_now_ns() + PROGRESS_NS};

    if (isatty(STDERR_FILENO)) {
        run->options->optimize.search.progress = show_progress;
        run->options->optimize.search.progress_arg = &progress;
    }
    enum detour_status status =
        detour_optimize(run->arena, model, &run->options->optimize.search, result, &run->error);
    if (progress.shown)
        fputs("\r\033[K", stderr);
    return status ? dt_sched_fail(run, run->options->optimize.model_path) : DT_EXIT_OK;
}

/* The pipeline of the model without the slowness, with only its schedule made anew. */
static int find_kept(struct dt_optimize_run *r, const struct detour_model *slow_model)
{
    struct detour_optimization *healthy, *kept;
    struct detour_model fixed = *slow_model;

    int code = search_model(r->run, r->model, &healthy);
    if (code != DT_EXIT_OK)
        return code;
    fixed.fixed = healthy->best.partition;
    code = search_model(r->run, &fixed, &kept);
    if (code == DT_EXIT_OK)
        r->kept = &kept->best;
    return code;
}

/* With --slow-link or --slow-device: makes *slow_model the run's model, and finds r->kept. */
static int slow_down(struct dt_optimize_run *r, struct detour_model *slow_model)
{
    const struct dt_optimize_slow *slow = &r->run->options->optimize.slow;
    int32_t last = dt_optimize_slow_last(slow);
    size_t count = (size_t)r->model->device_count;

    if (last < 0)
        return DT_EXIT_OK;
    if (last >= r->model->device_count)
        return dt_sched_say(r->run->options, DT_EXIT_USAGE,
                            "--slow-link, --slow-device: there is no device %" PRId32
                            "; devices of the model are 0 to %" PRId32,
                            last, r->model->device_count - 1);
    r->slow_links = calloc(count * count, sizeof(*r->slow_links));
    r->slow_devices = calloc(count, sizeof(*r->slow_devices));
    if (!r->slow_links || !r->slow_devices)
        return dt_sched_say(r->run->options, DT_EXIT_FAILED, "out of memory");
    dt_optimize_slow_apply(slow, r->model, r->slow_links, r->slow_devices);
    *slow_model = *r->model;
    slow_model->links = r->slow_links;
    slow_model->devices = r->slow_devices;
    int code = find_kept(r, slow_model);
    r->model = slow_model;
    return code;
}

/* Keeping partition and placement is a candidate, too. */
static int search(struct dt_optimize_run *r)
{
    int code = search_model(r->run, r->model, &r->result);

    if (code == DT_EXIT_OK && r->kept &&
        r->kept->performance->iteration_ns < r->result->best.performance->iteration_ns)
        r->result->best = *r->kept;
    return code;
}

/* The schedule in one of the formats of sched/. */
static int format_plan(const struct dt_optimize_run *r, enum detour_format format, struct detour_text *text)
{
    const struct detour_pipeline *best = &r->result->best;
    struct dt_sched_run *run = r->run;

    if (detour_plan_write(run->arena, best->profile, best->plan, format, &run->options->picture, text,
                          &run->error))
        return dt_sched_fail(run, NULL);
    return DT_EXIT_OK;
}

static int write_side_files(const struct dt_optimize_run *r)
{
    const struct dt_sched_options *options = r->run->options;
    struct detour_text text;
    int code = DT_EXIT_OK;

    if (options->optimize.profile_out) {
        if (detour_profile_to_json(r->run->arena, r->result->best.profile, &text, &r->run->error))
            return dt_sched_fail(r->run, NULL);
        code = dt_sched_write_file(r->run, options->optimize.profile_out, text.data, text.bytes);
    }
    if (code == DT_EXIT_OK && options->optimize.schedule_out) {
        code = format_plan(r, DETOUR_FORMAT_JSON, &text);
        if (code == DT_EXIT_OK)
            code = dt_sched_write_file(r->run, options->optimize.schedule_out, text.data, text.bytes);
    }
    if (code == DT_EXIT_OK && options->optimize.svg_path) {
        code = format_plan(r, DETOUR_FORMAT_SVG, &text);
        if (code == DT_EXIT_OK)
            code = dt_optimize_write_svg(r, &text, options->optimize.svg_path);
    }
    return code;
}

static int write_result(const struct dt_optimize_run *r)
{
    const struct dt_sched_options *options = r->run->options;
    struct detour_text text;

    if (options->optimize.json || options->format == DETOUR_FORMAT_JSON)
        return dt_optimize_write_json(r);
    int code = format_plan(r, options->format, &text);
    if (code != DT_EXIT_OK)
        return code;
    if (options->format == DETOUR_FORMAT_TEXT)
        return dt_optimize_write_text(r, &text);
    if (options->format == DETOUR_FORMAT_SVG)
        return dt_optimize_write_svg(r, &text, options->out_path);
    return dt_sched_write(r->run, text.data, text.bytes);
}

int dt_sched_optimize(struct dt_sched_run *run)
{
    struct dt_sched_options *options = run->options;
    struct dt_optimize_run r = {.run = run};
    struct detour_model *model, slow_model;

    if (!options->optimize.model_path)
        return dt_sched_say(options, DT_EXIT_USAGE, "the model file is missing, as in %s MODEL.json",
                            options->command);
    if (!options->optimize.json && !options->has_format && !options->out_path && isatty(STDOUT_FILENO))
        options->format = DETOUR_FORMAT_TEXT;
    int code = read_model(run, &model);
    r.model = model;
    if (code == DT_EXIT_OK)
        code = slow_down(&r, &slow_model);
    if (code == DT_EXIT_OK)
        code = search(&r);
    if (code == DT_EXIT_OK)
        code = write_side_files(&r);
    if (code == DT_EXIT_OK)
        code = write_result(&r);
    free(r.slow_links);
    free(r.slow_devices);
    return code;
}
