/* SPDX-License-Identifier: Apache-2.0 */
/* `detour inject`: delays messages of running processes (delay/, docs/injection.md). */
#ifndef DETOUR_CLI_INJECT_H
#define DETOUR_CLI_INJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/processes.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_INJECT_COMMAND   "detour inject"
#define DT_INJECT_WORDS_MAX 32

struct dt_inject_request {
    const char *action; /* "add" and so on */
    const char *words[DT_INJECT_WORDS_MAX];
    int word_count;
    struct dt_process_choice choice;
    const char *file; /* add --file */
    bool is_json;
    bool is_bounded; /* record --for was given */
    uint64_t for_ns;
};

int dt_inject_command(int argc, char **argv);

/*
 * inject_record.c: writes delayed messages to the file named by the first argument, until the recording
 * ends.
 */
int dt_inject_record(const struct dt_processes *processes, const struct dt_inject_request *request);

#ifdef __cplusplus
}
#endif

#endif
