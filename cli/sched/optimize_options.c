/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sched/optimize_options.h"

#include <string.h>

#include "base/util.h"
#include "cli/arg.h"

enum {
    KEY_JSON = 640,
    KEY_SVG_FILE,
    KEY_PROFILE_OUT,
    KEY_SCHEDULE_OUT,
    KEY_BUDGET,
    KEY_TUNE,
    KEY_SLOW_LINK,
    KEY_SLOW_DEVICE
};

const struct argp_option dt_sched_optimize_options[] = {
    {"json", KEY_JSON, NULL, 0, "the report as JSON, also on a terminal", 0},
    {"svg", KEY_SVG_FILE, "FILE", 0, "also write a picture of stages, devices, schedule and memory to FILE",
     0},
    {"profile-out", KEY_PROFILE_OUT, "FILE", 0, "also write the profile of the stages, for the other verbs",
     0},
    {"schedule-out", KEY_SCHEDULE_OUT, "FILE", 0, "also write the schedule, for the other verbs", 0},
    {"budget", KEY_BUDGET, "N", 0, "operations that the search may schedule (default 12000000)", 0},
    {"tune", KEY_TUNE, "PARTS", 0,
     "only these of partition, placement and schedule, as in partition,schedule", 0},
    {"slow-link", KEY_SLOW_LINK, "A-B=TIME", 0,
     "messages between devices A and B, in both directions, arrive TIME later than in the model, as in "
     "0-1=40ms; row `kept` is then the pipeline of the model as it is, with a new schedule; up to 16 times",
     0},
    {"slow-device", KEY_SLOW_DEVICE, "D=FACTORx", 0,
     "computations of device D take longer, as in 1=1.5x; up to 16 times", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* "partition,schedule" */
static error_t parse_parts(struct dt_optimize_options *options, const char *text)
{
    static const struct {
        const char *name;
        int part;
    } names[] = {{"partition", DETOUR_TUNE_PARTITION},
                 {"placement", DETOUR_TUNE_PLACEMENT},
                 {"schedule", DETOUR_TUNE_SCHEDULE}};
    const char *at = text;

    options->search.parts = 0;
    for (;;) {
        size_t bytes = strcspn(at, ","), k = 0;
        while (k < DT_COUNT_OF(names) &&
               (bytes != strlen(names[k].name) || strncmp(at, names[k].name, bytes) != 0))
            k++;
        if (k == DT_COUNT_OF(names))
            return dt_arg_refuse(options->command,
                                 "--tune %s: expected partition, placement or schedule, divided by commas",
                                 text);
        options->search.parts |= names[k].part;
        if (!at[bytes])
            return 0;
        at += bytes + 1;
    }
}

error_t dt_sched_parse_optimize(int key, const char *arg, struct dt_optimize_options *options)
{
    switch (key) {
    case ARGP_KEY_ARG:
        if (options->model_path)
            return dt_arg_refuse(options->command, "'%s': one model file is enough", arg);
        options->model_path = arg;
        return 0;
    case KEY_JSON:
        options->json = true;
        return 0;
    case KEY_SVG_FILE:
        options->svg_path = arg;
        return 0;
    case KEY_PROFILE_OUT:
        options->profile_out = arg;
        return 0;
    case KEY_SCHEDULE_OUT:
        options->schedule_out = arg;
        return 0;
    case KEY_BUDGET:
        return dt_arg_count(options->command, "--budget", arg, 1, 1000000000000, &options->search.budget);
    case KEY_TUNE:
        return parse_parts(options, arg);
    case KEY_SLOW_LINK:
        return dt_optimize_slow_add_link(&options->slow, arg)
                   ? 0
                   : dt_arg_refuse(options->command,
                                   "--slow-link %s: expected A-B=TIME, as in 0-1=40ms; at most %d links", arg,
                                   DT_OPTIMIZE_SLOW_MAX);
    case KEY_SLOW_DEVICE:
        return dt_optimize_slow_add_device(&options->slow, arg)
                   ? 0
                   : dt_arg_refuse(options->command,
                                   "--slow-device %s: expected D=FACTORx, as in 1=1.5x; factors are 0.01 to "
                                   "100, at most %d devices",
                                   arg, DT_OPTIMIZE_SLOW_MAX);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}
