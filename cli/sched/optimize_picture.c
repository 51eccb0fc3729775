/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched optimize`: the model cut into stages, stages on devices, above the schedule; Megatron's
 * layout. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/sched/optimize.h"

enum { LEFT = 120, RIGHT = 24, WIDTH_MIN = 760, TOP = 56, LAYER_HEIGHT = 26, ROW = 20, GAP = 22 };

static int64_t work_ns(const struct detour_model *model, int32_t first, int32_t end)
{
    int64_t sum_ns = 0;

    for (int32_t l = first; l < end; l++)
        sum_ns += model->layers[l].f_ns + model->layers[l].b_ns + model->layers[l].w_ns;
    return sum_ns;
}

/*
 * A pale color for each device, with hues around the circle, as "#rrggbb": not every viewer has hsl().
 * `light` is from 0 to 255.
 */
static const char *color(const struct detour_model *model, int32_t device, int light, char text[8])
{
    enum { TURN = 6 * 256, STRENGTH = 60 };
    int hue = (int)((int64_t)device * TURN / model->device_count), part[3];

    for (int c = 0; c < 3; c++) {
        int away = abs((hue + c * TURN / 3) % TURN - TURN / 2); /* 0: opposite, TURN / 2: this color */
        int share = away >= 512 ? 256 : away <= 256 ? 0 : away - 256;
        part[c] = light + (2 * share - 256) * STRENGTH / 256 * (255 - light) / 128;
        part[c] = part[c] > 255 ? 255 : part[c] < 0 ? 0 : part[c];
    }
    snprintf(text, 8, "#%02x%02x%02x", (unsigned)part[0] & 255, (unsigned)part[1] & 255,
             (unsigned)part[2] & 255);
    return text;
}

/* Text of a layer's type, which is printable ASCII, in XML. */
static void escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<')
            fputs("&lt;", out);
        else if (*text == '&')
            fputs("&amp;", out);
        else
            fputc(*text, out);
    }
}

/* The layers side by side, as wide as their work, in the color of their device. */
static void svg_layers(FILE *out, const struct dt_optimize_run *r, double width_all)
{
    const struct detour_partition *partition = &r->result->best.partition;
    const struct detour_model *model = r->model;
    double scale = width_all / (double)(work_ns(model, 0, model->layer_count) + 1), x = LEFT;
    char fill[8];

    for (int32_t i = 0; i < partition->stage_count; i++) {
        double begin = x;
        for (int32_t l = partition->first_layer[i]; l < partition->first_layer[i + 1]; l++) {
            double width = (double)work_ns(model, l, l + 1) * scale;
            fprintf(out,
                    "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"%s\" "
                    "stroke=\"#fff\" stroke-width=\".5\"><title>layer %" PRId32 ": ",
                    x, TOP, width, LAYER_HEIGHT, color(model, partition->device[i], l % 2 ? 175 : 190, fill),
                    l);
            escaped(out, model->layers[l].type);
            fputs("</title></rect>\n", out);
            x += width;
        }
        fprintf(out,
                "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\" fill=\"none\" stroke=\"#222\"/>\n",
                begin, TOP, x - begin, LAYER_HEIGHT);
        if (x - begin > 14)
            fprintf(out, "<text x=\"%.2f\" y=\"%d\" text-anchor=\"middle\">%" PRId32 "</text>\n",
                    (begin + x) / 2, TOP + 17, i);
    }
}

/* One row for each device: its stages where their layers are, and its share of the work. */
static void svg_devices(FILE *out, const struct dt_optimize_run *r, double width_all, int top)
{
    const struct detour_partition *partition = &r->result->best.partition;
    const struct detour_model *model = r->model;
    double scale = width_all / (double)(work_ns(model, 0, model->layer_count) + 1);
    char fill[8];

    for (int32_t d = 0; d < model->device_count; d++) {
        int y = top + d * ROW;
        fprintf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">device %" PRId32 "</text>\n", LEFT - 8,
                y + 12, d);
        fprintf(out, "<line x1=\"%d\" x2=\"%.2f\" y1=\"%d\" y2=\"%d\" stroke=\"#eee\"/>\n", LEFT,
                LEFT + width_all, y + 8, y + 8);
        for (int32_t i = 0; i < partition->stage_count; i++) {
            if (partition->device[i] != d)
                continue;
            double x = LEFT + (double)work_ns(model, 0, partition->first_layer[i]) * scale;
            double width =
                (double)work_ns(model, partition->first_layer[i], partition->first_layer[i + 1]) * scale;
            fprintf(out,
                    "<rect x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"14\" fill=\"%s\">"
                    "<title>stage %" PRId32 ": layers %" PRId32 " to %" PRId32 "</title></rect>\n",
                    x, y + 1, width, color(model, d, 175, fill), i, partition->first_layer[i],
                    partition->first_layer[i + 1] - 1);
        }
    }
}

/* The value of the inner picture's first attribute of this name; 0 if it has none. */
static double attribute(const char *svg, const char *name)
{
    const char *at = strstr(svg, name);

    return at ? strtod(at + strlen(name), NULL) : 0;
}

int dt_optimize_write_svg(const struct dt_optimize_run *r, const struct detour_text *schedule,
                          const char *path)
{
    int top = TOP + LAYER_HEIGHT + GAP, inner = top + r->model->device_count * ROW + GAP;
    double width = attribute(schedule->data, " width=\""), height = attribute(schedule->data, " height=\"");
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);

    if (!out)
        return dt_sched_say(r->run->options, DT_EXIT_FAILED, "out of memory");
    width = width > LEFT + WIDTH_MIN + RIGHT ? width : LEFT + WIDTH_MIN + RIGHT;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.2f\" height=\"%.2f\" "
            "viewBox=\"0 0 %.2f %.2f\" font-family=\"Helvetica,Arial,sans-serif\" font-size=\"11\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n<text x=\"12\" y=\"24\" class=\"t\">",
            width, inner + height, width, inner + height);
    escaped(out, r->model->name);
    fprintf(out, ": %" PRId32 " layers in %" PRId32 " stages</text>\n", r->model->layer_count,
            r->result->best.partition.stage_count);
    fprintf(
        out,
        "<text x=\"%d\" y=\"44\">layers, as wide as their work; numbers are stages, colors devices</text>\n",
        LEFT);
    svg_layers(out, r, width - LEFT - RIGHT);
    svg_devices(out, r, width - LEFT - RIGHT, top);
    fprintf(out, "<g transform=\"translate(0,%d)\">\n%.*s</g>\n</svg>\n", inner, (int)schedule->bytes,
            schedule->data);
    if (fclose(out) != 0) {
        free(text);
        return dt_sched_say(r->run->options, DT_EXIT_FAILED, "out of memory");
    }
    int code = dt_sched_write_file(r->run, path, text, bytes);
    free(text);
    return code;
}

char *dt_optimize_layout(const struct detour_model *model, const struct detour_partition *partition)
{
    char *text = NULL;
    size_t bytes = 0;

    for (int32_t i = 0; i < partition->stage_count; i++)
        if (partition->device[i] != i % model->device_count || partition->stage_count % model->device_count)
            return NULL;
    FILE *out = open_memstream(&text, &bytes);
    for (int32_t i = 0; out && i < partition->stage_count; i++) {
        if (i)
            fputc('|', out);
        for (int32_t l = partition->first_layer[i]; l < partition->first_layer[i + 1]; l++)
            fputc(!strcmp(model->layers[l].type, "embedding") ? 'E'
                  : !strcmp(model->layers[l].type, "head")    ? 'L'
                                                              : 't',
                  out);
    }
    if (out && fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
