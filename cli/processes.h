/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running processes that use Detour and their control sockets (obs/server.h): all processes of the
 * user, or one.
 */
#ifndef DETOUR_CLI_PROCESSES_H
#define DETOUR_CLI_PROCESSES_H

#include <argp.h>
#include <stddef.h>

#include "obs/runtime_dir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PROCESSES_MAX      1024
#define DT_PROCESS_NAME_BYTES 64
#define DT_PROCESS_TIMEOUT_MS 10000 /* for an answer; a process on a busy machine may take seconds */

struct dt_processes {
    struct dt_runtime_dir dir;
    int pids[DT_PROCESSES_MAX]; /* in ascending order */
    size_t count;
};

/* The processes that the user selects. */
struct dt_process_choice {
    const char *command; /* the command's name, such as "detour nic": begins its error lines */
    int pid;             /* 0: all of the user's */
};

/*
 * The option --pid, as a child of a command's own argp; its input is a struct dt_process_choice with the
 * command's name:
 *
 *   static const struct argp_child children[] = {{&dt_process_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};
 *   ... case ARGP_KEY_INIT: state->child_inputs[0] = &request->choice;
 */
extern const struct argp dt_process_argp;

/*
 * Finds the processes. Returns an exit code (command.h): any but DT_EXIT_OK has been explained on standard
 * error. Close it after DT_EXIT_OK.
 */
int dt_processes_open(const struct dt_process_choice *choice, struct dt_processes *processes);
void dt_processes_close(struct dt_processes *processes);

/* The process's name as it reports it; "-" when it has no page. */
void dt_process_name(const struct dt_processes *processes, int pid, char name[DT_PROCESS_NAME_BYTES]);

/* The results of all processes. */
struct dt_process_outcome {
    int done;
    int skipped; /* the process has not got what the order is about */
    int failed;
};

/*
 * Sends a command line to one process, and prints its answer. A process that answers DT_NOT_FOUND or
 * DT_UNSUPPORTED is skipped, unless it is the one that the user selected; other errors go to standard error.
 */
void dt_process_order(const struct dt_processes *processes, const struct dt_process_choice *choice, int pid,
                      const char *line, struct dt_process_outcome *outcome);

#ifdef __cplusplus
}
#endif

#endif
