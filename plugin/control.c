/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/job_env.h"
#include "base/log.h"
#include "base/util.h"
#include "detour/version.h"
#include "obs/event_hook.h"
#include "obs/event_queue.h"
#include "obs/server.h"
#include "verbs/nic_command.h"

struct dt_control {
    struct dt_verbs *verbs;
    struct dt_net *net;
    struct dt_page *page;
    struct dt_command_table *commands;
    struct dt_server *server;   /* NULL: no command socket */
    struct dt_event_hook *hook; /* NULL: no DETOUR_EVENT_COMMAND */
};

/* Commands that change the process are logged and recorded as events; queries are not. */
static void note_command(struct dt_control *control, const char *command, const char *args,
                         const char *answer)
{
    struct dt_event_record event = dt_event_of(DT_EVENT_KIND_CONTROL, dt_clock_now_ns());

    dt_info("operator", "`detour %s` by the operator: %s", command, answer);
    dt_event_write(dt_page_events(control->page), &event, "%s %s", command, args);
}

static enum dt_status run_inject(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_control *control = (struct dt_control *)arg;
    enum dt_status status = dt_net_inject_command(control->net, args, answer, answer_bytes);
    bool is_change =
        strncmp(args, "add ", 4) == 0 || strncmp(args, "remove ", 7) == 0 || !strcmp(args, "clear");

    if (status == DT_OK && is_change)
        note_command(control, "inject", args, answer);
    return status;
}

static bool is_word(const char *text, size_t bytes, const char *word)
{
    return strlen(word) == bytes && memcmp(text, word, bytes) == 0;
}

/* `DEVICE migrate [SCOPE]` and `back` concern connections; all other commands concern devices. */
static enum dt_status act_on_nic(const struct dt_control *control, const char *args, char *answer,
                                 size_t answer_bytes)
{
    size_t name_bytes = strcspn(args, " ");
    const char *action = args + name_bytes + strspn(args + name_bytes, " ");
    size_t action_bytes = strcspn(action, " ");
    const char *scope = action + action_bytes + strspn(action + action_bytes, " ");
    bool is_drained = is_word(action, action_bytes, "migrate");
    char device[64];

    if ((!is_drained && !is_word(action, action_bytes, "back")) || name_bytes >= sizeof device)
        return dt_verbs_nic_command(control->verbs, args, answer, answer_bytes);
    memcpy(device, args, name_bytes);
    device[name_bytes] = '\0';
    return *scope ? dt_net_drain_some(control->net, device, scope, is_drained, answer, answer_bytes)
                  : dt_net_drain(control->net, device, is_drained, answer, answer_bytes);
}

/* The devices of the verbs library, and which of them are drained. */
static enum dt_status list_nics(const struct dt_control *control, char *answer, size_t answer_bytes)
{
    char list[DT_COMMAND_ANSWER_BYTES];
    enum dt_status status = dt_verbs_nic_command(control->verbs, "list", list, sizeof list);

    if (status == DT_OK)
        dt_net_list_drained(control->net, list, answer, answer_bytes);
    else
        snprintf(answer, answer_bytes, "%s", list);
    return status;
}

static enum dt_status run_nic(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_control *control = (struct dt_control *)arg;
    enum dt_status status;

    if (!strcmp(args, "list"))
        return list_nics(control, answer, answer_bytes);
    status = act_on_nic(control, args, answer, answer_bytes);
    if (status == DT_OK)
        note_command(control, "nic", args, answer);
    return status;
}

static enum dt_status run_hostpath(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_control *control = (struct dt_control *)arg;
    enum dt_status status = dt_net_hostpath_command(control->net, args, answer, answer_bytes);

    if (status == DT_OK && strcmp(args, "list"))
        note_command(control, "hostpath", args, answer);
    return status;
}

static enum dt_status run_hold(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_control *control = (struct dt_control *)arg;
    enum dt_status status = dt_net_hold_command(control->net, args, answer, answer_bytes);

    if (status == DT_OK && strcmp(args, "list") && strncmp(args, "show ", 5))
        note_command(control, "hold", args, answer);
    return status;
}

static enum dt_status run_release(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_control *control = (struct dt_control *)arg;
    enum dt_status status = dt_net_release_command(control->net, args, answer, answer_bytes);

    if (status == DT_OK)
        note_command(control, "release", args, answer);
    return status;
}

/* `S4: REASON`, from the agent: the controller has a remedy for the job. The job itself carries it out. */
static enum dt_status run_remedy(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    struct dt_control *control = (struct dt_control *)arg;
    struct dt_event_record event = dt_event_of(DT_EVENT_KIND_REMEDY, dt_clock_now_ns());

    if (args[0] != 'S' || args[1] < '1' || args[1] > '4' || args[2] != ':') {
        snprintf(answer, answer_bytes, "'%.40s': expected S1, S2, S3 or S4, a colon and a reason", args);
        return DT_INVALID;
    }
    event.value = args[1] - '0';
    dt_info("remedy", "remedy of the controller: %s", args);
    dt_event_write(dt_page_events(control->page), &event, "%s", args);
    snprintf(answer, answer_bytes, "noted");
    return DT_OK;
}

