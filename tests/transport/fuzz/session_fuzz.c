/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "obs/command_session.h"
#include "tests/transport/fuzz/door_fuzz.h"

static enum dt_status echo(void *arg, const char *args, char *answer, size_t answer_bytes)
{
    (void)arg;
    snprintf(answer, answer_bytes, "%s", args);
    return strlen(args) % 3 ? DT_OK : DT_INVALID;
}

/* Takes the whole answer, a bit at a time; NULL when it is one line. */
static const char *take(struct dt_command_session *session, struct dt_command_table *table)
{
    size_t bytes;
    const char *output = dt_command_session_output(session, &bytes);

    while (bytes > 0) {
        const char *newline = memchr(output, '\n', bytes);

        if (!newline || newline != output + bytes - 1)
            return "session: an answer is not one line";
        dt_command_session_sent(session, bytes > 7 ? bytes - 7 : bytes, table);
        if (bytes > 7)
            dt_command_session_sent(session, 7, table);
        output = dt_command_session_output(session, &bytes);
    }
    return NULL;
}

const char *dt_fuzz_session(const uint8_t *data, size_t bytes)
{
    struct dt_command_session session;
    struct dt_command_table *table;
    const char *problem = NULL;
    size_t piece = bytes ? (size_t)data[0] + 1 : 1;

    if (dt_command_table_create(&table) != DT_OK)
        return NULL;
    dt_command_register(table, "echo", echo, NULL);
    dt_command_session_init(&session);
    for (size_t at = 1; at < bytes && !problem && !session.is_over;) {
        size_t room = dt_command_session_room(&session);
        size_t part = dt_min_u64(dt_min_u64(piece, room), bytes - at);

        if (part == 0) {
            problem = "session: no room though nothing waits";
            break;
        }
        dt_command_session_feed(&session, (const char *)data + at, part, table);
        at += part;
        problem = take(&session, table);
    }
    dt_command_table_destroy(table);
    return problem;
}
