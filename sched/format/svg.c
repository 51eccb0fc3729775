/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A Gantt chart as one self-contained SVG file. Above: a row per device with its operations, the microbatch
 * in each, and messages as lines from the end of an operation to their arrival; with the measured times of a
 * run these rows first, and the plan's below them. Below: memory of each device over the same time, of the
 * plan. Wide enough that the number of a microbatch fits into the shortest operation, within
 * limits.
 *
 * Coordinates are hundredths of a pixel until they are printed.
 */
#include <inttypes.h>

#include "base/util.h"
#include "sched/format/format.h"

enum {
    PX = 100,
    LEFT = 120 * PX,
    RIGHT = 24 * PX,
    TITLE_HEIGHT = 30 * PX,
    LEGEND_HEIGHT = 24 * PX,
    AXIS_HEIGHT = 22 * PX,
    ROW_HEIGHT = 22 * PX,
    ROW_GAP = 20 * PX,
    MEMORY_HEIGHT = 34 * PX,
    MEMORY_GAP = 10 * PX,
    PANEL_TITLE_HEIGHT = 24 * PX,
    PLOT_WIDTH_MIN = 760 * PX,
    PLOT_WIDTH_MAX = 6000 * PX,
    PLOT_WIDTH_OVERVIEW = 2400 * PX,
    DIGIT_WIDTH = 6 * PX, /* of the 10 px font in operations */
    TICK_DISTANCE = 90 * PX,
    TOOLTIPS_MAX = 20000, /* operations, beyond which a viewer would only get slow */
    SHADES = 4,
};

/* A row per device. */
struct panel {
    const char *title; /* NULL: none */
    const struct detour_schedule *schedule;
    struct dt_messages messages;
    int64_t top;
};

struct svg {
    const struct dt_write *w;
    struct dt_text *text;
    int64_t start_ns; /* of the time axis */
    int64_t span_ns;
    int64_t plot_width;
    struct panel panels[2]; /* from the top */
    int panel_count;
    int64_t rows_top; /* of the panel that is being drawn */
    int64_t memory_top;
    int64_t height;
};

static const char style[] =
    "<style>"
    "text{font:11px Helvetica,Arial,sans-serif;fill:#222}"
    ".t{font-size:15px;font-weight:bold}"
    ".n text{font-size:10px;text-anchor:middle}"
    ".r{text-anchor:end}.m{text-anchor:middle}.s{font-size:10px;fill:#555}"
    ".F{fill:#7fb2e5}.B{fill:#f4b26a}.W{fill:#8fcf8c}.BW{fill:#e59a9a}"
    ".n rect,.k rect{stroke:#fff;stroke-width:.6}.o rect{stroke:#a0f;stroke-width:1.4}"
    ".lf,.lb{fill:none;stroke-width:1}.lf{stroke:#2a6db0}.lb{stroke:#c26a10}"
    ".g{stroke:#e4e4e4;fill:none}.a{stroke:#888}"
    ".u{fill:#cfc3e6;stroke:#7a5fb5;stroke-width:1}.x{stroke:#c22;stroke-dasharray:4 3}"
    ".q{fill:#f6f6f6}"
    "</style>\n";

static void add_px(struct svg *svg, const char *name, int64_t hundredths)
{
    dt_text_printf(svg->text, " %s=\"", name);
    dt_text_add_decimal(svg->text, hundredths, 2);
    dt_text_add(svg->text, "\"");
}

static int64_t x_of(const struct svg *svg, int64_t time_ns)
{
    return LEFT + (int64_t)((__int128)(time_ns - svg->start_ns) * svg->plot_width / svg->span_ns);
}

static int64_t row_y(const struct svg *svg, int32_t device)
{
    return svg->rows_top + (int64_t)device * (ROW_HEIGHT + ROW_GAP);
}

static void add_rect(struct svg *svg, const char *attributes, int64_t x, int64_t y, int64_t width,
                     int64_t height)
{
    dt_text_printf(svg->text, "<rect%s", attributes);
    add_px(svg, "x", x);
    add_px(svg, "y", y);
    add_px(svg, "width", width);
    add_px(svg, "height", height);
}

static void add_line(struct svg *svg, const char *class, int64_t x1, int64_t y1, int64_t x2, int64_t y2)
{
    dt_text_printf(svg->text, "<line class=\"%s\"", class);
    add_px(svg, "x1", x1);
    add_px(svg, "y1", y1);
    add_px(svg, "x2", x2);
    add_px(svg, "y2", y2);
    dt_text_add(svg->text, "/>\n");
}

