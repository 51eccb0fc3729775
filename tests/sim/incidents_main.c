/* SPDX-License-Identifier: Apache-2.0 */
/*
 * detour-sim-incidents: FALCON's remedies under lists of incidents (incidents.h). Reads the lists from
 * standard input and prints a line of JSON for each, the same on every machine.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cli/file.h"
#include "detour/sched_format.h"
#include "tests/sim/incidents_read.h"

static const char help[] =
    "usage: detour-sim-incidents --cluster FILE [OPTION]... < TRACES\n"
    "Runs a training job under incidents in virtual time, without remedies, with the ladder of remedies and "
    "with\n"
    "each step at once, and prints a line of JSON for each trace. TRACES is a JSON array of what\n"
    "experiments/incidents/generate.py prints.\n"
    "\n"
    "  --cluster FILE     the job, as in `detour mitigate`\n"
    "  --model NAME       how long an iteration takes: estimate (default), as in `detour mitigate`; fixed: "
    "the\n"
    "                     schedule zb, simulated; replanned: the same or adaptra, made for what is slow\n"
    "  --highest STEP     the ladder's last step, S2 to S4 (S4)\n"
    "  --eager            also a run that waits for no step: S2 or, where it saves more, S3, at the first\n"
    "                     boundary at which it saves time\n"
    "  --plans NAME       the ladder alone, and how far its plans of S3 are from what cannot be less: bound, "
    "of\n"
    "                     each plan; optimum, of all assignments of at most eight nodes\n"
    "  --budget N         exchanges of nodes that a plan of S3 tries (4000)\n"
    "  --phases           also prints the phases of the runs without remedies and with the ladder\n";

struct request {
    const char *cluster_path;
    enum dt_incidents_model model;
    enum detour_step highest;
    enum dt_incidents_reference reference;
    uint64_t budget; /* 0: not given */
    bool has_eager;
    bool has_phases;
};

static int refuse(const char *what, const char *text)
{
    fprintf(stderr, "detour-sim-incidents: %s: %s\n", what, text);
    return 2;
}

/* ---- one trace ---- */

struct recorder {
    const struct detour_cluster *cluster;
    json_t *phases;
};

static void record(void *arg, const struct dt_incidents_phase *phase)
{
    struct recorder *recorder = arg;

    json_array_append_new(recorder->phases, dt_incidents_phase_json(recorder->cluster, phase));
}

struct policy {
    const char *name;
    enum dt_incidents_policy policy;
    enum detour_step step;
    bool has_phases;
};

static const struct policy policies[] = {
    {"never", DT_INCIDENTS_NEVER, DETOUR_STEP_S1, true},
    {"ladder", DT_INCIDENTS_LADDER, DETOUR_STEP_S1, true},
    {"S2", DT_INCIDENTS_AT_ONCE, DETOUR_STEP_S2, false},
    {"S3", DT_INCIDENTS_AT_ONCE, DETOUR_STEP_S3, false},
    {"S4", DT_INCIDENTS_AT_ONCE, DETOUR_STEP_S4, false},
    {"eager", DT_INCIDENTS_EAGER, DETOUR_STEP_S1, false},
};

static enum detour_status run_policy(const struct request *request, const struct detour_cluster *cluster,
                                     const struct dt_incidents_trace *trace, const struct policy *policy,
                                     json_t *line, struct detour_error *error)
{
    bool has_phases = request->has_phases && policy->has_phases;
    struct recorder recorder = {cluster, has_phases ? json_array() : NULL};
    const struct dt_incidents_options options = {.cluster = cluster,
                                                 .incidents = trace->incidents,
                                                 .incident_count = trace->count,
                                                 .policy = policy->policy,
                                                 .step = policy->step,
                                                 .highest = request->highest,
                                                 .model = request->model,
                                                 .reference = request->reference,
                                                 .budget = request->budget,
                                                 .on_phase = has_phases ? record : NULL,
                                                 .phase_arg = &recorder};
    struct dt_incidents_result result;
    enum detour_status status = dt_incidents_run(&options, &result, error);

    if (status) {
        json_decref(recorder.phases);
        return status;
    }
    json_t *value = dt_incidents_result_json(&result);

    if (has_phases)
        json_object_set_new(value, "phases", recorder.phases);
    json_object_set_new(line, policy->name, value);
    json_object_set_new(line, "healthy_ns", json_integer(result.healthy_ns));
    return DETOUR_OK;
}

static bool is_wanted(const struct request *request, enum dt_incidents_policy policy)
{
    if (request->reference != DT_INCIDENTS_NO_REFERENCE)
        return policy == DT_INCIDENTS_LADDER;
    return policy != DT_INCIDENTS_EAGER || request->has_eager;
}

