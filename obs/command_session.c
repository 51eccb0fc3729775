/* SPDX-License-Identifier: Apache-2.0 */
#include "obs/command_session.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

void dt_command_session_init(struct dt_command_session *session)
{
    session->line_bytes = 0;
    session->answer_bytes = 0;
    session->answer_sent = 0;
    session->is_over = false;
}

size_t dt_command_session_room(const struct dt_command_session *session)
{
    if (session->answer_bytes || session->is_over)
        return 0;
    return sizeof session->line - session->line_bytes;
}

static void refuse_long_line(struct dt_command_session *session)
{
    session->answer_bytes = (size_t)snprintf(session->answer, sizeof session->answer,
                                             "error %d a line has at most %u characters\n", (int)DT_INVALID,
                                             DT_COMMAND_LINE_BYTES - 1);
    session->is_over = true;
}

/* Executes the first line if it is complete. A zero byte ends it early. */
static void run_line(struct dt_command_session *session, struct dt_command_table *table)
{
    char *newline = memchr(session->line, '\n', session->line_bytes);
    size_t used;

    DT_CHECK(session->answer_bytes == 0 && session->answer_sent == 0 && !session->is_over);
    if (!newline) {
        if (session->line_bytes == sizeof session->line)
            refuse_long_line(session);
        return;
    }
    *newline = '\0';
    used = (size_t)(newline - session->line) + 1;
    session->answer_bytes = dt_command_run(table, session->line, session->answer);
    DT_CHECK(session->answer_bytes < sizeof session->answer && used <= session->line_bytes);
    session->line_bytes -= used;
    memmove(session->line, newline + 1, session->line_bytes);
}

void dt_command_session_feed(struct dt_command_session *session, const char *from, size_t bytes,
                             struct dt_command_table *table)
{
    DT_CHECK(bytes <= dt_command_session_room(session));
    if (bytes == 0)
        return;
    memcpy(session->line + session->line_bytes, from, bytes);
    session->line_bytes += bytes;
    run_line(session, table);
}

const char *dt_command_session_output(const struct dt_command_session *session, size_t *bytes)
{
    *bytes = session->answer_bytes - session->answer_sent;
    return session->answer + session->answer_sent;
}

void dt_command_session_sent(struct dt_command_session *session, size_t bytes, struct dt_command_table *table)
{
    DT_CHECK(bytes <= session->answer_bytes - session->answer_sent);
    session->answer_sent += bytes;
    if (session->answer_sent < session->answer_bytes)
        return;
    session->answer_bytes = 0;
    session->answer_sent = 0;
    if (!session->is_over)
        run_line(session, table);
}
