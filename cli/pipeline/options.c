/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pipeline/options.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/job_env.h"
#include "base/param.h"
#include "base/util.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/pipeline/check.h"
#include "cli/pipeline/digest.h"
#include "cli/pipeline/trace.h"
#include "pipeline/gradients.h"
#include "pipeline/payload.h"

#define PAYLOAD_BYTES_MAX  (64ull * 1024 * 1024)
#define GRADIENT_BYTES_MIN (DT_PIPELINE_RANKS_MAX * DT_GRADIENTS_ELEMENT_BYTES)
#define GRADIENT_BYTES_MAX (1024ull * 1024 * 1024)

enum {
    KEY_DEVICES = 256,
    KEY_MICROBATCHES,
    KEY_SCHEDULE,
    KEY_MODE,
    KEY_LAUNCH,
    KEY_PAYLOAD,
    KEY_SLICE,
    KEY_TIMES,
    KEY_PROFILE,
    KEY_PLAN,
    KEY_SLOW_LINK,
    KEY_SLOW_DEVICE,
    KEY_ADAPT,
    KEY_KILL,
    KEY_TRACE,
    KEY_PLUGIN,
    KEY_RANK,
    KEY_RENDEZVOUS,
    KEY_TIMEOUT,
    KEY_SVG,
    KEY_PERFETTO,
    KEY_TIMELINE,
    KEY_DP,
    KEY_DP_MICROBATCHES,
    KEY_GRADIENTS,
    KEY_EXCHANGE,
    KEY_CHECKPOINT,
    KEY_EVERY,
    KEY_RESUME,
};

