/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/control_request.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/job_store.h"
#include "cli/rounds.h"
#include "controller/record.h"
#include "delay/rule.h"

#define COMMAND   "detour control"
#define PERIOD_MS 100
#define HOSTS_MAX 4096
#define SEEN_NS   (2 * DT_NS_PER_S) /* an agent that reports at all has reported within this time */

enum { KEY_REDIS = 256, KEY_JOB, KEY_FOR, KEY_HOST, KEY_REASON, KEY_TIMEOUT };

struct host {
    char name[DT_STORE_NAME_BYTES];
    bool has_reported;
    bool has_answered;
};

struct request {
    const char *redis, *job, *time;
    unsigned timeout_s;
    struct dt_request record;
    /* What has been seen since. */
    char observation[DT_STORE_ID_BYTES], acknowledgement[DT_STORE_ID_BYTES], decision[DT_STORE_ID_BYTES];
    char id[DT_STORE_ID_BYTES]; /* of the request */
    int64_t number;             /* of the decision; 0: none yet */
    bool has_failed;
    size_t host_count;
    struct host hosts[HOSTS_MAX];
    struct dt_observation last; /* memory for a record */
};

/* ---- Command line. ---- */
static error_t parse_word(struct request *request, const char *word)
{
    if (request->record.kind != DT_DECISION_KIND_COUNT)
        return dt_arg_refuse(COMMAND, "unexpected argument '%s'", word);
    request->record.kind = !strcmp(word, "hold") ? DT_DECISION_HOLD : DT_DECISION_RELEASE;
    return 0;
}

