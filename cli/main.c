/* SPDX-License-Identifier: Apache-2.0 */
/* Dispatch of `detour COMMAND ...`. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "detour/version.h"

static void print_help(FILE *out)
{
    fprintf(out, "Usage: detour COMMAND [OPTION...]\n\n"
                 "Keeps large training jobs moving when a network link is slow or dead.\n\n"
                 "Commands:\n");
    for (const struct dt_command *command = dt_commands; command->name; command++)
        fprintf(out, "  %-8s %s\n", command->name, command->summary);
    fprintf(out, "\n"
                 "  detour COMMAND --help   what a command does and takes\n"
                 "  detour --version        the version\n");
}

/* A standard stream that was closed must not become the number of a socket: what is printed would go there.
 */
static void fill_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) < 0)
            (void)open("/dev/null", O_RDONLY); /* the lowest free number; writing to it fails */
    }
}

/* Results that nobody can read are a failure. */
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
    for (const struct dt_command *command = dt_commands; command->name; command++) {
        if (!strcmp(argv[1], command->name))
            return run_command(command, argc - 1, argv + 1);
    }
    fprintf(stderr, "detour: unknown command '%s'; `detour --help` lists the commands\n", argv[1]);
    return DT_EXIT_USAGE;
}