/* The commands of a process; each is a function above. */
static enum dt_status register_commands(struct dt_control *control)
{
    static const struct {
        const char *name;
        dt_command_func *run;
    } commands[] = {{"nic", run_nic},   {"inject", run_inject},   {"hostpath", run_hostpath},
                    {"hold", run_hold}, {"release", run_release}, {"remedy", run_remedy}};
    enum dt_status status = dt_command_table_create(&control->commands);

    for (size_t i = 0; i < DT_COUNT_OF(commands) && status == DT_OK; i++)
        status = dt_command_register(control->commands, commands[i].name, commands[i].run, control);
    return status;
}

static uint64_t realtime_ns(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (uint64_t)now.tv_sec * DT_NS_PER_S + (uint64_t)now.tv_nsec;
}

static enum dt_status open_page(struct dt_control *control, const struct dt_params *params,
                                const struct dt_runtime_dir *dir)
{
    char host[64] = "";
    struct dt_page_options options = {
        .dir = dir,
        .pid = getpid(),
        .process_name = program_invocation_short_name,
        .start_realtime_ns = realtime_ns(),
        .start_ns = dt_clock_now_ns(),
        .host = host,
        .rank = dt_job_env_rank(params->rank, dt_getenv_process, NULL),
    };
    struct dt_event_record event = dt_event_of(DT_EVENT_KIND_PROCESS, options.start_ns);
    enum dt_status status;

    if (gethostname(host, sizeof host - 1))
        host[0] = '\0';
    status = dt_page_open(&options, &control->page);
    if (status != DT_OK)
        return status;
    dt_net_use_page(control->net, control->page);
    dt_event_write(dt_page_events(control->page), &event, "Detour %s started", DETOUR_VERSION_STRING);
    return DT_OK;
}

static void start_server(struct dt_control *control, const struct dt_runtime_dir *dir)
{
    char reason[512];

    if (dt_server_start(dir, dt_page_get_header(control->page)->pid, control->commands, &control->server,
                        reason, sizeof reason) == DT_OK)
        return;
    control->server = NULL;
    dt_info("no-command-socket",
            "%s; `detour nic`, `detour hostpath` and `detour inject` cannot reach this process", reason);
}

enum dt_status dt_control_event_kinds(const struct dt_params *params, uint32_t *kinds)
{
    const char *unknown;
    size_t bytes;

    if (dt_event_kinds_parse(params->event_kinds, kinds, &unknown, &bytes))
        return DT_OK;
    dt_warn("setting-event-kinds",
            "DETOUR_EVENT_KINDS=%.200s: '%.*s' is none of process, device, path, verdict, control, "
            "computation, remedy",
            params->event_kinds, (int)(bytes < 100 ? bytes : 100), unknown);
    return DT_INVALID;
}

/* Without the command the process runs as well: a line has the reason. */
static void start_hook(struct dt_control *control, const struct dt_params *params)
{
    struct dt_event_hook_options options = {
        .command = params->event_command,
        .timeout_ns = params->event_timeout_ms * DT_NS_PER_MS,
        .page = control->page,
    };

    if (!params->event_command[0] || dt_control_event_kinds(params, &options.kinds) != DT_OK)
        return;
    if (dt_event_hook_open(&options, &control->hook) == DT_OK && dt_event_hook_start(control->hook) == DT_OK)
        return;
    if (control->hook)
        dt_event_hook_close(control->hook);
    control->hook = NULL;
    dt_warn("no-event-command", "DETOUR_EVENT_COMMAND: no thread or memory for it; it will not be run");
}

/* `dir` may be NULL: there is no runtime directory. */
static enum dt_status open_parts(struct dt_control *control, const struct dt_params *params,
                                 const struct dt_runtime_dir *dir)
{
    enum dt_status status = open_page(control, params, dir);

    if (status == DT_OK)
        status = register_commands(control);
    if (status == DT_OK && dir)
        start_server(control, dir);
    if (status == DT_OK)
        start_hook(control, params);
    return status;
}

struct dt_control *dt_control_start(const struct dt_params *params, struct dt_verbs *verbs,
                                    struct dt_net *net)
{
    struct dt_control *control = calloc(1, sizeof *control);
    struct dt_runtime_dir dir;
    char reason[512];
    enum dt_status status;
    bool has_dir;

    if (!control)
        return NULL;
    control->verbs = verbs;
    control->net = net;
    has_dir = dt_runtime_dir_open(params->runtime_dir, 1, &dir, reason, sizeof reason) == DT_OK;
    if (has_dir)
        dt_runtime_dir_sweep(&dir);
    else
        dt_info("no-runtime-dir",
                "%s; `detour stat`, `detour nic`, `detour hostpath` and `detour inject` cannot reach this "
                "process",
                reason);
    status = open_parts(control, params, has_dir ? &dir : NULL);
    if (has_dir)
        dt_runtime_dir_close(&dir);
    if (status == DT_OK)
        return control;
    dt_control_stop(control);
    return NULL;
}

void dt_control_stop(struct dt_control *control)
{
    if (!control)
        return;
    if (control->hook)
        dt_event_hook_close(control->hook);
    if (control->server)
        dt_server_stop(control->server);
    if (control->commands)
        dt_command_table_destroy(control->commands);
    if (control->page)
        dt_page_unlink(control->page); /* NCCL's threads may still count in it */
    free(control);
}
