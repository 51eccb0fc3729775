/* SPDX-License-Identifier: Apache-2.0 */
/* `detour doctor`: examines this machine (doctor/doctor.h) and prints the findings as text or as JSON. */
#include "cli/doctor.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli/arg.h"
#include "cli/command.h"
#include "detour/version.h"
#include "doctor/doctor.h"

/* ---- Command line. ---- */
struct request {
    bool is_json;
    const char *nccl_library;
    const char *report_file;
    const char *log_file;
};

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'j':
        request->is_json = true;
        return 0;
    case 'n':
        request->nccl_library = arg;
        return 0;
    case 'r':
        request->report_file = arg;
        return 0;
    case 'l':
        request->log_file = arg;
        return 0;
    case ARGP_KEY_ARG:
        return dt_arg_refuse("detour doctor", "unexpected argument '%s'", arg);
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's one line is enough */
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"json", 'j', NULL, 0, "print one JSON document", 0},
    {"nccl", 'n', "FILE", 0, "the NCCL library to look at (default: libnccl.so.2, where the loader finds it)",
     0},
    {"report", 'r', "FILE", 0,
     "write one file for a report of a problem: all findings, versions, devices, settings; of the "
     "environment only the variables of Detour and NCCL",
     0},
    {"log", 'l', "FILE", 0, "with --report: the log of a job (NCCL_DEBUG=INFO), added to it", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .doc =
        "Examines this machine as the plugin does, in the environment in which it is started, and changes "
        "nothing: "
        "devices, their GIDs and why one was chosen, which RNIC backs up which, settings and where each "
        "comes from, "
        "limits, GPU memory, NCCL. Each finding is ok, a warning or a problem, with the remedy.\v"
        "Run it where the job runs: in its container, under its launcher, with its environment.\n"
        "\n"
        "Exit code: 0 no problem (there may be warnings); 1 a problem: Detour does not start here, or does "
        "not work; "
        "2 bad input.",
};

/* ---- Text. ---- */
static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static int int_of(const json_t *object, const char *key)
{
    return (int)json_integer_value(json_object_get(object, key));
}

/* "a, b, c", or the text for an empty list. */
static void print_list(const json_t *list, const char *none)
{
    size_t index;
    json_t *item;

    if (json_array_size(list) == 0)
        fputs(none, stdout);
    json_array_foreach((json_t *)list, index, item)
        printf("%s%s", index ? ", " : "", json_string_value(item));
    putchar('\n');
}

static void print_gids(const json_t *device)
{
    size_t index;
    json_t *gid;

    json_array_foreach(json_object_get(device, "gids"), index, gid)
    {
        bool is_used = json_is_true(json_object_get(gid, "is_used"));

        printf("  GID %-3d %-40s %-20s %s%s%s\n", int_of(gid, "index"), text_of(gid, "gid"),
               text_of(gid, "kind"), text_of(gid, "interface"), is_used ? "  <- " : "",
               is_used ? text_of(device, "gid_reason") : "");
    }
}

static void print_device(const json_t *device)
{
    const char *path = text_of(device, "pci_path");

    printf("%s: %s\n", text_of(device, "name"), text_of(device, "use"));
    printf("  %s, %d Gbit/s, MTU %d", text_of(device, "link_layer"), int_of(device, "speed_mbps") / 1000,
           int_of(device, "mtu_bytes"));
    if (int_of(device, "numa_node") >= 0)
        printf(", NUMA node %d", int_of(device, "numa_node"));
    printf("%s%s\n", *path ? ", " : "", path);
    if (json_object_get(device, "rail"))
        printf("  rail %d, backups: ", int_of(device, "rail"));
    else
        printf("  backups: ");
    print_list(json_object_get(device, "backups"), "none");
    printf("  memory: ");
    print_list(json_object_get(device, "memory"), "none");
    print_gids(device);
}

static void print_settings(const json_t *settings)
{
    size_t index;
    json_t *setting;

    json_array_foreach((json_t *)settings, index, setting)
    {
        const json_t *value = json_object_get(setting, "value");
        char number[32];

        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        printf("  %-28s %-16s %-10s %s\n", text_of(setting, "name"),
               json_is_string(value) ? json_string_value(value) : number, text_of(setting, "unit"),
               text_of(setting, "source"));
    }
}

