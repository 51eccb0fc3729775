/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hostpath.h"

#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "delay/rule.h"
#include "obs/client.h"
#include "obs/command.h"

#define COMMAND     DT_HOSTPATH_COMMAND
#define SCOPE_BYTES 384

struct request {
    const char *action;
    char scope[SCOPE_BYTES]; /* the words behind it */
    struct dt_process_choice choice;
};

static error_t parse_word(struct request *request, const char *word)
{
    size_t used = strlen(request->scope);

    if (!request->action) {
        request->action = word;
        return 0;
    }
    if (used + strlen(word) + 2 > sizeof request->scope)
        return dt_arg_refuse(COMMAND, "%s: a scope has less than %d characters", word, SCOPE_BYTES);
    snprintf(request->scope + used, sizeof request->scope - used, "%s%s", used ? " " : "", word);
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case ARGP_KEY_ARG:
        return parse_word(request, arg);
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &request->choice;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {{&dt_process_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp argp = {
    .parser = parse_one,
    .children = children,
    .args_doc = "on|off|auto [SCOPE]\nlist",
    .doc = "Switches how connections of running processes send: through host memory (the host path) or "
           "directly.\v"
           "  on    every message is copied into host memory, and its buffer is free\n"
           "        when the copy is made\n"
           "  off   every message is sent from its buffer\n"
           "  auto  each connection decides: on while its link is slow\n"
           "  list  per process: the mode of connections to come (none: the process has\n"
           "        no memory for the host path), and how many connections have which\n"
           "\n"
           "SCOPE: [device=NAME] [peer=TEXT] [connection=N] [id=HEX], as in the rules of `detour inject`. "
           "Without it, all connections that send, and those that are set up later.\n"
           "\n"
           "The order is in force from the next message on; messages in progress are delivered as they "
           "were begun. A process needs DETOUR_HOSTPATH=on or auto at its start, which sets memory aside; "
           "with `off` the command is refused.\n"
           "\n"
           "Processes are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID).\n"
           "Exit code: 0 success; 1 a process failed, or none has such a connection; 2 bad input.",
};

static int check_request(const struct request *request)
{
    static const char *const actions[] = {"on", "off", "auto", "list"};
    struct dt_delay_scope scope;
    struct dt_delay_error error;
    bool is_known = false;

    if (!request->action)
        return dt_arg_refuse(COMMAND, "no action given; expected on, off, auto or list (see --help)");
    for (size_t i = 0; i < DT_COUNT_OF(actions); i++)
        is_known = is_known || !strcmp(request->action, actions[i]);
    if (!is_known)
        return dt_arg_refuse(COMMAND, "unknown action '%s'; expected on, off, auto or list", request->action);
    if (!strcmp(request->action, "list") && request->scope[0])
        return dt_arg_refuse(COMMAND, "`list` takes no argument; got '%s'", request->scope);
    if (dt_delay_parse_scope(request->scope, strlen(request->scope), &scope, &error) != DT_OK)
        return dt_arg_refuse(COMMAND, "%s", error.text);
    return 0;
}

/* "MODE ON AUTO OFF" as a row. */
static void list_one(const struct dt_processes *processes, int pid, struct dt_process_outcome *outcome)
{
    char process[DT_PROCESS_NAME_BYTES], answer[DT_COMMAND_ANSWER_BYTES], mode[8] = "-";
    unsigned on = 0, automatic = 0, off = 0;

    dt_process_name(processes, pid, process);
    if (dt_client_call(&processes->dir, pid, "hostpath list", DT_PROCESS_TIMEOUT_MS, answer, sizeof answer) !=
        DT_OK) {
        dt_arg_refuse(COMMAND, "process %d (%s): %s", pid, process, answer);
        outcome->failed++;
        return;
    }
    sscanf(answer, "%7s %u %u %u", mode, &on, &automatic, &off);
    printf("%-8d %-20s %-6s %8u %8u %8u\n", pid, process, mode, on, automatic, off);
    outcome->done++;
}

static int run_all(const struct dt_processes *processes, const struct request *request)
{
    struct dt_process_outcome outcome = {0};
    char line[SCOPE_BYTES + 32];
    bool is_list = !strcmp(request->action, "list");

    snprintf(line, sizeof line, "hostpath %s%s%s", request->action, request->scope[0] ? " " : "",
             request->scope);
    if (is_list)
        printf("%-8s %-20s %-6s %8s %8s %8s\n", "PID", "PROCESS", "MODE", "ON", "AUTO", "OFF");
    for (size_t i = 0; i < processes->count; i++) {
        if (is_list)
            list_one(processes, processes->pids[i], &outcome);
        else
            dt_process_order(processes, &request->choice, processes->pids[i], line, &outcome);
    }
    if (!outcome.done && outcome.skipped)
        dt_arg_refuse(COMMAND,
                      "none of %d processes has memory for the host path (DETOUR_HOSTPATH) and a connection "
                      "that matches '%s'; `detour hostpath list` and `detour stat` show them",
                      outcome.skipped, request->scope);
    return outcome.done && !outcome.failed ? DT_EXIT_OK : DT_EXIT_FAILED;
}

int dt_hostpath_command(int argc, char **argv)
{
    struct request request = {.choice = {.command = COMMAND}};
    struct dt_processes processes;
    int code;

    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request))
        return DT_EXIT_USAGE;
    code = dt_processes_open(&request.choice, &processes);
    if (code != DT_EXIT_OK)
        return code;
    code = run_all(&processes, &request);
    dt_processes_close(&processes);
    return code;
}
