/* SPDX-License-Identifier: Apache-2.0 */
/* `detour sched tolerance`: how much delay each link of a fixed schedule may have. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/sched/run.h"

enum { NS_PER_MS = 1000000 };

static json_t *ms_json(int64_t time_ns)
{
    return time_ns % NS_PER_MS ? json_real((double)time_ns / NS_PER_MS) : json_integer(time_ns / NS_PER_MS);
}

static const char *directions_name(int directions)
{
    return directions == DETOUR_FORWARD ? "forward" : directions == DETOUR_BACKWARD ? "backward" : "both";
}

static json_t *curve_json(const struct detour_curve *curve)
{
    json_t *points = json_array();

    for (size_t i = 0; i < curve->point_count; i++) {
        const struct detour_curve_point *point = &curve->points[i];
        if (json_array_append_new(points, json_pack("{s:o, s:o, s:I}", "delay_ms", ms_json(point->delay_ns),
                                                    "makespan_ms", ms_json(point->makespan_ns), "slope",
                                                    (json_int_t)point->slope))) {
            json_decref(points);
            return NULL;
        }
    }
    return points;
}

/* The results for all links. */
struct findings {
    int64_t makespan_ns;
    int64_t delay_ns_max;
    int64_t *tolerable_ns;        /* [link] */
    struct detour_curve **curves; /* [link]; the caller's */
};

/*
 * The largest delay that may be added to every latency. At least 1, so that a profile without work has a
 * curve too.
 */
static int64_t largest_delay(const struct detour_profile *profile)
{
    int64_t latency_ns = 0;

    for (int32_t i = 0; i + 1 < profile->stage_count; i++) {
        const struct detour_link *link = &profile->links[i];
        int64_t longer_ns = link->forward_ns > link->backward_ns ? link->forward_ns : link->backward_ns;
        latency_ns = longer_ns > latency_ns ? longer_ns : latency_ns;
    }
    return latency_ns + 2 < DETOUR_TIME_MAX_NS ? DETOUR_TIME_MAX_NS - latency_ns - 1 : 1;
}

static int find(struct dt_sched_run *run, struct findings *found)
{
    const struct dt_sched_options *options = run->options;
    struct detour_schedule *schedule = run->plan->schedule;
    struct detour_report *report;

    int code = dt_sched_time_schedule(run, &report);
    if (code != DT_EXIT_OK)
        return code;
    found->makespan_ns = report->makespan_ns;
    found->delay_ns_max = options->delay_ns_max ? options->delay_ns_max : report->makespan_ns;
    if (found->delay_ns_max < 1)
        found->delay_ns_max = 1;
    if (!options->delay_ns_max && found->delay_ns_max > largest_delay(run->profile))
        found->delay_ns_max = largest_delay(run->profile);
    if (detour_tolerance(run->arena, run->profile, schedule, options->directions, found->delay_ns_max,
                         &found->tolerable_ns, &run->error))
        return dt_sched_fail(run, options->schedule_path);
    for (int32_t link = 0; link + 1 < run->profile->stage_count; link++)
        if (detour_delay_curve(run->arena, run->profile, schedule, link, options->directions,
                               found->delay_ns_max, &found->curves[link], &run->error))
            return dt_sched_fail(run, options->schedule_path);
    return DT_EXIT_OK;
}

static int write_json(struct dt_sched_run *run, const struct findings *found)
{
    json_t *links = json_array();

    for (int32_t link = 0; links && link + 1 < run->profile->stage_count; link++) {
        json_t *entry =
            json_pack("{s:i, s:o, s:o}", "link", (int)link, "tolerable_ms",
                      ms_json(found->tolerable_ns[link]), "curve", curve_json(found->curves[link]));
        if (json_array_append_new(links, entry)) {
            json_decref(links);
            links = NULL;
        }
    }
    return dt_sched_write_json(run, links
                                        ? json_pack("{s:i, s:o, s:s, s:o, s:o}", "version", 1, "makespan_ms",
                                                    ms_json(found->makespan_ns), "directions",
                                                    directions_name(run->options->directions), "delay_max_ms",
                                                    ms_json(found->delay_ns_max), "links", links)
                                        : NULL);
}

static double ms(int64_t time_ns)
{
    return (double)time_ns / NS_PER_MS;
}

static void write_text(FILE *out, const struct dt_sched_run *run, const struct findings *found)
{
    fprintf(out, "makespan %.3f ms; extra delay (%s) up to %.3f ms\n%-5s %14s  %s\n", ms(found->makespan_ns),
            directions_name(run->options->directions), ms(found->delay_ns_max), "link", "tolerable ms",
            "makespan ms from each delay on");
    for (int32_t link = 0; link + 1 < run->profile->stage_count; link++) {
        const struct detour_curve *curve = found->curves[link];
        fprintf(out, "%-5" PRId32 " %14.3f ", link, ms(found->tolerable_ns[link]));
        for (size_t i = 0; i < curve->point_count; i++)
            fprintf(out, " %.3f at %.3f (+%" PRId64 "/ms)", ms(curve->points[i].makespan_ns),
                    ms(curve->points[i].delay_ns), curve->points[i].slope);
        fputc('\n', out);
    }
}

static int write_found(struct dt_sched_run *run, const struct findings *found)
{
    char *text = NULL;
    size_t bytes = 0;
    int code = DT_EXIT_OK;

    if (run->options->format == DETOUR_FORMAT_JSON)
        return write_json(run, found);
    FILE *out = open_memstream(&text, &bytes);

    if (!out)
        return dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    write_text(out, run, found);
    if (fclose(out) != 0)
        code = dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    if (code == DT_EXIT_OK)
        code = dt_sched_write(run, text, bytes);
    free(text);
    return code;
}

int dt_sched_tolerance(struct dt_sched_run *run)
{
    struct findings found = {.curves = calloc((size_t)run->profile->stage_count, sizeof(*found.curves))};

    if (!found.curves)
        return dt_sched_say(run->options, DT_EXIT_FAILED, "out of memory");
    int code = find(run, &found);
    if (code == DT_EXIT_OK)
        code = write_found(run, &found);
    free(found.curves);
    return code;
}
