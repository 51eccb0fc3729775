/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim-pipeline: one row of a table of docs/experiments.md. Makes a schedule, runs it in virtual time
 * through the plugin (pipeline_sim.h) and prints one line of JSON: the same on every machine and in every
 * run.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "base/util.h"
#include "detour/sched.h"
#include "tests/sim/pipeline_sim.h"
#include "tests/sim/trace.h"

#define STAGES_MAX     DT_SIM_HOSTS_MAX
#define SLOW_MAX       16
#define ITERATIONS_MAX 64
#define NS_PER_MS      1000000

#include "tests/sim/stream_sim.h"

struct settings {
    int32_t devices, microbatches;
    int64_t f_ns, b_ns, w_ns;
    enum detour_algorithm algorithm;
    bool knows_delays; /* the schedule is made for the slow links */
    struct dt_pipeline_sim_options sim;
    struct dt_pipeline_slow_link slow[SLOW_MAX];
};

static const struct settings defaults = {
    .devices = 8,
    .microbatches = 32,
    .f_ns = 10 * NS_PER_MS,
    .b_ns = 10 * NS_PER_MS,
    .w_ns = 10 * NS_PER_MS,
    .algorithm = DETOUR_ALGORITHM_ZB,
    .sim = {.message_bytes = 40u << 20,
            .slice_bytes = 5u << 20,
            .slots = 8,
            .rate_bytes_per_s = 50000000000,
            .latency_ns = 5000,
            .to_host_bytes_per_s = 50000000000,
            .to_gpu_bytes_per_s = 50000000000,
            .pool_bytes = 4ull << 30,
            .iteration_count = 2,
            .seed = 1},
};

static const char help[] =
    "usage: detour-sim-pipeline [OPTION]...\n"
    "Runs a pipeline of equal stages in virtual time, through the plugin, and prints one line of JSON.\n"
    "\n"
    "  --devices N            stages, one per device (8)\n"
    "  --microbatches N       per iteration (32)\n"
    "  --times F,B,W          of a stage in ms (10,10,10)\n"
    "  --schedule NAME        zb (default), 1f1b, zb-h1, zb-h2, adaptra, ...: as `detour sched generate`\n"
    "  --replan               the schedule is made for the slow links, not for the healthy ones\n"
    "  --mode NAME            nccl (default), hostpath, delegated\n"
    "  --slow-link A-B=MSms[,serial]\n"
    "                         both directions between device A and the next one, B; up to 16 times\n"
    "  --effect TEXT          of these links instead, as `detour inject` has it; MS is what --replan "
    "assumes\n"
    "  --message BYTES        of an activation or gradient (40M)\n"
    "  --slice BYTES          of a message in mode nccl (5M), in --slots N (8)\n"
    "  --rate BYTES           of a link per second, each way (50000000000: 400 Gb/s); --latency US (5)\n"
    "  --copy-rate BYTES      of a GPU per second, each way (50000000000)\n"
    "  --pool BYTES           DETOUR_HOSTPATH_BYTES (4G)\n"
    "  --iterations N         the last one counts, mean_ns is that of all but the first (2)\n"
    "  --verbose              Detour's log\n";

static int refuse(const char *option, const char *value)
{
    fprintf(stderr, "detour-sim-pipeline: %s %s: see --help\n", option, value);
    return 2;
}

/* ---- options ---- */

static bool parse_count(const char *text, uint64_t min, uint64_t max, uint64_t *value)
{
    return dt_parse_number(text, true, value) == DT_OK && *value >= min && *value <= max;
}

static bool parse_times(const char *text, struct settings *s)
{
    double f, b, w;

    if (sscanf(text, "%lf,%lf,%lf", &f, &b, &w) != 3 || f <= 0 || b <= 0 || w < 0 || f > 1e4 || b > 1e4 ||
        w > 1e4)
        return false;
    s->f_ns = (int64_t)(f * NS_PER_MS + 0.5);
    s->b_ns = (int64_t)(b * NS_PER_MS + 0.5);
    s->w_ns = (int64_t)(w * NS_PER_MS + 0.5);
    return true;
}

