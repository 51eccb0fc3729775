/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of `detour`. Each is one function with main()'s signature; argv[0] is "detour NAME", so
 * that the option parser's messages name the whole command.
 *
 * Exit codes: 0 done; 1 the work failed (wrong data, dead peer, nothing found); 2 the command was not
 * understood or its input is bad, with one line on standard error saying what, where and what would be right.
 */
#ifndef DETOUR_CLI_COMMAND_H
#define DETOUR_CLI_COMMAND_H

#ifdef __cplusplus
extern "C" {
#endif

enum { DT_EXIT_OK = 0, DT_EXIT_FAILED = 1, DT_EXIT_USAGE = 2 };

struct dt_command {
    const char *name;
    const char *summary; /* one line for `detour --help` */
    int (*run)(int argc, char **argv);
};

/* All subcommands, in the order of the help; ends with a NULL name. */
extern const struct dt_command dt_commands[];

#ifdef __cplusplus
}
#endif

#endif
