/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/param.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/job_store.h"
#include "cli/metrics_server.h"
#include "cli/processes.h"
#include "cli/stat_events.h"
#include "cli/stat_job.h"
#include "cli/stat_metrics.h"
#include "cli/stat_trace.h"

#define COMMAND         "detour stat"
#define WATCH_S_DEFAULT 1
#define WATCH_S_MAX     3600
#define FOLLOW_NS       100000000 /* between two readings; the ring holds 1024 events */

struct request {
    struct dt_process_choice choice;
    bool is_json, is_metrics, is_events, is_follow, is_watch, is_bounded;
    const char *metrics_file, *trace_file;   /* NULL: standard output; no trace */
    struct dt_metrics_server_options server; /* port 0: none */
    const char *job;                         /* NULL: not known */
    struct dt_stat_job hosts;                /* with --redis or --host: of all hosts */
    uint64_t every_s;
    uint64_t for_s;
};

enum { KEY_REDIS = 256, KEY_HOST };

/* ---- Command line. ---- */
static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'j':
        request->is_json = true;
        return 0;
    case 'm':
    case 'P':
        request->is_metrics = true;
        request->metrics_file = arg;
        return 0;
    case 'T':
        request->trace_file = arg;
        return 0;
    case 'L':
        if (dt_metrics_server_parse(arg, &request->server))
            return 0;
        return dt_arg_refuse(COMMAND, "--listen %s: expected [ADDRESS:]PORT, as in 9464 or 10.0.0.5:9464",
                             arg);
    case 'J':
        request->job = arg;
        return 0;
    case KEY_REDIS:
        request->hosts.redis = dt_job_store_take(arg);
        return 0;
    case KEY_HOST:
        return dt_stat_job_add_host(&request->hosts, arg);
    case 'e':
        request->is_events = true;
        return 0;
    case 'F':
        request->is_follow = true;
        return 0;
    case 'w':
        request->is_watch = true;
        request->every_s = WATCH_S_DEFAULT;
        return arg ? dt_arg_count(COMMAND, "--watch", arg, 1, WATCH_S_MAX, &request->every_s) : 0;
    case 'f':
        request->is_bounded = true;
        return dt_arg_count(COMMAND, "--for", arg, 0, 1000000, &request->for_s);
    case ARGP_KEY_ARG:
        return dt_arg_refuse(COMMAND, "unexpected argument '%s'", arg);
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's one line is enough */
        state->child_inputs[0] = &request->choice;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"json", 'j', NULL, 0, "everything as JSON; `links` is input of `detour sched adapt --delays -`", 0},
    {"metrics", 'm', "FILE", OPTION_ARG_OPTIONAL,
     "counters in Prometheus' text format; FILE is replaced in one step, as node_exporter's textfile "
     "directory "
     "needs it, with --watch again and again",
     0},
    {"prometheus", 'P', NULL, OPTION_HIDDEN, "the name of --metrics in Detour 0.1", 0},
    {"listen", 'L', "[ADDRESS:]PORT", 0,
     "with --metrics: answer GET /metrics until Control-C; on 127.0.0.1, or on the IPv4 address", 0},
    {"job", 'J', "NAME", 0,
     "with --redis or --host: the links of all hosts of this job, as `detour agent` reports them, and what "
     "`detour control` has found and decided; with --metrics: the label `job` (default: SLURM_JOB_ID)",
     0},
    {"redis", KEY_REDIS, "URL", 0,
     "with --job: the store that the job's agents and controller share (default: DETOUR_REDIS)", 0},
    {"host", KEY_HOST, "NAME=DIR", 0,
     "with --job: a host of this machine and its runtime directory (repeatable)", 0},
    {"trace", 'T', "FILE", 0,
     "write traffic, verdicts and failovers to FILE, for ui.perfetto.dev, until Control-C or the end of "
     "--for",
     0},
    {"events", 'e', NULL, 0, "events, the oldest first; with --json one JSON object per line", 0},
    {"follow", 'F', NULL, 0, "with --events: print new events as they occur, until Control-C", 0},
    {"watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL,
     "repeat the table, with bytes per second, or --metrics=FILE every SECONDS (default 1) until Control-C",
     0},
    {"for", 'f', "SECONDS", 0, "with --watch, --follow or --trace: end after this time", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_child argp_children[] = {{&dt_process_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp argp = {
    .children = argp_children,
    .options = argp_options,
    .parser = parse_one,
    .doc = "Prints the counters of running processes and which links are slow.\v"
           "Without an option: one line for each connection. P99 is accurate to a factor of two. RETRIES are "
           "messages sent again over another path, SWITCHES the number of failed paths. VERDICT is the "
           "sender's.\n"
           "\n"
           "Processes are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID).\n"
           "Exit code: 0 done; 1 no process of yours uses Detour; 2 bad input.",
};

static int check_job(struct request *request)
{
    struct dt_stat_job *hosts = &request->hosts;

    if (request->job && !request->is_metrics && !hosts->redis && !hosts->host_count)
        hosts->redis = dt_job_store_of_environment();
    if (!hosts->redis && !hosts->host_count)
        return request->job && !request->is_metrics
                   ? dt_arg_refuse(COMMAND,
                                   "--job needs --redis URL or --host NAME=DIR, where the job's hosts "
                                   "are found; or --metrics, whose label it is")
                   : 0;
    if (!request->job)
        return dt_arg_refuse(COMMAND, "%s needs --job NAME", hosts->redis ? "--redis" : "--host");
    if (hosts->redis && hosts->host_count)
        return dt_arg_refuse(COMMAND, "one of --redis and --host");
    if (request->is_metrics || request->is_events || request->is_watch || request->trace_file ||
        request->choice.pid)
        return dt_arg_refuse(COMMAND, "--job with --redis or --host goes with --json or alone");
    return 0;
}

static int check_request(struct request *request)
{
    bool is_trace = request->trace_file != NULL;

    if (request->is_json + request->is_metrics + is_trace > 1)
        return dt_arg_refuse(COMMAND, "one of --json, --metrics and --trace");
    if (request->is_events && (request->is_metrics || is_trace))
        return dt_arg_refuse(COMMAND, "combine --events with --json or use it alone");
    if (request->is_watch && (request->is_json || request->is_events || is_trace ||
                              (request->is_metrics && !request->metrics_file)))
        return dt_arg_refuse(COMMAND, "--watch repeats the table or --metrics=FILE");
    if (request->is_follow && !request->is_events)
        return dt_arg_refuse(COMMAND, "--follow belongs to --events");
    if (request->is_bounded && !request->is_watch && !request->is_follow && !is_trace)
        return dt_arg_refuse(COMMAND, "--for belongs to --watch, --follow or --trace");
    if (request->server.port && (!request->is_metrics || request->metrics_file))
        return dt_arg_refuse(COMMAND, "--listen belongs to --metrics without a file");
    return check_job(request);
}

/* ---- Reading. ---- */
static int read_pages(const struct dt_params *params, const struct request *request,
                      struct detour_stat_snapshot **snapshot)
{
    char error[DETOUR_STAT_ERROR_BYTES];

    if (detour_stat_read(params->runtime_dir, request->choice.pid, snapshot, error) != DETOUR_STAT_OK) {
        dt_arg_refuse(COMMAND, "%s", error);
        return DT_EXIT_FAILED;
    }
    return DT_EXIT_OK;
}

static int print(const struct request *request, const struct detour_stat_snapshot *snapshot)
{
    struct dt_stat_seen seen = {0};
    bool is_printed = true;

    if (request->is_events && !request->is_json)
        dt_stat_print_events_head();
    if (request->is_events)
        is_printed = dt_stat_print_events(snapshot, request->is_json, &seen);
    else if (request->is_json)
        is_printed = dt_stat_print_json(snapshot);
    else if (request->is_metrics)
        dt_metrics_write(stdout, snapshot, &(struct dt_metrics_labels){.job = request->job});
    else
        dt_stat_print_table(snapshot, NULL);
    dt_stat_seen_free(&seen);
    if (is_printed)
        return DT_EXIT_OK;
    dt_arg_refuse(COMMAND, "out of memory");
    return DT_EXIT_FAILED;
}

static int show_once(const struct dt_params *params, const struct request *request)
{
    struct detour_stat_snapshot *snapshot;
    int code = read_pages(params, request, &snapshot);

    if (code != DT_EXIT_OK)
        return code;
    if (detour_stat_process_count(snapshot) == 0) {
        dt_arg_refuse(COMMAND, "no process of yours uses Detour now (looked in %s)",
                      params->runtime_dir[0] ? params->runtime_dir : "the default DETOUR_RUNTIME_DIR");
        code = DT_EXIT_FAILED;
    } else {
        code = print(request, snapshot);
    }
    detour_stat_free(snapshot);
    return code;
}

/* Processes may start and end in the meantime. */
static int watch(const struct dt_params *params, const struct request *request)
{
    struct detour_stat_snapshot *before = NULL, *snapshot;
    bool is_terminal = isatty(STDOUT_FILENO);
    uint64_t shown_s = 0;
    int code;

    for (;;) {
        const struct timespec pause = {.tv_sec = (time_t)request->every_s};

        code = read_pages(params, request, &snapshot);
        if (code != DT_EXIT_OK)
            break;
        fputs(is_terminal ? "\033[H\033[2J" : before ? "\n" : "", stdout);
        dt_stat_print_table(snapshot, before);
        detour_stat_free(before);
        before = snapshot;
        if (fflush(stdout) || ferror(stdout) ||
            (request->is_bounded && shown_s + request->every_s > request->for_s))
            break;
        shown_s += request->every_s;
        nanosleep(&pause, NULL);
    }
    detour_stat_free(before);
    return code;
}

/* Processes may start and end in the meantime. */
static int follow(const struct dt_params *params, const struct request *request)
{
    const struct timespec pause = {.tv_nsec = FOLLOW_NS};
    struct detour_stat_snapshot *snapshot;
    struct dt_stat_seen seen = {0};
    uint64_t end_ns = request->is_bounded ? dt_clock_now_ns() + request->for_s * DT_NS_PER_S : DT_NEVER_NS;
    bool is_printed;
    int code;

    if (!request->is_json)
        dt_stat_print_events_head();
    for (;;) {
        bool is_last = dt_clock_now_ns() >= end_ns;

        code = read_pages(params, request, &snapshot);
        if (code != DT_EXIT_OK)
            break;
        is_printed = dt_stat_print_events(snapshot, request->is_json, &seen);
        detour_stat_free(snapshot);
        if (!is_printed) {
            dt_arg_refuse(COMMAND, "out of memory");
            code = DT_EXIT_FAILED;
        }
        if (fflush(stdout) || ferror(stdout) || !is_printed || is_last)
            break;
        nanosleep(&pause, NULL);
    }
    dt_stat_seen_free(&seen);
    return code;
}

/* ---- Files. ---- */

struct chosen {
    const struct detour_stat_snapshot *snapshot;
    const char *job;
};

static bool write_chosen(void *arg, FILE *out, char *reason, size_t reason_bytes)
{
    const struct chosen *chosen = arg;

    (void)reason;
    (void)reason_bytes;
    dt_metrics_write(out, chosen->snapshot, &(struct dt_metrics_labels){.job = chosen->job});
    return true;
}

/* The file of --metrics is written without any process, too: that none is left is a result. */
static int save_metrics(const struct dt_params *params, const struct request *request)
{
    struct detour_stat_snapshot *snapshot;
    struct chosen chosen = {.job = request->job};
    char reason[256];
    int code = read_pages(params, request, &snapshot);

    if (code != DT_EXIT_OK)
        return code;
    chosen.snapshot = snapshot;
    if (!dt_metrics_save(request->metrics_file, write_chosen, &chosen, reason, sizeof reason)) {
        dt_arg_refuse(COMMAND, "--metrics %s: %s", request->metrics_file, reason);
        code = DT_EXIT_FAILED;
    }
    detour_stat_free(snapshot);
    return code;
}

/* Goes on after a failure, for example of a full disk: the next file may be written. The last one decides. */
static int keep_metrics(const struct dt_params *params, const struct request *request)
{
    const struct timespec pause = {.tv_sec = (time_t)request->every_s};
    int code = save_metrics(params, request);

    for (uint64_t s = request->every_s; request->is_watch && (!request->is_bounded || s <= request->for_s);
         s += request->every_s) {
        nanosleep(&pause, NULL);
        code = save_metrics(params, request);
    }
    return code;
}

/* Snapshots until the time is over or a signal arrives, which the caller has blocked. */
static int follow_trace(const struct dt_params *params, const struct request *request,
                        const sigset_t *signals, struct dt_stat_trace *trace)
{
    const struct timespec pause = {.tv_nsec = FOLLOW_NS};
    uint64_t end_ns = request->is_bounded ? dt_clock_now_ns() + request->for_s * DT_NS_PER_S : DT_NEVER_NS;
    struct detour_stat_snapshot *snapshot;
    int code = DT_EXIT_OK;

    for (bool is_last = false; code == DT_EXIT_OK;) {
        code = read_pages(params, request, &snapshot);
        if (code == DT_EXIT_OK && !dt_stat_trace_add(trace, snapshot)) {
            dt_arg_refuse(COMMAND, "out of memory");
            code = DT_EXIT_FAILED;
        }
        if (is_last)
            break;
        is_last = sigtimedwait(signals, NULL, &pause) > 0 || dt_clock_now_ns() >= end_ns;
    }
    return code;
}

static int write_trace(const struct dt_params *params, const struct request *request)
{
    FILE *out = fopen(request->trace_file, "we");
    struct dt_stat_trace *trace = out ? dt_stat_trace_begin(out) : NULL;
    int code = DT_EXIT_FAILED;
    sigset_t signals, old;
    bool is_written;

    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    if (trace) {
        sigprocmask(SIG_BLOCK, &signals, &old);
        code = follow_trace(params, request, &signals, trace);
        dt_stat_trace_end(trace);
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    is_written = trace && !ferror(out);
    is_written = out && !fclose(out) && is_written;
    if (!is_written) {
        dt_arg_refuse(COMMAND, "--trace %s: %s", request->trace_file, strerror(errno));
        code = DT_EXIT_FAILED;
    }
    return code;
}

/* ---- The port. ---- */

static int listen_for_scrapes(const struct dt_params *params, const struct request *request)
{
    struct dt_metrics_server_options options = request->server;
    struct dt_metrics_host host = {params->runtime_dir, {.job = request->job}};
    struct dt_metrics_server *server;
    sigset_t signals, old;
    char reason[256];
    int signal;

    options.write_metrics = dt_metrics_write_host;
    options.arg = &host;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, &old); /* for the server's thread, too */
    server = dt_metrics_server_start(&options, reason, sizeof reason);
    if (server)
        sigwait(&signals, &signal);
    else
        dt_arg_refuse(COMMAND, "%s", reason);
    dt_metrics_server_stop(server);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return server ? DT_EXIT_OK : DT_EXIT_FAILED;
}

int dt_stat_command(int argc, char **argv)
{
    struct request request = {.choice = {.command = COMMAND}};
    struct dt_params params;
    char reason[512];

    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request))
        return DT_EXIT_USAGE;
    if (dt_params_load(&params, dt_getenv_process, NULL, reason, sizeof reason) != DT_OK) {
        dt_arg_refuse(COMMAND, "%s", reason);
        return DT_EXIT_USAGE;
    }
    request.hosts.name = request.job;
    if (request.hosts.redis || request.hosts.host_count)
        return dt_stat_job_show(&request.hosts, request.is_json);
    if (!request.job)
        request.job = getenv("SLURM_JOB_ID");
    if (request.is_follow)
        return follow(&params, &request);
    if (request.server.port)
        return listen_for_scrapes(&params, &request);
    if (request.metrics_file)
        return keep_metrics(&params, &request);
    if (request.trace_file)
        return write_trace(&params, &request);
    return request.is_watch ? watch(&params, &request) : show_once(&params, &request);
}
