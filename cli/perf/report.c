/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/report.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"
#include "detour/version.h"

#define STATUS_PERIOD_NS (10 * DT_NS_PER_S) /* when standard error is no terminal */

/* The file is opened without truncating the result of an earlier run, and emptied when it is written. */
bool dt_perf_report_init(struct dt_perf_report *report, const struct dt_perf_options *options, int argc,
                         char **argv, struct dt_job_error *error)
{
    memset(report, 0, sizeof *report);
    report->options = options;
    if (!dt_perf_series_init(&report->series, options, error))
        return false;
    if (!options->json_path)
        return true;
    report->json_file = fopen(options->json_path, "ae");
    if (!report->json_file)
        return dt_job_fail(error, DT_EXIT_USAGE, "-J %s: cannot write there: %s", options->json_path,
                           strerror(errno));
    report->json = dt_perf_json_create(options, argc, argv);
    return true;
}

static void print_ranks(const struct dt_perf_rank_info *ranks, unsigned count)
{
    for (unsigned rank = 0; rank < count; rank++) {
        const struct dt_perf_rank_info *info = &ranks[rank];

        printf("#  Rank %2u Pid %6d on %10s devices %s\n", rank, info->pid, info->host, info->devices);
    }
}

static void print_column_titles(void)
{
    const char *half_titles = "     time   algbw   busbw  #wrong";
    const char *half_units = "     (us)  (GB/s)  (GB/s)        ";

    printf("#\n");
    printf("# %10s  %12s  %8s  %6s  %6s  %15s out-of-place  %18s in-place\n", "", "", "", "", "", "", "");
    printf("# %10s  %12s  %8s  %6s  %6s%s%s\n", "size", "count", "type", "redop", "root", half_titles,
           half_titles);
    printf("# %10s  %12s  %8s  %6s  %6s%s%s\n", "(B)", "(elements)", "", "", "", half_units, half_units);
}

void dt_perf_report_start(struct dt_perf_report *report, const struct dt_perf_start *start,
                          const struct dt_perf_rank_info *ranks)
{
    const struct dt_perf_options *options = report->options;
    bool by_factor = options->step_factor > 1;

    printf("# detour perf %s, version " DETOUR_VERSION_STRING "\n", options->op->name);
    printf("# ranks %u minBytes %" PRIu64 " maxBytes %" PRIu64 " step: %" PRIu64 "(%s) warmup iters: %" PRIu64
           " iters: %" PRIu64 " validation: %d\n",
           options->job.ranks, options->bytes_min, options->bytes_max,
           by_factor ? options->step_factor : options->step_bytes, by_factor ? "factor" : "bytes",
           options->warmup_iterations, options->iterations, options->check);
    printf("# plugin %s, %u %s per neighbor", start->plugin, start->channels,
           start->channels == 1 ? "channel" : "channels");
    if (options->raw)
        printf(", raw messages, window %u", options->window);
    printf("\n");
    if (report->note && !strcmp(start->plugin, "Detour"))
        printf("# %s\n", report->note);
    printf("# Using devices\n");
    print_ranks(ranks, options->job.ranks);
    print_column_titles();
    fflush(stdout);
    dt_perf_json_start(report->json, start, ranks, options);
}

/* At most `width` characters: fewer decimals as the number grows. */
static void print_number(double value, int width)
{
    int decimals = 2;
    double limit = 1;

    for (int digits = 1; digits < width - 2; digits++)
        limit *= 10;
    for (; decimals && value >= limit - 0.005; limit *= 10)
        decimals--;
    printf("  %*.*f", width, decimals, value);
}

static void print_column(const struct dt_perf_column *column)
{
    if (!column->ran) {
        printf("  %7s  %6s  %6s  %6s", "N/A", "N/A", "N/A", "N/A");
        return;
    }
    print_number(column->time_us, 7);
    print_number(column->alg_bw, 6);
    print_number(column->bus_bw, 6);
    if (column->wrong < 0)
        printf("  %6s", "N/A");
    else
        printf("  %6g", (double)column->wrong);
}

static void clear_status(struct dt_perf_report *report)
{
    if (report->status_shown)
        fputs("\r\033[K", stderr);
    report->status_shown = false;
}

void dt_perf_report_row(struct dt_perf_report *report, const struct dt_perf_row *row)
{
    const struct dt_perf_options *options = report->options;

    clear_status(report);
    printf("%12" PRIu64 "  %12" PRIu64 "  %8s  %6s  %6d", row->bytes, row->count, options->type->name,
           options->op->reduces ? dt_perf_redop_name(options->redop) : "none",
           options->op->has_root ? 0 : -1);
    for (int i = 0; i < DT_PERF_COLUMNS; i++) {
        const struct dt_perf_column *column = &row->columns[i];

        print_column(column);
        if (!column->ran)
            continue;
        report->bus_bw_sum += column->bus_bw;
        report->bus_bw_count++;
        if (column->wrong > 0)
            report->wrong += (uint64_t)column->wrong;
    }
    printf("\n");
    if (row->first_wrong[0])
        printf("# wrong data at %" PRIu64 " bytes: %s\n", row->bytes, row->first_wrong);
    fflush(stdout);
    dt_perf_json_row(report->json, row, options);
}

void dt_perf_report_status(struct dt_perf_report *report, const char *text, uint64_t now_ns)
{
    bool terminal = isatty(STDERR_FILENO);

    if (!terminal && now_ns < report->status_due_ns)
        return;
    if (terminal)
        fprintf(stderr, "\r# %s\033[K", text);
    else if (report->status_due_ns) /* no line in the first period: most runs are shorter */
        fprintf(stderr, "# %s\n", text);
    report->status_shown = terminal;
    report->status_due_ns = dt_deadline_ns(now_ns, STATUS_PERIOD_NS);
}

bool dt_perf_report_finish(struct dt_perf_report *report, const struct dt_job_error *error)
{
    double average = report->bus_bw_count ? report->bus_bw_sum / report->bus_bw_count : 0;
    bool is_written;

    clear_status(report);
    if (!error->exit_code) {
        printf("# %-20s : %" PRIu64 " %s\n", "Out of bounds values", report->wrong,
               report->wrong ? "FAILED" : "OK");
        printf("# %-20s : %g\n", "Avg bus bandwidth", average);
        printf("#\n");
        fflush(stdout);
    } else {
        fflush(stdout);
        fprintf(stderr, "detour perf: %s\n", error->text);
    }
    is_written = dt_perf_series_finish(&report->series, report->options, stdout);
    fflush(stdout);
    if (!report->json_file ||
        dt_perf_json_finish(report->json, report->json_file, report->wrong, average, error))
        return is_written;
    fprintf(stderr, "detour perf: -J %s: could not be written: %s\n", report->options->json_path,
            strerror(errno));
    return false;
}
