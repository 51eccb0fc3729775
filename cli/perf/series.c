/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/series.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/command.h"

#define PERIOD_NS (DT_PERF_SERIES_PERIOD_MS * DT_NS_PER_MS)
#define BINS_MAX  (7u * 86400 * 1000 / DT_PERF_SERIES_PERIOD_MS) /* a week */

/* ---- Files. ---- */

/* Not truncated before new content replaces that of an earlier run. */
static bool open_file(const char *option, const char *path, FILE **file, struct dt_job_error *error)
{
    *file = path ? fopen(path, "ae") : NULL;
    if (path && !*file)
        return dt_job_fail(error, DT_EXIT_USAGE, "%s %s: cannot write there: %s", option, path,
                           strerror(errno));
    return true;
}

/* EINVAL: a pipe or a terminal, which has no content to replace. */
static bool empty_file(FILE *file)
{
    return ftruncate(fileno(file), 0) == 0 || errno == EINVAL;
}

static bool close_file(const char *option, const char *path, FILE *file, int error_number)
{
    if (!file)
        return true;
    if (ferror(file) && !error_number)
        error_number = EIO;
    if (fclose(file) != 0 && !error_number)
        error_number = errno;
    if (!error_number)
        return true;
    fprintf(stderr, "detour perf: %s %s: could not be written: %s\n", option, path, strerror(error_number));
    return false;
}

static void note_error(struct dt_perf_series *series, int error_number)
{
    if (!series->error_number)
        series->error_number = error_number;
}

bool dt_perf_series_init(struct dt_perf_series *series, const struct dt_perf_options *options,
                         struct dt_job_error *error)
{
    memset(series, 0, sizeof *series);
    if (!open_file("--series", options->series_path, &series->lines, error) ||
        !open_file("--plot", options->plot_path, &series->plot, error))
        return false;
    if (series->lines && !empty_file(series->lines))
        note_error(series, errno);
    return true;
}

/* ---- Samples. ---- */

static void write_line(struct dt_perf_series *series, unsigned rank, const struct dt_perf_sample *from,
                       const struct dt_perf_sample *to)
{
    json_t *line =
        json_pack("{s:f, s:f, s:i, s:I, s:I}", "time_s", (double)to->time_ns / DT_NS_PER_S, "interval_s",
                  (double)(to->time_ns - from->time_ns) / DT_NS_PER_S, "rank", (int)rank, "size",
                  (json_int_t)to->size, "bytes", (json_int_t)(to->bytes - from->bytes));

    if (!line || json_dumpf(line, series->lines, JSON_COMPACT | JSON_REAL_PRECISION(9)) ||
        fputc('\n', series->lines) == EOF)
        note_error(series, line ? errno : ENOMEM);
    json_decref(line);
}

static bool make_room(struct dt_perf_series *series, size_t bins)
{
    size_t wanted = series->bins_allocated ? series->bins_allocated : 64;
    double *bigger;

    while (wanted < bins)
        wanted *= 2;
    if (bins > BINS_MAX)
        return false;
    if (wanted > series->bins_allocated) {
        bigger = realloc(series->bin, wanted * sizeof *bigger);
        if (!bigger)
            return false;
        series->bin = bigger;
        series->bins_allocated = wanted;
    }
    for (; series->bins < bins; series->bins++)
        series->bin[series->bins] = 0;
    return true;
}

/* Bytes between two samples are distributed evenly over the time between them. */
static void spread(struct dt_perf_series *series, const struct dt_perf_sample *from,
                   const struct dt_perf_sample *to)
{
    double per_ns = (double)(to->bytes - from->bytes) / (double)(to->time_ns - from->time_ns);

    if (!make_room(series, to->time_ns / PERIOD_NS + 1)) {
        note_error(series, ENOMEM);
        return;
    }
    for (uint64_t at_ns = from->time_ns; at_ns < to->time_ns;) {
        uint64_t bin = at_ns / PERIOD_NS;
        uint64_t end_ns = dt_earlier_ns((bin + 1) * PERIOD_NS, to->time_ns);

        series->bin[bin] += per_ns * (double)(end_ns - at_ns);
        at_ns = end_ns;
    }
}

void dt_perf_series_add(struct dt_perf_series *series, unsigned rank, const struct dt_perf_sample *sample)
{
    struct dt_perf_sample *last = &series->last[rank];

    if (sample->time_ns <= last->time_ns || sample->bytes < last->bytes)
        return;
    if (series->lines)
        write_line(series, rank, last, sample);
    if (series->plot)
        spread(series, last, sample);
    *last = *sample;
}

/* ---- Drawing. ---- */

static double largest(const double *value, size_t count)
{
    double most = 0;

    for (size_t i = 0; i < count; i++)
        most = fmax(most, value[i]);
    return most;
}

