/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `detour stat --events`: the events of all processes in a snapshot in the order of time, as a table or as
 * one JSON object per line (docs/stat.md has the members). A field that is not known is absent.
 */
#ifndef DETOUR_CLI_STAT_EVENTS_H
#define DETOUR_CLI_STAT_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "detour/stat.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was printed, for --follow. {0}: nothing. */
struct dt_stat_seen_process {
    int32_t pid;
    int64_t start_ns;
    uint64_t next; /* number of the first event that was not printed */
};

struct dt_stat_seen {
    struct dt_stat_seen_process *process;
    size_t count;
};

/* The head of the table. */
void dt_stat_print_events_head(void);

/* Prints the events that are not in *seen on standard output, and adds them to it. False: out of memory. */
bool dt_stat_print_events(const struct detour_stat_snapshot *snapshot, bool is_json,
                          struct dt_stat_seen *seen);

void dt_stat_seen_free(struct dt_stat_seen *seen);

#ifdef __cplusplus
}
#endif

#endif
