/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/event_hook.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "detour/stat.h"
#include "obs/event_queue.h"

#define ROUND_MS       50
#define VARIABLES_MAX  23
#define VARIABLE_BYTES 192
#define OWN_SETTING    "DETOUR_EVENT_COMMAND="

struct dt_event_hook {
    struct dt_page *page;
    char *command;
    char **environment; /* of the process; a NULL ends it */
    size_t environment_count;
    uint64_t timeout_ns;
    struct dt_event_queue queue;
    uint64_t told_dropped; /* of queue.dropped */
    /* The command that runs. */
    pid_t child; /* 0: none */
    bool is_killed;
    uint64_t started_ns;
    uint64_t number; /* of its event */
    /* The thread. */
    bool has_thread;
    pthread_t thread;
    int stop_fd; /* -1: none */
    pid_t owner;
};

/* ------------------------------------------------------------------------------------------------------------
 * The environment of a command
 */
struct variables {
    char text[VARIABLES_MAX][VARIABLE_BYTES];
    size_t count;
};

__attribute__((format(printf, 3, 4))) static void set(struct variables *variables, const char *name,
                                                      const char *format, ...)
{
    char *text = variables->text[variables->count];
    int used = snprintf(text, VARIABLE_BYTES, "DETOUR_EVENT_%s=", name);
    va_list args;

    DT_CHECK(variables->count < VARIABLES_MAX);
    va_start(args, format);
    vsnprintf(text + used, (size_t)(VARIABLE_BYTES - used), format, args);
    va_end(args);
    variables->count++;
}

static void set_text(struct variables *variables, const char *name, const char *text)
{
    if (*text)
        set(variables, name, "%s", text);
}

/* A time of the events' clock as seconds since 1970. */
static void set_time(struct variables *variables, const char *name, const struct dt_page_header *header,
                     uint64_t event_ns)
{
    uint64_t time_ns = header->start_realtime_ns + (event_ns - header->start_ns);

    set(variables, name, "%llu.%09llu", (unsigned long long)(time_ns / DT_NS_PER_S),
        (unsigned long long)(time_ns % DT_NS_PER_S));
}

static void set_connection(struct variables *variables, const struct dt_event_record *event)
{
    set(variables, "CONNECTION", "%016" PRIx64, event->connection);
    set_text(variables, "DIRECTION", event->is_send ? "send" : "recv");
    if (event->from_rank >= 0)
        set(variables, "FROM", "%" PRId32, event->from_rank);
    set_text(variables, "PEER", event->peer);
    set_text(variables, "PEER_NIC", event->peer_nic);
    set_text(variables, "NEXT_NIC", event->next_nic);
    if (event->path >= 0)
        set(variables, "PATH", "%" PRId32, event->path);
}

static void set_verdict(struct variables *variables, const struct dt_event_record *event)
{
    set_text(variables, "VERDICT", detour_stat_verdict_text((enum detour_stat_verdict)event->verdict));
    set(variables, "FACTOR", "%.3f", (double)event->factor_permille / 1000);
}

static void describe(const struct dt_event_hook *hook, const struct dt_event_record *event,
                     struct variables *variables)
{
    const struct dt_page_header *header = dt_page_get_header(hook->page);

    variables->count = 0;
    set_text(variables, "KIND", dt_event_kind_text(event->kind));
    set(variables, "NUMBER", "%" PRIu64, event->mark - 1);
    set_time(variables, "TIME_S", header, event->time_ns);
    set(variables, "PID", "%" PRId32, header->pid);
    set_text(variables, "HOST", header->host);
    if (header->rank >= 0)
        set(variables, "RANK", "%" PRId32, header->rank);
    set_text(variables, "NIC", event->nic);
    if (event->connection)
        set_connection(variables, event);
    if (event->verdict != DT_EVENT_NO_VERDICT)
        set_verdict(variables, event);
    if (event->cause != DETOUR_STAT_CAUSE_NONE)
        set_text(variables, "CAUSE", detour_stat_cause_text((enum detour_stat_cause)event->cause));
    if (event->since_ns)
        set_time(variables, "SINCE_S", header, event->since_ns);
    if (event->kind == DT_EVENT_KIND_REMEDY)
        set(variables, "STEP", "S%" PRId64, event->value);
    if (event->delay_ns)
        set(variables, "DELAY_MS", "%.6f", (double)event->delay_ns / 1e6);
    set_text(variables, "TEXT", event->text);
    set(variables, "DROPPED", "%" PRIu64, hook->queue.dropped);
}

