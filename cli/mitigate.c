/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mitigate.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arg.h"
#include "cli/command.h"
#include "cli/file.h"
#include "cli/validation.h"
#include "detour/sched_format.h"

#define COMMAND "detour mitigate"

enum { KEY_EVENT = 'e', KEY_CLUSTER = 'c', KEY_JSON = 'j', KEY_VALIDATION = 'v', KEY_RANKS = 'r' };

struct request {
    const char *event_path;
    const char *cluster_path;
    const char *validation; /* NULL: plan remedies */
    int32_t ranks;          /* 0: not given */
    bool json;
};

static const struct argp_option options[] = {
    {"event", KEY_EVENT, "FILE", 0, "what is slow, as JSON; - is standard input", 0},
    {"cluster", KEY_CLUSTER, "FILE", 0, "the job, as JSON; - is standard input", 0},
    {"json", KEY_JSON, NULL, 0, "print JSON instead of a table", 0},
    {"validation", KEY_VALIDATION, "ring|tree|LINKS", 0,
     "print the passes of a validation of this many --ranks, as `detour perf --pairs` runs it", 0},
    {"ranks", KEY_RANKS, "N", 0, "with --validation", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case KEY_EVENT:
        request->event_path = arg;
        return 0;
    case KEY_CLUSTER:
        request->cluster_path = arg;
        return 0;
    case KEY_JSON:
        request->json = true;
        return 0;
    case KEY_VALIDATION:
        request->validation = arg;
        return dt_validation_is_known(arg)
                   ? 0
                   : dt_arg_refuse(COMMAND, "--validation %s: expected ring, tree or links such as 0-1,2-3",
                                   arg);
    case KEY_RANKS:
        return dt_arg_int(COMMAND, "--ranks", arg, 2, DETOUR_RANKS_MAX, &request->ranks);
    case ARGP_KEY_ARG:
        return dt_arg_refuse(COMMAND, "unexpected argument '%s'; files go with --event and --cluster", arg);
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse_one,
    .doc =
        "Plans the cheapest remedy for a slow link or node of a training job, and changes nothing.\v"
        "The remedies (FALCON, arXiv 2410.12588):\n"
        "  S1  ignore the slowness\n"
        "  S2  give slow replicas fewer microbatches\n"
        "  S3  exchange nodes: slow links leave the gradients' rings, slow nodes\n"
        "      share one stage or one replica\n"
        "  S4  restart the job from its checkpoint on healthy nodes\n"
        "\n"
        "For each the table has its cost, the estimated iteration with it, the part of the slowdown that it "
        "removes, and after how many slow iterations it is taken: when waiting for it has cost as much as "
        "it does. docs/mitigate.md has the formats of both files and the estimate.\n"
        "\n"
        "Exit code: 0 success; 1 out of memory or the output could not be written; 2 bad input.",
};

static int check_request(const struct request *request)
{
    if (!request->validation != !request->ranks)
        return dt_arg_refuse(COMMAND, "--validation and --ranks belong together");
    if (request->validation && (request->event_path || request->cluster_path))
        return dt_arg_refuse(COMMAND, "--validation takes no --event and no --cluster");
    if (request->validation)
        return 0;
    if (!request->event_path)
        return dt_arg_refuse(COMMAND, "--event is missing: the file that says what is slow (see --help)");
    if (!request->cluster_path)
        return dt_arg_refuse(COMMAND, "--cluster is missing: the file of the job (see --help)");
    if (!strcmp(request->event_path, "-") && !strcmp(request->cluster_path, "-"))
        return dt_arg_refuse(COMMAND, "only one file can come from standard input");
    return 0;
}

static const char *name_of(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

static int read_file(const char *path, char **data, size_t *bytes)
{
    bool is_stdin = !strcmp(path, "-");
    FILE *stream = is_stdin ? stdin : fopen(path, "rb");

    if (!stream) {
        dt_arg_refuse(COMMAND, "%s: %s", path, strerror(errno));
        return DT_EXIT_USAGE;
    }
    *data = dt_file_read(stream, DETOUR_INPUT_BYTES_MAX, bytes);
    int error = errno;

    if (!is_stdin)
        fclose(stream);
    if (*data)
        return DT_EXIT_OK;
    dt_arg_refuse(COMMAND, "%s: %s", name_of(path), strerror(error));
    return error == ENOMEM ? DT_EXIT_FAILED : DT_EXIT_USAGE;
}

static int fail(const struct detour_error *error)
{
    dt_arg_refuse(COMMAND, "%s", error->text);
    return error->status == DETOUR_NO_MEMORY ? DT_EXIT_FAILED : DT_EXIT_USAGE;
}

/* The files of a request, malloc'ed. */
struct files {
    char *cluster;
    size_t cluster_bytes;
    char *event;
    size_t event_bytes;
};

static int run(struct detour_arena *arena, const struct request *request, const struct files *files)
{
    struct detour_error error = {.status = DETOUR_OK};
    struct detour_cluster *cluster;
    struct detour_mitigation plan;
    struct detour_event *event;

    if (detour_cluster_from_json(arena, name_of(request->cluster_path), files->cluster, files->cluster_bytes,
                                 &cluster, &error) ||
        detour_event_from_json(arena, cluster, name_of(request->event_path), files->event, files->event_bytes,
                               &event, &error) ||
        detour_mitigate(arena, cluster, event, NULL, &plan, &error))
        return fail(&error);
    const struct dt_mitigate_report report = {cluster, event, &plan};

    if (!request->json) {
        dt_mitigate_print(stdout, &report);
        return DT_EXIT_OK;
    }
    if (dt_mitigate_print_json(stdout, &report))
        return DT_EXIT_OK;
    dt_arg_refuse(COMMAND, "the JSON document could not be written");
    return DT_EXIT_FAILED;
}

static int print_validation(const struct request *request)
{
    struct detour_arena *arena = detour_arena_create();
    struct detour_error error = {DETOUR_NO_MEMORY, "out of memory"};
    const struct detour_validation *validation;
    int code = DT_EXIT_OK;

    if (!arena || dt_validation_make(arena, request->validation, request->ranks, &validation, &error))
        code = fail(&error);
    else if (!request->json)
        dt_validation_print(stdout, validation);
    else if (!dt_validation_print_json(stdout, validation))
        code = DT_EXIT_FAILED;
    detour_arena_destroy(arena);
    return code;
}

int dt_mitigate_command(int argc, char **argv)
{
    struct request request = {0};
    struct files files = {0};

    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request))
        return DT_EXIT_USAGE;
    if (request.validation)
        return print_validation(&request);
    int code = read_file(request.cluster_path, &files.cluster, &files.cluster_bytes);

    if (code == DT_EXIT_OK)
        code = read_file(request.event_path, &files.event, &files.event_bytes);
    if (code == DT_EXIT_OK) {
        struct detour_arena *arena = detour_arena_create();
        code = arena ? run(arena, &request, &files)
                     : fail(&(struct detour_error){DETOUR_NO_MEMORY, "out of memory"});
        detour_arena_destroy(arena);
    }
    free(files.cluster);
    free(files.event);
    return code;
}