static error_t parse_text(const char *option, const char *arg, char *to, size_t bytes)
{
    for (const char *at = arg; *at; at++) {
        if (*at < ' ' || *at > '~')
            return dt_arg_refuse(COMMAND, "%s: expected printable ASCII characters", option);
    }
    if ((size_t)snprintf(to, bytes, "%s", arg) >= bytes)
        return dt_arg_refuse(COMMAND, "%s %.20s...: expected less than %zu characters", option, arg, bytes);
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case KEY_REDIS:
        request->redis = dt_job_store_take(arg);
        return 0;
    case KEY_JOB:
        request->job = arg;
        return 0;
    case KEY_FOR:
        request->time = arg;
        return 0;
    case KEY_HOST:
        return parse_text("--host", arg, request->record.host, sizeof request->record.host);
    case KEY_REASON:
        return parse_text("--reason", arg, request->record.reason, sizeof request->record.reason);
    case KEY_TIMEOUT:
        return dt_arg_unsigned(COMMAND, "--timeout", arg, 1, 600, &request->timeout_s);
    case ARGP_KEY_ARG:
        return parse_word(request, arg);
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
    {"for", KEY_FOR, "TIME", 0, "hold: how long, a number with ms, s, min; at most 10min", 0},
    {"host", KEY_HOST, "NAME", 0, "only this host (default: all)", 0},
    {"reason", KEY_REASON, "TEXT", 0, "the reason in the decision (default: requested by a command)", 0},
    {"timeout", KEY_TIMEOUT, "S", 0, "seconds to wait for the hosts (default 10)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .args_doc = "hold --redis=URL --for=TIME\nrelease --redis=URL",
    .doc =
        "Holds or releases the messages of all hosts of a job, as `detour hold` and `detour release` do for "
        "one: the job's controller makes it a decision, and each agent executes it."
        "\vPrints a line per host. Without --redis, use `detour hold` on the host itself.\n"
        "Exit code: 0 every host that reports has executed it; 1 a failure, or no controller or agent has "
        "answered; 2 bad input.",
};

static int check_request(struct request *request)
{
    struct dt_delay_error error;
    struct dt_delay_rule rule;
    char text[64];

    if (!request->redis && !(request->redis = dt_job_store_of_environment()))
        return dt_arg_refuse(COMMAND, "--redis URL is missing; on one machine, use `detour %s`",
                             dt_decision_kind_text((enum dt_decision_kind)request->record.kind));
    if (request->record.kind == DT_DECISION_RELEASE)
        return request->time ? dt_arg_refuse(COMMAND, "release takes no --for") : 0;
    if (!request->time)
        return dt_arg_refuse(COMMAND, "--for is missing: how long, for example --for=30s");
    if ((size_t)snprintf(text, sizeof text, "for=%s", request->time) >= sizeof text)
        return dt_arg_refuse(COMMAND, "--for=%.20s...: expected a time like 30s", request->time);
    if (dt_delay_parse_hold(text, strlen(text), &rule, &error) != DT_OK)
        return dt_arg_refuse(COMMAND, "--for=%s: %s", request->time, error.text);
    request->record.hold_ns = (int64_t)rule.to_ns;
    return request->record.hold_ns >= (int64_t)DT_NS_PER_MS
               ? 0
               : dt_arg_refuse(COMMAND, "--for=%s: expected at least 1ms", request->time);
}

/* ---- Records. ---- */
static struct host *host_of(struct request *request, const char *name)
{
    for (size_t i = 0; i < request->host_count; i++) {
        if (!strcmp(request->hosts[i].name, name))
            return &request->hosts[i];
    }
    if (request->host_count == HOSTS_MAX)
        return NULL;
    snprintf(request->hosts[request->host_count].name, DT_STORE_NAME_BYTES, "%s", name);
    return &request->hosts[request->host_count++];
}

static bool skip_to(void *arg, const char *id, const char *record, size_t bytes)
{
    (void)record;
    (void)bytes;
    snprintf(arg, DT_STORE_ID_BYTES, "%s", id);
    return true;
}

static bool see_observation(void *arg, const char *id, const char *record, size_t bytes)
{
    struct request *request = arg;
    char reason[DT_RECORD_REASON_BYTES];
    const char *only = request->record.host;
    struct host *host;

    skip_to(request->observation, id, record, bytes);
    if (dt_observation_read(record, bytes, &request->last, reason) == DT_OK &&
        (!only[0] || !strcmp(only, request->last.host)) && (host = host_of(request, request->last.host)))
        host->has_reported = true;
    return true;
}

static bool see_decision(void *arg, const char *id, const char *record, size_t bytes)
{
    struct request *request = arg;
    char reason[DT_RECORD_REASON_BYTES];
    struct dt_decision decision;

    skip_to(request->decision, id, record, bytes);
    if (dt_decision_read(record, bytes, &decision, reason) == DT_OK && !strcmp(decision.request, request->id))
        request->number = decision.number;
    return true;
}

static bool see_acknowledgement(void *arg, const char *id, const char *record, size_t bytes)
{
    struct request *request = arg;
    struct dt_acknowledgement acknowledgement;
    char reason[DT_RECORD_REASON_BYTES];
    struct host *host;

    if (dt_acknowledgement_read(record, bytes, &acknowledgement, reason) == DT_OK &&
        acknowledgement.number == request->number && (host = host_of(request, acknowledgement.host)) &&
        !host->has_answered) {
        host->has_answered = true;
        /* A host that reports nothing has no process of the job. */
        request->has_failed =
            request->has_failed || (acknowledgement.status != DT_OK &&
                                    (host->has_reported || acknowledgement.status != DT_NOT_FOUND));
        printf("%s: %s\n", acknowledgement.host, acknowledgement.text);
    }
    skip_to(request->acknowledgement, id, record, bytes);
    return true;
}

static enum dt_status read_after(struct request *request, struct dt_store *store, const char *stream,
                                 const char *position, dt_store_visit_func *visit)
{
    char after[DT_STORE_ID_BYTES];

    snprintf(after, sizeof after, "%s", position);
    return store->ops->read(store, stream, after, SIZE_MAX, visit, request);
}

/* ---- The command. ---- */

/* Appends the request behind what is there already. */
static enum dt_status append(struct request *request, struct dt_store *store)
{
    const struct dt_store_ops *ops = store->ops;
    enum dt_status status =
        ops->read(store, DT_STREAM_OBSERVATIONS, "", SIZE_MAX, skip_to, request->observation);
    char *text;

    if (status == DT_OK)
        status =
            ops->read(store, DT_STREAM_ACKNOWLEDGEMENTS, "", SIZE_MAX, skip_to, request->acknowledgement);
    if (status == DT_OK)
        status = ops->read(store, DT_STREAM_DECISIONS, "", SIZE_MAX, skip_to, request->decision);
    if (status != DT_OK)
        return status;
    request->record.time_ns = dt_rounds_time_ns();
    text = dt_request_write(&request->record);
    status = text ? ops->append(store, DT_STREAM_REQUESTS, text, request->id) : DT_NO_MEMORY;
    free(text);
    return status;
}

static enum dt_status look(struct request *request, struct dt_store *store)
{
    enum dt_status status =
        read_after(request, store, DT_STREAM_OBSERVATIONS, request->observation, see_observation);

    if (status == DT_OK && !request->number)
        status = read_after(request, store, DT_STREAM_DECISIONS, request->decision, see_decision);
    if (status == DT_OK && request->number)
        status = read_after(request, store, DT_STREAM_ACKNOWLEDGEMENTS, request->acknowledgement,
                            see_acknowledgement);
    return status;
}

static size_t count_missing(const struct request *request)
{
    size_t count = 0;

    for (size_t i = 0; i < request->host_count; i++)
        count += !request->hosts[i].has_answered;
    return count;
}

static int conclude(const struct request *request)
{
    if (!request->number) {
        dt_arg_refuse(COMMAND, "no controller of job %s has taken the request within %u s", request->job,
                      request->timeout_s);
        return DT_EXIT_FAILED;
    }
    if (!request->host_count)
        dt_arg_refuse(COMMAND, "decision %" PRId64 ": no agent reports", request->number);
    for (size_t i = 0; i < request->host_count; i++) {
        if (!request->hosts[i].has_answered)
            dt_arg_refuse(COMMAND, "decision %" PRId64 ": host %s has not answered within %u s",
                          request->number, request->hosts[i].name, request->timeout_s);
    }
    return request->host_count && !count_missing(request) && !request->has_failed ? DT_EXIT_OK
                                                                                  : DT_EXIT_FAILED;
}

static int run(struct request *request, struct dt_store *store)
{
    struct dt_rounds rounds;
    uint64_t begin_ns = dt_clock_now_ns(), now_ns = begin_ns;
    enum dt_status status;

    dt_rounds_begin(&rounds, COMMAND, PERIOD_MS);
    status = append(request, store);
    if (status != DT_OK) {
        dt_arg_refuse(COMMAND, "%s", store->reason);
        return DT_EXIT_FAILED;
    }
    while (now_ns < begin_ns + request->timeout_s * DT_NS_PER_S) {
        if (!dt_rounds_wait(&rounds))
            break;
        status = look(request, store);
        dt_rounds_result(&rounds, store, status);
        now_ns = dt_clock_now_ns();
        if (request->number && request->host_count && !count_missing(request) && now_ns >= begin_ns + SEEN_NS)
            break;
    }
    return conclude(request);
}

int dt_control_request_command(int argc, char **argv)
{
    static struct request request;
    struct dt_store *store;
    int code;

    request =
        (struct request){.job = dt_job_store_name(), .timeout_s = 10, .record.kind = DT_DECISION_KIND_COUNT};
    snprintf(request.record.reason, sizeof request.record.reason, "requested by a command");
    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request))
        return DT_EXIT_USAGE;
    code = dt_job_store_open(COMMAND, request.redis, request.job, &store);
    if (code != DT_EXIT_OK)
        return code;
    code = run(&request, store);
    store->ops->close(store);
    return code;
}
