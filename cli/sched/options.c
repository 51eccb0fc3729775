/* SPDX-License-Identifier: Apache-2.0 */
/* The options of `detour sched`: groups that verbs combine. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "base/util.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/sched/sched.h"

enum {
    KEY_PROFILE = 256,
    KEY_UNIFORM,
    KEY_DELAY,
    KEY_OUT,
    KEY_FORMAT,
    KEY_SCHEDULE,
    KEY_ALGO,
    KEY_BUDGET_MS,
    KEY_WARMUP,
    KEY_GROUP_SIZE,
    KEY_BEAM_WIDTH,
    KEY_ASCII,
    KEY_COLOR,
    KEY_COLUMNS,
    KEY_TITLE,
    KEY_DELAY_MAX_MS,
    KEY_DIRECTION,
    KEY_PLANNED,
    KEY_MIN_GAIN,
    KEY_MIN_CHANGE_MS,
    KEY_SWITCH_COST_MS,
    KEY_HORIZON,
    KEY_OFFLOAD,
    KEY_DELAYS,
    KEY_RANKS,
    KEY_NOW_MS,
    KEY_STARTED,
    KEY_SVG,
    KEY_TORCH,
};

/* Of every verb. */
#define OUTPUT_OPTIONS                                                                  \
    {"out", KEY_OUT, "FILE", 0, "write to FILE instead of standard output", 0},         \
    {                                                                                   \
        "format", KEY_FORMAT, "FORMAT", 0, "output format; see above (default json)", 0 \
    }

