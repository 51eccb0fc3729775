/* SPDX-License-Identifier: Apache-2.0 */
/* `detour inject record`: polls every process for its delayed messages and writes them to a file. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/util.h"
#include "cli/arg.h"
#include "cli/command.h"
#include "cli/inject.h"
#include "delay/record.h"
#include "obs/client.h"
#include "obs/command.h"

#define PERIOD_NS (50 * DT_NS_PER_MS)

struct source {
    int pid; /* 0: the process has ended */
    uint64_t next;
    bool is_silent; /* did not answer the last request */
};

struct recorder {
    const struct dt_processes *processes;
    struct source source[DT_PROCESSES_MAX];
    FILE *out;
    uint64_t rows;
    uint64_t lost; /* overwritten before they were fetched */
    size_t living;
    bool has_answer; /* of any process */
};

static volatile sig_atomic_t is_interrupted;

static void interrupt(int number)
{
    (void)number;
    is_interrupted = 1;
}

/* Control-C ends the recording, not the program: rows that were fetched are still written. */
static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = interrupt};

    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

/* Parses "FIRST;ROW;ROW". Returns the number of rows. */
static size_t write_rows(struct recorder *r, size_t index, char *answer)
{
    struct source *source = &r->source[index];
    char *rest = NULL;
    const char *word = strtok_r(answer, ";", &rest);
    uint64_t first = word ? strtoull(word, NULL, 10) : source->next;
    size_t count = 0;

    for (word = strtok_r(NULL, ";", &rest); word; word = strtok_r(NULL, ";", &rest)) {
        fprintf(r->out, "%zu,%d,%s\n", index, source->pid, word);
        count++;
    }
    r->lost += first > source->next ? first - source->next : 0;
    r->rows += count;
    source->next = first + count;
    return count;
}

/* Fetches all rows that the process has now. The process may end at any moment. */
static void drain(struct recorder *r, size_t index)
{
    struct source *source = &r->source[index];
    char answer[DT_COMMAND_ANSWER_BYTES];
    char line[64];
    size_t count = 1;

    while (source->pid && count > 0) {
        enum dt_status status;

        snprintf(line, sizeof line, "inject record %" PRIu64, source->next);
        status = dt_client_call(&r->processes->dir, source->pid, line, DT_PROCESS_TIMEOUT_MS, answer,
                                sizeof answer);
        source->is_silent = status == DT_TIMED_OUT; /* the process is running and is polled again */
        if (source->is_silent)
            return;
        if (status != DT_OK) {
            if (!r->has_answer && r->processes->count == 1)
                dt_arg_refuse(DT_INJECT_COMMAND, "process %d: %s", source->pid, answer);
            source->pid = 0;
            r->living--;
            return;
        }
        r->has_answer = true;
        count = write_rows(r, index, answer);
    }
}

static void follow(struct recorder *r, const struct dt_inject_request *request)
{
    uint64_t end_ns = request->is_bounded ? dt_deadline_ns(dt_clock_now_ns(), request->for_ns) : DT_NEVER_NS;
    bool is_last;

    do {
        struct timespec period = {0, PERIOD_NS};

        is_last = is_interrupted || dt_clock_now_ns() >= end_ns;
        for (size_t i = 0; i < r->processes->count; i++)
            drain(r, i);
        fflush(r->out);
        if (!is_last && r->living > 0)
            nanosleep(&period, NULL);
    } while (!is_last && r->living > 0);
}

static void print_json(const struct recorder *r, const struct dt_inject_request *request, FILE *to)
{
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:I}", "file", request->words[0], "messages", (json_int_t)r->rows, "lost",
                  (json_int_t)r->lost, "processes", (json_int_t)r->processes->count);

    json_dumpf(object, to, JSON_INDENT(2));
    fputc('\n', to);
    json_decref(object);
}

/* The summary goes to the stream that the rows do not use. */
static void summarise(const struct recorder *r, const struct dt_inject_request *request)
{
    FILE *to = r->out == stdout ? stderr : stdout;

    if (request->is_json)
        print_json(r, request, to);
    else
        fprintf(to, "%s: %" PRIu64 " late messages of %zu processes\n", request->words[0], r->rows,
                r->processes->count);
    if (r->lost)
        dt_arg_refuse(DT_INJECT_COMMAND, "%" PRIu64 " messages were overwritten before they could be fetched",
                      r->lost);
}

/* True, after an error line, when a running process did not deliver its last rows. */
static bool lacks_some(const struct recorder *r)
{
    bool is_any = false;

    for (size_t i = 0; i < r->processes->count; i++) {
        if (r->source[i].is_silent)
            dt_arg_refuse(DT_INJECT_COMMAND, "process %d: no answer; its last messages are missing",
                          r->source[i].pid);
        is_any = is_any || r->source[i].is_silent;
    }
    return is_any;
}

int dt_inject_record(const struct dt_processes *processes, const struct dt_inject_request *request)
{
    const char *name = request->words[0];
    struct recorder *r = calloc(1, sizeof *r);
    bool is_good;

    if (!r)
        return DT_EXIT_FAILED;
    r->processes = processes;
    r->living = processes->count;
    r->out = strcmp(name, "-") ? fopen(name, "w") : stdout;
    if (!r->out) {
        dt_arg_refuse(DT_INJECT_COMMAND, "%s: %s", name, strerror(errno));
        free(r);
        return DT_EXIT_FAILED;
    }
    for (size_t i = 0; i < processes->count; i++)
        r->source[i].pid = processes->pids[i];
    catch_signals();
    fprintf(r->out, "%s\n", DT_DELAY_RECORD_HEADER);
    follow(r, request);
    is_good = !ferror(r->out) && (r->out == stdout || fclose(r->out) == 0);
    if (!is_good)
        dt_arg_refuse(DT_INJECT_COMMAND, "%s could not be written", name);
    else
        summarise(r, request);
    is_good = !lacks_some(r) && is_good && r->has_answer && r->lost == 0;
    free(r);
    return is_good ? DT_EXIT_OK : DT_EXIT_FAILED;
}