static int run_trace(const struct request *request, const struct detour_cluster *cluster, const json_t *value)
{
    struct dt_incidents_trace trace;
    struct detour_error error = {DETOUR_OK, ""};
    char text[128];

    if (!dt_incidents_read(value, &trace, text))
        return refuse("standard input", text);
    json_t *line = json_pack("{s:I}", "seed", (json_int_t)trace.seed);
    enum detour_status status = DETOUR_OK;

    for (size_t i = 0; !status && i < DT_COUNT_OF(policies); i++)
        if (is_wanted(request, policies[i].policy))
            status = run_policy(request, cluster, &trace, &policies[i], line, &error);
    if (!status)
        json_dumpf(line, stdout, JSON_PRESERVE_ORDER);
    json_decref(line);
    if (status)
        return refuse("trace", error.text);
    putchar('\n');
    return 0;
}

/* ---- options and files ---- */

static bool parse_model(const char *text, enum dt_incidents_model *model)
{
    static const char *const names[] = {"estimate", "fixed", "replanned"};

    for (size_t i = 0; i < DT_COUNT_OF(names); i++)
        if (!strcmp(names[i], text)) {
            *model = (enum dt_incidents_model)i;
            return true;
        }
    return false;
}

static bool parse_reference(const char *text, enum dt_incidents_reference *reference)
{
    *reference = !strcmp(text, "optimum") ? DT_INCIDENTS_OPTIMUM : DT_INCIDENTS_BOUND;
    return *reference == DT_INCIDENTS_OPTIMUM || !strcmp(text, "bound");
}

static bool parse_budget(const char *text, uint64_t *budget)
{
    char *end;

    *budget = strtoul(text, &end, 10);
    return *text >= '1' && *text <= '9' && !*end && *budget <= 1000000;
}

static bool parse_step(const char *text, enum detour_step *found)
{
    for (int step = DETOUR_STEP_S2; step < DETOUR_STEP_COUNT; step++)
        if (!strcmp(detour_step_name((enum detour_step)step), text)) {
            *found = (enum detour_step)step;
            return true;
        }
    return false;
}

/* 0, or the exit status. */
static int parse(int argc, char **argv, struct request *request)
{
    static const struct option options[] = {{"cluster", required_argument, NULL, 'c'},
                                            {"model", required_argument, NULL, 'm'},
                                            {"highest", required_argument, NULL, 's'},
                                            {"eager", no_argument, NULL, 'e'},
                                            {"plans", required_argument, NULL, 'r'},
                                            {"phases", no_argument, NULL, 'p'},
                                            {"budget", required_argument, NULL, 'b'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        bool is_good = true;
        if (option == 'h') {
            fputs(help, stdout);
            exit(0);
        } else if (option == 'c') {
            request->cluster_path = optarg;
        } else if (option == 'm') {
            is_good = parse_model(optarg, &request->model);
        } else if (option == 's') {
            is_good = parse_step(optarg, &request->highest);
        } else if (option == 'e') {
            request->has_eager = true;
        } else if (option == 'r') {
            is_good = parse_reference(optarg, &request->reference);
        } else if (option == 'b') {
            is_good = parse_budget(optarg, &request->budget);
        } else if (option == 'p') {
            request->has_phases = true;
        } else {
            return 2;
        }
        if (!is_good)
            return refuse(optarg, "see --help");
    }
    if (optind < argc)
        return refuse(argv[optind], "see --help");
    return request->cluster_path ? 0 : refuse("--cluster", "is missing, see --help");
}

static int read_cluster(struct detour_arena *arena, const char *path, struct detour_cluster **cluster)
{
    struct detour_error error;
    FILE *stream = fopen(path, "rb");
    size_t bytes = 0;
    char *text = stream ? dt_file_read(stream, DETOUR_INPUT_BYTES_MAX, &bytes) : NULL;
    int status = text ? 0 : refuse(path, "cannot be read");

    if (stream)
        fclose(stream);
    if (!status && detour_cluster_from_json(arena, path, text, bytes, cluster, &error))
        status = refuse("--cluster", error.text);
    free(text);
    return status;
}

static int run(const struct request *request, struct detour_arena *arena)
{
    struct detour_cluster *cluster;
    json_error_t error;
    int status = read_cluster(arena, request->cluster_path, &cluster);

    if (status)
        return status;
    json_t *traces = json_loadf(stdin, 0, &error);

    if (!json_is_array(traces))
        status = refuse("standard input", traces ? "is no array" : error.text);
    for (size_t i = 0; !status && i < json_array_size(traces); i++)
        status = run_trace(request, cluster, json_array_get(traces, i));
    json_decref(traces);
    return status;
}

int main(int argc, char **argv)
{
    struct request request = {0};
    int status = parse(argc, argv, &request);
    struct detour_arena *arena = status ? NULL : detour_arena_create();

    if (!status)
        status = arena ? run(&request, arena) : refuse("memory", "none left");
    detour_arena_destroy(arena);
    return status;
}