static void print_findings(const json_t *findings)
{
    size_t index;
    json_t *finding;

    json_array_foreach((json_t *)findings, index, finding)
    {
        printf("%-8s %s: %s\n", text_of(finding, "level"), text_of(finding, "topic"),
               text_of(finding, "text"));
        if (*text_of(finding, "advice"))
            printf("         right: %s\n", text_of(finding, "advice"));
    }
}

static void print_for_people(const struct dt_report *report)
{
    const json_t *devices = json_object_get(report->document, "devices");
    size_t index;
    json_t *device;

    printf("Detour %s\n\nDevices\n\n", DETOUR_VERSION_STRING);
    if (json_array_size(devices) == 0)
        puts("none");
    json_array_foreach((json_t *)devices, index, device) print_device(device);
    puts("\nSettings, and where each value comes from\n");
    print_settings(json_object_get(report->document, "settings"));
    puts("\nFindings\n");
    print_findings(json_object_get(report->document, "findings"));
    printf("\nok %u, warnings %u, problems %u\n", report->counts[DT_LEVEL_OK],
           report->counts[DT_LEVEL_WARNING], report->counts[DT_LEVEL_PROBLEM]);
}

static void print_json(const struct dt_report *report)
{
    json_object_set_new(report->document, "version", json_string(DETOUR_VERSION_STRING));
    json_dumpf(report->document, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
}

static bool complain(const char *file)
{
    fprintf(stderr, "detour doctor: %s: %s\n", file, strerror(errno));
    return false;
}

/* A new file, since the name of an old one may be a mistake: before the examination, which can take seconds.
 */
static bool is_new(const char *file)
{
    if (access(file, F_OK) != 0)
        return true;
    fprintf(stderr, "detour doctor: --report %s: the file exists; name a new one\n", file);
    return false;
}

/* False after one line. */
static bool write_report(const struct request *request, const struct dt_doctor_options *options,
                         struct dt_report *report)
{
    FILE *file;
    int error;

    dt_doctor_bundle(options, report);
    json_object_set_new(report->document, "version", json_string(DETOUR_VERSION_STRING));
    if (request->log_file && !dt_doctor_bundle_log(options, report, request->log_file))
        return complain(request->log_file);
    file = fopen(request->report_file, "wxe");
    if (!file)
        return complain(request->report_file);
    error = json_dumpf(report->document, file, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
    return (fclose(file) == 0 && error == 0) || complain(request->report_file);
}

static uint64_t memlock_bytes(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return DT_MEMLOCK_UNLIMITED;
    return limit.rlim_cur;
}

int dt_doctor_command(int argc, char **argv)
{
    struct request request = {.is_json = false};
    struct dt_doctor_options options = {
        .root = "", .get = dt_getenv_process, .environment = environ, .memlock_bytes = memlock_bytes()};
    struct dt_report report;
    int code;

    if (argp_parse(&argp, argc, argv, 0, NULL, &request))
        return DT_EXIT_USAGE;
    if (request.log_file && !request.report_file) {
        fputs("detour doctor: --log without --report: the log goes into the report\n", stderr);
        return DT_EXIT_USAGE;
    }
    if (request.report_file && !is_new(request.report_file))
        return DT_EXIT_USAGE;
    options.nccl_library = request.nccl_library;
    dt_report_init(&report);
    if (!report.document) {
        fputs("detour doctor: out of memory\n", stderr);
        return DT_EXIT_FAILED;
    }
    dt_doctor_examine(&options, &report);
    if (request.is_json)
        print_json(&report);
    else
        print_for_people(&report);
    if (request.report_file && !write_report(&request, &options, &report)) {
        dt_report_free(&report);
        return DT_EXIT_USAGE;
    }
    code = report.counts[DT_LEVEL_PROBLEM] ? DT_EXIT_FAILED : DT_EXIT_OK;
    dt_report_free(&report);
    return code;
}
