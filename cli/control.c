/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/control.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/param.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/control_metrics.h"
#include "cli/control_request.h"
#include "cli/file.h"
#include "cli/job_store.h"
#include "cli/metrics_output.h"
#include "cli/rounds.h"
#include "cli/validate_command.h"
#include "controller/agent.h"
#include "controller/control.h"
#include "detour/sched_format.h"

#define COMMAND           "detour control"
#define MEASURES_EXPECTED "expected replan, hostpath or migrate, joined by commas, or none"
#define HOSTS_MAX         64

enum {
    KEY_REDIS = 256,
    KEY_HOST,
    KEY_JOB,
    KEY_DRY_RUN,
    KEY_DO,
    KEY_PERIOD,
    KEY_CLUSTER,
    KEY_RECHECK,
    KEY_VALIDATE,
    KEY_LISTEN,
    KEY_TEXTFILE
};

struct host {
    char name[DT_STORE_NAME_BYTES];
    const char *runtime_dir; /* NULL: the default */
    struct dt_agent *agent;
};

struct request {
    const char *redis; /* NULL: hosts of this machine */
    const char *job;
    struct host hosts[HOSTS_MAX];
    size_t host_count;
    bool dry_run, json;
    uint32_t period_ms;
    const char *cluster_path;            /* NULL: no remedies */
    struct dt_validate_command validate; /* without a text: none */
    struct detour_arena *arena;          /* has the next */
    struct detour_cluster *cluster;
    struct dt_decide_options decide;
    struct dt_metrics_output output;
    struct dt_control_metrics metrics;
    struct dt_rounds rounds;
};

/* ---- Command line. ---- */
static error_t parse_host(struct request *request, const char *text)
{
    const char *equals = strchr(text, '=');
    struct host *host = &request->hosts[request->host_count];

    if (request->host_count == HOSTS_MAX)
        return dt_arg_refuse(COMMAND, "--host %s: at most %d hosts", text, HOSTS_MAX);
    if (!equals || !equals[1] || (size_t)(equals - text) >= sizeof host->name)
        return dt_arg_refuse(COMMAND, "--host %s: expected NAME=DIRECTORY", text);
    snprintf(host->name, sizeof host->name, "%.*s", (int)(equals - text), text);
    host->runtime_dir = equals + 1;
    if (!dt_store_is_name(host->name))
        return dt_arg_refuse(COMMAND, "--host %s: the name has letters, digits, '-', '_' and '.'", text);
    for (size_t i = 0; i < request->host_count; i++) {
        if (!strcmp(request->hosts[i].name, host->name))
            return dt_arg_refuse(COMMAND, "--host %s: this name is given twice", text);
    }
    request->host_count++;
    return 0;
}

/* `none`: no measure, so only the remedies of --cluster. */
static error_t parse_measures(struct request *request, const char *text)
{
    struct dt_decide_options *decide = &request->decide;
    char copy[64], *rest = NULL;

    decide->replan = decide->hostpath = decide->migrate = false;
    if (!strcmp(text, "none"))
        return 0;
    if (snprintf(copy, sizeof copy, "%s", text) >= (int)sizeof copy)
        copy[0] = '\0';
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        bool *measure = !strcmp(word, "replan")     ? &decide->replan
                        : !strcmp(word, "hostpath") ? &decide->hostpath
                        : !strcmp(word, "migrate")  ? &decide->migrate
                                                    : NULL;
        if (!measure)
            return dt_arg_refuse(COMMAND, "--do %s: " MEASURES_EXPECTED, text);
        *measure = true;
    }
    if (!decide->replan && !decide->hostpath && !decide->migrate)
        return dt_arg_refuse(COMMAND, "--do '%s': " MEASURES_EXPECTED, text);
    return 0;
}

