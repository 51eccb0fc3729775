/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The running processes that use Detour, as commands that talk to them over their control sockets
 * (obs/server.h) see them: all of the user's, or one.
 */
#ifndef DETOUR_CLI_PROCESSES_H
#define DETOUR_CLI_PROCESSES_H

#include <stddef.h>

#include "obs/runtime_dir.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_PROCESSES_MAX      1024
#define DT_PROCESS_NAME_BYTES 64
#define DT_PROCESS_TIMEOUT_MS 2000 /* for an answer */

struct dt_processes {
    struct dt_runtime_dir dir;
    int pids[DT_PROCESSES_MAX]; /* in ascending order */
    size_t count;
};

/* The number of a process from the command line; 0 when it is none. */
int dt_processes_parse_pid(const char *text);

/*
 * Finds them; pid 0 is all. The answer is the exit code (command.h): anything but DT_EXIT_OK was explained on
 * standard error as `command`, "detour nic" for instance. Close it after DT_EXIT_OK.
 */
int dt_processes_open(const char *command, int pid, struct dt_processes *processes);
void dt_processes_close(struct dt_processes *processes);

/* Its own word for itself; "-" when it has no page. */
void dt_process_name(const struct dt_processes *processes, int pid, char name[DT_PROCESS_NAME_BYTES]);

#ifdef __cplusplus
}
#endif

#endif
