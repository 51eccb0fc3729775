/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/exit.h"
#include "base/util.h"
#include "cli/pipeline/picture.h"
#include "detour/mitigate.h"
#include "detour/version.h"

#define BAR_COLUMNS 15

/* The file is opened without truncating the result of an earlier run, and emptied when it is written. */
static bool open_output(const char *option, const char *path, FILE **file, struct dt_job_error *error)
{
    if (!path)
        return true;
    *file = fopen(path, "ae");
    return *file ||
           dt_job_fail(error, DT_EXIT_USAGE, "%s %s: cannot write there: %s", option, path, strerror(errno));
}

/* They have no content yet. */
static void close_outputs(struct dt_pipeline_report *report)
{
    FILE **files[] = {&report->json_file, &report->svg_file, &report->perfetto_file};

    for (size_t i = 0; i < DT_COUNT_OF(files); i++) {
        if (*files[i])
            fclose(*files[i]);
        *files[i] = NULL;
    }
}

bool dt_pipeline_report_init(struct dt_pipeline_report *report, const struct dt_pipeline_options *options,
                             struct dt_job_error *error)
{
    bool is_open;

    memset(report, 0, sizeof *report);
    report->options = options;
    is_open = open_output("--json", options->json_path, &report->json_file, error) &&
              open_output("--svg", options->svg_path, &report->svg_file, error) &&
              open_output("--perfetto", options->perfetto_path, &report->perfetto_file, error);
    if (!is_open)
        close_outputs(report);
    else if (options->json_path)
        report->iterations = json_array();
    return is_open;
}

/* "12,20", the microbatches of each replica. */
static void print_counts(const struct dt_pipeline_share_set *set)
{
    for (int32_t i = 0; i < set->replicas; i++)
        printf("%s%" PRId32, i ? "," : " ", set->counts[i]);
}

static void print_shares(const struct dt_pipeline_shares *shares)
{
    if (shares->set_count == 0)
        return;
    printf("# microbatches of the replicas:");
    for (size_t i = 0; i < shares->set_count; i++) {
        if (shares->sets[i].from > 0)
            printf("%s from iteration %" PRIu32 " on", i ? ";" : "", shares->sets[i].from);
        print_counts(&shares->sets[i]);
    }
    putchar('\n');
}

void dt_pipeline_report_start(const struct dt_pipeline_report *report)
{
    const struct dt_pipeline_options *options = report->options;

    printf("# detour pipeline, version " DETOUR_VERSION_STRING "\n");
    if (options->replicas > 1)
        printf("# %" PRId32 " replicas, gradients of %" PRIu64 " bytes per stage, summed up over rings\n",
               options->replicas, options->gradient_bytes);
    printf("# %" PRId32 " devices, %" PRId32 " microbatches, schedule %s, mode %s, messages of %" PRIu64
           " bytes\n",
           options->devices, options->microbatches, dt_pipeline_schedule_name(options),
           dt_pipeline_mode_name(options->mode), options->payload_bytes);
    print_shares(&options->shares);
    if (options->input)
        printf("# %" PRId32 " stages, times and link delays of --profile\n",
               options->input->profile->stage_count);
    else
        printf("# a stage computes %g ms forward, %g ms backward, %g ms for its weights\n",
               (double)options->f_ns / 1e6, (double)options->b_ns / 1e6, (double)options->w_ns / 1e6);
    if (report->note)
        printf("# %s\n", report->note);
    printf("#\n# %9s  %10s  %12s  %7s  %8s  %6s  %8s  %6s%s\n", "iteration", "time (ms)", "model (ms)",
           "bubble", "held(ms)", "cpu", "schedule", "staged", options->replicas > 1 ? "    dp (ms)" : "");
    fflush(stdout);
}

/* BAR_COLUMNS for the model's time of the first iteration. */
static void draw_bar(struct dt_pipeline_report *report, const struct dt_pipeline_iteration *iteration)
{
    static const char bar[] = "############################################################";

    if (report->scale_ns == 0)
        report->scale_ns = iteration->predicted_ns > 0 ? iteration->predicted_ns : 1;
    double columns = BAR_COLUMNS * (double)iteration->time_ns / (double)report->scale_ns;
    printf("  %.*s", columns < (double)sizeof bar - 1 ? (int)columns : (int)sizeof bar - 1, bar);
}

/* Which links are slow, by how much, which ones have the host path by command, and whether it had no room. */
static void print_links(const struct dt_pipeline_iteration *iteration)
{
    for (uint32_t i = 0; i < iteration->slow_count; i++)
        printf("%s %" PRId32 ">%" PRId32 " %+.1f ms", i ? "," : "  slow:", iteration->slow[i].from,
               iteration->slow[i].to, (double)iteration->slow[i].delay_ns / 1e6);
    if (iteration->pool_full)
        printf("  pool full: %" PRIu64 " sends", iteration->pool_full);
    for (uint32_t i = 0; i < iteration->hostpath_count; i++)
        printf("%s %" PRId32 ">%" PRId32, i ? "," : "  host path:", iteration->hostpath[i].from,
               iteration->hostpath[i].to);
}

