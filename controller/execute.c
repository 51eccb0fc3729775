/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/execute.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "detour/mitigate.h"
#include "obs/client.h"
#include "obs/command.h"
#include "obs/runtime_dir.h"

#define TIMEOUT_MS    2000 /* of one process's answer */
#define PROCESSES_MAX 1024

/* A reason of the controller begins with the step. */
static void write_remedy(const struct dt_decision *decision, char line[DT_EXECUTE_LINE_BYTES])
{
    const char *step = detour_step_name((enum detour_step)decision->step);
    const char *reason = decision->reason;

    if (!strncmp(reason, step, strlen(step)) && !strncmp(reason + strlen(step), ": ", 2))
        reason += strlen(step) + 2;
    snprintf(line, DT_EXECUTE_LINE_BYTES, "remedy %s: %s", step, reason);
}

bool dt_execute_line(const struct dt_decision *decision, char line[DT_EXECUTE_LINE_BYTES])
{
    const bool has_connection = decision->connection != 0, has_nic = decision->nic[0] != '\0';
    char scope[24] = ""; /* of hold, release, migrate and back: one connection, or all */

    if (has_connection)
        snprintf(scope, sizeof scope, "id=%016" PRIx64 " ", decision->connection);

    switch ((enum dt_decision_kind)decision->kind) {
    case DT_DECISION_HOSTPATH_ON:
    case DT_DECISION_HOSTPATH_OFF:
        snprintf(line, DT_EXECUTE_LINE_BYTES, "hostpath %s id=%016" PRIx64,
                 decision->kind == DT_DECISION_HOSTPATH_ON ? "on" : "off", decision->connection);
        return has_connection;
    case DT_DECISION_MIGRATE:
    case DT_DECISION_BACK:
        snprintf(line, DT_EXECUTE_LINE_BYTES, "nic %s %s%s%.*s", decision->nic,
                 decision->kind == DT_DECISION_MIGRATE ? "migrate" : "back", has_connection ? " " : "",
                 (int)strcspn(scope, " "), scope);
        return has_nic;
    case DT_DECISION_HOLD:
        snprintf(line, DT_EXECUTE_LINE_BYTES, "hold %sfor=%" PRId64 "ms", scope,
                 decision->hold_ns / (int64_t)DT_NS_PER_MS);
        return decision->hold_ns >= (int64_t)DT_NS_PER_MS;
    case DT_DECISION_RELEASE:
        snprintf(line, DT_EXECUTE_LINE_BYTES, "release%s%.*s", has_connection ? " " : "",
                 (int)strcspn(scope, " "), scope);
        return true;
    case DT_DECISION_REMEDY:
        write_remedy(decision, line);
        return true;
    case DT_DECISION_REPLAN:
    case DT_DECISION_KIND_COUNT:
        break;
    }
    return false;
}

/* ---- Files. ---- */

/* NULL: the decision is one for command sockets. */
static const char *file_of(const struct dt_decision *decision)
{
    if (decision->kind == DT_DECISION_REPLAN)
        return DT_DECISION_FILE;
    return decision->kind == DT_DECISION_REMEDY ? DT_REMEDY_FILE : NULL;
}

static enum dt_status fail_file(const struct dt_runtime_dir *dir, const char *name, const char *call,
                                char text[DT_RECORD_TEXT_BYTES])
{
    snprintf(text, DT_RECORD_TEXT_BYTES, "%.150s/%s: %s: %s", dir->path, name, call, strerror(errno));
    return DT_SYSTEM;
}

static enum dt_status publish(const struct dt_runtime_dir *dir, const char *name, const char *temporary,
                              char text[DT_RECORD_TEXT_BYTES])
{
    if (renameat(dir->fd, temporary, dir->fd, name) != 0)
        return fail_file(dir, name, "rename", text);
    snprintf(text, DT_RECORD_TEXT_BYTES, "written to %.200s/%s", dir->path, name);
    return DT_OK;
}

/* ---- Command sockets. ---- */