static const struct argp_option common_options[] = {
    {"profile", KEY_PROFILE, "P.json", 0, "stages, links and memory (this or --uniform is required)", 0},
    {"uniform", KEY_UNIFORM, "SxN:F,B,W", 0,
     "instead of a profile: S equal stages, N microbatches, times in ms, as in 8x32:9,10,6", 0},
    {"delay", KEY_DELAY, "LINK=TIME", 0,
     "add TIME to a link in both directions, as in last=60ms, first=2ms or 3=500us; may be repeated", 0},
    OUTPUT_OPTIONS,
    {NULL, 0, NULL, 0, NULL, 0},
};
static const struct argp_option output_options[] = {
    OUTPUT_OPTIONS,
    {NULL, 0, NULL, 0, NULL, 0},
};
static const struct argp_option schedule_options[] = {
    {"schedule", KEY_SCHEDULE, "S.json|S.csv", 0, "the schedule, native or PyTorch's CSV (required)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};
static const struct argp_option generate_options[] = {
    {"algo", KEY_ALGO, "NAME", 0, "the algorithm (default auto: the best found)", 0},
    {"budget-ms", KEY_BUDGET_MS, "MS", 0,
     "time for auto, beam and exact; without this option they do about 100 ms of work, counted in search "
     "nodes so that the result is the same on every machine",
     0},
    {"beam-width", KEY_BEAM_WIDTH, "N", 0, "beam: states kept per step", 0},
    {"warmup", KEY_WARMUP, "N,N,...", 0, "adaptra: forwards before the first backward, per stage", 0},
    {"group-size", KEY_GROUP_SIZE, "N", 0, "interleaved: microbatches per round", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};
static const struct argp_option picture_options[] = {
    {"torch", KEY_TORCH, "2.N", 0, "csv-comms: for PyTorch 2.N, 2.10 or later (default 2.15)", 0},
    {"ascii", KEY_ASCII, NULL, 0, "text: only ASCII characters", 0},
    {"color", KEY_COLOR, NULL, 0, "text: colors", 0},
    {"columns", KEY_COLUMNS, "N", 0, "text: the largest number of columns", 0},
    {"title", KEY_TITLE, "TEXT", 0, "svg and text: the first line", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};
static const struct argp_option tolerance_options[] = {
    {"delay-max-ms", KEY_DELAY_MAX_MS, "MS", 0, "largest delay to examine (default: the makespan)", 0},
    {"direction", KEY_DIRECTION, "WHICH", 0, "forward, backward or both (default)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};
static const struct argp_option adapt_options[] = {
    {"planned", KEY_PLANNED, "P0.json", 0,
     "the profile for which the schedule was made (default: the links that its file records, else no "
     "delay)",
     0},
    {"delays", KEY_DELAYS, "FILE", 0, "measured delays, as JSON: added to the links of --profile", 0},
    {"ranks", KEY_RANKS, "D,D,...", 0,
     "the device of rank 0, of rank 1, ...; for delays between ranks (default: rank r is device r)", 0},
    {"now-ms", KEY_NOW_MS, "MS", 0,
     "replan inside an iteration that began at 0: operations that have started by MS keep the schedule's "
     "times, the rest gets a new order",
     0},
    {"started", KEY_STARTED, "N,N,...", 0,
     "with --now-ms: operations that each device has started (default: those whose start_ms is before it)",
     0},
    {"min-gain", KEY_MIN_GAIN, "PERCENT", 0, "least gain for a change (default 1)", 0},
    {"min-change-ms", KEY_MIN_CHANGE_MS, "MS", 0, "smaller changes of a link's delay are ignored", 0},
    {"switch-cost-ms", KEY_SWITCH_COST_MS, "MS", 0, "cost of changing the schedule, once (default 0)", 0},
    {"horizon", KEY_HORIZON, "N", 0, "iterations over which the change must pay (default 100)", 0},
    {"allow-offload", KEY_OFFLOAD, NULL, 0, "activations may go to the host where memory limits the schedule",
     0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_option compare_options[] = {
    {"svg", KEY_SVG, "FILE", 0, "also write the picture of the table to FILE", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

/* State that the parsers of all groups share. */
struct parse {
    const struct dt_sched_verb *verb;
    struct dt_sched_options *options;
    int group_count; /* children of the top parser */
};

#define refuse(parse, ...) dt_arg_refuse((parse)->options->command, __VA_ARGS__)

static void list_formats(unsigned formats, char *list, size_t bytes)
{
    size_t used = 0;

    for (int i = 0; detour_format_name((enum detour_format)i) && used < bytes; i++)
        if (formats & 1u << i)
            used += (size_t)snprintf(list + used, bytes - used, "%s%s", used ? ", " : "",
                                     detour_format_name((enum detour_format)i));
}

static error_t parse_format(const struct parse *parse, const char *text)
{
    char list[80];

    parse->options->has_format = true;
    if (detour_format_find(text, &parse->options->format) &&
        parse->verb->formats & 1u << parse->options->format)
        return 0;
    list_formats(parse->verb->formats, list, sizeof(list));
    return refuse(parse, "--format %s: expected one of %s", text, list);
}

static void list_algorithms(char *list, size_t bytes)
{
    size_t used = 0;

    list[0] = '\0';
    for (int i = 0; i < DETOUR_ALGORITHM_COUNT && used < bytes; i++)
        if (detour_algorithm_name((enum detour_algorithm)i))
            used += (size_t)snprintf(list + used, bytes - used, "%s%s", used ? ", " : "",
                                     detour_algorithm_name((enum detour_algorithm)i));
}

static error_t parse_algorithm(const struct parse *parse, const char *text)
{
    char list[192];

    if (detour_algorithm_find(text, &parse->options->generate.algorithm))
        return 0;
    list_algorithms(list, sizeof(list));
    return refuse(parse, "--algo %s: expected one of %s", text, list);
}

static error_t parse_direction(const struct parse *parse, const char *text)
{
    static const struct {
        const char *name;
        int directions;
    } names[] = {{"forward", DETOUR_FORWARD}, {"backward", DETOUR_BACKWARD}, {"both", DETOUR_BOTH_WAYS}};

    for (size_t i = 0; i < DT_COUNT_OF(names); i++) {
        if (!strcmp(text, names[i].name)) {
            parse->options->directions = names[i].directions;
            return 0;
        }
    }
    return refuse(parse, "--direction %s: expected forward, backward or both", text);
}

/* "7,5,3,1": whole numbers from `low` to `high`; the profile, which is read later, determines the count. */
static error_t parse_list(const struct parse *parse, const char *option, const char *text, int32_t low,
                          int32_t high, const char *example, struct dt_sched_list *list)
{
    const char *at = text;

    free(list->values);
    *list = (struct dt_sched_list){.values = malloc((strlen(text) / 2 + 1) * sizeof(*list->values))};
    for (; list->values; at++) {
        char *end;
        errno = 0;
        long value = strtol(at, &end, 10);
        if (end == at || (*end && *end != ',') || errno || value < low || value > high)
            return refuse(parse, "%s %s: expected whole numbers from %" PRId32 " to %" PRId32 ", as in %s",
                          option, text, low, high, example);
        list->values[list->count++] = (int32_t)value;
        at = end;
        if (!*at)
            return 0;
    }
    return refuse(parse, "out of memory");
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;
    struct dt_sched_options *options = parse->options;

    switch (key) {
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's one line is enough: no "Try --help" after it */
        for (int i = 0; i < parse->group_count; i++)
            state->child_inputs[i] = state->input;
        return 0;
    case KEY_PROFILE:
        options->profile_path = arg;
        return 0;
    case KEY_UNIFORM:
        options->uniform = arg;
        return 0;
    case KEY_DELAY:
        if (options->delay_count == DT_SCHED_DELAYS_MAX)
            return refuse(parse, "--delay %s: at most %d delays", arg, DT_SCHED_DELAYS_MAX);
        options->delay[options->delay_count++] = arg;
        return 0;
    case KEY_OUT:
        options->out_path = arg;
        return 0;
    case KEY_FORMAT:
        return parse_format(parse, arg);
    case ARGP_KEY_ARG:
        if (parse->verb->groups & DT_SCHED_OPTIMIZE)
            return ARGP_ERR_UNKNOWN; /* the model */
        return refuse(parse, "'%s' is not an option; files are given as --profile FILE and --schedule FILE",
                      arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_schedule(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;

    if (key != KEY_SCHEDULE)
        return ARGP_ERR_UNKNOWN;
    parse->options->schedule_path = arg;
    return 0;
}

static error_t parse_generate(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;
    struct dt_sched_options *options = parse->options;
    const char *command = options->command;

    switch (key) {
    case KEY_ALGO:
        return parse_algorithm(parse, arg);
    case KEY_BUDGET_MS:
        return dt_arg_count(command, "--budget-ms", arg, 1, 86400000, &options->budget_ms);
    case KEY_WARMUP:
        return parse_list(parse, "--warmup", arg, 1, DETOUR_MICROBATCHES_MAX, "7,5,3,1", &options->warmup);
    case KEY_GROUP_SIZE:
        return dt_arg_int(command, "--group-size", arg, 1, DETOUR_MICROBATCHES_MAX,
                          &options->generate.group_size);
    case KEY_BEAM_WIDTH:
        return dt_arg_int(command, "--beam-width", arg, 1, 100000, &options->generate.beam_width);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* "2.14" */
static error_t parse_torch(const struct parse *parse, const char *text)
{
    uint64_t minor;

    if (!strncmp(text, "2.", 2) && dt_parse_number(text + 2, false, &minor) == DT_OK && minor >= 10 &&
        minor < 1000) {
        parse->options->picture.torch_minor = (int32_t)minor;
        return 0;
    }
    return refuse(parse, "--torch %s: expected a version such as 2.14, from 2.10 on", text);
}

static error_t parse_picture(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;
    struct detour_format_options *picture = &parse->options->picture;

    switch (key) {
    case KEY_ASCII:
        picture->ascii = true;
        return 0;
    case KEY_COLOR:
        picture->color = true;
        return 0;
    case KEY_COLUMNS:
        return dt_arg_int(parse->options->command, "--columns", arg, 60, 4096, &picture->columns);
    case KEY_TORCH:
        return parse_torch(parse, arg);
    case KEY_TITLE:
        picture->title = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_tolerance(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;

    if (key == KEY_DELAY_MAX_MS)
        return dt_arg_ms(parse->options->command, "--delay-max-ms", arg, &parse->options->delay_ns_max);
    return key == KEY_DIRECTION ? parse_direction(parse, arg) : ARGP_ERR_UNKNOWN;
}

static error_t parse_adapt(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;
    struct detour_adapt_options *adapt = &parse->options->adapt;
    const char *command = parse->options->command;
    error_t error = 0;
    double percent = 0;

    switch (key) {
    case KEY_PLANNED:
        parse->options->planned_path = arg;
        return 0;
    case KEY_MIN_GAIN:
        error = dt_arg_decimal(command, "--min-gain", arg, 100, &percent);
        adapt->gain_permille_min = (int32_t)(percent * 10 + 0.5);
        if (!error && adapt->gain_permille_min == 0)
            error = refuse(parse, "--min-gain %s: expected a percentage from 0.1 to 100", arg);
        return error;
    case KEY_MIN_CHANGE_MS:
        return dt_arg_ms(command, "--min-change-ms", arg, &adapt->change_ns_min);
    case KEY_SWITCH_COST_MS:
        return dt_arg_ms(command, "--switch-cost-ms", arg, &adapt->switch_cost_ns);
    case KEY_HORIZON:
        return dt_arg_int(command, "--horizon", arg, 1, INT32_MAX, &adapt->horizon_iterations);
    case KEY_OFFLOAD:
        adapt->allow_offload = true;
        return 0;
    case KEY_DELAYS:
        parse->options->delays_path = arg;
        return 0;
    case KEY_RANKS:
        return parse_list(parse, "--ranks", arg, 0, DETOUR_STAGES_MAX - 1, "0,0,1,1", &parse->options->ranks);
    case KEY_NOW_MS:
        parse->options->replan = true;
        return dt_arg_ms(command, "--now-ms", arg, &parse->options->now_ns);
    case KEY_STARTED:
        return parse_list(parse, "--started", arg, 0, INT32_MAX, "14,11,9,6", &parse->options->started);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_compare(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;

    if (key != KEY_SVG)
        return ARGP_ERR_UNKNOWN;
    parse->options->svg_path = arg;
    return 0;
}

static error_t parse_model(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;

    return dt_sched_parse_model(key, arg, parse->options);
}

static error_t parse_optimize(int key, char *arg, struct argp_state *state)
{
    const struct parse *parse = state->input;

    if (key == ARGP_KEY_INIT)
        parse->options->optimize.command = parse->options->command;
    return dt_sched_parse_optimize(key, arg, &parse->options->optimize);
}

static const struct argp argp_schedule = {.options = schedule_options, .parser = parse_schedule};
static const struct argp argp_generate = {.options = generate_options, .parser = parse_generate};
static const struct argp argp_picture = {.options = picture_options, .parser = parse_picture};
static const struct argp argp_adapt = {.options = adapt_options, .parser = parse_adapt};
static const struct argp argp_tolerance = {.options = tolerance_options, .parser = parse_tolerance};
static const struct argp argp_compare = {.options = compare_options, .parser = parse_compare};
static const struct argp argp_optimize = {
    .options = dt_sched_optimize_options, .parser = parse_optimize, .args_doc = "MODEL.json"};
static const struct argp argp_model = {.options = dt_sched_model_options, .parser = parse_model};

static const struct {
    unsigned group;
    const struct argp *argp;
    const char *header;
} groups[] = {
    {DT_SCHED_SCHEDULE, &argp_schedule, NULL},
    {DT_SCHED_GENERATE, &argp_generate, "Making schedules:"},
    {DT_SCHED_TOLERANCE, &argp_tolerance, "Delays:"},
    {DT_SCHED_ADAPT, &argp_adapt, "Changes of the links, and conditions for a new schedule:"},
    {DT_SCHED_COMPARE, &argp_compare, NULL},
    {DT_SCHED_MODEL, &argp_model, NULL},
    {DT_SCHED_OPTIMIZE, &argp_optimize, NULL},
    {DT_SCHED_PICTURE, &argp_picture, "Formats:"},
};

/* "auto   what it is", one line each. */
static size_t describe_algorithms(char *text, size_t bytes)
{
    size_t used = (size_t)snprintf(text, bytes, "\nAlgorithms:\n");

    for (int i = 0; i < DETOUR_ALGORITHM_COUNT && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "  %-16s %s\n",
                                 detour_algorithm_name((enum detour_algorithm)i),
                                 detour_algorithm_summary((enum detour_algorithm)i));
    return used;
}

/* The text before and, behind \v, after the options in --help. */
static void describe(const struct dt_sched_verb *verb, char *doc, size_t bytes)
{
    char formats[80];

    list_formats(verb->formats, formats, sizeof(formats));
    size_t used = (size_t)snprintf(doc, bytes, "%s\n\nFormats: %s.\n", verb->doc, formats);
    if (verb->groups & DT_SCHED_GENERATE && used < bytes)
        used += describe_algorithms(doc + used, bytes - used);
    if (used < bytes)
        snprintf(doc + used, bytes - used,
                 "\v\"-\" is standard input. docs/sched-cli.md describes the files.");
}

static int check_required(const struct parse *parse)
{
    const struct dt_sched_options *options = parse->options;

    if (parse->verb->groups & DT_SCHED_LAYERS)
        return DT_EXIT_OK; /* the verb checks its own */
    if (!options->profile_path && !options->uniform)
        refuse(parse, "--profile is missing; it names the file with stages and links (or give --uniform)");
    else if (options->profile_path && options->uniform)
        refuse(parse, "--profile and --uniform exclude each other");
    else if (parse->verb->groups & DT_SCHED_SCHEDULE && !options->schedule_path)
        refuse(parse, "--schedule is missing; it names the file with the schedule");
    else if (options->ranks.count && !options->delays_path)
        refuse(parse, "--ranks needs --delays, the file that names these ranks");
    else if (options->started.count && !options->replan)
        refuse(parse, "--started needs --now-ms, the moment to which it applies");
    else
        return DT_EXIT_OK;
    return DT_EXIT_USAGE;
}

int dt_sched_options_parse(const struct dt_sched_verb *verb, int argc, char **argv,
                           struct dt_sched_options *options)
{
    struct argp_child children[DT_COUNT_OF(groups) + 1] = {0};
    struct parse parse = {.verb = verb, .options = options};
    char doc[2048];
    int count = 0;

    *options = (struct dt_sched_options){.command = argv[0], .directions = DETOUR_BOTH_WAYS};
    for (size_t i = 0; i < DT_COUNT_OF(groups); i++) {
        if (!(verb->groups & groups[i].group))
            continue;
        children[count] =
            (struct argp_child){.argp = groups[i].argp, .header = groups[i].header, .group = count + 1};
        count++;
    }
    describe(verb, doc, sizeof(doc));
    const struct argp argp = {.options = verb->groups & DT_SCHED_LAYERS ? output_options : common_options,
                              .parser = parse_common,
                              .doc = doc,
                              .children = children};
    parse.group_count = count;
    argp_err_exit_status = DT_EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &parse))
        return DT_EXIT_USAGE;
    return check_required(&parse);
}
