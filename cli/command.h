/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subcommand of `detour`: one function with main()'s signature; argv[0] is "detour NAME", so that the
 * messages of the option parser name the whole command. cli/main/ has the table of them.
 *
 * Exit codes: 0 success; 1 the work failed (wrong data, dead peer, nothing found); 2 the command line or its
 * input is invalid, with one line on standard error that names what, where and what would be right.
 */
#ifndef DETOUR_CLI_COMMAND_H
#define DETOUR_CLI_COMMAND_H

#include "base/exit.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_command {
    const char *name;
    const char *summary; /* one line for `detour --help` */
    int (*run)(int argc, char **argv);
};

#ifdef __cplusplus
}
#endif

#endif
