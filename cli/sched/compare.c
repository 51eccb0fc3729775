/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched compare`: every algorithm on one profile. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/sched/run.h"

enum { NS_PER_MS = 1000000, COLUMNS = 110, TABLE_COLUMNS = 80, BAR_COLUMNS_MIN = 10 };

/* One algorithm's result; without a plan `problem` is the reason. */
struct row {
    enum detour_algorithm algorithm;
    const struct detour_plan *plan;
    const struct detour_report *report;
    int64_t planning_ns;
    char problem[DETOUR_ERROR_TEXT_BYTES];
};

struct table {
    struct row rows[DETOUR_ALGORITHM_COUNT];
    int row_count;
    int64_t lower_bound_ns; /* the highest one found; 0: none */
    int64_t best_ns;
    int64_t worst_ns;
};

static int run_algorithm(struct dt_sched_run *run, enum detour_algorithm algorithm, struct row *row)
{
    struct detour_options generate;
    struct detour_report *report = NULL;
    struct detour_plan *plan = NULL;
    uint64_t deadline_ns;

    int code = dt_sched_set_budget(run, &generate, &deadline_ns);
    if (code != DT_EXIT_OK)
        return code;
    *row = (struct row){.algorithm = algorithm};
    generate.algorithm = algorithm;
    uint64_t begin_ns = dt_clock_now_ns();
    enum detour_status status = detour_generate(run->arena, run->profile, &generate, &plan, &run->error);

    row->planning_ns = (int64_t)(dt_clock_now_ns() - begin_ns);
    if (!status)
        status = detour_simulate(run->arena, run->profile, plan->schedule, &report, &run->error);
    if (status == DETOUR_NO_MEMORY || status == DETOUR_INTERNAL)
        return dt_sched_fail(run, run->options->profile_path);
    if (status)
        memcpy(row->problem, run->error.text, sizeof(row->problem));
    row->plan = status ? NULL : plan;
    row->report = report;
    return DT_EXIT_OK;
}

static int fill_table(struct dt_sched_run *run, struct table *table)
{
    *table = (struct table){.best_ns = INT64_MAX};
    for (int i = 0; i < DETOUR_ALGORITHM_COUNT; i++) {
        struct row *row = &table->rows[table->row_count];
        if (!detour_algorithm_name((enum detour_algorithm)i))
            continue;
        int code = run_algorithm(run, (enum detour_algorithm)i, row);
        if (code != DT_EXIT_OK)
            return code;
        table->row_count++;
        if (!row->plan)
            continue;
        int64_t makespan_ns = row->plan->makespan_ns;
        table->best_ns = makespan_ns < table->best_ns ? makespan_ns : table->best_ns;
        table->worst_ns = makespan_ns > table->worst_ns ? makespan_ns : table->worst_ns;
        if (row->plan->lower_bound_ns > table->lower_bound_ns)
            table->lower_bound_ns = row->plan->lower_bound_ns;
    }
    return DT_EXIT_OK;
}

static int32_t peak_inflight(const struct dt_sched_run *run, const struct row *row)
{
    int32_t peak = 0;

    for (int32_t i = 0; i < run->profile->stage_count; i++)
        if (row->report->stages[i].peak_inflight > peak)
            peak = row->report->stages[i].peak_inflight;
    return peak;
}

static int64_t peak_bytes(const struct dt_sched_run *run, const struct row *row)
{
    int64_t peak = 0;

    for (int32_t d = 0; d < run->profile->device_count; d++)
        if (row->report->devices[d].peak_bytes > peak)
            peak = row->report->devices[d].peak_bytes;
    return peak;
}

static json_t *ms_json(int64_t time_ns)
{
    return time_ns % NS_PER_MS ? json_real((double)time_ns / NS_PER_MS) : json_integer(time_ns / NS_PER_MS);
}

static json_t *row_json(const struct dt_sched_run *run, const struct row *row)
{
    const char *name = detour_algorithm_name(row->algorithm);

    if (!row->plan)
        return json_pack("{s:s, s:s}", "algorithm", name, "problem", row->problem);
    return json_pack("{s:s, s:s, s:o, s:o, s:o, s:b, s:f, s:f, s:i, s:I, s:f}", "algorithm", name, "made_by",
                     detour_algorithm_name(row->plan->algorithm), "makespan_ms",
                     ms_json(row->plan->makespan_ns), "longest_span_ms", ms_json(row->plan->longest_span_ns),
                     "lower_bound_ms", ms_json(row->plan->lower_bound_ns), "proven_optimal",
                     (int)row->plan->proven_optimal, "bubble_ratio_makespan",
                     row->report->bubble_ratio_makespan, "bubble_ratio_span", row->report->bubble_ratio_span,
                     "peak_inflight", (int)peak_inflight(run, row), "peak_bytes",
                     (json_int_t)peak_bytes(run, row), "planning_ms", (double)row->planning_ns / NS_PER_MS);
}

static int write_json(struct dt_sched_run *run, const struct table *table)
{
    json_t *rows = json_array();

    for (int i = 0; i < table->row_count; i++) {
        if (json_array_append_new(rows, row_json(run, &table->rows[i]))) {
            json_decref(rows);
            rows = NULL;
            break;
        }
    }
    return dt_sched_write_json(run, rows ? json_pack("{s:i, s:o, s:o}", "version", 1, "lower_bound_ms",
                                                     ms_json(table->lower_bound_ns), "algorithms", rows)
                                         : NULL);
}

static double ms(int64_t time_ns)
{
    return (double)time_ns / NS_PER_MS;
}

/* The time above the bound could be avoided, as far as is known. */
static int64_t bar_base(const struct table *table)
{
    return table->lower_bound_ns ? table->lower_bound_ns : table->best_ns;
}

static double excess(const struct table *table, int64_t makespan_ns)
{
    int64_t base_ns = bar_base(table);

    return base_ns > 0 && makespan_ns > base_ns ? (double)(makespan_ns - base_ns) / (double)base_ns : 0;
}

static int bar_columns(const struct dt_sched_run *run)
{
    int columns = (run->options->picture.columns ? run->options->picture.columns : COLUMNS) - TABLE_COLUMNS;

    return columns > BAR_COLUMNS_MIN ? columns : BAR_COLUMNS_MIN;
}

/* From the bound (left) to the worst of all (right). */
static void text_bar(FILE *out, const struct dt_sched_run *run, const struct table *table,
                     const struct row *row)
{
    double worst = excess(table, table->worst_ns);
    double share = worst > 0 ? excess(table, row->plan->makespan_ns) / worst : 0;
    int columns = (int)(share * bar_columns(run) + 0.5);

    fputs(" |", out);
    for (int i = 0; i < columns; i++)
        fputs(run->options->picture.ascii ? "#" : "\u2588", out);
    fputs(row->plan->makespan_ns == table->lower_bound_ns ? " optimal" : "", out);
}

static void text_rows(FILE *out, const struct dt_sched_run *run, const struct table *table)
{
    fprintf(out, "%-15s %11s %11s %9s %9s %4s %8s %7s\n", "algorithm", "makespan ms", "span ms", "bubbles %",
            "in span %", "peak", "plan ms", "above %");
    for (int i = 0; i < table->row_count; i++) {
        const struct row *row = &table->rows[i];
        fprintf(out, "%-15s ", detour_algorithm_name(row->algorithm));
        if (!row->plan) {
            fprintf(out, "none: %s\n", row->problem);
            continue;
        }
        fprintf(out, "%11.3f %11.3f %9.2f %9.2f %4" PRId32 " %8.2f %7.2f", ms(row->plan->makespan_ns),
                ms(row->plan->longest_span_ns), 100 * row->report->bubble_ratio_makespan,
                100 * row->report->bubble_ratio_span, peak_inflight(run, row), ms(row->planning_ns),
                100 * excess(table, row->plan->makespan_ns));
        text_bar(out, run, table, row);
        fputc('\n', out);
    }
}

static void write_text(FILE *out, const struct dt_sched_run *run, const struct table *table)
{
    const struct detour_profile *profile = run->profile;

    fprintf(out, "%" PRId32 " stages on %" PRId32 " devices, %" PRId32 " microbatches", profile->stage_count,
            profile->device_count, profile->microbatch_count);
    if (table->lower_bound_ns)
        fprintf(out, "; no schedule is below %.3f ms", ms(table->lower_bound_ns));
    fputc('\n', out);
    text_rows(out, run, table);
    fprintf(out,
            "bubbles: idle share of devices x makespan; in span: of the longest stage span; peak: most "
            "microbatches\nin flight on a stage; above: makespan above the %s, and as a bar\n",
            table->lower_bound_ns ? "lower bound" : "best");
}

static void svg_row(FILE *out, const struct table *table, const struct row *row, int y)
{
    enum { LEFT = 150, WIDTH = 520 };

    fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8, y + 13,
            detour_algorithm_name(row->algorithm));
    if (!row->plan) {
        fprintf(out, "<text x=\"%d\" y=\"%d\" class=\"s\">not possible for this profile</text>\n", LEFT + 6,
                y + 13);
        return;
    }
    double scale = (double)WIDTH / (double)(table->worst_ns > 0 ? table->worst_ns : 1);
    double busy = (double)row->plan->makespan_ns * (1 - row->report->bubble_ratio_makespan) * scale;
    double width = (double)row->plan->makespan_ns * scale;

    fprintf(out,
            "<rect x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"16\" fill=\"#f1d0c4\"/>\n"
            "<rect x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"16\" fill=\"#7fb2e5\"/>\n",
            LEFT, y, width, LEFT, y, busy);
    fprintf(out, "<text x=\"%.2f\" y=\"%d\">%.3f ms%s</text>\n", LEFT + width + 6, y + 13,
            ms(row->plan->makespan_ns), row->plan->proven_optimal ? ", optimal" : "");
    if (table->lower_bound_ns)
        fprintf(out, "<line x1=\"%.2f\" x2=\"%.2f\" y1=\"%d\" y2=\"%d\" stroke=\"#c22\"/>\n",
                LEFT + (double)table->lower_bound_ns * scale, LEFT + (double)table->lower_bound_ns * scale,
                y - 3, y + 19);
}

static void write_svg(FILE *out, const struct dt_sched_run *run, const struct table *table)
{
    enum { TOP = 54, ROW = 24, WIDTH = 860 };
    int height = TOP + ROW * table->row_count + 12;

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n"
            "<style>text{font:12px Helvetica,Arial,sans-serif;fill:#222}.t{font-size:15px;font-weight:bold}"
            ".s{fill:#777}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
            WIDTH, height, WIDTH, height);
    fprintf(out,
            "<text class=\"t\" x=\"12\" y=\"22\">%" PRId32 " stages, %" PRId32 " microbatches</text>\n"
            "<text class=\"s\" x=\"12\" y=\"40\">makespan: work (blue) and bubbles, average device; "
            "red: no schedule is below</text>\n",
            run->profile->stage_count, run->profile->microbatch_count);
    for (int i = 0; i < table->row_count; i++)
        svg_row(out, table, &table->rows[i], TOP + ROW * i);
    fputs("</svg>\n", out);
}

/* Writes the output of `write` to a file or standard output. */
static int write_with(void write(FILE *out, const struct dt_sched_run *run, const struct table *table),
                      struct dt_sched_run *run, const struct table *table, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    int code = DT_EXIT_OK;

    if (!out)
        return dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    write(out, run, table);
    if (fclose(out) != 0)
        code = dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    if (code == DT_EXIT_OK)
        code = dt_sched_write_file(run, path, text, bytes);
    free(text);
    return code;
}

int dt_sched_compare(struct dt_sched_run *run)
{
    struct dt_sched_options *options = run->options;
    static struct table table;

    if (!options->has_format && !options->out_path && isatty(STDOUT_FILENO))
        options->format = DETOUR_FORMAT_TEXT;

    int code = fill_table(run, &table);
    if (code == DT_EXIT_OK && options->svg_path)
        code = write_with(write_svg, run, &table, options->svg_path);
    if (code != DT_EXIT_OK)
        return code;
    if (options->format == DETOUR_FORMAT_JSON)
        return write_json(run, &table);
    return write_with(options->format == DETOUR_FORMAT_SVG ? write_svg : write_text, run, &table,
                      options->out_path);
}
