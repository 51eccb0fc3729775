/* SPDX-License-Identifier: Apache-2.0 */
#include <argp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/param.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/control.h"
#include "cli/job_store.h"
#include "cli/metrics_output.h"
#include "cli/rounds.h"
#include "cli/stat_metrics.h"
#include "controller/agent.h"

#define COMMAND "detour agent"

enum { KEY_REDIS = 256, KEY_HOST, KEY_JOB, KEY_PERIOD, KEY_LISTEN, KEY_TEXTFILE };

struct request {
    const char *redis;
    const char *job;
    char host[DT_STORE_NAME_BYTES];
    uint32_t period_ms;
    struct dt_metrics_output output;
    struct dt_rounds rounds;
};

static error_t parse_host(struct request *request, const char *text)
{
    if (!dt_store_is_name(text) || strchr(text, ':'))
        return dt_arg_refuse(COMMAND, "--host %s: expected letters, digits, '-', '_' and '.', at most %d",
                             text, DT_STORE_NAME_BYTES - 1);
    snprintf(request->host, sizeof request->host, "%s", text);
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case KEY_REDIS:
        request->redis = dt_job_store_take(arg);
        return 0;
    case KEY_HOST:
        return parse_host(request, arg);
    case KEY_JOB:
        request->job = arg;
        return 0;
    case KEY_PERIOD:
        return dt_arg_unsigned(COMMAND, "--period", arg, 10, 60000, &request->period_ms);
    case KEY_LISTEN:
        return dt_metrics_output_parse(COMMAND, arg, &request->output);
    case KEY_TEXTFILE:
        request->output.textfile = arg;
        return 0;
    case ARGP_KEY_ARG:
        return dt_arg_refuse(COMMAND, "unexpected argument '%s'", arg);
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's one line is enough */
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"redis", KEY_REDIS, "URL", 0, "the store of the job: " DT_JOB_STORE_FORM, 0},
    {"job", KEY_JOB, "NAME", 0, "the job's name in the store (default: SLURM_JOB_ID, or job)", 0},
    {"host", KEY_HOST, "NAME", 0,
     "this host's name in reports, decisions and metrics (default: the host name)", 0},
    {"period", KEY_PERIOD, "MS", 0, "milliseconds between two reports (default 200)", 0},
    {"listen", KEY_LISTEN, DT_METRICS_LISTEN_FORM, 0,
     "answer Prometheus at GET /metrics, as `detour stat --metrics --listen`", 0},
    {"textfile", KEY_TEXTFILE, "FILE", 0,
     "write the same metrics to FILE every 15 seconds, for node_exporter's textfile directory", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .doc =
        "Reports the measurements of this host's processes to the controller of a job, and executes its "
        "decisions: one per host, as the user of the job; further ones wait."
        "\vProcesses are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID). An agent that ends or "
        "dies "
        "changes nothing in the job; one that is started again goes on after the last decision that it has "
        "taken. `detour control` describes the decisions.\n"
        "Ends with SIGINT or SIGTERM. Exit code: 0 ended by a signal; 1 a failure; 2 bad input.",
};

static int check_request(struct request *request)
{
    char host[65] = "";

    if (!request->redis && !(request->redis = dt_job_store_of_environment()))
        return dt_arg_refuse(COMMAND,
                             "--redis URL is missing; on one machine, `detour control` needs no agent");
    if (request->host[0])
        return 0;
    gethostname(host, sizeof host - 1);
    return parse_host(request, host);
}

static void print_note(void *arg, bool is_error, const char *text)
{
    const struct request *request = arg;

    dt_rounds_line(&request->rounds, is_error, text);
}

/* DT_AGAIN: another agent of the host does it. The lease is checked twice, since a report takes time. */
static enum dt_status run_round(struct dt_agent *agent, const char *holder)
{
    enum dt_status status = dt_agent_keep_lease(agent, holder, dt_clock_now_ns());

    if (status == DT_OK)
        status = dt_agent_report(agent);
    if (status == DT_OK)
        status = dt_agent_keep_lease(agent, holder, dt_clock_now_ns());
    return status == DT_OK ? dt_agent_follow(agent, dt_rounds_time_ns()) : status;
}

static int run(struct request *request, struct dt_store *store)
{
    const char *runtime_dir = dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR");
    const struct dt_agent_options options = {.host = request->host,
                                             .runtime_dir = runtime_dir,
                                             .store = store,
                                             .note = print_note,
                                             .note_arg = request};
    struct dt_agent *agent = dt_agent_create(&options);
    struct dt_metrics_host host = {runtime_dir, {request->host, request->job}};
    char holder[DT_STORE_NAME_BYTES];
    enum dt_status status;

    if (!agent) {
        dt_arg_refuse(COMMAND, "out of memory");
        return DT_EXIT_FAILED;
    }
    dt_job_store_holder(request->host, holder);
    request->output.listen.write_metrics = dt_metrics_write_host;
    request->output.listen.arg = &host;
    if (!dt_metrics_output_start(COMMAND, &request->output)) {
        dt_agent_destroy(agent);
        return DT_EXIT_FAILED;
    }
    do {
        dt_metrics_output_step(&request->output, &request->rounds, dt_clock_now_ns());
        status = run_round(agent, holder);
        dt_rounds_result(&request->rounds, store, status == DT_AGAIN ? DT_OK : status);
    } while (dt_rounds_wait(&request->rounds));
    dt_metrics_output_stop(&request->output);
    dt_agent_destroy(agent);
    return DT_EXIT_OK;
}

int dt_agent_command(int argc, char **argv)
{
    struct request request = {.job = dt_job_store_name(), .period_ms = 200};
    struct dt_store *store;
    int code;

    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request))
        return DT_EXIT_USAGE;
    code = dt_job_store_open(COMMAND, request.redis, request.job, &store);
    if (code != DT_EXIT_OK)
        return code;
    dt_rounds_begin(&request.rounds, COMMAND, request.period_ms);
    code = run(&request, store);
    store->ops->close(store);
    return code;
}
