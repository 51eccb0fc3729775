/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/exit.h"
#include "detour/version.h"

#define BAR_COLUMNS 15

/* The file is opened without truncating the result of an earlier run, and emptied when it is written. */
bool dt_pipeline_report_init(struct dt_pipeline_report *report, const struct dt_pipeline_options *options,
                             struct dt_job_error *error)
{
    memset(report, 0, sizeof *report);
    report->options = options;
    if (!options->json_path)
        return true;
    report->json_file = fopen(options->json_path, "ae");
    if (!report->json_file)
        return dt_job_fail(error, DT_EXIT_USAGE, "--json %s: cannot write there: %s", options->json_path,
                           strerror(errno));
    report->iterations = json_array();
    return true;
}

void dt_pipeline_report_start(const struct dt_pipeline_report *report)
{
    const struct dt_pipeline_options *options = report->options;

    printf("# detour pipeline, version " DETOUR_VERSION_STRING "\n");
    printf("# %" PRId32 " devices, %" PRId32 " microbatches, schedule %s, mode %s, messages of %" PRIu64
           " bytes\n",
           options->devices, options->microbatches, dt_pipeline_schedule_name(options),
           dt_pipeline_mode_name(options->mode), options->payload_bytes);
    if (options->input)
        printf("# %" PRId32 " stages, times and link delays of --profile\n",
               options->input->profile->stage_count);
    else
        printf("# a stage computes %g ms forward, %g ms backward, %g ms for its weights\n",
               (double)options->f_ns / 1e6, (double)options->b_ns / 1e6, (double)options->w_ns / 1e6);
    if (report->note)
        printf("# %s\n", report->note);
    printf("#\n# %9s  %10s  %12s  %7s  %8s  %6s  %8s\n", "iteration", "time (ms)", "model (ms)", "bubble",
           "held(ms)", "cpu", "schedule");
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

void dt_pipeline_report_iteration(struct dt_pipeline_report *report,
                                  const struct dt_pipeline_iteration *iteration)
{
    double time_ms = (double)iteration->time_ns / 1e6, predicted_ms = (double)iteration->predicted_ns / 1e6;
    const struct dt_pipeline_kill *kill = &report->options->slow.kill;
    bool is_busy = iteration->cpu > DT_PIPELINE_CPU_MAX;

    printf("%11" PRIu32 "  %10.2f  %12.2f  %6.1f%%  %8.2f  %5.1f%%  %8" PRIu32 "%s", iteration->number,
           time_ms, predicted_ms, 100 * iteration->bubble, (double)iteration->held_ns / 1e6,
           100 * iteration->cpu, iteration->schedule, is_busy ? "  not comparable: the cores are busy" : "");
    if (kill->nic[0] && iteration->number == kill->period.from)
        printf("  %s fails: %+.2f ms", kill->nic, time_ms - predicted_ms);
    if (kill->nic[0] && iteration->number == kill->period.to)
        printf("  %s is back", kill->nic);
    if (report->options->draw)
        draw_bar(report, iteration);
    putchar('\n');
    fflush(stdout);
    report->count++;
    report->time_sum_ns += iteration->time_ns;
    report->predicted_sum_ns += iteration->predicted_ns;
    if (iteration->predicted_ns > 0)
        report->error_sum += fabs(time_ms / predicted_ms - 1);
    report->cpu_max = iteration->cpu > report->cpu_max ? iteration->cpu : report->cpu_max;
    report->busy_count += is_busy;
    if (report->iterations)
        json_array_append_new(report->iterations,
                              json_pack("{s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:b, s:I}", "iteration",
                                        (json_int_t)iteration->number, "time_ms", time_ms, "model_ms",
                                        predicted_ms, "bubble", iteration->bubble, "held_ms",
                                        (double)iteration->held_ns / 1e6, "wait_ms",
                                        (double)iteration->wait_ns / 1e6, "cpu", iteration->cpu, "comparable",
                                        !is_busy, "schedule", (json_int_t)iteration->schedule));
}

static void print_summary(const struct dt_pipeline_report *report)
{
    double count = report->count ? report->count : 1;

    printf("#\n# %" PRIu32 " iterations: mean %.2f ms, model %.2f ms, mean difference %.2f %%\n",
           report->count, (double)report->time_sum_ns / 1e6 / count,
           (double)report->predicted_sum_ns / 1e6 / count, 100 * report->error_sum / count);
    printf("# every message had the expected identity and content; cores in use: %.1f %% at most\n",
           100 * report->cpu_max);
    if (report->busy_count)
        printf("# %" PRIu32
               " iterations used more than %.0f %% of the cores: their times are not comparable\n",
               report->busy_count, 100 * DT_PIPELINE_CPU_MAX);
    fflush(stdout);
}

static bool write_json(struct dt_pipeline_report *report, const struct dt_job_error *error)
{
    const struct dt_pipeline_options *options = report->options;
    json_t *document =
        json_pack("{s:i, s:s, s:s, s:s, s:i, s:i, s:I, s:o*, s:s*}", "version", 1, "detour",
                  DETOUR_VERSION_STRING, "schedule", dt_pipeline_schedule_name(options), "mode",
                  dt_pipeline_mode_name(options->mode), "devices", (int)options->devices, "microbatches",
                  (int)options->microbatches, "payload_bytes", (json_int_t)options->payload_bytes,
                  "iterations", report->iterations, "error", error->exit_code ? error->text : NULL);
    bool written = document && ftruncate(fileno(report->json_file), 0) == 0 &&
                   json_dumpf(document, report->json_file, JSON_INDENT(1)) == 0 &&
                   fputc('\n', report->json_file) != EOF;

    json_decref(document);
    return fclose(report->json_file) == 0 && written;
}

bool dt_pipeline_report_finish(struct dt_pipeline_report *report, const struct dt_job_error *error)
{
    if (!error->exit_code) {
        print_summary(report);
    } else {
        fflush(stdout);
        fprintf(stderr, "detour pipeline: %s\n", error->text);
    }
    if (!report->json_file || write_json(report, error))
        return true;
    fprintf(stderr, "detour pipeline: --json %s: could not be written: %s\n", report->options->json_path,
            strerror(errno));
    return false;
}
