/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/perf/options.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/job_env.h"
#include "base/util.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/perf/pairs_file.h"
#include "cli/perf/protocol.h"
#include "cli/validation.h"

#define MIB (1024ull * 1024)

enum {
    KEY_WINDOW = 256,
    KEY_RANKS,
    KEY_CHANNELS,
    KEY_PLUGIN,
    KEY_PROTOCOL,
    KEY_RAW,
    KEY_FLUSH,
    KEY_TIMEOUT,
    KEY_SECONDS,
    KEY_SERIES,
    KEY_PLOT,
    KEY_RANK,
    KEY_RENDEZVOUS,
    KEY_PAIRS,
    KEY_SLOW
};

static const struct argp_option argp_options[] = {
    {NULL, 0, NULL, 0, "What to run (SIZE is in bytes; K, M and G are powers of 1024):", 1},
    {"minbytes", 'b', "SIZE", 0, "first size (default 32M)", 0},
    {"maxbytes", 'e', "SIZE", 0, "last size (default: the first)", 0},
    {"stepbytes", 'i', "SIZE", 0, "add SIZE from one size to the next", 0},
    {"stepfactor", 'f', "N", 0, "multiply by N from one size to the next (default 2)", 0},
    {"iters", 'n', "N", 0, "timed iterations per size (default 20)", 0},
    {"seconds", KEY_SECONDS, "S", 0, "repeat the timed iterations until S seconds have passed, for each size",
     0},
    {"warmup_iters", 'w', "N", 0, "iterations before the timed ones (default 1)", 0},
    {"check", 'c', "0|1|2", 0,
     "compare the data: 0 never, 1 in iterations after the timed ones (default), 2 always", 0},
    {"datatype", 'd', "TYPE", 0, "element type (default float)", 0},
    {"op", 'o', "REDOP", 0, "reduction: sum, max or min (default sum)", 0},
    {"protocol", KEY_PROTOCOL, "auto|simple|ll", 0,
     "NCCL's protocol; auto (default): LL for small collectives, as NCCL", 0},
    {"raw", KEY_RAW, NULL, 0, "send from and receive into user buffers, one isend per message", 0},
    {"window", KEY_WINDOW, "N", 0, "with --raw: messages in flight per connection and direction (default 8)",
     0},
    {"flush", KEY_FLUSH, NULL, 0, "call iflush after every receive, as NCCL does for GPU memory", 0},
    {"pairs", KEY_PAIRS, "ring|tree|LINKS|FILE", 0,
     "instead of an operation: validate every link of this plan (LINKS: for example 0-1,2-3,0-2; FILE: "
     "NAME.json, as `detour mitigate --validation --json` prints it), messages of -b bytes (default 1M), -n "
     "round trips, and the ranks' computing; print which is slow",
     0},
    {"slow", KEY_SLOW, "FACTOR", 0,
     "with --pairs: slow is what takes longer than FACTOR medians (default 1.1)", 0},
    {NULL, 0, NULL, 0, "What to run it on:", 2},
    {"plugin", KEY_PLUGIN, "PATH", 0, "any ncclNet v8 plugin (default: Detour's own)", 0},
    {"ranks", KEY_RANKS, "N", 0, "number of ranks, at most 1024; started here as processes (default 2)", 0},
    {"channels", KEY_CHANNELS, "N", 0,
     "connections per neighbor, in turn on the plugin's devices"
     " (default: one per device)",
     0},
    {"rank", KEY_RANK, "R", 0,
     "start only rank R here; with --rendezvous (default there: the launcher's, of mpirun, srun or torchrun)",
     0},
    {"rendezvous", KEY_RENDEZVOUS, "HOST:PORT", 0, "where rank 0 listens for the other ranks", 0},
    {"timeout", KEY_TIMEOUT, "SECONDS", 0,
     "fail after SECONDS without progress (default 30, and 90 while connecting)", 0},
    {NULL, 0, NULL, 0, "What to write:", 3},
    {"json", 'J', "FILE", 0, "also write the results to FILE as JSON", 0},
    {"series", KEY_SERIES, "FILE", 0, "write to FILE what each rank receives, a JSON line every 100 ms", 0},
    {"plot", KEY_PLOT, "FILE", 0,
     "draw the bandwidth over time: as text below the table, and to FILE as an SVG picture", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

struct parse {
    struct dt_perf_options *options;
    bool has_bytes_min;
    bool has_bytes_max;
    bool has_slow;
    bool has_step_bytes;
    bool has_window;
    bool has_ranks;
};

static const char command[] = "detour perf";

#define refuse(...) dt_arg_refuse(command, __VA_ARGS__)

static error_t parse_unsigned(const char *name, const char *text, unsigned low, unsigned high,
                              unsigned *value)
{
    return dt_arg_unsigned(command, name, text, low, high, value);
}

static error_t parse_number(const char *name, const char *text, uint64_t low, uint64_t high, uint64_t *value)
{
    return dt_arg_count(command, name, text, low, high, value);
}

/* Sizes up to 1 TiB: sums and products of a few of them stay far from overflowing. */
static error_t parse_size(const char *name, const char *text, uint64_t low, uint64_t *value)
{
    return dt_arg_bytes(command, name, text, low, MIB * MIB, value);
}

static error_t parse_check(struct parse *parse, const char *text)
{
    unsigned value;
    error_t failed = parse_unsigned("-c", text, 0, 2, &value);

    if (!failed)
        parse->options->check = (enum dt_perf_check)value;
    return failed;
}

static error_t parse_type(struct parse *parse, const char *text)
{
    parse->options->type = dt_perf_type_find(text);
    return parse->options->type ? 0 : refuse("-d %s: expected one of %s", text, dt_perf_type_names());
}

static error_t parse_redop(struct parse *parse, const char *text)
{
    parse->options->redop = dt_perf_redop_find(text);
    return parse->options->redop < DT_PERF_REDOP_COUNT ? 0 : refuse("-o %s: expected sum, max or min", text);
}

static error_t parse_protocol(struct parse *parse, const char *text)
{
    parse->options->protocol = dt_perf_protocol_find(text);
    return parse->options->protocol < DT_PERF_PROTOCOL_COUNT
               ? 0
               : refuse("--protocol %s: expected auto, simple or ll", text);
}

static error_t parse_op(struct parse *parse, const char *text)
{
    if (parse->options->op)
        return refuse("unexpected argument '%s' after the operation", text);
    parse->options->op = dt_perf_op_find(text);
    if (parse->options->op)
        return 0;
    return refuse("unknown operation '%s'; `detour perf --help` lists the operations", text);
}

static error_t parse_slow(struct parse *parse, const char *text)
{
    double factor;

    if (dt_arg_decimal(command, "--slow", text, 1000, &factor))
        return EINVAL;
    parse->has_slow = true;
    parse->options->slow_permille = (int32_t)(factor * 1000 + 0.5);
    return factor > 1 ? 0 : refuse("--slow %s: expected a factor above 1", text);
}

/* Options of the operation. */
static error_t parse_what(int key, char *arg, struct parse *parse)
{
    struct dt_perf_options *options = parse->options;

    switch (key) {
    case 'b':
        parse->has_bytes_min = true;
        return parse_size("-b", arg, 0, &options->bytes_min);
    case 'e':
        parse->has_bytes_max = true;
        return parse_size("-e", arg, 0, &options->bytes_max);
    case 'i':
        parse->has_step_bytes = true;
        return parse_size("-i", arg, 1, &options->step_bytes);
    case 'f':
        return parse_number("-f", arg, 1, 1024, &options->step_factor);
    case 'n':
        return parse_number("-n", arg, 1, UINT32_MAX, &options->iterations);
    case 'w':
        return parse_number("-w", arg, 0, UINT32_MAX, &options->warmup_iterations);
    case KEY_SECONDS:
        return parse_unsigned("--seconds", arg, 1, 86400, &options->seconds);
    case 'c':
        return parse_check(parse, arg);
    case 'd':
        return parse_type(parse, arg);
    case 'o':
        return parse_redop(parse, arg);
    case KEY_PROTOCOL:
        return parse_protocol(parse, arg);
    case KEY_RAW:
        options->raw = true;
        return 0;
    case KEY_WINDOW:
        parse->has_window = true;
        return parse_unsigned("--window", arg, 1, DT_PERF_WINDOW_MAX, &options->window);
    case KEY_FLUSH:
        options->flush = true;
        return 0;
    case KEY_PAIRS:
        options->pairs = dt_perf_pairs_is_file(arg) ? dt_perf_pairs_read_file(arg) : arg;
        if (!options->pairs)
            return EINVAL;
        return dt_validation_is_known(options->pairs)
                   ? 0
                   : refuse("--pairs %s: expected ring, tree, FILE.json or up to %d links such as 0-1,2-3",
                            arg, DT_VALIDATION_LINKS_MAX);
    case KEY_SLOW:
        return parse_slow(parse, arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Options of ranks, connections and output, and argp's own keys. */
static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct parse *parse = state->input;
    struct dt_perf_options *options = parse->options;
    unsigned rank;

    switch (key) {
    case KEY_PLUGIN:
        options->job.plugin_path = arg;
        return 0;
    case KEY_RANKS:
        parse->has_ranks = true;
        return parse_unsigned("--ranks", arg, 1, DT_JOB_RANKS_MAX, &options->job.ranks);
    case KEY_CHANNELS:
        return parse_unsigned("--channels", arg, 1, DT_PERF_CHANNELS_MAX, &options->channels);
    case KEY_RANK:
        if (parse_unsigned("--rank", arg, 0, DT_JOB_RANKS_MAX - 1, &rank))
            return EINVAL;
        options->job.rank = (int)rank;
        return 0;
    case KEY_RENDEZVOUS:
        options->job.rendezvous = arg;
        return 0;
    case KEY_TIMEOUT:
        options->job.connect_timeout_s = 0;
        return parse_unsigned("--timeout", arg, 1, 86400, &options->job.timeout_s);
    case 'J':
        options->json_path = arg;
        return 0;
    case KEY_SERIES:
        options->series_path = arg;
        return 0;
    case KEY_PLOT:
        options->plot_path = arg;
        return 0;
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's one line is enough: no "Try --help" after it */
        return 0;
    case ARGP_KEY_ARG:
        return parse_op(parse, arg);
    default:
        return parse_what(key, arg, parse);
    }
}

/* "all_reduce   what it does", one line each, after the options of --help. */
static char *help_filter(int key, const char *text, void *input)
{
    char *help = NULL;
    size_t bytes;

    (void)input;
    if (key != ARGP_KEY_HELP_EXTRA)
        return (char *)text;
    FILE *out = open_memstream(&help, &bytes);
    if (!out)
        return NULL;
    fputs("Operations:", out);
    for (size_t i = 0; dt_perf_ops[i]; i++)
        fprintf(out, "\n  %-14s %s", dt_perf_ops[i]->name, dt_perf_ops[i]->summary);
    fputs("\n\nExit code: 0 success; 1 wrong data, dead rank or plugin error; 2 bad input.", out);
    fclose(out);
    return help; /* argp frees it */
}

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "OPERATION\n--pairs=ring|tree|LINKS|FILE",
    .doc = "Runs a communication pattern through an ncclNet v8 plugin the way NCCL does, checks every byte "
           "and prints times and bandwidths.",
    .help_filter = help_filter,
};

/* Dependencies between options of the operation. */
static error_t check_what(struct parse *parse)
{
    struct dt_perf_options *options = parse->options;
    const struct dt_perf_op *op = options->op;

    if (!parse->has_bytes_max)
        options->bytes_max = options->bytes_min;
    if (parse->has_step_bytes)
        options->step_factor = 1;
    if (options->bytes_max < options->bytes_min)
        return refuse("-e (%" PRIu64 ") is smaller than -b (%" PRIu64 ")", options->bytes_max,
                      options->bytes_min);
    if (op->bytes_max && options->bytes_max > op->bytes_max)
        return refuse("%s takes sizes up to %zu bytes", op->name, op->bytes_max);
    if (options->protocol == DT_PERF_LL && op->is_p2p)
        return refuse(
            "--protocol ll is not possible with %s: over a network, NCCL sends and receives with Simple",
            op->name);
    if (options->raw && !op->has_raw)
        return refuse("--raw is not possible with %s, only with sendrecv", op->name);
    if (options->raw && options->bytes_max > 1024 * MIB)
        return refuse("--raw takes sizes up to 1G: the largest message of ncclNet v8");
    if (parse->has_window && !options->raw)
        return refuse("--window needs --raw; without it there are NCCL's %d steps", DT_PERF_STEPS);
    return 0;
}

/* The same with --pairs. */
static error_t check_pairs(struct parse *parse)
{
    struct dt_perf_options *options = parse->options;

    if (!parse->has_bytes_min)
        options->bytes_min = MIB;
    if (options->op || parse->has_bytes_max || options->raw || options->seconds || options->series_path ||
        options->plot_path || options->channels)
        return refuse(
            "--pairs stands alone: no operation, -e, --raw, --seconds, --channels, --series, --plot");
    if (options->bytes_min < DT_PERF_PAIRS_BYTES_MIN || options->bytes_min > DT_PERF_PAIRS_BYTES_MAX)
        return refuse("-b %" PRIu64 ": with --pairs from %d to 1G", options->bytes_min,
                      DT_PERF_PAIRS_BYTES_MIN);
    if (options->iterations > DT_PERF_PAIRS_ITERATIONS_MAX)
        return refuse("-n %" PRIu64 ": with --pairs at most %d", options->iterations,
                      DT_PERF_PAIRS_ITERATIONS_MAX);
    return 0;
}

/* Without --rank: the rank comes from the launcher that started this process. */
static error_t take_rank_of_launcher(struct parse *parse)
{
    struct dt_perf_options *options = parse->options;
    struct dt_job_env env;

    if (!dt_job_env_find(&env, dt_getenv_process, NULL))
        return refuse("--rendezvous needs --rank: which of the %u ranks this process is; or be started "
                      "by " DT_JOB_ENV_LAUNCHERS,
                      options->job.ranks);
    if (parse->has_ranks && env.ranks != options->job.ranks)
        return refuse("--ranks %u, but %s has started %u; leave --ranks out", options->job.ranks,
                      env.launcher, env.ranks);
    if (env.ranks > DT_JOB_RANKS_MAX || env.rank >= env.ranks)
        return refuse("%s numbers this process rank %u of %u; at most %u ranks are possible", env.launcher,
                      env.rank, env.ranks, DT_JOB_RANKS_MAX);
    options->job.ranks = env.ranks;
    options->job.rank = (int)env.rank;
    return 0;
}

/* Dependencies between options of ranks and channels. */
static error_t check_where(struct parse *parse)
{
    struct dt_perf_options *options = parse->options;
    const struct dt_perf_op *op = options->op;
    unsigned ranks_min = op ? op->ranks_min : 2;

    if (options->job.rendezvous && options->job.rank < 0 && take_rank_of_launcher(parse))
        return EINVAL;
    if (options->job.ranks < ranks_min)
        return refuse("%s needs at least %u ranks", op ? op->name : "--pairs", ranks_min);
    if (op && op->channels_max && options->channels > op->channels_max)
        return refuse("%s takes at most %u channels", op->name, op->channels_max);
    if (options->job.rank >= 0 && !options->job.rendezvous)
        return refuse("--rank needs --rendezvous HOST:PORT, where rank 0 listens for the others");
    if (options->job.rank >= (int)options->job.ranks)
        return refuse("--rank %d: with --ranks %u the ranks are 0 to %u", options->job.rank,
                      options->job.ranks, options->job.ranks - 1);
    return 0;
}

static void set_defaults(struct dt_perf_options *options)
{
    *options = (struct dt_perf_options){
        .type = dt_perf_type_find("float"),
        .redop = DT_PERF_SUM,
        .bytes_min = 32 * MIB,
        .step_factor = 2,
        .iterations = 20,
        .warmup_iterations = 1,
        .check = DT_PERF_CHECK_AFTER,
        .window = 8,
        .slow_permille = 1100,
        .job = {.command = command,
                .ranks = 2,
                .timeout_s = 30,
                .connect_timeout_s = DT_JOB_CONNECT_TIMEOUT_S,
                .rank = -1},
    };
}

/* The ranks of a list of links are there. */
static error_t check_plan(const struct dt_perf_options *options)
{
    struct detour_arena *arena = detour_arena_create();
    struct detour_error reason = {DETOUR_NO_MEMORY, "out of memory"};
    const struct detour_validation *plan;
    error_t error = 0;

    if (!arena ||
        dt_validation_make(arena, options->pairs, (int32_t)options->job.ranks, &plan, &reason) != DETOUR_OK)
        error = refuse("--pairs: %s", reason.text);
    detour_arena_destroy(arena);
    return error;
}

int dt_perf_options_parse(int argc, char **argv, struct dt_perf_options *options)
{
    struct parse parse = {.options = options};

    set_defaults(options);
    if (argp_parse(&argp, argc, argv, 0, NULL, &parse))
        return DT_EXIT_USAGE;
    if (!options->op && !options->pairs) {
        refuse("no operation given; `detour perf --help` lists the operations");
        return DT_EXIT_USAGE;
    }
    if (parse.has_slow && !options->pairs) {
        refuse("--slow needs --pairs");
        return DT_EXIT_USAGE;
    }
    if ((options->pairs ? check_pairs(&parse) : check_what(&parse)) || check_where(&parse))
        return DT_EXIT_USAGE;
    if (options->pairs && check_plan(options))
        return DT_EXIT_USAGE;
    options->job.digest = dt_perf_options_digest(options);
    return DT_EXIT_OK;
}

uint64_t dt_perf_options_digest(const struct dt_perf_options *options)
{
    char text[512];

    snprintf(text, sizeof text,
             "%s %s %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64
             " %d %d %d %u %d %u %u %u %d",
             options->pairs ? "pairs" : options->op->name, options->type->name, options->redop,
             options->bytes_min, options->bytes_max, options->step_bytes, options->step_factor,
             options->iterations, options->warmup_iterations, options->check, options->protocol, options->raw,
             options->window, options->flush, options->job.ranks, options->channels, options->seconds,
             (int)options->slow_permille);
    uint64_t digest = dt_digest_add(DT_DIGEST_EMPTY, text, strlen(text));

    return options->pairs ? dt_digest_add(digest, options->pairs, strlen(options->pairs)) : digest;
}

uint64_t dt_perf_next_size(const struct dt_perf_options *options, uint64_t bytes)
{
    uint64_t next = options->step_factor > 1 ? bytes * options->step_factor : bytes + options->step_bytes;

    if (next == bytes) /* 0 times a factor, or a factor of 1 without -i */
        next = bytes ? UINT64_MAX : options->type->bytes;
    return next <= options->bytes_max ? next : 0;
}