static bool parse_slow(const char *text, struct settings *s)
{
    struct dt_pipeline_slow_link *slow = &s->slow[s->sim.slow_count];
    int32_t next;
    double delay_ms;
    int length = 0;

    if (s->sim.slow_count == SLOW_MAX ||
        sscanf(text, "%" SCNd32 "-%" SCNd32 "=%lfms%n", &slow->link, &next, &delay_ms, &length) != 3 ||
        !length || delay_ms < 0 || delay_ms > 1e4 || slow->link < 0 || slow->link + 1 != next)
        return false;
    slow->delay_ns = (uint64_t)(delay_ms * NS_PER_MS + 0.5);
    slow->is_serial = !strcmp(text + length, ",serial");
    s->sim.slow_count += slow->delay_ns > 0; /* a link without delay is not slow */
    return slow->is_serial || !text[length];
}

enum {
    OPTION_DEVICES,
    OPTION_MICROBATCHES,
    OPTION_TIMES,
    OPTION_SCHEDULE,
    OPTION_REPLAN,
    OPTION_MODE,
    OPTION_SLOW,
    OPTION_EFFECT,
    OPTION_MESSAGE,
    OPTION_SLICE,
    OPTION_SLOTS,
    OPTION_RATE,
    OPTION_LATENCY,
    OPTION_COPY_RATE,
    OPTION_POOL,
    OPTION_ITERATIONS,
    OPTION_VERBOSE,
    OPTION_HELP
};

static const struct option long_options[] = {
    {"devices", required_argument, NULL, OPTION_DEVICES},
    {"microbatches", required_argument, NULL, OPTION_MICROBATCHES},
    {"times", required_argument, NULL, OPTION_TIMES},
    {"schedule", required_argument, NULL, OPTION_SCHEDULE},
    {"replan", no_argument, NULL, OPTION_REPLAN},
    {"mode", required_argument, NULL, OPTION_MODE},
    {"slow-link", required_argument, NULL, OPTION_SLOW},
    {"effect", required_argument, NULL, OPTION_EFFECT},
    {"message", required_argument, NULL, OPTION_MESSAGE},
    {"slice", required_argument, NULL, OPTION_SLICE},
    {"slots", required_argument, NULL, OPTION_SLOTS},
    {"rate", required_argument, NULL, OPTION_RATE},
    {"latency", required_argument, NULL, OPTION_LATENCY},
    {"copy-rate", required_argument, NULL, OPTION_COPY_RATE},
    {"pool", required_argument, NULL, OPTION_POOL},
    {"iterations", required_argument, NULL, OPTION_ITERATIONS},
    {"verbose", no_argument, NULL, OPTION_VERBOSE},
    {"help", no_argument, NULL, OPTION_HELP},
    {0},
};

/* Numbers: where they go, and between which limits. False: the option is none of them. */
static bool set_number(struct settings *s, int option, const char *text, bool *is_good)
{
    uint64_t value = 0;
    const struct {
        int option;
        uint64_t min, max;
        uint64_t *to;
        int32_t *to_int;
        uint32_t *to_unsigned;
        uint64_t unit;
    } rows[] = {
        {OPTION_DEVICES, 2, STAGES_MAX, NULL, &s->devices, NULL, 1},
        {OPTION_MICROBATCHES, 1, 4096, NULL, &s->microbatches, NULL, 1},
        {OPTION_MESSAGE, 64, 1u << 30, &s->sim.message_bytes, NULL, NULL, 1},
        {OPTION_SLICE, 64, 1u << 30, &s->sim.slice_bytes, NULL, NULL, 1},
        {OPTION_SLOTS, 1, 32, NULL, NULL, &s->sim.slots, 1},
        {OPTION_RATE, 1000000, UINT64_C(1) << 40, &s->sim.rate_bytes_per_s, NULL, NULL, 1},
        {OPTION_LATENCY, 1, 1000000, &s->sim.latency_ns, NULL, NULL, 1000},
        {OPTION_COPY_RATE, 1000000, UINT64_C(1) << 40, &s->sim.to_host_bytes_per_s, NULL, NULL, 1},
        {OPTION_POOL, 4096, UINT64_C(1) << 36, &s->sim.pool_bytes, NULL, NULL, 1},
        {OPTION_ITERATIONS, 1, ITERATIONS_MAX, NULL, NULL, &s->sim.iteration_count, 1},
    };

    for (size_t i = 0; i < DT_COUNT_OF(rows); i++) {
        if (rows[i].option != option)
            continue;
        *is_good = parse_count(text, rows[i].min, rows[i].max, &value);
        if (rows[i].to)
            *rows[i].to = value * rows[i].unit;
        if (rows[i].to_int)
            *rows[i].to_int = (int32_t)value;
        if (rows[i].to_unsigned)
            *rows[i].to_unsigned = (uint32_t)value;
        s->sim.to_gpu_bytes_per_s = s->sim.to_host_bytes_per_s;
        return true;
    }
    return false;
}

