/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Gantt chart as text: per device a line with its operations (kind and microbatch, then a line in the
 * style of the kind) and a line with its memory. A column is a fixed time; an operation that starts within
 * a column is drawn in the column that holds most of it.
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

#include "sched/format/format.h"

enum { COLUMNS_MIN = 40, COLUMNS_MAX = 4096, LABEL_COLUMNS = 12, TICK_COLUMNS = 16, CELL_BYTES = 16 };

/* The character set: UTF-8 or ASCII. */
struct look {
    const char *fill[4]; /* by enum detour_op_kind */
    const char *idle;
    const char *levels[9]; /* memory in eighths of the highest peak */
};

static const struct look utf8_look = {
    .fill = {"\u2501", "\u2500", "\u2504", "\u2550"},
    .idle = "\u00b7",
    .levels = {" ", "\u2581", "\u2582", "\u2583", "\u2584", "\u2585", "\u2586", "\u2587", "\u2588"}};
static const struct look ascii_look = {
    .fill = {"=", "-", "~", "#"}, .idle = ".", .levels = {" ", "1", "2", "3", "4", "5", "6", "7", "8"}};
static const char *const colors[4] = {"\033[34m", "\033[33m", "\033[32m", "\033[31m"};

struct gantt {
    const struct dt_write *w;
    struct dt_text *text;
    const struct look *look;
    int64_t start_ns;
    int64_t span_ns;
    int64_t columns; /* for the whole span */
};

static int64_t column_of(const struct gantt *g, int64_t time_ns)
{
    return (int64_t)(((__int128)(time_ns - g->start_ns) * g->columns * 2 + g->span_ns) /
                     (2 * (__int128)g->span_ns));
}

/* As many columns as name every microbatch in the shortest operation, if the caller sets no limit. */
static void set_scale(struct gantt *g)
{
    const struct detour_schedule *s = g->w->schedule;
    int64_t first_ns = INT64_MAX, last_ns = 0, shortest_ns = INT64_MAX;
    char longest[CELL_BYTES];

    for (size_t i = 0; i < s->op_count; i++) {
        int64_t duration_ns = s->ops[i].finish_ns - s->ops[i].start_ns;
        first_ns = s->ops[i].start_ns < first_ns ? s->ops[i].start_ns : first_ns;
        last_ns = s->ops[i].finish_ns > last_ns ? s->ops[i].finish_ns : last_ns;
        shortest_ns = duration_ns > 0 && duration_ns < shortest_ns ? duration_ns : shortest_ns;
    }
    g->start_ns = first_ns;
    g->span_ns = last_ns > first_ns ? last_ns - first_ns : 1;
    int op_columns = snprintf(longest, sizeof(longest), "F%" PRId32, s->microbatch_count - 1);
    __int128 columns = shortest_ns < INT64_MAX ? (__int128)op_columns * g->span_ns / shortest_ns : 0;
    int64_t limit = g->w->options->columns > 0 ? g->w->options->columns - LABEL_COLUMNS : COLUMNS_MAX;

    limit = limit < COLUMNS_MIN ? COLUMNS_MIN : limit > COLUMNS_MAX ? COLUMNS_MAX : limit;
    g->columns = columns < COLUMNS_MIN ? COLUMNS_MIN : columns > limit ? limit : (int64_t)columns;
}

/* Not the first stage of its device. */
static bool is_later_stage(const struct gantt *g, int32_t stage)
{
    const struct dt_problem *p = g->w->p;

    return p->device_stages[p->device_first[p->device[stage]]] != stage;
}

static void add_op(struct gantt *g, const struct detour_op *op, int64_t width)
{
    char name[CELL_BYTES];
    int length = snprintf(name, sizeof(name), "%s%" PRId32, detour_op_name((enum detour_op_kind)op->kind),
                          op->microbatch);

    if (width <= 0)
        return;
    if (is_later_stage(g, op->stage))
        for (char *c = name; *c; c++)
            *c = (char)tolower((unsigned char)*c);
    if (length > width) /* F1 for F10 would be wrong, F is not */
        length = 1;
    if (g->w->options->color)
        dt_text_add(g->text, colors[op->kind]);
    dt_text_add_bytes(g->text, name, (size_t)length);
    dt_text_repeat(g->text, g->look->fill[op->kind], width - length);
    if (g->w->options->color)
        dt_text_add(g->text, "\033[0m");
}

