/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/processes.h"

#include <limits.h>
#include <stdio.h>

#include "base/param.h"
#include "cli/command.h"
#include "obs/page.h"

int dt_processes_parse_pid(const char *text)
{
    uint64_t pid;

    return dt_parse_number(text, false, &pid) == DT_OK && pid <= INT_MAX ? (int)pid : 0;
}

void dt_process_name(const struct dt_processes *processes, int pid, char name[DT_PROCESS_NAME_BYTES])
{
    struct dt_page_copy copy;

    snprintf(name, DT_PROCESS_NAME_BYTES, "-");
    if (dt_page_read(&processes->dir, pid, &copy) != DT_OK)
        return;
    snprintf(name, DT_PROCESS_NAME_BYTES, "%s", copy.header->process_name);
    dt_page_copy_free(&copy);
}

static int find(const char *command, int pid, struct dt_processes *processes)
{
    dt_runtime_dir_sweep(&processes->dir);
    processes->count =
        dt_runtime_dir_list(&processes->dir, DT_RUNTIME_SOCKET, processes->pids, DT_PROCESSES_MAX);
    if (pid) {
        processes->pids[0] = pid;
        processes->count = 1;
    }
    if (processes->count)
        return DT_EXIT_OK;
    fprintf(stderr, "%s: no process of yours uses Detour now (looked in %s)\n", command, processes->dir.path);
    dt_runtime_dir_close(&processes->dir);
    return DT_EXIT_FAILED;
}

int dt_processes_open(const char *command, int pid, struct dt_processes *processes)
{
    struct dt_params params;
    char reason[512];
    enum dt_status status;

    if (dt_params_load(&params, dt_getenv_process, NULL, reason, sizeof reason) != DT_OK) {
        fprintf(stderr, "%s: %s\n", command, reason);
        return DT_EXIT_USAGE;
    }
    status = dt_runtime_dir_open(params.runtime_dir, 0, &processes->dir, reason, sizeof reason);
    if (status == DT_OK)
        return find(command, pid, processes);
    fprintf(stderr, "%s: %s%s\n", command,
            status == DT_NOT_FOUND ? "no process of yours uses Detour now: " : "", reason);
    return DT_EXIT_FAILED;
}

void dt_processes_close(struct dt_processes *processes)
{
    dt_runtime_dir_close(&processes->dir);
}
