/* SPDX-License-Identifier: Apache-2.0 */
#include "sched/call.h"

#include <stdarg.h>
#include <stdio.h>

const char *detour_status_text(enum detour_status status)
{
    switch (status) {
#define DT_STATUS_CASE(name, value, text) \
    case name:                            \
        return text;
        DETOUR_STATUS_LIST(DT_STATUS_CASE)
#undef DT_STATUS_CASE
    }
    return "unknown status";
}

void dt_call_init(struct dt_call *call, struct detour_arena *arena, struct detour_error *error,
                  const struct detour_options *options)
{
    static const struct detour_options defaults;

    *call = (struct dt_call){.arena = arena, .error = error, .options = options ? options : &defaults};
}

enum detour_status dt_error_set(struct detour_error *error, enum detour_status status, const char *format,
                                ...)
{
    if (error) {
        va_list args;
        error->status = status;
        va_start(args, format);
        vsnprintf(error->text, sizeof(error->text), format, args);
        va_end(args);
    }
    return status;
}

enum detour_status dt_fail_memory(struct detour_error *error)
{
    return dt_error_set(error, DETOUR_NO_MEMORY, "out of memory");
}

bool dt_call_node(struct dt_call *call)
{
    enum { NODES_PER_QUESTION = 256 };
    const struct detour_options *options = call->options;

    if (++call->node_count % NODES_PER_QUESTION == 0 && options->should_stop && !call->stopped)
        call->stopped = options->should_stop(options->should_stop_arg);
    return call->stopped;
}