static bool set_other(struct settings *s, int option, const char *text)
{
    switch (option) {
    case OPTION_TIMES:
        return parse_times(text, s);
    case OPTION_SCHEDULE:
        return detour_algorithm_find(text, &s->algorithm);
    case OPTION_MODE:
        return dt_pipeline_mode_find(text, &s->sim.mode);
    case OPTION_SLOW:
        return parse_slow(text, s);
    case OPTION_EFFECT:
        s->sim.effect = text;
        return true;
    case OPTION_REPLAN:
        return s->knows_delays = true;
    case OPTION_VERBOSE:
        dt_trace_start(DT_TRACE_EVENTS);
        return true;
    default:
        return false;
    }
}

/* 0, or the exit status. */
static int parse(int argc, char **argv, struct settings *s)
{
    int option, index = 0;
    bool is_good;

    while ((option = getopt_long(argc, argv, "", long_options, &index)) != -1) {
        if (option == OPTION_HELP) {
            fputs(help, stdout);
            exit(0);
        }
        if (option == '?')
            return 2;
        if (!set_number(s, option, optarg, &is_good))
            is_good = set_other(s, option, optarg);
        if (!is_good)
            return refuse(long_options[index].name, optarg ? optarg : "");
    }
    if (optind < argc)
        return refuse("argument", argv[optind]);
    for (uint32_t i = 0; i < s->sim.slow_count; i++)
        if (s->slow[i].link + 1 >= s->devices)
            return refuse("slow-link", "beyond the last device");
    if (s->sim.message_bytes % 64 || s->sim.slice_bytes % 64)
        return refuse("message, slice", "not a multiple of 64");
    return 0;
}

/* ---- schedule ---- */

struct model {
    struct detour_profile profile;
    struct detour_stage stages[STAGES_MAX];
    struct detour_link links[STAGES_MAX];
};

/*
 * What a message costs on a healthy link: it occupies the link for its bytes and arrives a latency later. The
 * copies of the host path are not in it.
 */
static void make_model(const struct settings *s, bool has_delays, struct model *model)
{
    int64_t serial_ns = (int64_t)(s->sim.message_bytes * UINT64_C(1000000000) / s->sim.rate_bytes_per_s);

    *model = (struct model){.profile = {.stage_count = s->devices,
                                        .microbatch_count = s->microbatches,
                                        .device_count = s->devices,
                                        .stages = model->stages,
                                        .links = model->links}};
    for (int32_t i = 0; i < s->devices; i++) {
        model->stages[i] =
            (struct detour_stage){.f_ns = s->f_ns, .b_ns = s->b_ns, .w_ns = s->w_ns, .device = i};
        model->links[i] = (struct detour_link){.forward_ns = (int64_t)s->sim.latency_ns,
                                               .backward_ns = (int64_t)s->sim.latency_ns,
                                               .forward_serial_ns = serial_ns,
                                               .backward_serial_ns = serial_ns};
    }
    for (uint32_t i = 0; has_delays && i < s->sim.slow_count; i++) {
        struct detour_link *link = &model->links[s->slow[i].link];
        int64_t delay_ns = (int64_t)s->slow[i].delay_ns;

        *(s->slow[i].is_serial ? &link->forward_serial_ns : &link->forward_ns) += delay_ns;
        *(s->slow[i].is_serial ? &link->backward_serial_ns : &link->backward_ns) += delay_ns;
    }
}