static const struct argp_option argp_options[] = {
    {NULL, 0, NULL, 0, "What to run:", 1},
    {"devices", KEY_DEVICES, "N", 0, "devices of the pipeline, a process each (default 4)", 0},
    {"microbatches", KEY_MICROBATCHES, "N", 0, "microbatches per iteration (default 16)", 0},
    {"schedule", KEY_SCHEDULE, "NAME", 0,
     "an algorithm of `detour sched` (default zb-h1); zb-v and interleaved place two stages on each device",
     0},
    {"times", KEY_TIMES, "F,B,W", 0, "computing times of a stage in milliseconds (default 10,10,10)", 0},
    {"profile", KEY_PROFILE, "FILE", 0,
     "stages, devices and link delays from FILE, a profile of `detour sched` in JSON, instead of --devices, "
     "--microbatches and --times",
     0},
    {"plan", KEY_PLAN, "FILE", 0,
     "the schedule in FILE, which `detour sched plan` or `optimize` has made for the profile (JSON or CSV)",
     0},
    {"iterations", 'n', "N", 0, "iterations (default 10)", 0},
    {"mode", KEY_MODE, "MODE", 0, "nccl, hostpath or delegated (default): see below", 0},
    {"payload", KEY_PAYLOAD, "SIZE", 0, "bytes of a message; K and M are powers of 1024 (default 64K)", 0},
    {"slice", KEY_SLICE, "SIZE", 0,
     "nccl: bytes of a slice of a message, of which 8 have a slot (default 512K)", 0},
    {"dp", KEY_DP, "D", 0,
     "replicas of the pipeline, which sum up their gradients at the end of each iteration (default 1)", 0},
    {"dp-microbatches", KEY_DP_MICROBATCHES, "M0,M1,...[@N]", 0,
     "with --dp: microbatches of each replica, from iteration N on (default 0); repeat it for another N. The "
     "sum stays that of --microbatches in every replica",
     0},
    {"gradients", KEY_GRADIENTS, "SIZE", 0, "with --dp: bytes of a stage's gradients (default 64K)", 0},
    {"exchange", KEY_EXCHANGE, "A-B@N[,through=DIR]", 0,
     "with --dp: ranks A and B exchange positions and parameters before iteration N; through files in DIR",
     0},
    {"launch", KEY_LAUNCH, "HOW", 0,
     "nccl: how kernels are launched: sends (default), isend, isend-free, batched or batched-free", 0},
    {"checkpoint", KEY_CHECKPOINT, "DIR", 0,
     "with --dp: write the parameters to files in DIR, with --every and when a file checkpoint-now appears "
     "there",
     0},
    {"every", KEY_EVERY, "K", 0, "a checkpoint after every K iterations", 0},
    {"resume", KEY_RESUME, NULL, 0,
     "continue from the newest checkpoint in DIR; from the beginning if there is none yet", 0},
    {NULL, 0, NULL, 0, "What is slow:", 2},
    {"slow-link", KEY_SLOW_LINK, "A-B=TIME[,serial][,from=N][,to=N]", 0,
     "messages between devices A and B, as in 2-3=20ms; in the iterations from N to (not including) N; with "
     "--dp: of every replica, or 2@1-3@1 of replica 1, or 2@0-2@1 between the replicas 0 and 1 of device 2",
     0},
    {"slow-device", KEY_SLOW_DEVICE, "D=FACTORx[,from=N][,to=N]", 0,
     "computations of device D, as in 1=1.5x; with --dp: of every replica, or 1@0 of replica 0", 0},
    {"kill", KEY_KILL, "NIC@iteration=N[,back=N]", 0,
     "the RNIC of every rank fails in the middle of iteration N, as in soft0@iteration=5,back=8; NIC may be "
     "`first`: the plugin's first",
     0},
    {"trace", KEY_TRACE, "FILE", 0,
     "links' delays over the iterations: lines START;LINKS;LATENCIES, as in 120;0_1,5_6;0.04; the latency "
     "inf is the failure of an RNIC",
     0},
    {"adapt", KEY_ADAPT, "off|iteration|control", 0,
     "change the schedule between iterations, by the plugin's verdicts or `detour control`", 0},
    {NULL, 0, NULL, 0, "Where to run it and what to write:", 3},
    {"plugin", KEY_PLUGIN, "PATH", 0, "any ncclNet v8 plugin (default: Detour's own)", 0},
    {"rank", KEY_RANK, "R", 0,
     "start only rank R here; with --rendezvous (default there: the launcher's, of mpirun, srun or torchrun)",
     0},
    {"rendezvous", KEY_RENDEZVOUS, "HOST:PORT", 0, "where rank 0 listens for the other ranks", 0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "fail after SECONDS without progress (default 30, and 90 while connecting)", 0},
    {"json", 'J', "FILE", 0, "also write the results to FILE as JSON", 0},
    {"svg", KEY_SVG, "FILE", 0,
     "draw the last iteration: the measured times of computations and messages above the predicted ones", 0},
    {"perfetto", KEY_PERFETTO, "FILE", 0,
     "write the same as Chrome's trace events, for ui.perfetto.dev or chrome://tracing", 0},
    {"timeline", KEY_TIMELINE, "N", 0,
     "the iteration that --svg and --perfetto show; --json then has its times, too", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const char command[] = "detour pipeline";

#define refuse(...) dt_arg_refuse(command, __VA_ARGS__)

struct parse {
    struct dt_pipeline_options *options;
    const char *profile_path;
    const char *plan_path;
    const char *trace_path;
    uint64_t trace_digest;
    bool has_devices;
    bool has_stages; /* --microbatches or --times */
    bool has_schedule;
    bool has_slice;
    bool has_gradients;
    bool has_launch;
};

static error_t parse_schedule(struct dt_pipeline_options *options, const char *text)
{
    if (detour_algorithm_find(text, &options->algorithm))
        return 0;
    return refuse("--schedule %s: unknown algorithm; `detour sched plan --help` lists them", text);
}

static error_t parse_launch(struct parse *parse, const char *text)
{
    parse->options->launch = dt_pipeline_launch_find(text);
    parse->has_launch = true;
    return parse->options->launch
               ? 0
               : refuse("--launch %s: expected sends, isend, isend-free, batched or batched-free", text);
}

static error_t parse_mode(struct dt_pipeline_options *options, const char *text)
{
    if (dt_pipeline_mode_find(text, &options->mode))
        return 0;
    return refuse("--mode %s: expected nccl, hostpath or delegated", text);
}

/* "F,B,W" in milliseconds. */
static error_t parse_times(struct dt_pipeline_options *options, const char *text)
{
    int64_t *const times_ns[] = {&options->f_ns, &options->b_ns, &options->w_ns};
    const char *at = text;

    for (int i = 0; i < 3; i++) {
        char *end;
        double ms = strtod(at, &end);

        if (end == at || !(ms >= 0.01 && ms <= 10000) || *end != (i < 2 ? ',' : '\0'))
            return refuse("--times %s: expected F,B,W: three times of 0.01 to 10000 ms, as in 10,10,8", text);
        *times_ns[i] = (int64_t)(ms * 1e6 + 0.5);
        at = end + 1;
    }
    return 0;
}

static error_t parse_shares(struct dt_pipeline_options *options, const char *text)
{
    if (dt_pipeline_shares_add(&options->shares, text))
        return 0;
    return refuse("--dp-microbatches %s: expected M0,M1,...[@N], a count of 1 to %d for each replica, as in "
                  "12,20@5; N rises from one to the next, of which there are at most %d",
                  text, DT_PIPELINE_SHARE_MICROBATCHES_MAX, DT_PIPELINE_SHARE_SETS_MAX);
}

static error_t parse_slow_link(struct dt_pipeline_options *options, const char *text)
{
    if (dt_pipeline_slow_add_link(&options->slow, text))
        return 0;
    return refuse("--slow-link %s: expected A-B=TIME[,serial][,from=N][,to=N], as in 2-3=20ms; A and B are "
                  "two devices, or two replicas of one as in 2@0-2@1; at most %d links",
                  text, DT_PIPELINE_SLOW_MAX);
}

static error_t parse_slow_device(struct dt_pipeline_options *options, const char *text)
{
    if (dt_pipeline_slow_add_device(&options->slow, text))
        return 0;
    return refuse(
        "--slow-device %s: expected D=FACTORx[,from=N][,to=N], as in 1=1.5x; factors are 0.01 to 100, "
        "at most %d devices",
        text, DT_PIPELINE_SLOW_MAX);
}

static error_t parse_kill(struct dt_pipeline_options *options, const char *text)
{
    if (dt_pipeline_slow_set_kill(&options->slow, text))
        return 0;
    return refuse("--kill %s: expected one NIC@iteration=N[,back=N], as in soft0@iteration=5,back=8", text);
}

static error_t parse_adapt(struct dt_pipeline_options *options, const char *text)
{
    static const char *const names[] = {[DT_PIPELINE_ADAPT_OFF] = "off",
                                        [DT_PIPELINE_ADAPT_ITERATION] = "iteration",
                                        [DT_PIPELINE_ADAPT_CONTROL] = "control"};

    for (size_t i = 0; i < DT_COUNT_OF(names); i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        options->adapt = (enum dt_pipeline_adapt)i;
        return 0;
    }
    return refuse("--adapt %s: expected off, iteration or control%s", text,
                  strcmp(text, "intra") ? "" : "; see docs/experiments.md");
}

static error_t parse_count(const char *name, const char *text, uint64_t high, uint32_t *value)
{
    uint64_t count;
    error_t failed = dt_arg_count(command, name, text, 1, high, &count);

    if (!failed)
        *value = (uint32_t)count;
    return failed;
}

/* Options of the run. */
static error_t parse_what(int key, char *arg, struct parse *parse)
{
    struct dt_pipeline_options *options = parse->options;

    switch (key) {
    case KEY_DEVICES:
        parse->has_devices = true;
        return dt_arg_int(command, "--devices", arg, 1, DT_PIPELINE_RANKS_MAX, &options->devices);
    case KEY_MICROBATCHES:
        parse->has_stages = true;
        return dt_arg_int(command, "--microbatches", arg, 1, 1024, &options->microbatches);
    case KEY_SCHEDULE:
        parse->has_schedule = true;
        return parse_schedule(options, arg);
    case KEY_PROFILE:
        parse->profile_path = arg;
        return 0;
    case KEY_PLAN:
        parse->plan_path = arg;
        return 0;
    case KEY_TIMES:
        parse->has_stages = true;
        return parse_times(options, arg);
    case 'n':
        return parse_count("--iterations", arg, 1000000, &options->iterations);
    case KEY_MODE:
        return parse_mode(options, arg);
    case KEY_LAUNCH:
        return parse_launch(parse, arg);
    case KEY_PAYLOAD:
        return dt_arg_bytes(command, "--payload", arg, DT_PIPELINE_PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX,
                            &options->payload_bytes);
    case KEY_SLICE:
        parse->has_slice = true;
        return dt_arg_bytes(command, "--slice", arg, 2 * DT_PIPELINE_PAYLOAD_BYTES_MIN, PAYLOAD_BYTES_MAX,
                            &options->slice_bytes);
    case KEY_DP:
        return dt_arg_int(command, "--dp", arg, 1, DT_PIPELINE_RANKS_MAX, &options->replicas);
    case KEY_DP_MICROBATCHES:
        return parse_shares(options, arg);
    case KEY_GRADIENTS:
        parse->has_gradients = true;
        return dt_arg_bytes(command, "--gradients", arg, GRADIENT_BYTES_MIN, GRADIENT_BYTES_MAX,
                            &options->gradient_bytes);
    case KEY_EXCHANGE:
        if (dt_pipeline_exchanges_add(&options->exchanges, arg))
            return 0;
        return refuse(
            "--exchange %s: expected A-B@N[,through=DIR]: two ranks, N from 1 on and not below that "
            "of the last one, DIR once, %d exchanges at most",
            arg, DT_PIPELINE_EXCHANGES_MAX);
    case KEY_SLOW_LINK:
        return parse_slow_link(options, arg);
    case KEY_SLOW_DEVICE:
        return parse_slow_device(options, arg);
    case KEY_KILL:
        return parse_kill(options, arg);
    case KEY_ADAPT:
        return parse_adapt(options, arg);
    case KEY_TRACE:
        parse->trace_path = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --checkpoint and its companions; else the options of the run. */
static error_t parse_checkpoints(int key, char *arg, struct parse *parse)
{
    struct dt_pipeline_checkpoints *checkpoints = &parse->options->checkpoints;

    switch (key) {
    case KEY_CHECKPOINT:
        checkpoints->directory = arg;
        return 0;
    case KEY_EVERY:
        return parse_count("--every", arg, 1000000, &checkpoints->every);
    case KEY_RESUME:
        checkpoints->resumes = true;
        return 0;
    default:
        return parse_what(key, arg, parse);
    }
}

static error_t parse_timeline(struct dt_pipeline_options *options, const char *text)
{
    options->has_timeline_option = true;
    return dt_arg_unsigned(command, "--timeline", text, 0, UINT32_MAX, &options->timeline_iteration);
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct parse *parse = state->input;
    struct dt_pipeline_options *options = parse->options;

    switch (key) {
    case KEY_PLUGIN:
        options->job.plugin_path = arg;
        return 0;
    case KEY_RANK:
        return dt_arg_int(command, "--rank", arg, 0, DT_PIPELINE_RANKS_MAX - 1, &options->job.rank);
    case KEY_RENDEZVOUS:
        options->job.rendezvous = arg;
        return 0;
    case KEY_TIMEOUT:
        options->job.connect_timeout_s = 0;
        return dt_arg_unsigned(command, "--timeout", arg, 1, 86400, &options->job.timeout_s);
    case 'J':
        options->json_path = arg;
        return 0;
    case KEY_SVG:
        options->svg_path = arg;
        return 0;
    case KEY_PERFETTO:
        options->perfetto_path = arg;
        return 0;
    case KEY_TIMELINE:
        return parse_timeline(options, arg);
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's one line is enough */
        return 0;
    case ARGP_KEY_ARG:
        return refuse("unexpected argument '%s'", arg);
    default:
        return parse_checkpoints(key, arg, parse);
    }
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .doc =
        "Runs a pipeline-parallel schedule with real messages through an ncclNet v8 plugin: a process per "
        "device, computations are timed waits, every message is checked. Prints the time and the bubbles of "
        "each iteration beside the time that the schedule library predicts. Without options: a demonstration "
        "of half a minute, in which a link becomes slow and the schedule follows.\v"
        "Modes: nccl: messages go in slices over 8 slots, and a send without a slot holds back the next "
        "computation; hostpath: sends are free once handed over; delegated: receives are prefetched as well. "
        "With hostpath and delegated DETOUR_HOSTPATH is `on` unless it is set.\n\n"
        "Exit code: 0 success; 1 a wrong message, a dead rank or a plugin error; 2 bad input; 75 ended for a "
        "restart that a controller has decided (S4).",
};

/* Without --rank: the rank comes from the launcher that started this process. */
static error_t take_rank_of_launcher(struct parse *parse)
{
    struct dt_pipeline_options *options = parse->options;
    struct dt_job_env env;

    if (!dt_job_env_find(&env, dt_getenv_process, NULL))
        return refuse("--rendezvous needs --rank, or be started by " DT_JOB_ENV_LAUNCHERS);
    if (env.ranks > DT_PIPELINE_RANKS_MAX)
        return refuse("%s has started %u processes; a pipeline has at most %d", env.launcher, env.ranks,
                      DT_PIPELINE_RANKS_MAX);
    unsigned replicas = (unsigned)options->replicas;
    unsigned devices = parse->has_devices ? (unsigned)options->devices : env.ranks / replicas;
    if (devices * replicas != env.ranks || env.rank >= env.ranks)
        return refuse("%s has started this process as rank %u of %u, but the pipeline has %" PRId32
                      " devices in %u replicas",
                      env.launcher, env.rank, env.ranks, options->devices, replicas);
    options->devices = (int32_t)devices;
    options->job.rank = (int)env.rank;
    return 0;
}

static error_t check_replicas(const struct parse *parse)
{
    const struct dt_pipeline_options *options = parse->options;

    if (options->devices * options->replicas > DT_PIPELINE_RANKS_MAX)
        return refuse("--dp %" PRId32 ": %" PRId32 " replicas of %" PRId32
                      " devices are more than %d processes",
                      options->replicas, options->replicas, options->devices, DT_PIPELINE_RANKS_MAX);
    if (parse->has_gradients && options->replicas == 1)
        return refuse("--gradients belongs to --dp: without replicas nothing is summed up");
    if (options->gradient_bytes % DT_GRADIENTS_ELEMENT_BYTES)
        return refuse("--gradients %" PRIu64 ": expected a multiple of %d, the bytes of an element",
                      options->gradient_bytes, DT_GRADIENTS_ELEMENT_BYTES);
    return 0;
}

static error_t read_files(struct parse *parse, struct dt_pipeline_input *input)
{
    struct dt_pipeline_options *options = parse->options;
    struct detour_error error;

    if (!parse->profile_path)
        return parse->plan_path ? refuse("--plan needs --profile, whose stages it is a schedule of") : 0;
    if (parse->has_devices || parse->has_stages)
        return refuse(
            "--devices, --microbatches and --times are the profile's; leave them out with --profile");
    if (parse->plan_path && parse->has_schedule)
        return refuse("--schedule and --plan both name a schedule");
    if (!dt_pipeline_input_read(input, parse->profile_path, parse->plan_path, &error))
        return refuse("%s", error.text);
    options->input = input;
    options->devices = input->profile->device_count;
    options->microbatches = input->profile->microbatch_count;
    parse->has_devices = true;
    return 0;
}

static error_t check_timeline(struct dt_pipeline_options *options)
{
    if (!options->has_timeline_option)
        options->timeline_iteration = options->iterations - 1;
    else if (!options->svg_path && !options->perfetto_path && !options->json_path)
        return refuse("--timeline needs --svg, --perfetto or --json, which show the iteration");
    if (options->timeline_iteration >= options->iterations)
        return refuse("--timeline %" PRIu32 ": iterations are 0 to %" PRIu32, options->timeline_iteration,
                      options->iterations - 1);
    return 0;
}

static error_t check(struct parse *parse)
{
    struct dt_pipeline_options *options = parse->options;

    if (options->job.rendezvous && options->job.rank < 0 && take_rank_of_launcher(parse))
        return EINVAL;
    if (options->job.rank >= 0 && !options->job.rendezvous)
        return refuse("--rank needs --rendezvous HOST:PORT, where rank 0 listens for the others");
    if (check_replicas(parse))
        return EINVAL;
    if (options->job.rank >= options->devices * options->replicas)
        return refuse(
            "--rank %d: with --devices %" PRId32 " and --dp %" PRId32 " the ranks are 0 to %" PRId32,
            options->job.rank, options->devices, options->replicas, options->devices * options->replicas - 1);
    if (parse->has_slice && options->mode != DT_PIPELINE_NCCL)
        return refuse("--slice belongs to --mode nccl; in the others a message is not cut");
    if (parse->has_launch && options->mode != DT_PIPELINE_NCCL)
        return refuse("--launch belongs to --mode nccl; in the others no kernel waits");
    return check_timeline(options) || dt_pipeline_check(options) ? EINVAL : 0;
}

static void set_defaults(struct dt_pipeline_options *options)
{
    *options = (struct dt_pipeline_options){
        .devices = 4,
        .replicas = 1,
        .gradient_bytes = 64 * 1024,
        .microbatches = 16,
        .algorithm = DETOUR_ALGORITHM_ZB_H1,
        .mode = DT_PIPELINE_DELEGATED,
        .launch = dt_pipeline_launch_at(0),
        .iterations = 10,
        .payload_bytes = 64 * 1024,
        .f_ns = 10000000,
        .b_ns = 10000000,
        .w_ns = 10000000,
        .job = {.command = command,
                .timeout_s = 30,
                .connect_timeout_s = DT_JOB_CONNECT_TIMEOUT_S,
                .rank = -1},
    };
}

/* Needs the number of devices. */
static error_t read_trace(struct parse *parse)
{
    struct dt_pipeline_options *options = parse->options;
    struct detour_error error;

    if (!parse->trace_path || dt_pipeline_trace_read(parse->trace_path, options->devices, options->iterations,
                                                     &options->slow, &parse->trace_digest, &error))
        return 0;
    return refuse("%s", error.text);
}

/* `detour pipeline` alone: a link becomes slow and recovers, and the schedule follows; half a minute. */
static void set_demonstration(struct dt_pipeline_options *options)
{
    options->f_ns = options->b_ns = options->w_ns = 5000000;
    options->iterations = 60;
    options->draw = true;
    options->adapt = DT_PIPELINE_ADAPT_ITERATION;
    dt_pipeline_slow_add_link(&options->slow, "2-3=30ms,from=10,to=35");
}

int dt_pipeline_options_parse(int argc, char **argv, struct dt_pipeline_options *options,
                              struct dt_pipeline_input *input)
{
    struct parse parse = {.options = options};

    set_defaults(options);
    if (argc == 1)
        set_demonstration(options);
    *input = (struct dt_pipeline_input){0};
    if (argp_parse(&argp, argc, argv, 0, NULL, &parse) || read_files(&parse, input) || check(&parse) ||
        read_trace(&parse)) {
        dt_pipeline_input_free(input);
        return DT_EXIT_USAGE;
    }
    options->job.ranks = (unsigned)(options->devices * options->replicas);
    options->job.digest = dt_pipeline_digest(options, parse.trace_digest);
    return DT_EXIT_OK;
}

bool dt_pipeline_options_has_timeline(const struct dt_pipeline_options *options)
{
    return options->svg_path || options->perfetto_path ||
           (options->json_path && options->has_timeline_option);
}

struct dt_pipeline_share dt_pipeline_options_share(const struct dt_pipeline_options *options, int32_t replica,
                                                   uint32_t iteration)
{
    return dt_pipeline_share_of(&options->shares, options->replicas, options->microbatches, replica,
                                iteration);
}

int32_t dt_pipeline_options_microbatches_max(const struct dt_pipeline_options *options)
{
    return dt_pipeline_shares_largest(&options->shares, options->microbatches);
}

const char *dt_pipeline_schedule_name(const struct dt_pipeline_options *options)
{
    return options->input && options->input->schedule ? "of --plan"
                                                      : detour_algorithm_name(options->algorithm);
}
