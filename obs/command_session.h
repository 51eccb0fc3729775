/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One client of the command socket, without the socket: bytes in, bytes out. A line is answered before the
 * next one is parsed, and no input is accepted while an answer is pending, so a client makes the server hold
 * one line and one answer at most.
 */
#ifndef DETOUR_OBS_COMMAND_SESSION_H
#define DETOUR_OBS_COMMAND_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "obs/command.h"

#ifdef __cplusplus
extern "C" {
#endif

struct dt_command_session {
    char line[DT_COMMAND_LINE_BYTES];
    size_t line_bytes; /* input without a newline yet, or behind a pending answer */
    char answer[DT_COMMAND_ANSWER_BYTES + 1];
    size_t answer_bytes;
    size_t answer_sent;
    bool is_over; /* a line was too long: close once the answer is sent */
};

void dt_command_session_init(struct dt_command_session *session);

/* Bytes that dt_command_session_feed() accepts now; 0 while an answer is pending. */
size_t dt_command_session_room(const struct dt_command_session *session);

/* Accepts `bytes` of input (at most dt_command_session_room()) and executes the first whole line. */
void dt_command_session_feed(struct dt_command_session *session, const char *from, size_t bytes,
                             struct dt_command_table *table);

/* The pending output; 0 bytes: none. */
const char *dt_command_session_output(const struct dt_command_session *session, size_t *bytes);

/* `bytes` of the output were sent. The last byte lets the next pending line execute. */
void dt_command_session_sent(struct dt_command_session *session, size_t bytes,
                             struct dt_command_table *table);

#ifdef __cplusplus
}
#endif

#endif
