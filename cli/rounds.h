/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rounds of a command that runs until it is interrupted: a period, an end by SIGINT or SIGTERM between
 * two rounds, lines with a point in time, and one line when the store cannot be reached and one when it
 * answers again.
 */
#ifndef DETOUR_CLI_ROUNDS_H
#define DETOUR_CLI_ROUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_rounds {
    const char *command; /* begins lines on standard error */
    uint32_t period_ms;
    bool is_cut_off;
};

/* Blocks SIGINT and SIGTERM for the process: they are received in dt_rounds_wait(). */
void dt_rounds_begin(struct dt_rounds *rounds, const char *command, uint32_t period_ms);

/* Until the next round is due. False: the command is to end. */
bool dt_rounds_wait(const struct dt_rounds *rounds);

/* The result of a round: the first failure of a series, and its end, are one line each. */
void dt_rounds_result(struct dt_rounds *rounds, const struct dt_store *store, enum dt_status status);

/* Since 1970. */
int64_t dt_rounds_time_ns(void);

/* "12:34:56.789 TEXT" on standard output; an error on standard error, with the command before it. */
void dt_rounds_line(const struct dt_rounds *rounds, bool is_error, const char *text);

#ifdef __cplusplus
}
#endif

#endif
