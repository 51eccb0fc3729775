/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/stat.h"

#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/param.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "cli/stat_events.h"

#define COMMAND         "detour stat"
#define WATCH_S_DEFAULT 1
#define WATCH_S_MAX     3600
#define FOLLOW_NS       100000000 /* between two readings; the ring holds 1024 events */

struct request {
    struct dt_process_choice choice;
    bool is_json, is_prometheus, is_events, is_follow, is_watch, is_bounded;
    uint64_t every_s;
    uint64_t for_s;
};

/* ---- Command line. ---- */
static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'j':
        request->is_json = true;
        return 0;
    case 'P':
        request->is_prometheus = true;
        return 0;
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
    {"prometheus", 'P', NULL, 0, "counters in Prometheus' text format", 0},
    {"events", 'e', NULL, 0, "events, the oldest first; with --json one JSON object per line", 0},
    {"follow", 'F', NULL, 0, "with --events: print new events as they occur, until Control-C", 0},
    {"watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL,
     "repeat the table every SECONDS (default 1), with bytes per second, until Control-C", 0},
    {"for", 'f', "SECONDS", 0, "with --watch or --follow: end after this time", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_child argp_children[] = {{&dt_process_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp argp = {
    .children = argp_children,
    .options = argp_options,
    .parser = parse_one,
    .doc = "Prints the counters of running processes and which links are slow.\v"
           "Without an option: one line for each connection. P99 is accurate to a factor of two. RETRIES are "
           "messages "
           "sent "
           "again over another path, SWITCHES the number of failed paths. VERDICT is the sender's.\n"
           "\n"
           "Processes are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID).\n"
           "Exit code: 0 done; 1 no process of yours uses Detour; 2 bad input.",
};

static int check_request(const struct request *request)
{
    if (request->is_json + request->is_prometheus > 1)
        return dt_arg_refuse(COMMAND, "--json or --prometheus, not both");
    if (request->is_events && request->is_prometheus)
        return dt_arg_refuse(COMMAND, "events are no metrics: combine --events with --json or use it alone");
    if (request->is_watch && (request->is_json || request->is_prometheus || request->is_events))
        return dt_arg_refuse(COMMAND, "--watch shows the table; combine it with --pid and --for only");
    if (request->is_follow && !request->is_events)
        return dt_arg_refuse(COMMAND, "--follow belongs to --events");
    if (request->is_bounded && !request->is_watch && !request->is_follow)
        return dt_arg_refuse(COMMAND, "--for belongs to --watch or --follow");
    return 0;
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
    else if (request->is_prometheus)
        dt_stat_print_prometheus(snapshot);
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
    if (request.is_follow)
        return follow(&params, &request);
    return request.is_watch ? watch(&params, &request) : show_once(&params, &request);
}
