/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/hold.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/arg.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "delay/rule.h"
#include "obs/client.h"
#include "obs/command.h"

#define SCOPE_BYTES 384

struct request {
    const char *time; /* --for, or NULL */
    bool is_list;
    char scope[SCOPE_BYTES]; /* the words */
    struct dt_process_choice choice;
};

static error_t parse_word(struct request *request, const char *word)
{
    size_t used = strlen(request->scope);

    if (used + strlen(word) + 2 > sizeof request->scope)
        return dt_arg_refuse(request->choice.command, "%s: a scope has less than %d characters", word,
                             SCOPE_BYTES);
    snprintf(request->scope + used, sizeof request->scope - used, "%s%s", used ? " " : "", word);
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct request *request = state->input;

    switch (key) {
    case 'f':
        request->time = arg;
        return 0;
    case 'l':
        request->is_list = true;
        return 0;
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

#define SCOPE_TEXT \
    "SCOPE: [device=NAME] [peer=TEXT] [connection=N] [id=HEX], as in the rules of `detour inject`. "

static const struct argp_option hold_options[] = {
    {"for", 'f', "TIME", 0, "how long: a number with ns, us, ms, s, min; at most 10min", 0},
    {"list", 'l', NULL, 0, "the holds in force, per process", 0},
    {0},
};

static const struct argp hold_argp = {
    .options = hold_options,
    .parser = parse_one,
    .children = children,
    .args_doc = "[SCOPE] --for=TIME\n--list",
    .doc = "Parks the messages of running processes: messages that are not posted yet wait until the time is "
           "over or `detour release`; those in progress are completed. Nothing is lost, and messages keep "
           "their order.\v" SCOPE_TEXT
           "Without it, all connections that send, and those that are set up later.\n"
           "\n"
           "The process itself watches the time, so a hold ends without this command. A hold with the same "
           "scope is replaced: repeat the command to prolong it. Parked messages are counted apart "
           "(`detour stat`); a hold makes no link slow, fails no path and delays no close.\n"
           "\n"
           "Processes are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID).\n"
           "Exit code: 0 success; 1 a process failed, or none has such a device; 2 bad input.",
};

static const struct argp release_argp = {
    .parser = parse_one,
    .children = children,
    .args_doc = "[SCOPE]",
    .doc = "Ends what `detour hold` began: parked messages go at once.\v" SCOPE_TEXT
           "The hold with this scope ends; without a scope all holds.\n"
           "\n"
           "Processes are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID).\n"
           "Exit code: 0 success; 1 a process failed, or none has such a hold; 2 bad input.",
};

/* ------------------------------------------------------------------------------------------------------------
 * --list
 */

/* "LEFT_NS MESSAGES TEXT" as a row. */
static void print_hold(int pid, const char *process, const char *answer)
{
    char *end;
    uint64_t left_ns = strtoull(answer, &end, 10);
    uint64_t messages = strtoull(end, &end, 10);

    printf("%-8d %-20s %9.3f %10" PRIu64 "  %s\n", pid, process, (double)left_ns / 1e9, messages,
           *end == ' ' ? end + 1 : end);
}

static void list_one(const struct dt_processes *processes, int pid, struct dt_process_outcome *outcome)
{
    char process[DT_PROCESS_NAME_BYTES], numbers[DT_COMMAND_ANSWER_BYTES], answer[DT_COMMAND_ANSWER_BYTES];
    char line[64];
    char *rest = NULL;

    dt_process_name(processes, pid, process);
    if (dt_client_call(&processes->dir, pid, "hold list", DT_PROCESS_TIMEOUT_MS, numbers, sizeof numbers) !=
        DT_OK) {
        dt_arg_refuse(DT_HOLD_COMMAND, "process %d (%s): %s", pid, process, numbers);
        outcome->failed++;
        return;
    }
    for (char *word = strtok_r(numbers, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        snprintf(line, sizeof line, "hold show %.20s", word);
        /* A hold that has ended since is no error. */
        if (dt_client_call(&processes->dir, pid, line, DT_PROCESS_TIMEOUT_MS, answer, sizeof answer) == DT_OK)
            print_hold(pid, process, answer);
    }
    outcome->done++;
}

/* ------------------------------------------------------------------------------------------------------------
 * The commands
 */
static int run_all(const struct request *request, const char *line, const char *skipped)
{
    struct dt_process_outcome outcome = {0};
    struct dt_processes processes;
    int code = dt_processes_open(&request->choice, &processes);

    if (code != DT_EXIT_OK)
        return code;
    if (request->is_list)
        printf("%-8s %-20s %9s %10s  %s\n", "PID", "PROCESS", "LEFT(s)", "MESSAGES", "HOLD");
    for (size_t i = 0; i < processes.count; i++) {
        if (request->is_list)
            list_one(&processes, processes.pids[i], &outcome);
        else
            dt_process_order(&processes, &request->choice, processes.pids[i], line, &outcome);
    }
    if (!outcome.done && outcome.skipped)
        dt_arg_refuse(request->choice.command, "none of %d processes has %s '%s'", outcome.skipped, skipped,
                      request->scope);
    dt_processes_close(&processes);
    return outcome.done && !outcome.failed ? DT_EXIT_OK : DT_EXIT_FAILED;
}

static int check_hold(const struct request *request, char *text, size_t bytes)
{
    struct dt_delay_rule rule;
    struct dt_delay_error error;

    if (request->is_list && (request->time || request->scope[0]))
        return dt_arg_refuse(DT_HOLD_COMMAND, "--list takes no scope and no --for");
    if (request->is_list)
        return 0;
    if (!request->time)
        return dt_arg_refuse(DT_HOLD_COMMAND, "--for is missing: how long, for example --for=30s");
    if ((size_t)snprintf(text, bytes, "%s%sfor=%s", request->scope, request->scope[0] ? " " : "",
                         request->time) >= bytes)
        return dt_arg_refuse(DT_HOLD_COMMAND, "--for=%.20s...: expected a time like 30s", request->time);
    if (dt_delay_parse_hold(text, strlen(text), &rule, &error) != DT_OK)
        return dt_arg_refuse(DT_HOLD_COMMAND, "%s", error.text);
    return 0;
}

int dt_hold_command(int argc, char **argv)
{
    struct request request = {.choice = {.command = DT_HOLD_COMMAND}};
    char text[SCOPE_BYTES + 64];
    char line[sizeof text + 8] = "";

    if (argp_parse(&hold_argp, argc, argv, 0, NULL, &request) || check_hold(&request, text, sizeof text))
        return DT_EXIT_USAGE;
    if (!request.is_list)
        snprintf(line, sizeof line, "hold %s", text);
    return run_all(&request, line, "a device for");
}

int dt_release_command(int argc, char **argv)
{
    struct request request = {.choice = {.command = DT_RELEASE_COMMAND}};
    char line[SCOPE_BYTES + 16];
    struct dt_delay_scope scope;
    struct dt_delay_error error;

    if (argp_parse(&release_argp, argc, argv, 0, NULL, &request))
        return DT_EXIT_USAGE;
    if (dt_delay_parse_scope(request.scope, strlen(request.scope), &scope, &error) != DT_OK) {
        dt_arg_refuse(DT_RELEASE_COMMAND, "%s", error.text);
        return DT_EXIT_USAGE;
    }
    snprintf(line, sizeof line, "release%s%s", request.scope[0] ? " " : "", request.scope);
    return run_all(&request, line, "a hold with the scope");
}
