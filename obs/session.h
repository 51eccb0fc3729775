/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the control socket, without the socket: bytes in, bytes out. A line is answered before the
 * next one is looked at, and while an answer waits to be taken nothing is read, so that a client can make us
 * hold one line and one answer at most.
 */
#ifndef DETOUR_OBS_SESSION_H
#define DETOUR_OBS_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "obs/command.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_session {
    char line[DT_COMMAND_LINE_BYTES];
    size_t line_bytes; /* held back, without a newline yet or behind an answer */
    char answer[DT_COMMAND_ANSWER_BYTES + 1];
    size_t answer_bytes;
    size_t answer_taken;
    bool is_over; /* a line was too long: close when the answer is taken */
};

void dt_session_init(struct dt_session *session);

/* How many bytes dt_session_feed() would take now; 0 while an answer waits. */
size_t dt_session_room(const struct dt_session *session);

/* Takes `bytes` (at most dt_session_room()) that came in, and runs the first whole line. */
void dt_session_feed(struct dt_session *session, const char *from, size_t bytes,
                     struct dt_command_table *table);

/* What is to be sent; 0 bytes: nothing. */
const char *dt_session_output(const struct dt_session *session, size_t *bytes);

/* `bytes` of it are sent. With the last one the next line that waits is run. */
void dt_session_taken(struct dt_session *session, size_t bytes, struct dt_command_table *table);

#ifdef __cplusplus
}
#endif

#endif
