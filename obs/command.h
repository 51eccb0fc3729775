/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands of the command socket: a table of names and functions. Modules register their commands
 * (plugin/: `nic` and `inject`); the server (server.h) only transports lines.
 *
 * A request is `NAME ARGUMENTS`; the answer is `ok TEXT` or `error STATUS TEXT`, STATUS being the number of
 * an enum dt_status.
 */
#ifndef DETOUR_OBS_COMMAND_H
#define DETOUR_OBS_COMMAND_H

#include <stddef.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_COMMAND_LINE_BYTES   512u  /* longest line, its newline included */
#define DT_COMMAND_ANSWER_BYTES 8192u /* longest answer, its newline included; longer ones are cut */

/*
 * Executes the command with `args` (the rest of the line, without surrounding blanks) and writes one line of
 * text to `answer`, whatever the status. Must not block, since other clients wait. Called on the server's
 * thread.
 */
typedef enum dt_status dt_command_func(void *arg, const char *args, char *answer, size_t answer_bytes);

struct dt_command_table;

enum dt_status dt_command_table_create(struct dt_command_table **table);
void dt_command_table_destroy(struct dt_command_table *table);

/*
 * Registers a command under a name of letters, digits and '-'. DT_INVALID: an invalid or registered name;
 * DT_FULL. `name` is copied. Any thread.
 */
enum dt_status dt_command_register(struct dt_command_table *table, const char *name, dt_command_func *func,
                                   void *arg);

/* Executes one line (without its newline) and writes the answer with newline and zero byte; returns its
 * length. */
size_t dt_command_run(struct dt_command_table *table, const char *line,
                      char answer[DT_COMMAND_ANSWER_BYTES + 1]);

#ifdef __cplusplus
}
#endif

#endif