static const char *const checkpoint_names[] = {
    [DT_PIPELINE_CHECKPOINT_NONE] = NULL,
    [DT_PIPELINE_CHECKPOINT_PERIODIC] = "periodic",
    [DT_PIPELINE_CHECKPOINT_EARLY] = "early",
    [DT_PIPELINE_CHECKPOINT_FAILED] = "failed",
};

static void print_checkpoint(struct dt_pipeline_report *report, const struct dt_pipeline_iteration *iteration)
{
    const struct dt_pipeline_checkpoint_result *checkpoint = &iteration->checkpoint;

    if (!checkpoint->kind)
        return;
    report->checkpoints[checkpoint->kind]++;
    printf("  checkpoint %s: %.1f ms", checkpoint_names[checkpoint->kind], (double)checkpoint->took_ns / 1e6);
    if (checkpoint->kind == DT_PIPELINE_CHECKPOINT_FAILED)
        fprintf(stderr,
                "detour pipeline: no checkpoint after iteration %" PRIu32
                ": %.*s; the one before it stays, and the run goes on\n",
                iteration->number, (int)sizeof checkpoint->reason, checkpoint->reason);
}

static json_t *flows_to_json(const struct dt_pipeline_flow *flows, uint32_t count, bool has_delay)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < count; i++) {
        json_t *flow = json_pack("{s:i, s:i}", "from", (int)flows[i].from, "to", (int)flows[i].to);

        if (has_delay)
            json_object_set_new(flow, "delay_ms", json_real((double)flows[i].delay_ns / 1e6));
        json_array_append_new(array, flow);
    }
    return array;
}

static void add_to_json(json_t *iterations, const struct dt_pipeline_iteration *iteration, bool is_busy)
{
    json_array_append_new(
        iterations,
        json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:I, s:I, s:I, s:f, s:s, s:s*, s:f, "
                  "s:o, s:o}",
                  "iteration", (json_int_t)iteration->number, "begin_ms", (double)iteration->begin_ns / 1e6,
                  "time_ms", (double)iteration->time_ns / 1e6, "model_ms",
                  (double)iteration->predicted_ns / 1e6, "bubble", iteration->bubble, "held_ms",
                  (double)iteration->held_ns / 1e6, "wait_ms", (double)iteration->wait_ns / 1e6, "dp_ms",
                  (double)iteration->dp_ns / 1e6, "cpu", iteration->cpu, "comparable", !is_busy, "schedule",
                  (json_int_t)iteration->schedule, "staged_messages", (json_int_t)iteration->staged,
                  "pool_full", (json_int_t)iteration->pool_full, "pause_ms",
                  (double)iteration->pause_ns / 1e6, "remedy",
                  detour_step_name((enum detour_step)iteration->remedy), "checkpoint",
                  checkpoint_names[iteration->checkpoint.kind], "checkpoint_ms",
                  (double)iteration->checkpoint.took_ns / 1e6, "slow",
                  flows_to_json(iteration->slow, iteration->slow_count, true), "hostpath",
                  flows_to_json(iteration->hostpath, iteration->hostpath_count, false)));
}

/* Iterations and the largest delay of each slow link. */
static void count_links(struct dt_pipeline_report *report, const struct dt_pipeline_iteration *iteration)
{
    for (uint32_t i = 0; i < iteration->slow_count; i++) {
        const struct dt_pipeline_flow *flow = &iteration->slow[i];
        uint32_t k = 0;

        while (k < report->slow_count &&
               (report->slow[k].flow.from != flow->from || report->slow[k].flow.to != flow->to))
            k++;
        if (k == DT_COUNT_OF(report->slow))
            continue;
        if (k == report->slow_count)
            report->slow[report->slow_count++].flow = *flow;
        report->slow[k].iterations++;
        if (report->slow[k].flow.delay_ns < flow->delay_ns)
            report->slow[k].flow.delay_ns = flow->delay_ns;
    }
    report->staged += iteration->staged;
    report->pool_full += iteration->pool_full;
    report->hostpath_count += iteration->hostpath_count > 0;
}