static error_t parse_recheck(struct request *request, const char *text)
{
    uint32_t seconds;
    error_t error = dt_arg_unsigned(COMMAND, "--recheck", text, 1, 86400, &seconds);

    if (!error)
        request->decide.drained_ns = seconds * DT_NS_PER_S;
    return error;
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
    case KEY_DRY_RUN:
        request->dry_run = true;
        return 0;
    case KEY_DO:
        return parse_measures(request, arg);
    case KEY_PERIOD:
        return dt_arg_unsigned(COMMAND, "--period", arg, 10, 60000, &request->period_ms);
    case KEY_CLUSTER:
        request->cluster_path = arg;
        return 0;
    case KEY_RECHECK:
        return parse_recheck(request, arg);
    case KEY_VALIDATE:
        request->validate.text = arg;
        return arg[0] ? 0 : dt_arg_refuse(COMMAND, "--validate '': expected a shell command");
    case KEY_LISTEN:
        return dt_metrics_output_parse(COMMAND, arg, &request->output);
    case KEY_TEXTFILE:
        request->output.textfile = arg;
        return 0;
    case 'J':
        request->json = true;
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
    {"redis", KEY_REDIS, "URL", 0, "the store that agents and controllers share: " DT_JOB_STORE_FORM, 0},
    {"host", KEY_HOST, "NAME=DIR", 0,
     "without --redis: a host and its runtime directory (repeatable; default: this machine)", 0},
    {"job", KEY_JOB, "NAME", 0, "the job's name in the store (default: SLURM_JOB_ID, or job)", 0},
    {"dry-run", KEY_DRY_RUN, NULL, 0, "only print what would be decided", 0},
    {"do", KEY_DO, "LIST", 0, "measures: replan, hostpath, migrate, or none (default: replan,migrate)", 0},
    {"cluster", KEY_CLUSTER, "FILE", 0,
     "the job, as for `detour mitigate`: remedies for its slow links and ranks as well", 0},
    {"recheck", KEY_RECHECK, "SECONDS", 0,
     "how long a part without traffic counts as slow after a drain or an exchange of ranks, and how long a "
     "decision of an earlier controller stays while this one finds nothing slow (default 600)",
     0},
    {"validate", KEY_VALIDATE, "COMMAND", 0,
     "with --cluster: before a remedy, hold all messages and run this shell command, which measures the "
     "links "
     "$DETOUR_VALIDATION_PAIRS of $DETOUR_VALIDATION_RANKS ranks and writes $DETOUR_VALIDATION_JSON, as "
     "`detour perf "
     "--pairs` does",
     0},
    {"period", KEY_PERIOD, "MS", 0, "milliseconds between two rounds (default 200)", 0},
    {"listen", KEY_LISTEN, DT_METRICS_LISTEN_FORM, 0,
     "answer Prometheus at GET /metrics: findings, decisions, iterations of the job", 0},
    {"textfile", KEY_TEXTFILE, "FILE", 0,
     "write the same metrics to FILE every 15 seconds, for node_exporter's textfile directory", 0},
    {"json", 'J', NULL, 0, "one JSON object per line: findings and decisions", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .doc = "Watches all hosts of a job, names what is slow, and decides once for the job: one per job."
           "\vEach host runs `detour agent`, which reports the measurements of its processes and executes "
           "decisions. Without --redis this command does the work of the agents as well, for hosts whose "
           "runtime "
           "directories are on this machine.\n"
           "\n"
           "  replan    new delays for the schedule, in decision.json of each runtime\n"
           "            directory; `detour pipeline --adapt control` follows it\n"
           "  hostpath  connections over a slow link send through host memory\n"
           "            (DETOUR_HOSTPATH=on or auto in the processes)\n"
           "  migrate   the connections of a slow link, or all of a slow RNIC, move when\n"
           "            another RNIC of the host is measured and faster\n"
           "  remedy    with --cluster: other microbatches (S2), other ranks at the\n"
           "            positions (S3), a restart (S4), in remedy.json of each runtime\n"
           "            directory, when waiting has cost as much as the step does;\n"
           "            `detour pipeline --adapt control` follows it\n"
           "\n"
           "Nothing is done about a busy processor. A second controller of the same job waits until the "
           "first one "
           "ends. A controller that ends or dies changes nothing in the job.\n"
           "\n"
           "Commands:\n"
           "  hold      all hosts of the job hold their messages\n"
           "  release   and send them\n"
           "\n"
           "Ends with SIGINT or SIGTERM. Exit code: 0 ended by a signal; 1 a failure; 2 bad input.",
};

/* A name for records. */
static const char *own_host(void)
{
    static char host[DT_STORE_NAME_BYTES];

    if (gethostname(host, sizeof host - 1) || !dt_store_is_name(host))
        return "localhost";
    return host;
}

static int check_request(struct request *request)
{
    if (request->validate.text && !request->cluster_path)
        return dt_arg_refuse(COMMAND, "--validate needs --cluster: a validation precedes a remedy");
    if (request->redis && request->host_count)
        return dt_arg_refuse(COMMAND,
                             "--host is for use without --redis; with it, run `detour agent` on the host");
    if (!request->redis && !request->host_count)
        request->redis = dt_job_store_of_environment();
    if (request->redis || request->host_count)
        return 0;
    snprintf(request->hosts[0].name, sizeof request->hosts[0].name, "%s", own_host());
    request->hosts[0].runtime_dir = dt_getenv_process(NULL, "DETOUR_RUNTIME_DIR");
    request->host_count = 1;
    return 0;
}

/* ---- Output. ---- */
static void print_note(void *arg, bool is_error, const char *text)
{
    const struct request *request = arg;

    if (!request->json || is_error)
        dt_rounds_line(&request->rounds, is_error, text);
}

static void print_json(char *text)
{
    if (text)
        puts(text);
    free(text);
}

static void print_finding(void *arg, const struct dt_finding_record *finding)
{
    const struct request *request = arg;
    char line[DT_RECORD_TEXT_BYTES + DT_STORE_NAME_BYTES + 32];

    if (request->json) {
        print_json(dt_finding_write(finding));
        return;
    }
    if (!strcmp(finding->kind, "validation"))
        snprintf(line, sizeof line, "validation %s", finding->reason);
    else
        snprintf(line, sizeof line, "%s %s: %s", finding->ended ? "no longer slow:" : "slow:", finding->kind,
                 finding->reason);
    dt_rounds_line(&request->rounds, false, line);
}

/* The first microbatches, and the first ranks that are not at their number's position. */
static void describe_remedy(const struct dt_decision *decision, char *text, size_t room)
{
    int used = snprintf(text, room, " microbatches");

    for (size_t i = 0; i < decision->replica_count && used > 0 && (size_t)used + 40 < room; i++)
        used += snprintf(text + used, room - (size_t)used, " %" PRId32, decision->counts[i]);
    for (size_t i = 0; i < decision->node_count && used > 0 && (size_t)used + 40 < room; i++) {
        if (decision->nodes[i] != (int32_t)i)
            used += snprintf(text + used, room - (size_t)used, ", rank %" PRId32 " at %zu",
                             decision->nodes[i], i);
    }
}

static void print_decision(void *arg, const struct dt_decision *decision)
{
    const struct request *request = arg;
    char line[DT_RECORD_TEXT_BYTES + DT_STORE_NAME_BYTES + DT_RECORD_NIC_BYTES + 96], what[160] = "";

    if (request->json) {
        print_json(dt_decision_write(decision));
        return;
    }
    if (decision->kind == DT_DECISION_REPLAN)
        snprintf(what, sizeof what, " for %zu slow links", decision->link_count);
    else if (decision->kind == DT_DECISION_REMEDY)
        describe_remedy(decision, what, sizeof what);
    else if (decision->nic[0])
        snprintf(what, sizeof what, " %s of %s", decision->nic, decision->host);
    else if (decision->connection)
        snprintf(what, sizeof what, " of rank %" PRId32 " to rank %" PRId32 " on %s", decision->from_rank,
                 decision->to_rank, decision->host);
    snprintf(line, sizeof line, "decision %" PRId64 "%s: %s%s: %s", decision->number,
             request->dry_run ? " (not carried out)" : "",
             dt_decision_kind_text((enum dt_decision_kind)decision->kind), what, decision->reason);
    dt_rounds_line(&request->rounds, false, line);
}

/* ---- Rounds. ---- */
static bool make_agents(struct request *request, struct dt_store *store)
{
    for (size_t i = 0; i < request->host_count; i++) {
        const struct dt_agent_options options = {.host = request->hosts[i].name,
                                                 .runtime_dir = request->hosts[i].runtime_dir,
                                                 .store = store,
                                                 .note = print_note,
                                                 .note_arg = request};

        if (!(request->hosts[i].agent = dt_agent_create(&options)))
            return false;
    }
    return true;
}

static enum dt_status run_round(struct request *request, struct dt_control *control)
{
    enum dt_status status = DT_OK;

    for (size_t i = 0; status == DT_OK && i < request->host_count; i++)
        status = dt_agent_report(request->hosts[i].agent);
    if (status == DT_OK)
        status = dt_control_step(control, dt_clock_now_ns(), dt_rounds_time_ns());
    if (status == DT_OK)
        status = dt_control_append(control, dt_clock_now_ns());
    for (size_t i = 0; status == DT_OK && i < request->host_count; i++)
        status = dt_agent_follow(request->hosts[i].agent, dt_rounds_time_ns());
    return status;
}

/* ---- Validations. ---- */
static bool start_validation(void *arg, const struct detour_validation *links,
                             char reason[DT_RECORD_REASON_BYTES])
{
    struct request *request = arg;

    return dt_validate_command_start(&request->validate, links, reason);
}

static enum dt_status poll_validation(void *arg, struct dt_validate_report *report)
{
    struct request *request = arg;

    return dt_validate_command_poll(&request->validate, report);
}

static void stop_validation(void *arg)
{
    struct request *request = arg;

    dt_validate_command_stop(&request->validate);
}

static int run(struct request *request, struct dt_store *store)
{
    char holder[DT_STORE_NAME_BYTES];
    const struct dt_control_options options = {
        .store = store,
        .holder = holder,
        .lease_ms = DT_CONTROL_LEASE_MS,
        .dry_run = request->dry_run,
        .decide = request->decide,
        .cluster = request->cluster,
        .validate = {.start = request->validate.text ? start_validation : NULL,
                     .poll = poll_validation,
                     .stop = stop_validation},
        .funcs = {.note = print_note, .finding = print_finding, .decision = print_decision},
        .funcs_arg = request,
    };
    struct dt_control *control;

    dt_job_store_holder(own_host(), holder);
    control = dt_control_create(&options);
    if (!control || !make_agents(request, store)) {
        dt_control_destroy(control);
        dt_arg_refuse(COMMAND, "out of memory");
        return DT_EXIT_FAILED;
    }
    if (!dt_metrics_output_start(COMMAND, &request->output)) {
        dt_control_destroy(control);
        return DT_EXIT_FAILED;
    }
    if (request->dry_run)
        print_note(request, false, "dry run: decisions are printed and not carried out");
    do {
        dt_rounds_result(&request->rounds, store, run_round(request, control));
        dt_control_metrics_update(&request->metrics, control);
        dt_metrics_output_step(&request->output, &request->rounds, dt_clock_now_ns());
    } while (dt_rounds_wait(&request->rounds));
    dt_metrics_output_stop(&request->output);
    dt_control_destroy(control);
    return DT_EXIT_OK;
}

/* DT_EXIT_OK, also without a cluster. */
static int read_cluster(struct request *request)
{
    char reason[DT_RECORD_REASON_BYTES];
    struct dt_remedy *remedy = NULL;
    struct detour_error error;
    char *text;
    size_t bytes;
    FILE *file;

    if (!request->cluster_path)
        return DT_EXIT_OK;
    request->arena = detour_arena_create();
    file = fopen(request->cluster_path, "rb");
    text = file ? dt_file_read(file, DETOUR_INPUT_BYTES_MAX, &bytes) : NULL;
    snprintf(reason, sizeof reason, "%s: %.150s", request->cluster_path, strerror(errno));
    if (file)
        fclose(file);
    if (!text || !request->arena) {
        dt_arg_refuse(COMMAND, "--cluster %s", request->arena ? reason : "out of memory");
        free(text);
        return DT_EXIT_USAGE;
    }
    if (detour_cluster_from_json(request->arena, request->cluster_path, text, bytes, &request->cluster,
                                 &error))
        snprintf(reason, sizeof reason, "%.250s", error.text);
    else if (dt_remedy_create(request->cluster, request->decide.drained_ns, &remedy, reason) == DT_OK)
        reason[0] = '\0';
    dt_remedy_destroy(remedy);
    free(text);
    if (!reason[0])
        return DT_EXIT_OK;
    dt_arg_refuse(COMMAND, "--cluster: %s", reason);
    return DT_EXIT_USAGE;
}

int dt_control_command(int argc, char **argv)
{
    static struct request request;
    struct dt_store *store;
    int code;

    if (argc > 1 && (!strcmp(argv[1], "hold") || !strcmp(argv[1], "release")))
        return dt_control_request_command(argc, argv);
    request = (struct request){
        .job = dt_job_store_name(),
        .period_ms = 200,
        .decide = dt_decide_defaults(),
        .output.listen = {.write_metrics = dt_control_metrics_answer, .arg = &request.metrics},
        .metrics.lock = PTHREAD_MUTEX_INITIALIZER};
    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request) ||
        read_cluster(&request) != DT_EXIT_OK) {
        detour_arena_destroy(request.arena);
        return DT_EXIT_USAGE;
    }
    code = dt_job_store_open(COMMAND, request.redis, request.job, &store);
    if (code != DT_EXIT_OK) {
        detour_arena_destroy(request.arena);
        return code;
    }
    request.metrics.job = request.job;
    dt_rounds_begin(&request.rounds, COMMAND, request.period_ms);
    code = run(&request, store);
    for (size_t i = 0; i < request.host_count; i++)
        dt_agent_destroy(request.hosts[i].agent);
    store->ops->close(store);
    detour_arena_destroy(request.arena);
    return code;
}
