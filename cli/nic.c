/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour nic`: lists the RNICs of running processes, drains them, and controls software RNICs, over the
 * processes' control sockets (obs/server.h). Without --pid it addresses all processes of the user.
 */
#include "cli/nic.h"

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/param.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/processes.h"
#include "obs/client.h"
#include "obs/command.h"

#define COMMAND   "detour nic"
#define WORDS_MAX 3

struct request {
    const char *words[WORDS_MAX]; /* "list", or device, action, argument */
    int word_count;
    struct dt_process_choice choice;
};

/* ---- Command line. ---- */
static error_t parse_word(struct request *request, const char *word)
{
    if (request->word_count < WORDS_MAX) {
        request->words[request->word_count++] = word;
        return 0;
    }
    return dt_arg_refuse(COMMAND, "unexpected argument '%s'", word);
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
    .args_doc = "list\nDEVICE migrate|back [SCOPE]\nDEVICE down|up|fatal|plug\nDEVICE drop N|P%\nDEVICE rate "
                "R\nDEVICE verbs N",
    .doc = "Lists the RNICs of running processes, drains them, and controls software RNICs "
           "(soft0, soft1, ...).\v"
           "  list     the devices of each process, the links of software RNICs, and which\n"
           "           devices are drained\n"
           "  migrate  drain the device: its traffic moves to others, for maintenance\n"
           "  back     end the drain: the device is used again\n"
           "           SCOPE: id=ID, connection=N or peer=NAME, for these senders alone\n"
           "  down     take the link down: no packet enters or leaves\n"
           "  up       bring the link up\n"
           "  fatal    a fatal error: the device is dead and leaves the system\n"
           "  plug     after that, the device is back, as after a driver reset or hot plug\n"
           "  drop N   drop the next N packets that the device sends\n"
           "  drop P%  drop P percent of its packets from now on; 0% ends this\n"
           "  rate R   the link carries R bytes per second (K, M, G); 0 is unlimited\n"
           "  verbs N  creating, changing or destroying a queue pair takes N microseconds\n"
           "\n"
           "Processes are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID).\n"
           "Exit code: 0 success; 1 a process failed, or no process has the device; 2 bad input.",
};

/* N from 1, or P% with P up to 100. */
static bool is_drop_argument(const char *text)
{
    char digits[24];
    size_t length = strlen(text);
    bool is_percent = length && text[length - 1] == '%';
    uint64_t value;

    if (is_percent)
        length--;
    if (!length || length >= sizeof digits)
        return false;
    memcpy(digits, text, length);
    digits[length] = '\0';
    return dt_parse_number(digits, false, &value) == DT_OK && (is_percent ? value <= 100 : value > 0);
}

/* Actions on connections, which any kind of device supports. */
static bool is_about_traffic(const char *word)
{
    return !strcmp(word, "migrate") || !strcmp(word, "back");
}

/* The limits of the process that parses the value (verbs/control.c). */
static bool is_number(const char *text, bool has_unit)
{
    uint64_t value;

    return dt_parse_number(text, has_unit, &value) == DT_OK;
}

static bool is_plain_action(const char *word)
{
    return !strcmp(word, "down") || !strcmp(word, "up") || !strcmp(word, "fatal") || !strcmp(word, "plug") ||
           is_about_traffic(word);
}

static bool is_action(const char *word)
{
    return is_plain_action(word) || !strcmp(word, "rate") || !strcmp(word, "verbs") || !strcmp(word, "drop");
}

/* Names become part of a line for another process: no blanks, no control characters. */
static bool is_device_name(const char *word)
{
    for (const char *c = word; *c; c++) {
        if (*c <= ' ' || *c > '~')
            return false;
    }
    return word[0] && strlen(word) < 64;
}

/* Of connections; the process parses it. */
static bool is_scope(const char *word)
{
    return is_device_name(word) &&
           (!strncmp(word, "id=", 3) || !strncmp(word, "connection=", 11) || !strncmp(word, "peer=", 5));
}

static int check_request(const struct request *request)
{
    const char *action = request->words[1];

    if (request->word_count == 0)
        return dt_arg_refuse(COMMAND, "no action given; `detour nic --help` lists the actions");
    if (!strcmp(request->words[0], "list"))
        return request->word_count == 1
                   ? 0
                   : dt_arg_refuse(COMMAND, "`list` takes no argument; got '%s'", action);
    if (!is_device_name(request->words[0]))
        return dt_arg_refuse(COMMAND,
                             "the first argument is not a device name; `detour nic list` shows the names");
    if (request->word_count == 1 && is_action(request->words[0]))
        return dt_arg_refuse(COMMAND, "no device before `%s`; expected such as `detour nic soft0 %s`",
                             request->words[0], request->words[0]);
    if (request->word_count == 1)
        return dt_arg_refuse(
            COMMAND, "no action for '%s'; expected migrate, back, down, up, fatal, plug, drop, rate or verbs",
            request->words[0]);
    if (is_plain_action(action))
        return request->word_count == 2 || (is_about_traffic(action) && is_scope(request->words[2]))
                   ? 0
                   : dt_arg_refuse(COMMAND, "`%s` takes no %s; got '%s'", action,
                                   is_about_traffic(action) ? "argument but id=, connection= or peer="
                                                            : "argument",
                                   request->words[2]);
    if (!strcmp(action, "rate") || !strcmp(action, "verbs"))
        return request->word_count == 3 && is_number(request->words[2], action[0] == 'r')
                   ? 0
                   : dt_arg_refuse(COMMAND, "%s %s: expected %s", action,
                                   request->word_count == 2 ? "what?" : request->words[2],
                                   action[0] == 'r' ? "bytes per second, such as 250M" : "microseconds");
    if (strcmp(action, "drop"))
        return dt_arg_refuse(
            COMMAND,
            "unknown action '%s'; expected migrate, back, down, up, fatal, plug, drop, rate or verbs",
            action);
    if (request->word_count == 2 || !is_drop_argument(request->words[2]))
        return dt_arg_refuse(COMMAND, "drop %s: expected a number of packets from 1, or 0%% to 100%%",
                             request->word_count == 2 ? "what?" : request->words[2]);
    return 0;
}

/* ---- Requests to the processes. ---- */

/* "soft0 soft up, soft1 soft down drained" as table rows. */
static void print_devices(int pid, const char *process, char *list)
{
    char *rest = NULL;

    for (char *entry = strtok_r(list, ",", &rest); entry; entry = strtok_r(NULL, ",", &rest)) {
        char *fields = NULL;
        const char *device = strtok_r(entry, " ", &fields);
        const char *kind = strtok_r(NULL, " ", &fields);
        const char *state = strtok_r(NULL, " ", &fields);

        if (!device || !kind)
            continue;
        printf("%-8d %-20s %-16s %-8s %s", pid, process, device, kind, state ? state : "-");
        while (state && (state = strtok_r(NULL, " ", &fields)))
            printf(", %s", state);
        putchar('\n');
    }
}

static void list_one(const struct dt_runtime_dir *dir, int pid, const char *process,
                     struct dt_process_outcome *outcome)
{
    char answer[DT_COMMAND_ANSWER_BYTES];

    if (dt_client_call(dir, pid, "nic list", DT_PROCESS_TIMEOUT_MS, answer, sizeof answer) == DT_OK) {
        print_devices(pid, process, answer);
        outcome->done++;
        return;
    }
    dt_arg_refuse(COMMAND, "process %d (%s): %s", pid, process, answer);
    outcome->failed++;
}

static int exit_code(const struct request *request, const struct dt_process_outcome *outcome)
{
    if (!outcome->done && outcome->skipped && request->word_count == 3 && is_about_traffic(request->words[1]))
        dt_arg_refuse(COMMAND,
                      "none of %d processes has a connection with %s that sends over an RNIC named '%s'",
                      outcome->skipped, request->words[2], request->words[0]);
    else if (!outcome->done && outcome->skipped)
        dt_arg_refuse(COMMAND, "none of %d processes has a %sRNIC named '%s'; `detour nic list` shows them",
                      outcome->skipped, is_about_traffic(request->words[1]) ? "" : "software ",
                      request->words[0]);
    return outcome->done && !outcome->failed ? DT_EXIT_OK : DT_EXIT_FAILED;
}

static int ask_all(const struct dt_processes *processes, const struct request *request)
{
    bool is_list = !strcmp(request->words[0], "list");
    bool has_argument = request->word_count == 3;
    struct dt_process_outcome outcome = {0, 0, 0};
    char line[256];

    if (is_list)
        printf("%-8s %-20s %-16s %-8s %s\n", "PID", "PROCESS", "DEVICE", "KIND", "STATE");
    else
        snprintf(line, sizeof line, "nic %s %s%s%s", request->words[0], request->words[1],
                 has_argument ? " " : "", has_argument ? request->words[2] : "");
    for (size_t i = 0; i < processes->count; i++) {
        char process[DT_PROCESS_NAME_BYTES];
        int pid = processes->pids[i];

        if (!is_list) {
            dt_process_order(processes, &request->choice, pid, line, &outcome);
            continue;
        }
        dt_process_name(processes, pid, process);
        list_one(&processes->dir, pid, process, &outcome);
    }
    return exit_code(request, &outcome);
}

int dt_nic_command(int argc, char **argv)
{
    struct request request = {.choice = {.command = COMMAND}};
    struct dt_processes processes;
    int code;

    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request))
        return DT_EXIT_USAGE;
    code = dt_processes_open(&request.choice, &processes);
    if (code != DT_EXIT_OK)
        return code;
    code = ask_all(&processes, &request);
    dt_processes_close(&processes);
    return code;
}