void dt_pipeline_report_iteration(struct dt_pipeline_report *report,
                                  const struct dt_pipeline_iteration *iteration)
{
    double time_ms = (double)iteration->time_ns / 1e6, predicted_ms = (double)iteration->predicted_ns / 1e6;
    const struct dt_pipeline_kill *kill = &report->options->slow.kill;
    bool is_busy = iteration->cpu > DT_PIPELINE_CPU_MAX;

    if (report->count == 0 && iteration->number > 0)
        printf("# continued from the checkpoint after iteration %" PRIu32 "\n", iteration->number - 1);
    printf("%11" PRIu32 "  %10.2f  %12.2f  %6.1f%%  %8.2f  %5.1f%%  %8" PRIu32 "  %6" PRIu64,
           iteration->number, time_ms, predicted_ms, 100 * iteration->bubble,
           (double)iteration->held_ns / 1e6, 100 * iteration->cpu, iteration->schedule, iteration->staged);
    if (report->options->replicas > 1)
        printf("  %9.2f", (double)iteration->dp_ns / 1e6);
    fputs(is_busy ? "  not comparable: the cores are busy" : "", stdout);
    if (kill->nic[0] && iteration->number == kill->period.from)
        printf("  %s fails: %+.2f ms", kill->nic, time_ms - predicted_ms);
    if (kill->nic[0] && iteration->number == kill->period.to)
        printf("  %s is back", kill->nic);
    if (report->options->draw)
        draw_bar(report, iteration);
    print_links(iteration);
    if (iteration->remedy)
        printf("  remedy %s", detour_step_name((enum detour_step)iteration->remedy));
    if (iteration->pause_ns)
        printf("  connections made anew: pause of %.1f ms", (double)iteration->pause_ns / 1e6);
    print_checkpoint(report, iteration);
    putchar('\n');
    fflush(stdout);
    report->is_restart =
        iteration->remedy == DETOUR_STEP_S4 && iteration->number + 1 < report->options->iterations;
    report->count++;
    report->time_sum_ns += iteration->time_ns;
    report->predicted_sum_ns += iteration->predicted_ns;
    report->dp_sum_ns += iteration->dp_ns;
    report->pause_sum_ns += iteration->pause_ns;
    if (iteration->predicted_ns > 0)
        report->error_sum += fabs(time_ms / predicted_ms - 1);
    report->cpu_max = iteration->cpu > report->cpu_max ? iteration->cpu : report->cpu_max;
    report->busy_count += is_busy;
    count_links(report, iteration);
    if (report->iterations)
        add_to_json(report->iterations, iteration, is_busy);
}

static void print_summary(const struct dt_pipeline_report *report)
{
    double count = report->count ? report->count : 1;

    printf("#\n# %" PRIu32 " iterations: mean %.2f ms, model %.2f ms, mean difference %.2f %%\n",
           report->count, (double)report->time_sum_ns / 1e6 / count,
           (double)report->predicted_sum_ns / 1e6 / count, 100 * report->error_sum / count);
    if (report->options->replicas > 1)
        printf("# every gradient was the sum over the replicas; mean %.2f ms behind the pipelines\n",
               (double)report->dp_sum_ns / 1e6 / count);
    if (report->options->exchanges.count)
        printf("# every parameter is what a run without exchanges has; pauses of %.1f ms\n",
               (double)report->pause_sum_ns / 1e6);
    if (report->options->checkpoints.directory)
        printf("# every parameter is what a run without a restart has; %" PRIu32 " checkpoints, %" PRIu32
               " of them early; %" PRIu32 " failed\n",
               report->checkpoints[DT_PIPELINE_CHECKPOINT_PERIODIC] +
                   report->checkpoints[DT_PIPELINE_CHECKPOINT_EARLY],
               report->checkpoints[DT_PIPELINE_CHECKPOINT_EARLY],
               report->checkpoints[DT_PIPELINE_CHECKPOINT_FAILED]);
    if (report->is_restart)
        printf("# ended for the restart that the controller has decided (S4): exit code %d\n",
               DT_EXIT_RESTART);
    printf("# every message had the expected identity and content; cores in use: %.1f %% at most\n",
           100 * report->cpu_max);
    for (uint32_t i = 0; i < report->slow_count; i++)
        printf("# the messages from %" PRId32 " to %" PRId32 " were slow after %" PRIu32
               " iterations, by %.1f ms at most\n",
               report->slow[i].flow.from, report->slow[i].flow.to, report->slow[i].iterations,
               (double)report->slow[i].flow.delay_ns / 1e6);
    if (report->staged)
        printf("# %" PRIu64 " messages went over the host path, by order in %" PRIu32 " iterations\n",
               report->staged, report->hostpath_count);
    if (report->pool_full)
        printf("# the staging memory was full for %" PRIu64
               " sends, which waited for the link as without the host path (DETOUR_HOSTPATH_BYTES)\n",
               report->pool_full);
    if (report->busy_count)
        printf("# %" PRIu32
               " iterations used more than %.0f %% of the cores: their times are not comparable\n",
               report->busy_count, 100 * DT_PIPELINE_CPU_MAX);
    fflush(stdout);
}