/* ------------------------------------------------------------------------------------------------------------
 * One command
 */

/* What has become of a command, as an event, and if it failed as a line too. */
__attribute__((format(printf, 5, 6))) static void
report(struct dt_event_hook *hook, uint64_t now_ns, bool is_failure, int64_t value, const char *format, ...)
{
    struct dt_event_record event = dt_event_of(DT_EVENT_KIND_COMMAND, now_ns);
    char text[DT_EVENT_TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    event.value = value;
    dt_event_write(dt_page_events(hook->page), &event, "%s", text);
    if (is_failure)
        dt_warn("event-command", "DETOUR_EVENT_COMMAND: %s", text);
}

/* Signals as in a new process, and a process group, which can be killed with the command's own children. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    posix_spawnattr_setpgroup(attributes, 0);
    return posix_spawnattr_setflags(attributes,
                                    POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
}

/*
 * Closes the application's files that a new program would inherit: posix_spawn() itself can close all of them
 * only since glibc 2.34. 0 or an errno.
 */
static int close_inherited(posix_spawn_file_actions_t *files)
{
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int error = 0;

    if (!folder)
        return errno;
    while (!error && (entry = readdir(folder))) {
        int fd = atoi(entry->d_name);
        int flags = fd > STDERR_FILENO ? fcntl(fd, F_GETFD) : -1;

        if (flags >= 0 && !(flags & FD_CLOEXEC))
            error = posix_spawn_file_actions_addclose(files, fd);
    }
    closedir(folder);
    return error;
}

/* 0 or an errno. */
static int set_files(posix_spawn_file_actions_t *files)
{
    int error = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

    return error ? error : close_inherited(files);
}

/* 0 or an errno. */
static int spawn(struct dt_event_hook *hook, char **environment)
{
    char *words[] = {(char *)"sh", (char *)"-c", hook->command, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&files);

    if (error)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        error = set_attributes(&attributes);
        if (!error)
            error = set_files(&files);
        if (!error)
            error = posix_spawn(&hook->child, "/bin/sh", &files, &attributes, words, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static void start(struct dt_event_hook *hook, const struct dt_event_record *event, uint64_t now_ns)
{
    struct variables variables;
    char **environment = calloc(hook->environment_count + VARIABLES_MAX + 1, sizeof *environment);
    int error = ENOMEM;

    hook->number = event->mark - 1;
    if (environment) {
        describe(hook, event, &variables);
        memcpy(environment, hook->environment, hook->environment_count * sizeof *environment);
        for (size_t i = 0; i < variables.count; i++)
            environment[hook->environment_count + i] = variables.text[i];
        error = spawn(hook, environment);
        free(environment);
    }
    if (error) {
        hook->child = 0;
        report(hook, now_ns, true, error, "cannot start for event %" PRIu64 ": %s", hook->number,
               strerror(error));
    }
    hook->started_ns = now_ns;
    hook->is_killed = false;
}

static void report_end(struct dt_event_hook *hook, bool is_known, int status, uint64_t now_ns)
{
    unsigned long long number = hook->number, ms = (now_ns - hook->started_ns) / DT_NS_PER_MS;

    if (hook->is_killed)
        report(hook, now_ns, true, -1, "for event %llu was killed after %llu ms, its time limit", number, ms);
    else if (!is_known)
        report(hook, now_ns, false, -1, "for event %llu has ended after %llu ms", number, ms);
    else if (WIFSIGNALED(status))
        report(hook, now_ns, true, 128 + WTERMSIG(status), "for event %llu ended by signal %d after %llu ms",
               number, WTERMSIG(status), ms);
    else
        report(hook, now_ns, WEXITSTATUS(status) != 0, WEXITSTATUS(status),
               "for event %llu ended with exit code %d after %llu ms", number, WEXITSTATUS(status), ms);
}

/* Ends the command's record when it has ended, and the command when its time is over. */
static void watch(struct dt_event_hook *hook, uint64_t now_ns)
{
    int status = 0;
    pid_t ended = waitpid(hook->child, &status, WNOHANG);

    if (ended == 0) {
        if (now_ns - hook->started_ns >= hook->timeout_ns) {
            kill(-hook->child, SIGKILL);
            hook->is_killed = true;
        }
        return;
    }
    if (ended < 0 && errno == EINTR)
        return;
    /* Otherwise the application ignores SIGCHLD, or has waited for every child: the status is lost. */
    report_end(hook, ended == hook->child, status, now_ns);
    hook->child = 0;
}

void dt_event_hook_round(struct dt_event_hook *hook, uint64_t now_ns)
{
    struct dt_event_record event;

    dt_event_queue_fill(&hook->queue, dt_page_events(hook->page));
    if (hook->queue.dropped != hook->told_dropped) {
        hook->told_dropped = hook->queue.dropped;
        report(hook, now_ns, true, (int64_t)hook->queue.dropped,
               "%" PRIu64 " events in all had no command: more than %u were waiting", hook->queue.dropped,
               DT_EVENT_QUEUE_MAX);
    }
    if (hook->child)
        watch(hook, now_ns);
    if (!hook->child && dt_event_queue_take(&hook->queue, &event))
        start(hook, &event, now_ns);
}

/* ------------------------------------------------------------------------------------------------------------
 * Life
 */

/* A copy: setenv(3) and putenv(3) of the application may change strings at any time. */
static bool copy_environment(struct dt_event_hook *hook)
{
    size_t count = 0;

    while (environ && environ[count])
        count++;
    hook->environment = calloc(count + 1, sizeof *hook->environment);
    if (!hook->environment)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!strncmp(environ[i], OWN_SETTING, strlen(OWN_SETTING)))
            continue;
        hook->environment[hook->environment_count] = strdup(environ[i]);
        if (!hook->environment[hook->environment_count++])
            return false;
    }
    return true;
}

enum dt_status dt_event_hook_open(const struct dt_event_hook_options *options, struct dt_event_hook **opened)
{
    struct dt_event_hook *hook = calloc(1, sizeof *hook);

    if (!hook)
        return DT_NO_MEMORY;
    hook->page = options->page;
    hook->timeout_ns = options->timeout_ns;
    hook->queue.kinds = options->kinds;
    hook->stop_fd = -1;
    hook->owner = getpid();
    hook->command = strdup(options->command);
    if (!hook->command || !copy_environment(hook)) {
        dt_event_hook_close(hook);
        return DT_NO_MEMORY;
    }
    *opened = hook;
    return DT_OK;
}

static void *run(void *arg)
{
    struct dt_event_hook *hook = arg;
    struct pollfd stop = {.fd = hook->stop_fd, .events = POLLIN};

    while (poll(&stop, 1, ROUND_MS) <= 0)
        dt_event_hook_round(hook, dt_clock_now_ns());
    return NULL;
}

enum dt_status dt_event_hook_start(struct dt_event_hook *hook)
{
    hook->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (hook->stop_fd < 0)
        return DT_SYSTEM;
    hook->has_thread = dt_thread_start(&hook->thread, "detour-events", run, hook) == 0;
    return hook->has_thread ? DT_OK : DT_SYSTEM;
}

void dt_event_hook_close(struct dt_event_hook *hook)
{
    uint64_t one = 1;

    if (hook->has_thread && hook->owner == getpid() &&
        write(hook->stop_fd, &one, sizeof one) == (ssize_t)sizeof one) {
        pthread_join(hook->thread, NULL);
        dt_event_hook_round(hook, dt_clock_now_ns());
    }
    if (hook->stop_fd >= 0)
        close(hook->stop_fd);
    for (size_t i = 0; hook->environment && i < hook->environment_count; i++)
        free(hook->environment[i]);
    free(hook->environment);
    free(hook->command);
    free(hook);
}
