/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command of `detour control --validate`: a shell command that measures the links of a job, usually
 * `detour perf --pairs` through the launcher of the job. Its environment has, beside that of this process,
 *
 *   DETOUR_VALIDATION_RANKS   how many ranks the job has
 *   DETOUR_VALIDATION_PAIRS   its links, for --pairs: "0-1,2-3,0-2"
 *   DETOUR_VALIDATION_JSON    the file that it has to write, as `detour perf --pairs -J` does
 *
 * Its standard output goes to standard error. It is a process group of its own, so that its end is that of
 * its children as well. Owner: one thread of a process with no other that changes the environment.
 */
#ifndef DETOUR_CLI_VALIDATE_COMMAND_H
#define DETOUR_CLI_VALIDATE_COMMAND_H

#include <sys/types.h>

#include "controller/validate.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_validate_command {
    const char *text; /* of the shell command */
    pid_t child;      /* 0: none runs */
    char path[256];   /* of the file */
};

/* The functions of struct dt_validate_funcs, with a command as their argument. */
bool dt_validate_command_start(struct dt_validate_command *command, const struct detour_validation *links,
                               char reason[DT_RECORD_REASON_BYTES]);
enum dt_status dt_validate_command_poll(struct dt_validate_command *command,
                                        struct dt_validate_report *report);
void dt_validate_command_stop(struct dt_validate_command *command);

#ifdef __cplusplus
}
#endif

#endif