/* `to_all`: also behind a process that fails. */
static enum dt_status order_all(const struct dt_runtime_dir *dir, const char *line, bool to_all,
                                char text[DT_RECORD_TEXT_BYTES])
{
    char *answer = malloc(DT_COMMAND_ANSWER_BYTES);
    int *pids = malloc(PROCESSES_MAX * sizeof *pids);
    size_t count = pids ? dt_runtime_dir_list(dir, DT_RUNTIME_SOCKET, pids, PROCESSES_MAX) : 0;
    enum dt_status result = DT_NOT_FOUND;

    snprintf(text, DT_RECORD_TEXT_BYTES, "no process of this host has such a connection, RNIC or hold");
    if (!answer || !pids) {
        snprintf(text, DT_RECORD_TEXT_BYTES, "out of memory");
        result = DT_NO_MEMORY;
        count = 0;
    }
    for (size_t i = 0; i < count; i++) {
        enum dt_status status =
            dt_client_call(dir, pids[i], line, TIMEOUT_MS, answer, DT_COMMAND_ANSWER_BYTES);

        if (status == DT_NOT_FOUND)
            continue;
        if (status != DT_OK || result == DT_NOT_FOUND)
            snprintf(text, DT_RECORD_TEXT_BYTES, "process %d: `%.100s`: %.100s", pids[i], line, answer);
        if (result == DT_NOT_FOUND || status != DT_OK)
            result = status;
        if (status != DT_OK && !to_all)
            break;
    }
    free(pids);
    free(answer);
    return result;
}

/* A connection ends with its job, and a drain with its process: then there is nothing left to undo. */
static enum dt_status order(const struct dt_runtime_dir *dir, const struct dt_decision *decision,
                            const char *line, char text[DT_RECORD_TEXT_BYTES])
{
    enum dt_status status = order_all(dir, line, false, text);

    if (status != DT_NOT_FOUND ||
        (decision->kind != DT_DECISION_HOSTPATH_OFF && decision->kind != DT_DECISION_BACK))
        return status;
    snprintf(text, DT_RECORD_TEXT_BYTES, "no process of this host has the connection or RNIC any more");
    return DT_OK;
}

/* ---- decision.json and remedy.json ---- */

/*
 * A remedy is an event of every process, too, and before the job can read it: one that ends the job must not
 * be quicker than its event. What counts is the file, whether or not a process answers.
 */
static enum dt_status write_decision(const struct dt_runtime_dir *dir, const struct dt_decision *decision,
                                     char text[DT_RECORD_TEXT_BYTES])
{
    const char *name = file_of(decision);
    char *record = dt_decision_write(decision);
    char line[DT_EXECUTE_LINE_BYTES], temporary[32], answers[DT_RECORD_TEXT_BYTES];
    enum dt_status status, event_status = DT_OK;

    if (!record) {
        snprintf(text, DT_RECORD_TEXT_BYTES, "out of memory");
        return DT_NO_MEMORY;
    }
    snprintf(temporary, sizeof temporary, "%s.new", name);
    status = dt_runtime_dir_write(dir, temporary, record) ? DT_OK : fail_file(dir, name, "write", text);
    free(record);
    if (status != DT_OK)
        return status;
    if (dt_execute_line(decision, line))
        event_status = order_all(dir, line, true, answers);
    status = publish(dir, name, temporary, text);
    if (status == DT_OK && event_status != DT_OK && event_status != DT_NOT_FOUND)
        snprintf(text, DT_RECORD_TEXT_BYTES, "written; no event in %.200s", answers);
    return status;
}

enum dt_status dt_execute(const char *runtime_dir, const struct dt_decision *decision,
                          char text[DT_RECORD_TEXT_BYTES])
{
    struct dt_runtime_dir dir;
    char line[DT_EXECUTE_LINE_BYTES];
    enum dt_status status;

    if (!file_of(decision) && !dt_execute_line(decision, line)) {
        snprintf(text, DT_RECORD_TEXT_BYTES, "the decision does not name what it is about");
        return DT_INVALID;
    }
    status = dt_runtime_dir_open(runtime_dir, 0, &dir, text, DT_RECORD_TEXT_BYTES);
    if (status != DT_OK)
        return status;
    status = file_of(decision) ? write_decision(&dir, decision, text) : order(&dir, decision, line, text);
    dt_runtime_dir_close(&dir);
    return status;
}
