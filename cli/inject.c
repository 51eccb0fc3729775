/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/inject.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/param.h"
#include "base/util.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "delay/rule.h"
#include "obs/client.h"
#include "obs/command.h"

#define COMMAND       DT_INJECT_COMMAND
#define RULES_MAX     16
#define RULE_FILE_MAX (64u << 10)
#define FOR_S_MAX     1000000.0

enum { OPTION_JSON = 256, OPTION_FOR };

/* ---- Command line. ---- */
static error_t parse_for(struct dt_inject_request *request, const char *text)
{
    double seconds = 0;
    int error = dt_arg_decimal(COMMAND, "--for", text, FOR_S_MAX, &seconds);

    request->is_bounded = true;
    request->for_ns = (uint64_t)(seconds * 1e9);
    return error;
}

static error_t parse_word(struct dt_inject_request *request, const char *word)
{
    if (!request->action) {
        request->action = word;
        return 0;
    }
    if (request->word_count == DT_INJECT_WORDS_MAX)
        return dt_arg_refuse(COMMAND, "too many arguments; '%s' is one", word);
    request->words[request->word_count++] = word;
    return 0;
}

static error_t parse_one(int key, char *arg, struct argp_state *state)
{
    struct dt_inject_request *request = state->input;

    switch (key) {
    case 'f':
        request->file = arg;
        return 0;
    case OPTION_JSON:
        request->is_json = true;
        return 0;
    case OPTION_FOR:
        return parse_for(request, arg);
    case ARGP_KEY_ARG:
        return parse_word(request, arg);
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &request->choice;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option argp_options[] = {
    {"file", 'f', "FILE", 0, "add: the rules in this file", 0},
    {"for", OPTION_FOR, "SECONDS", 0, "record: stop after SECONDS (0: write past messages only)", 0},
    {"json", OPTION_JSON, NULL, 0, "answers as JSON", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct argp_child children[] = {{&dt_process_argp, 0, NULL, 0}, {NULL, 0, NULL, 0}};

static const struct argp argp = {
    .options = argp_options,
    .parser = parse_one,
    .children = children,
    .args_doc = "add RULE...\nadd --file FILE\nremove N\nclear\nlist\nrecord FILE\nreplay FILE",
    .doc = "Delays messages of running processes and makes their devices fail, by rules.\v"
           "  add RULE     install a rule, as in: add device=soft0 latency=30ms\n"
           "  remove N     remove rule N; messages that it holds are sent\n"
           "  clear        remove all rules\n"
           "  list         the rules of each process and their effect\n"
           "  record FILE  write every delayed message to FILE (CSV; - is standard\n"
           "               output), past messages first, until the processes end, SECONDS\n"
           "               have passed, or Control-C\n"
           "  replay FILE  the same delays again, message by message: for the same job,\n"
           "               started anew\n"
           "\n"
           "A rule: [device=NAME] [peer=TEXT] [connection=N] [id=HEX] [size=MIN..MAX] [from=TIME] [to=TIME], "
           "and one of\n"
           "  latency=VALUE [every=VALUE] [seed=N]     later by VALUE; messages overlap\n"
           "  serial=VALUE [per=BYTES] [every=VALUE]   one after the other, each (or each\n"
           "                                           started piece) this long\n"
           "  rate=10Gbit                              one after the other, at this rate\n"
           "  trace=FILE [link=NAME] [iteration=TIME]  latency by a file\n"
           "  replay=FILE [process=N]                  the delays of a record\n"
           "\n"
           "Or, with device=NAME and no condition but from= and to=, a device fault:\n"
           "  down, flap=TIME/TIME                     its queue pairs fail, its port has\n"
           "                                           no link\n"
           "  fail=CALL [error=ERRNO] [count=N]        a verbs call fails\n"
           "  hang=CALL [count=N]                      a verbs call does not return\n"
           "  status=STATUS [count=N]                  completions are errors\n"
           "  silent, event=EVENT                      no completions; an asynchronous\n"
           "                                           event\n"
           "  personality=PROVIDER                     in the error state it is like mlx5,\n"
           "                                           ionic, bnxt, rxe or mana\n"
           "\n"
           "A rule delays messages that its process sends. To delay one direction of a link,\n"
           "give the rule to the sending process (--pid), with device= and peer=.\n"
           "\n"
           "VALUE: 30ms, uniform(A,B), normal(MEAN,DEVIATION), exponential(MEAN), pareto(LEAST,SHAPE).\n"
           "docs/injection.md describes the whole language.\n"
           "\n"
           "Processes are found in DETOUR_RUNTIME_DIR (default: /dev/shm/detour-UID).\n"
           "Exit code: 0 success; 1 a process failed; 2 bad input.",
};

/* ---- Rules: parsed here first, so that an error names the position in the command line. ---- */
struct rules {
    struct dt_delay_rule rule[RULES_MAX];
    size_t count;
};

/* Processes may have a different working directory. */
static int make_absolute(struct dt_delay_rule *rule)
{
    char path[PATH_MAX];

    if (!rule->file[0])
        return 0;
    if (!realpath(rule->file, path))
        return dt_arg_refuse(COMMAND, "%s: %s", rule->file, strerror(errno));
    if (strlen(path) >= sizeof rule->file || strpbrk(path, "\"\n"))
        return dt_arg_refuse(COMMAND, "%s: its full name, %s, is too long for a rule or has a quote in it",
                             rule->file, path);
    strcpy(rule->file, path);
    return 0;
}

/* `name` precedes the position in an error. */
static int parse_rules(const char *name, const char *text, size_t bytes, struct rules *rules)
{
    struct dt_delay_error error;

    if (dt_delay_parse(text, bytes, rules->rule, RULES_MAX, &rules->count, &error) != DT_OK)
        return dt_arg_refuse(COMMAND, "%s%s", name, error.text);
    if (rules->count == 0)
        return dt_arg_refuse(COMMAND, "%sthere is no rule", name);
    for (size_t i = 0; i < rules->count; i++) {
        if (make_absolute(&rules->rule[i]))
            return EINVAL;
    }
    return 0;
}

static int read_rules(const char *name, struct rules *rules)
{
    char text[RULE_FILE_MAX];
    char prefix[PATH_MAX + 2];
    FILE *file = strcmp(name, "-") ? fopen(name, "r") : stdin;
    size_t bytes;
    int error;

    if (!file)
        return dt_arg_refuse(COMMAND, "%s: %s", name, strerror(errno));
    bytes = fread(text, 1, sizeof text, file);
    error = ferror(file) ? errno : 0;
    if (file != stdin)
        fclose(file);
    if (error)
        return dt_arg_refuse(COMMAND, "%s: %s", name, strerror(error));
    if (bytes == sizeof text)
        return dt_arg_refuse(COMMAND, "%s: a file of rules has less than %u bytes", name, RULE_FILE_MAX);
    snprintf(prefix, sizeof prefix, "%s: ", name);
    return parse_rules(prefix, text, bytes, rules);
}

static int join_rules(const struct dt_inject_request *request, struct rules *rules)
{
    char text[RULES_MAX * DT_DELAY_TEXT_BYTES];
    size_t used = 0;

    for (int i = 0; i < request->word_count && used < sizeof text; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", i ? " " : "", request->words[i]);
    if (used >= sizeof text)
        return dt_arg_refuse(COMMAND, "the rule is too long");
    return parse_rules("", text, used, rules);
}

/* ---- One process. ---- */
struct job {
    const struct dt_processes *processes;
    const struct dt_inject_request *request;
    json_t *json; /* an array, or NULL */
    int done;
    int skipped;
    int failed;
    int pid; /* index of the current process */
    char process[DT_PROCESS_NAME_BYTES];
};

static enum dt_status ask(const struct job *job, const char *line, char answer[DT_COMMAND_ANSWER_BYTES])
{
    return dt_client_call(&job->processes->dir, job->pid, line, DT_PROCESS_TIMEOUT_MS, answer,
                          DT_COMMAND_ANSWER_BYTES);
}

static void fail(struct job *job, const char *answer)
{
    dt_arg_refuse(COMMAND, "process %d (%s): %s", job->pid, job->process, answer);
    job->failed++;
}

/* Prints text as a line, or adds `object` to the JSON array. Takes ownership of `object`. */
static void report(struct job *job, const char *text, json_t *object)
{
    job->done++;
    if (!job->json) {
        printf("%d (%s): %s\n", job->pid, job->process, text);
        json_decref(object);
        return;
    }
    json_object_set_new(object, "pid", json_integer(job->pid));
    json_object_set_new(object, "process", json_string(job->process));
    json_array_append_new(job->json, object);
}

static void add_one(struct job *job, const struct dt_delay_rule *rule)
{
    char text[DT_DELAY_TEXT_BYTES];
    char line[DT_DELAY_TEXT_BYTES + 16];
    char answer[DT_COMMAND_ANSWER_BYTES];
    char summary[DT_COMMAND_ANSWER_BYTES + 16];
    char *rest;
    uint64_t number;

    dt_delay_rule_print(rule, text);
    snprintf(line, sizeof line, "inject add %s", text);
    if (ask(job, line, answer) != DT_OK) {
        fail(job, answer);
        return;
    }
    number = strtoull(answer, &rest, 10);
    snprintf(summary, sizeof summary, "rule %s", answer);
    report(job, summary,
           json_pack("{s:I, s:s}", "rule", (json_int_t)number, "text", rest + strspn(rest, " ")));
}

static void add_all(struct job *job, const struct rules *rules)
{
    for (size_t i = 0; i < rules->count; i++)
        add_one(job, &rules->rule[i]);
}

/* Process number `index` replays its own part of the record. */
static void replay_in(struct job *job, const struct rules *rules, size_t index)
{
    struct dt_delay_rule rule = rules->rule[0];

    rule.process = (uint32_t)index;
    add_one(job, &rule);
}

static void remove_in(struct job *job)
{
    char line[64];
    char answer[DT_COMMAND_ANSWER_BYTES];
    enum dt_status status;

    snprintf(line, sizeof line, "inject remove %s", job->request->words[0]);
    status = ask(job, line, answer);
    if (status == DT_OK)
        report(job, answer, json_pack("{s:s}", "done", answer));
    else if (status == DT_NOT_FOUND && !job->request->choice.pid && !strncmp(answer, "no rule", 7))
        job->skipped++;
    else
        fail(job, answer);
}

static void clear_in(struct job *job)
{
    char answer[DT_COMMAND_ANSWER_BYTES];

    if (ask(job, "inject clear", answer) == DT_OK)
        report(job, answer, json_pack("{s:s}", "done", answer));
    else
        fail(job, answer);
}

/* ---- list. ---- */

/* "AGE_NS ACTED DELAY_NS TEXT" */
static void list_rule(struct job *job, const char *number, char *shown, json_t *rules)
{
    uint64_t age_ns, messages, delay_ns;
    int used = 0;

    if (sscanf(shown, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %n", &age_ns, &messages, &delay_ns, &used) != 3 ||
        !used)
        return;
    if (!rules) {
        printf("%-8d %-20s %-5s %10.3f %10" PRIu64 " %12.3f  %s\n", job->pid, job->process, number,
               (double)age_ns / 1e9, messages, (double)delay_ns / 1e6, shown + used);
        return;
    }
    json_array_append_new(rules, json_pack("{s:I, s:f, s:I, s:f, s:s}", "rule", (json_int_t)atoll(number),
                                           "age_s", (double)age_ns / 1e9, "acted", (json_int_t)messages,
                                           "delay_ms", (double)delay_ns / 1e6, "text", shown + used));
}

/* The threads that post held messages: the share of time that they spin. */
static void list_timer(struct job *job, json_t *object)
{
    char answer[DT_COMMAND_ANSWER_BYTES];
    uint64_t margin_ns, waits, slept_ns, spun_ns;
    double share;

    if (!object || ask(job, "inject timer", answer) != DT_OK ||
        sscanf(answer, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &margin_ns, &waits, &slept_ns,
               &spun_ns) != 4)
        return;
    share = slept_ns + spun_ns ? (double)spun_ns / (double)(slept_ns + spun_ns) : 0;
    json_object_set_new(object, "timer",
                        json_pack("{s:f, s:I, s:f}", "margin_us", (double)margin_ns / 1e3, "waits",
                                  (json_int_t)waits, "spin_share", share));
}

static void list_in(struct job *job)
{
    char numbers[DT_COMMAND_ANSWER_BYTES];
    char shown[DT_COMMAND_ANSWER_BYTES];
    char line[64];
    char *rest = NULL;
    json_t *rules = job->json ? json_array() : NULL;
    json_t *object = json_object();

    if (ask(job, "inject list", numbers) != DT_OK) {
        fail(job, numbers);
        json_decref(rules);
        json_decref(object);
        return;
    }
    for (const char *number = strtok_r(numbers, " ", &rest); number; number = strtok_r(NULL, " ", &rest)) {
        snprintf(line, sizeof line, "inject show %.10s", number);
        if (ask(job, line, shown) == DT_OK) /* else the rule was removed in the meantime */
            list_rule(job, number, shown, rules);
    }
    if (!job->json) {
        job->done++;
        json_decref(object);
        return;
    }
    json_object_set_new(object, "rules", rules);
    list_timer(job, object);
    report(job, "", object);
}

/* ---- All processes. ---- */
static int end(struct job *job)
{
    if (job->json) {
        json_dumpf(job->json, stdout, JSON_INDENT(2));
        putchar('\n');
        json_decref(job->json);
    }
    if (!job->done && job->skipped && !job->failed)
        dt_arg_refuse(COMMAND, "none of %d processes has a rule %s; `detour inject list` shows them",
                      job->skipped, job->request->words[0]);
    return job->done && !job->failed ? DT_EXIT_OK : DT_EXIT_FAILED;
}

static int run_all(const struct dt_processes *processes, const struct dt_inject_request *request,
                   const struct rules *rules)
{
    struct job job = {
        .processes = processes, .request = request, .json = request->is_json ? json_array() : NULL};

    if (!strcmp(request->action, "list") && !job.json)
        printf("%-8s %-20s %-5s %10s %10s %12s  %s\n", "PID", "PROCESS", "RULE", "AGE(s)", "ACTED",
               "DELAY(ms)", "TEXT");
    for (size_t i = 0; i < processes->count; i++) {
        job.pid = processes->pids[i];
        dt_process_name(processes, job.pid, job.process);
        if (!strcmp(request->action, "add"))
            add_all(&job, rules);
        else if (!strcmp(request->action, "replay"))
            replay_in(&job, rules, i);
        else if (!strcmp(request->action, "remove"))
            remove_in(&job);
        else if (!strcmp(request->action, "clear"))
            clear_in(&job);
        else
            list_in(&job);
    }
    return end(&job);
}

/* ---- Checks. ---- */
static const struct {
    const char *name;
    int words_min;
    int words_max;
    const char *expected;
} actions[] = {
    {"add", 0, DT_INJECT_WORDS_MAX, "a rule"},
    {"remove", 1, 1, "the number of a rule"},
    {"clear", 0, 0, "no argument"},
    {"list", 0, 0, "no argument"},
    {"record", 1, 1, "the name of the file to write"},
    {"replay", 1, 1, "the name of a record"},
};

static int check_options(const struct dt_inject_request *request)
{
    uint64_t number;
    bool is_add = !strcmp(request->action, "add");

    if (request->file && !is_add)
        return dt_arg_refuse(COMMAND, "--file belongs to `add`");
    if (request->is_bounded && strcmp(request->action, "record"))
        return dt_arg_refuse(COMMAND, "--for belongs to `record`");
    if (is_add && (request->word_count > 0) == (request->file != NULL))
        return dt_arg_refuse(COMMAND, "`add` takes a rule, or --file FILE");
    if (!strcmp(request->action, "remove") && dt_parse_number(request->words[0], false, &number) != DT_OK)
        return dt_arg_refuse(COMMAND,
                             "remove %s: expected the number of a rule; `detour inject list` shows them",
                             request->words[0]);
    return 0;
}

static int check_request(const struct dt_inject_request *request)
{
    if (!request->action)
        return dt_arg_refuse(
            COMMAND, "no action given; expected add, remove, clear, list, record or replay (see --help)");
    for (size_t i = 0; i < DT_COUNT_OF(actions); i++) {
        if (strcmp(request->action, actions[i].name))
            continue;
        if (request->word_count >= actions[i].words_min && request->word_count <= actions[i].words_max)
            return check_options(request);
        return dt_arg_refuse(COMMAND, "`%s` takes %s", request->action, actions[i].expected);
    }
    return dt_arg_refuse(COMMAND, "unknown action '%s'; expected add, remove, clear, list, record or replay",
                         request->action);
}

/* The rules that the request names; most requests name none. */
static int prepare(const struct dt_inject_request *request, struct rules *rules)
{
    rules->count = 0;
    if (!strcmp(request->action, "replay")) {
        struct dt_delay_rule *rule = &rules->rule[0];

        *rule = (struct dt_delay_rule){
            .scope = {.bytes_max = UINT64_MAX}, .to_ns = DT_NEVER_NS, .effect = DT_DELAY_REPLAY};
        if (strlen(request->words[0]) >= sizeof rule->file)
            return dt_arg_refuse(COMMAND, "%s: the name is too long", request->words[0]);
        strcpy(rule->file, request->words[0]);
        return make_absolute(rule);
    }
    if (strcmp(request->action, "add"))
        return 0;
    return request->file ? read_rules(request->file, rules) : join_rules(request, rules);
}

int dt_inject_command(int argc, char **argv)
{
    struct dt_inject_request request = {.choice = {.command = COMMAND}};
    struct dt_processes processes;
    struct rules rules;
    int code;

    if (argp_parse(&argp, argc, argv, 0, NULL, &request) || check_request(&request) ||
        prepare(&request, &rules))
        return DT_EXIT_USAGE;
    code = dt_processes_open(&request.choice, &processes);
    if (code != DT_EXIT_OK)
        return code;
    code = strcmp(request.action, "record") ? run_all(&processes, &request, &rules)
                                            : dt_inject_record(&processes, &request);
    dt_processes_close(&processes);
    return code;
}