static void add_label(struct gantt *g, const char *label)
{
    dt_text_printf(g->text, "%-*s", LABEL_COLUMNS, label);
}

static void add_device(struct gantt *g, int32_t device)
{
    const struct detour_schedule *s = g->w->schedule;
    char label[32];
    int64_t column = 0;

    snprintf(label, sizeof(label), "device %" PRId32, device);
    add_label(g, label);
    for (size_t i = s->first[device]; i < s->first[device + 1]; i++) {
        int64_t begin = column_of(g, s->ops[i].start_ns), end = column_of(g, s->ops[i].finish_ns);
        dt_text_repeat(g->text, g->look->idle, begin - column);
        add_op(g, &s->ops[i], end - (begin > column ? begin : column));
        column = end > column ? end : column;
    }
    dt_text_repeat(g->text, g->look->idle, g->columns - column);
    dt_text_add(g->text, "\n");
}

/* The most that the device holds in each column's time, in eighths of `top`, rounded up. */
static void add_memory(struct gantt *g, const struct dt_usage *usage, int32_t device, int64_t top)
{
    size_t step = usage->first[device], end = usage->first[device + 1];
    int64_t value = 0;
    size_t before = g->text->bytes;

    dt_text_add(g->text, " max ");
    dt_text_add_usage(g->text, usage, usage->peak[device]);
    dt_text_repeat(g->text, " ", LABEL_COLUMNS - (int64_t)(g->text->bytes - before));
    for (int64_t column = 0; column < g->columns; column++) {
        int64_t most = value;
        for (; step < end && column_of(g, usage->steps[step].time_ns) <= column; step++) {
            value = usage->steps[step].value;
            most = value > most ? value : most;
        }
        dt_text_add(g->text, g->look->levels[((__int128)most * 8 + top - 1) / top]);
    }
    dt_text_add(g->text, "\n");
}

/* Ticks at round times, in nanoseconds, that are far enough apart for their labels. */
static void add_axis(struct gantt *g)
{
    int64_t step_ns = dt_round_step(g->span_ns, g->columns, TICK_COLUMNS);
    int64_t used = 0;

    add_label(g, "ms");
    for (int64_t t_ns = 0; t_ns < g->span_ns; t_ns += step_ns) {
        int64_t column = column_of(g, g->start_ns + t_ns);
        if (t_ns && column < used)
            continue;
        dt_text_repeat(g->text, " ", column - used);
        size_t before = g->text->bytes;
        dt_text_add(g->text, "|");
        dt_text_add_ms(g->text, g->start_ns + t_ns);
        if (column + (int64_t)(g->text->bytes - before) > g->columns)
            dt_text_cut(g->text, before + 1); /* no room for the number */
        used = column + (int64_t)(g->text->bytes - before);
    }
    dt_text_add(g->text, "\n");
}

static int64_t highest_peak(const struct dt_usage *usage, int32_t device_count)
{
    int64_t top = 1;

    for (int32_t d = 0; d < device_count; d++)
        top = usage->peak[d] > top ? usage->peak[d] : top;
    return top;
}

enum detour_status dt_write_gantt(const struct dt_write *w, struct dt_text *text)
{
    struct gantt g = {.w = w, .text = text, .look = w->options->ascii ? &ascii_look : &utf8_look};
    struct dt_usage usage;

    enum detour_status status = dt_usage_create(w->call, w->p, w->schedule, &usage);
    if (status)
        return status;
    set_scale(&g);
    if (w->options->title)
        dt_text_add(text, w->options->title);
    else
        dt_text_add_summary(text, w->plan);
    dt_text_add(text, "\n");
    add_axis(&g);
    int64_t top = highest_peak(&usage, w->p->device_count);

    for (int32_t d = 0; d < w->p->device_count; d++) {
        add_device(&g, d);
        add_memory(&g, &usage, d, top);
    }
    dt_text_printf(text,
                   "F forward, B input gradient, W weight gradient, BW both\n%smax: most %s held at once\n",
                   w->p->one_stage_per_device ? "" : "lower case: later stages of a device; ",
                   usage.in_bytes ? "bytes of activations" : "microbatches");
    return DETOUR_OK;
}
