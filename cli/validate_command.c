/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/validate_command.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/param.h"
#include "cli/file.h"
#include "cli/validation.h"

#define FILE_BYTES_MAX (1 << 20)
#define PAIR_BYTES     24 /* of one in the list */

extern char **environ;

/* ---- Its start. ---- */
static bool fail(char reason[DT_RECORD_REASON_BYTES], const char *call, int error)
{
    snprintf(reason, DT_RECORD_REASON_BYTES, "%s: %s", call, strerror(error));
    return false;
}

static bool set_pairs(const struct detour_validation *links)
{
    size_t room = (size_t)links->pair_count * PAIR_BYTES + 1, used = 0;
    char *text = malloc(room);
    bool is_set;

    if (!text)
        return false;
    text[0] = '\0';
    for (int32_t i = 0; i < links->pair_count; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%" PRId32 "-%" PRId32, i ? "," : "",
                                 links->pairs[i].from, links->pairs[i].to);
    is_set = setenv("DETOUR_VALIDATION_PAIRS", text, 1) == 0;
    free(text);
    return is_set;
}

static bool set_environment(const struct dt_validate_command *command, const struct detour_validation *links)
{
    char ranks[16];

    snprintf(ranks, sizeof ranks, "%" PRId32, links->rank_count);
    return set_pairs(links) && setenv("DETOUR_VALIDATION_RANKS", ranks, 1) == 0 &&
           setenv("DETOUR_VALIDATION_JSON", command->path, 1) == 0;
}

/* Empty, and only for this user. */
static bool make_file(struct dt_validate_command *command)
{
    const char *folder = dt_getenv_process(NULL, "TMPDIR");
    int written = snprintf(command->path, sizeof command->path, "%s/detour-validation-XXXXXX",
                           folder && folder[0] ? folder : "/tmp");
    int fd;

    errno = ENAMETOOLONG;
    fd = written < (int)sizeof command->path ? mkostemp(command->path, O_CLOEXEC) : -1;
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* This process blocks the signals that end it; the command must not. */
static int spawn(struct dt_validate_command *command)
{
    char *words[] = {(char *)"sh", (char *)"-c", (char *)command->text, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    int error = posix_spawn_file_actions_init(&files);

    if (error)
        return error;
    sigemptyset(&none);
    error = posix_spawnattr_init(&attributes);
    if (!error) {
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setpgroup(&attributes, 0);
        error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
        if (!error)
            error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (!error)
            error = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
        if (!error)
            error = posix_spawn(&command->child, "/bin/sh", &files, &attributes, words, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return error;
}

bool dt_validate_command_start(struct dt_validate_command *command, const struct detour_validation *links,
                               char reason[DT_RECORD_REASON_BYTES])
{
    int error;

    if (!make_file(command))
        return fail(reason, "a file for the result", errno);
    error = set_environment(command, links) ? spawn(command) : ENOMEM;
    if (!error)
        return true;
    unlink(command->path);
    command->child = 0;
    return fail(reason, "the command", error);
}

/* ---- Its result. ---- */
static bool read_kind(const char *text, enum detour_slow_kind *kind)
{
    for (*kind = DETOUR_SLOW_LINK; *kind <= DETOUR_SLOW_COMPUTE; (*kind)++) {
        if (!strcmp(text, dt_validation_kind_name(*kind)))
            return true;
    }
    return false;
}

static bool is_rank(json_int_t number)
{
    return number >= 0 && number <= DT_RECORD_RANK_MAX;
}

static bool read_slow(json_t *one, struct dt_validate_slow *slow)
{
    const char *kind;
    json_int_t rank;
    json_t *peer;

    if (json_unpack(one, "{s:s, s:I, s:o, s:F}", "kind", &kind, "rank", &rank, "peer", &peer, "factor",
                    &slow->factor) ||
        !read_kind(kind, &slow->kind) || !is_rank(rank) ||
        (slow->kind == DETOUR_SLOW_LINK && !(json_is_integer(peer) && is_rank(json_integer_value(peer)))) ||
        !(slow->factor >= 0 && slow->factor <= 1e9))
        return false;
    slow->rank = (int32_t)rank;
    slow->peer = slow->kind == DETOUR_SLOW_LINK ? (int32_t)json_integer_value(peer) : -1;
    return true;
}

/* With the reason of a failure. */
static bool read_list(json_t *list, struct dt_validate_report *report)
{
    size_t count = json_array_size(list);

    snprintf(report->reason, sizeof report->reason,
             "the command has written no result of `detour perf --pairs -J` to $DETOUR_VALIDATION_JSON");
    if (count > DT_VALIDATE_SLOW_MAX) {
        snprintf(report->reason, sizeof report->reason,
                 "everything is slow: the command has named %zu slow links and ranks, more than %d", count,
                 DT_VALIDATE_SLOW_MAX);
        return false;
    }
    if (!json_is_array(list))
        return false;
    for (report->slow_count = 0; report->slow_count < count; report->slow_count++) {
        if (!read_slow(json_array_get(list, report->slow_count), &report->slow[report->slow_count]))
            return false;
    }
    return true;
}

static enum dt_status read_file(const struct dt_validate_command *command, struct dt_validate_report *report)
{
    FILE *file = fopen(command->path, "rb");
    size_t bytes = 0;
    char *text = file ? dt_file_read(file, FILE_BYTES_MAX, &bytes) : NULL;
    json_t *document = text ? json_loadb(text, bytes, 0, NULL) : NULL;
    bool is_read = read_list(json_object_get(document, "slow"), report);

    json_decref(document);
    free(text);
    if (file)
        fclose(file);
    return is_read ? DT_OK : DT_INVALID;
}

enum dt_status dt_validate_command_poll(struct dt_validate_command *command,
                                        struct dt_validate_report *report)
{
    enum dt_status result = DT_SYSTEM;
    int status = 0;
    pid_t ended = waitpid(command->child, &status, WNOHANG);

    if (ended == 0 || (ended < 0 && errno == EINTR))
        return DT_AGAIN;
    command->child = 0;
    if (ended < 0)
        fail(report->reason, "waitpid", errno);
    else if (WIFSIGNALED(status))
        snprintf(report->reason, sizeof report->reason, "the command was ended by signal %d",
                 WTERMSIG(status));
    else if (WEXITSTATUS(status))
        snprintf(report->reason, sizeof report->reason, "the command ended with exit code %d",
                 WEXITSTATUS(status));
    else
        result = read_file(command, report);
    unlink(command->path);
    return result;
}

void dt_validate_command_stop(struct dt_validate_command *command)
{
    if (command->child > 0) {
        kill(-command->child, SIGKILL);
        while (waitpid(command->child, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    command->child = 0;
    unlink(command->path);
}
