/* SPDX-License-Identifier: Apache-2.0 */
/* `detour COMMAND ...`: the table of the subcommands and their dispatch. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/control.h"
#include "cli/doctor.h"
#include "cli/hold.h"
#include "cli/hostpath.h"
#include "cli/inject.h"
#include "cli/mitigate.h"
#include "cli/nic.h"
#include "cli/perf/perf.h"
#include "cli/pipeline/pipeline.h"
#include "cli/sched/sched.h"
#include "cli/stat.h"
#include "detour/version.h"

/* In the order of the help; ends with a NULL name. */
static const struct dt_command commands[] = {
    {"perf", "run a communication pattern through a network plugin as NCCL does, check and time it",
     dt_perf_command},
    {"pipeline",
     "run a pipeline schedule with real messages: iteration times and bubbles, slow links and devices",
     dt_pipeline_command},
    {"stat", "counters of running processes, and which links are slow, as text or JSON", dt_stat_command},
    {"doctor", "check this machine: devices, GIDs, backups, settings, limits, NCCL", dt_doctor_command},
    {"nic", "list the RNICs of running processes, drain them, control software RNICs", dt_nic_command},
    {"hostpath", "switch how connections of running processes send: through host memory or directly",
     dt_hostpath_command},
    {"hold", "park new messages of running processes for a time", dt_hold_command},
    {"release", "let messages go that `detour hold` parked", dt_release_command},
    {"inject", "delay messages of running processes and make devices fail, by rules; record, replay",
     dt_inject_command},
    {"sched", "pipeline schedules that absorb slow links: plan, simulate, check, adapt, compare",
     dt_sched_command},
    {"mitigate", "plan the cheapest remedy for a slow link or node: microbatches, nodes, restart",
     dt_mitigate_command},
    {"control", "watch all hosts of a job, name what is slow, decide once for the job", dt_control_command},
    {"agent", "report this host's measurements to the controller, execute its decisions", dt_agent_command},
    {NULL, NULL, NULL},
};

static void print_help(FILE *out)
{
    fprintf(out, "Usage: detour COMMAND [OPTION...]\n\n"
                 "Keeps large training jobs moving when a network link is slow or dead.\n\n"
                 "Commands:\n");
    for (const struct dt_command *command = commands; command->name; command++)
        fprintf(out, "  %-8s %s\n", command->name, command->summary);
    fprintf(out, "\n"
                 "  detour COMMAND --help   the description and options of a command\n"
                 "  detour --version        the version\n");
}

/* A closed standard stream must not become the descriptor of a socket, which would receive the output. */
static void fill_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", O_RDONLY); /* takes the lowest free descriptor; writing to it fails */
    }
}

/* Results that could not be written are a failure. */
static int check_output(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    fputs("detour: standard output could not be written\n", stderr);
    return code == DT_EXIT_OK ? DT_EXIT_FAILED : code;
}

static int run_command(const struct dt_command *command, int argc, char **argv)
{
    char full_name[64];

    snprintf(full_name, sizeof full_name, "detour %s", command->name);
    argv[0] = full_name;
    return check_output(command->run(argc, argv));
}

int main(int argc, char **argv)
{
    fill_standard_streams();
    if (argc < 2) {
        print_help(stderr);
        return DT_EXIT_USAGE;
    }
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) {
        puts("detour " DETOUR_VERSION_STRING);
        return check_output(DT_EXIT_OK);
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        print_help(stdout);
        return check_output(DT_EXIT_OK);
    }
    for (const struct dt_command *command = commands; command->name; command++) {
        if (!strcmp(argv[1], command->name))
            return run_command(command, argc - 1, argv + 1);
    }
    fprintf(stderr, "detour: unknown command '%s'; `detour --help` lists the commands\n", argv[1]);
    return DT_EXIT_USAGE;
}
