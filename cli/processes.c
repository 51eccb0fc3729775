/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/processes.h"

#include <limits.h>
#include <stdio.h>

#include "base/param.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "obs/client.h"
#include "obs/command.h"
#include "obs/page.h"

static error_t parse_pid(struct dt_process_choice *choice, const char *text)
{
    uint64_t pid;

    if (dt_parse_number(text, false, &pid) != DT_OK || pid == 0 || pid > INT_MAX)
        return dt_arg_refuse(choice->command, "--pid %s: expected the number of a process", text);
    choice->pid = (int)pid;
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    switch (key) {
    case 'p':
        return parse_pid(state->input, arg);
    case ARGP_KEY_INIT:
        state->err_stream = NULL; /* getopt's one line is enough */
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"pid", 'p', "PID", 0, "only this process (default: all of yours that use Detour)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

const struct argp dt_process_argp = {.options = argp_options, .parser = parse_one};

void dt_process_name(const struct dt_processes *processes, int pid, char name[DT_PROCESS_NAME_BYTES])
{
    struct dt_page_copy copy;

    snprintf(name, DT_PROCESS_NAME_BYTES, "-");
    if (dt_page_read(&processes->dir, pid, &copy) != DT_OK)
        return;
    snprintf(name, DT_PROCESS_NAME_BYTES, "%s", copy.header->process_name);
    dt_page_copy_free(&copy);
}

static int find(const struct dt_process_choice *choice, struct dt_processes *processes)
{
    dt_runtime_dir_sweep(&processes->dir);
    processes->count =
        dt_runtime_dir_list(&processes->dir, DT_RUNTIME_SOCKET, processes->pids, DT_PROCESSES_MAX);
    if (choice->pid) {
        processes->pids[0] = choice->pid;
        processes->count = 1;
    }
    if (processes->count)
        return DT_EXIT_OK;
    fprintf(stderr, "%s: no process of yours uses Detour now (looked in %s)\n", choice->command,
            processes->dir.path);
    dt_runtime_dir_close(&processes->dir);
    return DT_EXIT_FAILED;
}

int dt_processes_open(const struct dt_process_choice *choice, struct dt_processes *processes)
{
    struct dt_params params;
    char reason[512];
    enum dt_status status;

    if (dt_params_load(&params, dt_getenv_process, NULL, reason, sizeof reason) != DT_OK) {
        fprintf(stderr, "%s: %s\n", choice->command, reason);
        return DT_EXIT_USAGE;
    }
    status = dt_runtime_dir_open(params.runtime_dir, 0, &processes->dir, reason, sizeof reason);
    if (status == DT_OK)
        return find(choice, processes);
    fprintf(stderr, "%s: %s%s\n", choice->command,
            status == DT_NOT_FOUND ? "no process of yours uses Detour now: " : "", reason);
    return DT_EXIT_FAILED;
}

void dt_processes_close(struct dt_processes *processes)
{
    dt_runtime_dir_close(&processes->dir);
}

void dt_process_order(const struct dt_processes *processes, const struct dt_process_choice *choice, int pid,
                      const char *line, struct dt_process_outcome *outcome)
{
    char process[DT_PROCESS_NAME_BYTES], answer[DT_COMMAND_ANSWER_BYTES];
    enum dt_status status;

    dt_process_name(processes, pid, process);
    status = dt_client_call(&processes->dir, pid, line, DT_PROCESS_TIMEOUT_MS, answer, sizeof answer);
    if (status == DT_OK) {
        printf("%d (%s): %s\n", pid, process, answer);
        outcome->done++;
    } else if (!choice->pid && (status == DT_NOT_FOUND || status == DT_UNSUPPORTED)) {
        outcome->skipped++;
    } else {
        dt_arg_refuse(choice->command, "process %d (%s): %s", pid, process, answer);
        outcome->failed++;
    }
}