/* Closes the file with `text` as its only content, or as it is for NULL. True when `text` is NULL or written.
 */
static bool finish_output(FILE *file, const char *text, size_t bytes)
{
    bool written = !text || (ftruncate(fileno(file), 0) == 0 && fwrite(text, 1, bytes, file) == bytes);

    return fclose(file) == 0 && written;
}

static bool fail_output(const char *option, const char *path)
{
    fprintf(stderr, "detour pipeline: %s %s: could not be written: %s\n", option, path, strerror(errno));
    return false;
}

/* NULL: every replica has --microbatches in every iteration. */
static json_t *shares_to_json(const struct dt_pipeline_shares *shares)
{
    json_t *list = shares->set_count ? json_array() : NULL;

    for (size_t i = 0; i < shares->set_count; i++) {
        json_t *counts = json_array();

        for (int32_t k = 0; k < shares->sets[i].replicas; k++)
            json_array_append_new(counts, json_integer(shares->sets[i].counts[k]));
        json_array_append_new(
            list, json_pack("{s:I, s:o}", "from", (json_int_t)shares->sets[i].from, "microbatches", counts));
    }
    return list;
}

static bool write_json(struct dt_pipeline_report *report, const struct dt_pipeline_picture *picture,
                       const struct dt_job_error *error)
{
    const struct dt_pipeline_options *options = report->options;
    json_t *timeline =
        options->has_timeline_option && picture->arena ? dt_pipeline_picture_json(picture) : NULL;
    json_t *document =
        json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:I, s:i, s:I, s:o*, s:o*, s:o*, s:s*}", "version", 1,
                  "detour", DETOUR_VERSION_STRING, "schedule", dt_pipeline_schedule_name(options), "mode",
                  dt_pipeline_mode_name(options->mode), "devices", (int)options->devices, "microbatches",
                  (int)options->microbatches, "payload_bytes", (json_int_t)options->payload_bytes, "replicas",
                  (int)options->replicas, "gradient_bytes",
                  (json_int_t)(options->replicas > 1 ? options->gradient_bytes : 0), "dp_microbatches",
                  shares_to_json(&options->shares), "iterations", report->iterations, "timeline", timeline,
                  "error", error->exit_code ? error->text : NULL);
    char *text = document ? json_dumps(document, JSON_INDENT(1)) : NULL;
    bool written = finish_output(report->json_file, text ? text : "", text ? strlen(text) : 0) && text;

    free(text);
    json_decref(document);
    return written || fail_output("--json", options->json_path);
}

static bool write_picture(const struct dt_pipeline_picture *picture, enum detour_format format, FILE *file,
                          const char *option, const char *path)
{
    struct detour_text text = {0};
    struct detour_error reason;

    if (!file)
        return true;
    if (picture->arena && !dt_pipeline_picture_write(picture, format, &text, &reason)) {
        fclose(file);
        fprintf(stderr, "detour pipeline: %s %s: %s\n", option, path, reason.text);
        return false;
    }
    return finish_output(file, text.data, text.bytes) || fail_output(option, path);
}

/* Of a run that was successful; else the files stay as they are. */
static bool make_picture(struct dt_pipeline_report *report, const struct dt_job_error *error,
                         struct dt_pipeline_picture *picture)
{
    struct detour_error reason;

    *picture = (struct dt_pipeline_picture){0};
    if (error->exit_code || !dt_pipeline_options_has_timeline(report->options) ||
        dt_pipeline_picture_make(picture, report->options, &report->timeline, &reason))
        return true;
    fprintf(stderr, "detour pipeline: the times of iteration %" PRIu32 ": %s\n",
            report->options->timeline_iteration, reason.text);
    return false;
}

bool dt_pipeline_report_finish(struct dt_pipeline_report *report, const struct dt_job_error *error)
{
    const struct dt_pipeline_options *options = report->options;
    struct dt_pipeline_picture picture;

    if (!error->exit_code) {
        print_summary(report);
    } else {
        fflush(stdout);
        fprintf(stderr, "detour pipeline: %s\n", error->text);
    }
    bool is_good = make_picture(report, error, &picture);
    is_good &= !report->json_file || write_json(report, &picture, error);
    is_good &= write_picture(&picture, DETOUR_FORMAT_SVG, report->svg_file, "--svg", options->svg_path);
    is_good &= write_picture(&picture, DETOUR_FORMAT_TRACE, report->perfetto_file, "--perfetto",
                             options->perfetto_path);
    dt_pipeline_picture_free(&picture);
    dt_pipeline_timeline_free(&report->timeline);
    return is_good;
}