/* 1, 2 or 5 times a power of ten, about a quarter of the most: the distance of grid lines. */
static double grid_step(double most)
{
    double power = pow(10, floor(log10(fmax(most, 1) / 4)));
    double digit = fmax(most, 1) / 4 / power;

    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

struct unit {
    double bytes_per_s;
    const char *name;
};

static struct unit unit_of(double most)
{
    return most >= 1e9   ? (struct unit){1e9, "GB/s"}
           : most >= 1e6 ? (struct unit){1e6, "MB/s"}
                         : (struct unit){1e3, "kB/s"};
}

#define TEXT_COLUMNS 80
#define TEXT_ROWS    10

/* The mean of the values that a column stands for. */
static double column_value(const double *value, size_t count, size_t column, size_t per_column)
{
    size_t first = column * per_column;
    size_t end = first + per_column < count ? first + per_column : count;
    double sum = 0;

    for (size_t i = first; i < end; i++)
        sum += value[i];
    return sum / (double)(end - first);
}

void dt_perf_series_text(const double *value, size_t count, FILE *out)
{
    size_t per_column = (count + TEXT_COLUMNS - 1) / TEXT_COLUMNS;
    size_t columns = count ? (count + per_column - 1) / per_column : 0;
    double column[TEXT_COLUMNS];
    double most;
    struct unit unit;

    for (size_t i = 0; i < columns; i++)
        column[i] = column_value(value, count, i, per_column);
    most = largest(column, columns);
    unit = unit_of(most);
    fprintf(out, "# Received by all ranks, in %s; a column is %zu ms\n", unit.name,
            per_column * DT_PERF_SERIES_PERIOD_MS);
    for (int row = TEXT_ROWS; row > 0 && most > 0; row--) {
        fprintf(out, "# %7.4g |", most * row / TEXT_ROWS / unit.bytes_per_s);
        for (size_t i = 0; i < columns; i++)
            fputc(column[i] >= most * (row - 0.5) / TEXT_ROWS ? '#' : ' ', out);
        fputc('\n', out);
    }
    fprintf(out, "# %7d +", 0);
    for (size_t i = 0; i < columns; i++)
        fputc('-', out);
    fprintf(out, " %.1f s\n#\n", (double)count * DT_PERF_SERIES_PERIOD_MS / 1000);
}

#define SVG_WIDTH  800.0
#define SVG_HEIGHT 300.0
#define SVG_LEFT   70.0
#define SVG_RIGHT  20.0
#define SVG_TOP    34.0
#define SVG_BOTTOM 40.0

static double svg_y(double value, double top)
{
    return SVG_HEIGHT - SVG_BOTTOM - value / top * (SVG_HEIGHT - SVG_TOP - SVG_BOTTOM);
}

static void svg_grid(double top, double step, struct unit unit, FILE *out)
{
    for (int i = 0; i * step <= top * 1.0001; i++) {
        double y = svg_y(i * step, top);

        fprintf(out, "<line x1=\"%g\" y1=\"%.1f\" x2=\"%g\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", SVG_LEFT, y,
                SVG_WIDTH - SVG_RIGHT, y);
        fprintf(out, "<text x=\"%g\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", SVG_LEFT - 8, y + 4,
                i * step / unit.bytes_per_s);
    }
}

static void svg_seconds(double seconds, FILE *out)
{
    double step = grid_step(seconds);

    for (int i = 0; i * step <= seconds * 1.0001; i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%g\" text-anchor=\"middle\">%g</text>\n",
                SVG_LEFT + (seconds > 0 ? i * step / seconds : 0) * (SVG_WIDTH - SVG_LEFT - SVG_RIGHT),
                SVG_HEIGHT - SVG_BOTTOM + 18, i * step);
    fprintf(out, "<text x=\"%g\" y=\"%g\" text-anchor=\"middle\">seconds</text>\n", SVG_WIDTH / 2,
            SVG_HEIGHT - 6);
}

/* A step per value, and the area below it. */
static void svg_curve(const double *value, size_t count, double top, FILE *out)
{
    double width = SVG_WIDTH - SVG_LEFT - SVG_RIGHT;

    fprintf(out, "<path fill=\"#9ecae1\" stroke=\"#2171b5\" d=\"M%g %.1f", SVG_LEFT, svg_y(0, top));
    for (size_t i = 0; i < count; i++)
        fprintf(out, " L%.1f %.1f H%.1f", SVG_LEFT + width * (double)i / (double)count, svg_y(value[i], top),
                SVG_LEFT + width * (double)(i + 1) / (double)count);
    fprintf(out, " L%.1f %.1f Z\"/>\n", SVG_WIDTH - SVG_RIGHT, svg_y(0, top));
}

void dt_perf_series_svg(const double *value, size_t count, FILE *out)
{
    double most = largest(value, count);
    struct unit unit = unit_of(most);
    double step = grid_step(most / unit.bytes_per_s) * unit.bytes_per_s;
    double top = fmax(ceil(most / step) * step, step);

    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%g\" height=\"%g\" font-family=\"sans-serif\" "
            "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            SVG_WIDTH, SVG_HEIGHT);
    fprintf(out, "<text x=\"%g\" y=\"20\" font-size=\"14\">Received by all ranks, %s</text>\n", SVG_LEFT,
            unit.name);
    svg_grid(top, step, unit, out);
    svg_curve(value, count, top, out);
    svg_seconds((double)count * DT_PERF_SERIES_PERIOD_MS / 1000, out);
    fprintf(out, "</svg>\n");
}

bool dt_perf_series_finish(struct dt_perf_series *series, const struct dt_perf_options *options, FILE *text)
{
    size_t whole = series->bins > 1 ? series->bins - 1 : series->bins; /* the last period is incomplete */

    for (size_t i = 0; i < series->bins; i++)
        series->bin[i] *= 1000.0 / DT_PERF_SERIES_PERIOD_MS;
    if (series->plot) {
        dt_perf_series_text(series->bin, whole, text);
        if (!empty_file(series->plot))
            note_error(series, errno);
        dt_perf_series_svg(series->bin, whole, series->plot);
    }
    free(series->bin);
    series->bin = NULL;
    /* Both files are closed, whether or not the first one failed. */
    bool has_lines = close_file("--series", options->series_path, series->lines, series->error_number);
    return close_file("--plot", options->plot_path, series->plot, series->error_number) && has_lines;
}