/* Opens a text; the caller adds the words and closes it. */
static void open_text(struct svg *svg, const char *class, int64_t x, int64_t y)
{
    dt_text_printf(svg->text, "<text class=\"%s\"", class);
    add_px(svg, "x", x);
    add_px(svg, "y", y);
    dt_text_add(svg->text, ">");
}

static void close_text(struct svg *svg)
{
    dt_text_add(svg->text, "</text>\n");
}

/* The bytes of the character that begins here; 0 if that is not UTF-8, or nothing that XML allows. */
static size_t character_bytes(const char *at)
{
    const unsigned char *byte = (const unsigned char *)at;
    size_t count = byte[0] < 0x80 ? 1 : byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    uint32_t least[] = {0, ' ', 0x80, 0x800, 0x10000};
    uint32_t code = count == 1 ? byte[0] : byte[0] & (0x7fu >> count);

    for (size_t i = 1; i < count; i++) {
        if ((byte[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (byte[i] & 0x3fu);
    }
    bool is_start = byte[0] < 0x80 || (byte[0] >= 0xc0 && byte[0] < 0xf8);
    bool is_surrogate = code >= 0xd800 && code < 0xe000;
    if (!is_start || code < least[count] || code > 0x10ffff || is_surrogate || (code & 0xfffffe) == 0xfffe)
        return 0;
    return count;
}

static void add_escaped(struct dt_text *text, const char *string)
{
    for (size_t bytes; *string; string += bytes ? bytes : 1) {
        bytes = character_bytes(string);
        if (*string == '<')
            dt_text_add(text, "&lt;");
        else if (*string == '&')
            dt_text_add(text, "&amp;");
        else if (bytes > 0)
            dt_text_add_bytes(text, string, bytes);
        else if ((unsigned char)*string >= 0x80)
            dt_text_add(text, "?");
    }
}

static int decimal_digits(int64_t value)
{
    int digits = 1;

    while (value >= 10) {
        value /= 10;
        digits++;
    }
    return digits;
}

/* Of the operations of all panels. */
struct extent {
    int64_t first_ns;
    int64_t last_ns;
    __int128 work_ns; /* of all operations that take time at all, and how many these are */
    int64_t count;
};

static void extend(struct extent *extent, const struct detour_schedule *s)
{
    for (size_t i = 0; i < s->op_count; i++) {
        const struct detour_op *op = &s->ops[i];
        int64_t duration_ns = op->finish_ns - op->start_ns;

        extent->first_ns = op->start_ns < extent->first_ns ? op->start_ns : extent->first_ns;
        extent->last_ns = op->finish_ns > extent->last_ns ? op->finish_ns : extent->last_ns;
        extent->work_ns += duration_ns;
        extent->count += duration_ns > 0;
    }
}

/* The plan, and above it the run if there is one. */
static enum detour_status set_panels(struct svg *svg)
{
    const struct dt_write *w = svg->w;
    const struct detour_measured *measured = w->options->measured;
    struct panel *plan = &svg->panels[measured ? 1 : 0];
    int64_t top = TITLE_HEIGHT + LEGEND_HEIGHT + AXIS_HEIGHT;

    if (measured)
        svg->panels[0] =
            (struct panel){"measured", measured->schedule, {measured->message_count, measured->messages}, 0};
    *plan = (struct panel){.title = measured ? "predicted" : NULL, .schedule = w->schedule};
    svg->panel_count = measured ? 2 : 1;
    for (int i = 0; i < svg->panel_count; i++) {
        svg->panels[i].top = top + (measured ? PANEL_TITLE_HEIGHT : 0);
        top = svg->panels[i].top + w->p->device_count * (int64_t)(ROW_HEIGHT + ROW_GAP);
    }
    svg->memory_top = top + AXIS_HEIGHT;
    svg->height = svg->memory_top + w->p->device_count * (int64_t)(MEMORY_HEIGHT + MEMORY_GAP) + MEMORY_GAP;
    return dt_messages_create(w->call, w->p, w->schedule, &plan->messages);
}

/* So wide that the number of its microbatch fits into an operation of mean length; where that is too wide to
 * be looked at, an overview without numbers. */
static void set_scale(struct svg *svg)
{
    const struct detour_schedule *s = svg->w->schedule;
    struct extent extent = {INT64_MAX, 0, 0, 0};

    for (int i = 0; i < svg->panel_count; i++)
        extend(&extent, svg->panels[i].schedule);
    svg->start_ns = extent.first_ns;
    svg->span_ns = extent.last_ns > extent.first_ns ? extent.last_ns - extent.first_ns : 1;
    int64_t op_width = (decimal_digits(s->microbatch_count - 1) + 1) * (int64_t)DIGIT_WIDTH;
    __int128 width = extent.count ? (__int128)op_width * svg->span_ns * extent.count / extent.work_ns : 0;

    svg->plot_width = width < PLOT_WIDTH_MIN   ? PLOT_WIDTH_MIN
                      : width > PLOT_WIDTH_MAX ? PLOT_WIDTH_OVERVIEW
                                               : (int64_t)width;
}

static void add_head(struct svg *svg)
{
    int64_t width = LEFT + svg->plot_width + RIGHT;

    dt_text_add(svg->text, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    add_px(svg, "width", width);
    add_px(svg, "height", svg->height);
    dt_text_add(svg->text, " viewBox=\"0 0 ");
    dt_text_add_decimal(svg->text, width, 2);
    dt_text_add(svg->text, " ");
    dt_text_add_decimal(svg->text, svg->height, 2);
    dt_text_printf(svg->text, "\">\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n", style);
    open_text(svg, "t", 12 * PX, 21 * PX);
    if (svg->w->options->title)
        add_escaped(svg->text, svg->w->options->title);
    else
        dt_text_add_summary(svg->text, svg->w->plan);
    close_text(svg);
}

static void add_legend(struct svg *svg, bool in_bytes)
{
    static const struct {
        const char *class;
        const char *words;
        int64_t width;
    } entries[] = {{"F", "forward", 85 * PX},
                   {"B", "input gradient", 120 * PX},
                   {"W", "weight gradient", 130 * PX},
                   {"BW", "both gradients fused", 165 * PX}};
    const int64_t y = TITLE_HEIGHT;
    int64_t x = LEFT;

    dt_text_add(svg->text, "<g class=\"k\">\n");
    for (size_t i = 0; i < DT_COUNT_OF(entries); x += entries[i++].width) {
        dt_text_printf(svg->text, "<rect class=\"%s\"", entries[i].class);
        add_px(svg, "x", x);
        add_px(svg, "y", y + 2 * PX);
        dt_text_add(svg->text, " width=\"14\" height=\"12\"/>\n");
        open_text(svg, "s", x + 18 * PX, y + 12 * PX);
        dt_text_printf(svg->text, "%s: %s", entries[i].class, entries[i].words);
        close_text(svg);
    }
    add_line(svg, "lf", x, y + 8 * PX, x + 18 * PX, y + 8 * PX);
    add_line(svg, "lb", x, y + 11 * PX, x + 18 * PX, y + 11 * PX);
    open_text(svg, "s", x + 22 * PX, y + 12 * PX);
    dt_text_printf(svg->text, "messages; below: activations in %s", in_bytes ? "bytes" : "microbatches");
    close_text(svg);
    dt_text_add(svg->text, "</g>\n");
}

static void add_axis(struct svg *svg)
{
    int64_t step_ns = dt_round_step(svg->span_ns, svg->plot_width, TICK_DISTANCE);
    int64_t y = TITLE_HEIGHT + LEGEND_HEIGHT + AXIS_HEIGHT - 8 * PX;

    dt_text_add(svg->text, "<g>\n");
    for (int64_t t_ns = 0; t_ns <= svg->span_ns; t_ns += step_ns) {
        int64_t x = x_of(svg, svg->start_ns + t_ns);
        add_line(svg, "g", x, y, x, svg->height - MEMORY_GAP);
        open_text(svg, "s m", x, y - 3 * PX);
        dt_text_add_ms(svg->text, svg->start_ns + t_ns);
        dt_text_add(svg->text, t_ns ? "" : " ms");
        close_text(svg);
    }
    dt_text_add(svg->text, "</g>\n");
}

static void add_row_labels(struct svg *svg)
{
    const struct dt_problem *p = svg->w->p;

    for (int32_t d = 0; d < p->device_count; d++) {
        int32_t first = p->device_first[d], count = p->device_first[d + 1] - first;
        bool has_stages = count > 1 || p->device_stages[first] != d;
        add_rect(svg, " class=\"q\"", LEFT, row_y(svg, d), svg->plot_width, ROW_HEIGHT);
        dt_text_add(svg->text, "/>\n");
        open_text(svg, "r", LEFT - 8 * PX, row_y(svg, d) + ROW_HEIGHT / 2 + (has_stages ? -1 : 4) * PX);
        dt_text_printf(svg->text, "device %" PRId32, d);
        close_text(svg);
        if (!has_stages)
            continue;
        open_text(svg, "r s", LEFT - 8 * PX, row_y(svg, d) + ROW_HEIGHT / 2 + 10 * PX);
        dt_text_add(svg->text, count > 1 ? "stages " : "stage ");
        for (int32_t k = 0; k < count && k < SHADES; k++)
            dt_text_printf(svg->text, "%s%" PRId32, k ? ", " : "", p->device_stages[first + k]);
        dt_text_add(svg->text, count > SHADES ? ", ..." : "");
        close_text(svg);
    }
}

/* Waiting for the link along the sender's row, then across to the receiver's. */
static void add_message(struct svg *svg, const struct detour_message *m)
{
    const int32_t *device = svg->w->p->device;
    int32_t from = device[m->from_stage], to = device[m->to_stage];
    int64_t y1 = row_y(svg, from) + (to > from ? ROW_HEIGHT : 0);
    int64_t y2 = row_y(svg, to) + (to > from ? 0 : ROW_HEIGHT);
    const int64_t points[][2] = {
        {x_of(svg, m->ready_ns), y1}, {x_of(svg, m->depart_ns), y1}, {x_of(svg, m->arrive_ns), y2}};

    dt_text_add(svg->text, "<path d=\"M");
    for (size_t i = m->depart_ns == m->ready_ns; i < DT_COUNT_OF(points); i++) {
        dt_text_add_decimal(svg->text, points[i][0], 2);
        dt_text_add(svg->text, " ");
        dt_text_add_decimal(svg->text, points[i][1], 2);
        dt_text_add(svg->text, i + 1 < DT_COUNT_OF(points) ? "L" : "");
    }
    dt_text_add(svg->text, "\"/>\n");
}

static void add_messages(struct svg *svg, const struct dt_messages *messages)
{
    for (int forward = 1; forward >= 0; forward--) {
        dt_text_printf(svg->text, "<g class=\"%s\">\n", forward ? "lf" : "lb");
        for (size_t i = 0; i < messages->count; i++)
            if (dt_message_is_forward(&messages->messages[i]) == forward)
                add_message(svg, &messages->messages[i]);
        dt_text_add(svg->text, "</g>\n");
    }
}

/* Which of its device's stages it is: later ones are drawn lighter. */
static int shade_of(const struct dt_problem *p, int32_t stage)
{
    int32_t device = p->device[stage];
    int shade = 0;

    for (int32_t k = p->device_first[device]; shade < SHADES - 1 && p->device_stages[k] != stage; k++)
        shade++;
    return shade;
}

static void add_tooltip(struct svg *svg, const struct detour_op *op)
{
    dt_text_printf(svg->text, "<title>%s of microbatch %" PRId32 ", stage %d: ",
                   detour_op_name((enum detour_op_kind)op->kind), op->microbatch, op->stage);
    dt_text_add_ms(svg->text, op->start_ns);
    dt_text_add(svg->text, " to ");
    dt_text_add_ms(svg->text, op->finish_ns);
    dt_text_printf(svg->text, " ms%s</title>",
                   op->flags & DETOUR_OP_OFFLOADED ? ", activation offloaded" : "");
}

static void add_op(struct svg *svg, int32_t device, const struct detour_op *op)
{
    static const char *const shades[SHADES] = {"", " opacity=\".72\"", " opacity=\".5\"", " opacity=\".36\""};
    int64_t x = x_of(svg, op->start_ns), width = x_of(svg, op->finish_ns) - x;
    int64_t y = row_y(svg, device);
    bool has_tooltip = svg->w->schedule->op_count <= TOOLTIPS_MAX;

    dt_text_printf(svg->text, "<g class=\"%s%s\">", detour_op_name((enum detour_op_kind)op->kind),
                   op->flags & DETOUR_OP_OFFLOADED ? " o" : "");
    add_rect(svg, shades[shade_of(svg->w->p, op->stage)], x, y, width, ROW_HEIGHT);
    dt_text_add(svg->text, has_tooltip ? ">" : "/>");
    if (has_tooltip) {
        add_tooltip(svg, op);
        dt_text_add(svg->text, "</rect>");
    }
    if (width >= decimal_digits(op->microbatch) * (int64_t)DIGIT_WIDTH) {
        dt_text_add(svg->text, "<text");
        add_px(svg, "x", x + width / 2);
        add_px(svg, "y", y + ROW_HEIGHT / 2 + 4 * PX);
        dt_text_printf(svg->text, ">%" PRId32 "</text>", op->microbatch);
    }
    dt_text_add(svg->text, "</g>\n");
}

static void add_ops(struct svg *svg, const struct detour_schedule *s)
{
    dt_text_add(svg->text, "<g class=\"n\">\n");
    for (int32_t d = 0; d < s->device_count; d++)
        for (size_t i = s->first[d]; i < s->first[d + 1]; i++)
            add_op(svg, d, &s->ops[i]);
    dt_text_add(svg->text, "</g>\n");
}

static void add_panel_title(struct svg *svg, const struct panel *panel)
{
    if (!panel->title)
        return;
    open_text(svg, "t", LEFT, panel->top - 8 * PX);
    dt_text_add(svg->text, panel->title);
    close_text(svg);
}

/* Draws the panels on the grid of the time axis. */
static void add_panels(struct svg *svg)
{
    for (int i = 0; i < svg->panel_count; i++) {
        svg->rows_top = svg->panels[i].top;
        add_panel_title(svg, &svg->panels[i]);
        add_row_labels(svg);
    }
    add_axis(svg);
    for (int i = 0; i < svg->panel_count; i++) {
        svg->rows_top = svg->panels[i].top;
        add_messages(svg, &svg->panels[i].messages);
        add_ops(svg, svg->panels[i].schedule);
    }
}

/* The value that fills a memory chart: of all devices, so that they compare. */
static int64_t usage_top(const struct dt_usage *usage, int32_t device_count)
{
    int64_t top = 1;

    for (int32_t d = 0; d < device_count; d++)
        top = usage->peak[d] > top ? usage->peak[d] : top;
    for (int32_t d = 0; d < device_count; d++) /* a limit far above the peaks would flatten the curves */
        if (usage->limit[d] > top && usage->limit[d] / 2 <= top)
            top = usage->limit[d];
    return top;
}

static void add_point(struct svg *svg, int64_t x, int64_t y)
{
    dt_text_add(svg->text, "L");
    dt_text_add_decimal(svg->text, x, 2);
    dt_text_add(svg->text, " ");
    dt_text_add_decimal(svg->text, y, 2);
}

static void add_curve(struct svg *svg, const struct dt_usage *usage, int32_t device, int64_t bottom,
                      int64_t top)
{
    int64_t y = bottom, x = LEFT;

    dt_text_add(svg->text, "<path class=\"u\" d=\"M");
    dt_text_add_decimal(svg->text, x, 2);
    dt_text_add(svg->text, " ");
    dt_text_add_decimal(svg->text, y, 2);
    for (size_t i = usage->first[device]; i < usage->first[device + 1]; i++) {
        x = x_of(svg, usage->steps[i].time_ns);
        add_point(svg, x, y);
        y = bottom - (int64_t)((__int128)usage->steps[i].value * MEMORY_HEIGHT / top);
        add_point(svg, x, y);
    }
    add_point(svg, x, bottom);
    dt_text_add(svg->text, "Z\"/>\n");
}

static void add_memory_chart(struct svg *svg, const struct dt_usage *usage, int32_t device, int64_t top)
{
    int64_t bottom = svg->memory_top + device * (int64_t)(MEMORY_HEIGHT + MEMORY_GAP) + MEMORY_HEIGHT;

    add_curve(svg, usage, device, bottom, top);
    add_line(svg, "a", LEFT, bottom, LEFT + svg->plot_width, bottom);
    open_text(svg, "r", LEFT - 8 * PX, bottom - 18 * PX);
    dt_text_printf(svg->text, "device %" PRId32, device);
    close_text(svg);
    open_text(svg, "r s", LEFT - 8 * PX, bottom - 5 * PX);
    dt_text_add(svg->text, "peak ");
    dt_text_add_usage(svg->text, usage, usage->peak[device]);
    if (usage->limit[device] != INT64_MAX) {
        dt_text_add(svg->text, " of ");
        dt_text_add_usage(svg->text, usage, usage->limit[device]);
    }
    close_text(svg);
    if (usage->limit[device] <= top) {
        int64_t y = bottom - (int64_t)((__int128)usage->limit[device] * MEMORY_HEIGHT / top);
        add_line(svg, "x", LEFT, y, LEFT + svg->plot_width, y);
    }
}

enum detour_status dt_write_svg(const struct dt_write *w, struct dt_text *text)
{
    struct svg svg = {.w = w, .text = text};
    struct dt_usage usage;

    enum detour_status status = dt_usage_create(w->call, w->p, w->schedule, &usage);
    if (!status)
        status = set_panels(&svg);
    if (status)
        return status;
    set_scale(&svg);
    add_head(&svg);
    add_legend(&svg, usage.in_bytes);
    add_panels(&svg);
    int64_t top = usage_top(&usage, w->p->device_count);

    for (int32_t d = 0; d < w->p->device_count; d++)
        add_memory_chart(&svg, &usage, d, top);
    dt_text_add(text, "</svg>\n");
    return status;
}