struct prediction {
    int64_t makespan_ns;
    int64_t lower_bound_ns;
};

/* The schedule that is executed, and what libdetour-sched expects of it on the links as they are. */
static enum detour_status plan(struct detour_arena *arena, const struct settings *s, struct model *model,
                               struct detour_program **program, struct prediction *prediction,
                               struct detour_error *error)
{
    struct detour_options options = {.algorithm = s->algorithm};
    struct detour_report *report;
    struct detour_plan *made;
    enum detour_status status;

    make_model(s, s->knows_delays, model);
    status = detour_generate(arena, &model->profile, &options, &made, error);
    if (status == DETOUR_OK) /* the order of its receives follows from the same times */
        status = detour_program_create(arena, &model->profile, made->schedule, program, error);
    make_model(s, true, model);
    if (status == DETOUR_OK)
        status = detour_simulate(arena, &model->profile, made->schedule, &report, error);
    if (status == DETOUR_OK)
        status = detour_lower_bound(arena, &model->profile, &prediction->lower_bound_ns, error);
    if (status == DETOUR_OK)
        prediction->makespan_ns = report->makespan_ns;
    return status;
}

/* ---- the run ---- */

static void print(const struct settings *s, const struct prediction *prediction,
                  const struct dt_pipeline_sim_result *results)
{
    const struct dt_pipeline_sim_result *r = &results[s->sim.iteration_count - 1];
    uint32_t first = s->sim.iteration_count > 1; /* a first iteration is not a usual one */
    uint64_t sum_ns = 0;
    double span_ns = (double)r->iteration_ns * s->devices;

    for (uint32_t i = first; i < s->sim.iteration_count; i++)
        sum_ns += results[i].iteration_ns;
    printf("{\"iteration_ns\": %" PRIu64 ", \"mean_ns\": %" PRIu64 ", \"predicted_ns\": %" PRId64
           ", \"lower_bound_ns\": %" PRId64
           ", \"bubble\": %.4f, \"waiting\": %.4f, \"held\": %.4f, \"transfers\": %" PRIu64
           ", \"bytes\": %" PRIu64 "}\n",
           r->iteration_ns, sum_ns / (s->sim.iteration_count - first), prediction->makespan_ns,
           prediction->lower_bound_ns, 1 - (double)r->compute_ns / span_ns, (double)r->wait_ns / span_ns,
           (double)r->held_ns / span_ns, r->transfers,
           2 * (uint64_t)(s->devices - 1) * (uint64_t)s->microbatches * s->sim.message_bytes);
}

static int run(struct settings *s)
{
    struct detour_arena *arena = detour_arena_create();
    struct dt_pipeline_sim_result results[ITERATIONS_MAX];
    char failure[DT_PIPELINE_SIM_TEXT_BYTES];
    struct detour_program *program = NULL;
    struct prediction prediction;
    static struct model model;
    struct detour_error error = {.text = "out of memory"};
    bool is_good = arena && plan(arena, s, &model, &program, &prediction, &error) == DETOUR_OK;

    if (!is_good) {
        fprintf(stderr, "detour-sim-pipeline: schedule: %s\n", error.text);
    } else {
        s->sim.profile = &model.profile;
        s->sim.program = program;
        s->sim.slow = s->slow;
        is_good = dt_pipeline_sim_run(&s->sim, results, failure);
        if (is_good)
            print(s, &prediction, results);
        else
            fprintf(stderr, "detour-sim-pipeline: %s\n", failure);
    }
    if (arena)
        detour_arena_destroy(arena);
    return is_good ? 0 : 1;
}

int main(int argc, char **argv)
{
    struct settings settings = defaults;
    int status;

    dt_trace_start(DT_TRACE_OFF);
    status = parse(argc, argv, &settings);
    return status ? status : run(&settings);
}
